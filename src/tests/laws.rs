//! The laws: what holds for every limiter, every key and every history.
//!
//! First the engine against the model over random histories, then the invariants one by one, each
//! stated without the model where that can be done, and last the same with threads.

use super::model::{Bucket, Model, Rule, SECOND, STALE, TIME_MAX, can_be_kept, ns};
use crate::{Algorithm, Decision, Limit, Limiter, NEVER, Reason, Statistics};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseResult;
use std::fmt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

pub(super) const DAY: u64 = 86_400 * SECOND;
/// A day of this century, at the edge of every aligned window of up to a day.
pub(super) const TODAY: u64 = 19_675 * DAY;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_global_rejects: 1000 + 4 * cases, ..ProptestConfig::default() }
}

/// A limiter whose time is exact (each call's is published), with room for a few keys. Groups are four
/// slots in tests, so that a table that grows must let newcomers inherit debts; this one never does.
pub(super) fn limiter(rule: &Rule) -> Limiter {
    exact(&rule.limit().unwrap_or_else(|e| panic!("{rule:?}: {e}")))
}

fn exact(limit: &Limit) -> Limiter {
    let builder = Limiter::builder(limit.clone()).time_grain(0).expected_keys(5000);
    // A log has its full size from the start: 2048 groups of 4 slots are enough.
    let group = 96 + 64 * limit.capacity().next_power_of_two().min(1 << 18);
    let is_log = limit.algorithm() == Algorithm::SlidingLog;
    let builder = if is_log { builder.max_memory(2048 * group) } else { builder };
    builder.build().expect("the memory is enough")
}

// ---- rules ----

/// A rule and the engine's limit of it.
#[derive(Clone)]
struct Subject {
    rule: Rule,
    limit: Limit,
}

impl Subject {
    fn new(rule: Rule) -> Subject {
        let limit = rule.limit().unwrap_or_else(|e| panic!("{rule:?}: {e}"));
        Subject { rule, limit }
    }
}

/// The rule alone: a limit shows its plan, and that of a quota is a list of years of edges.
impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.fmt(f)
    }
}

/// Numbers of every size alike.
fn any_size(bits: u32) -> impl Strategy<Value = u64> {
    (any::<u64>(), 64 - bits..64).prop_map(|(n, shift)| (n >> shift).max(1))
}

fn human_count() -> impl Strategy<Value = u64> {
    select(vec![1, 2, 3, 5, 7, 10, 30, 60, 100, 600, 997, 1000, 5000, 100_000])
}

fn human_period() -> impl Strategy<Value = u64> {
    select(vec![SECOND / 1000, SECOND, 10 * SECOND, 60 * SECOND, 3600 * SECOND, DAY, 30 * DAY])
}

fn bucket() -> impl Strategy<Value = Rule> {
    let kind = select(vec![Bucket::Token, Bucket::Meter, Bucket::Queue]);
    let human = (human_count(), human_period(), prop_oneof![1 => Just(None), 1 => human_count().prop_map(Some)])
        .prop_map(|(count, period, burst)| (count, period, burst.unwrap_or(count)));
    let adversarial = (any_size(32), any_size(63), any_size(40));
    let fast = (any_size(32), select(vec![SECOND, 7, 1]), any_size(32));
    (kind, prop_oneof![3 => human, 2 => adversarial, 1 => fast])
        .prop_filter("can be kept", |(_, (count, period, burst))| can_be_kept(*count, *period, *burst))
        .prop_map(|(kind, (count, period, burst))| Rule::Bucket { kind, count, period, burst })
}

fn window() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![2 => (human_count(), human_period()), 1 => (any_size(20), any_size(62)), 1 => (1u64..9, 1u64..50)]
}

fn fixed() -> impl Strategy<Value = Rule> {
    window().prop_map(|(limit, period)| Rule::Fixed { limit, period }).prop_filter("fits", |rule| rule.limit().is_ok())
}

fn sliding() -> impl Strategy<Value = Rule> {
    (window(), any::<bool>())
        .prop_map(|((limit, period), strict)| Rule::Sliding { limit, period, strict })
        .prop_filter("fits", |rule| rule.limit().is_ok())
}

fn log() -> impl Strategy<Value = Rule> {
    (prop_oneof![3 => 1u64..12, 1 => select(vec![15, 16, 17, 100, 1000])], prop_oneof![human_period(), any_size(62), 1u64..50])
        .prop_map(|(limit, period)| Rule::Log { limit, period })
}

fn once() -> impl Strategy<Value = Rule> {
    any_size(56).prop_map(|burst| Rule::Once { burst })
}

/// Quotas are made once: a limit with daily edges in a zone takes a while.
#[cfg(feature = "quota")]
fn quota() -> impl Strategy<Value = Subject> {
    use super::model::calendar::{Day, Unit};
    use std::sync::LazyLock;
    static QUOTAS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
        let zones = ["UTC", "Europe/Madrid", "America/Havana", "Pacific/Apia", "Asia/Kathmandu", "America/Santiago"];
        let anchors = [
            None,
            Some(Day::new(2026, 1, 31)),
            Some(Day::new(2024, 2, 29)),
            Some(Day::new(1987, 11, 30)),
            Some(Day::new(2071, 6, 7)),
        ];
        let mut rules = Vec::new();
        for (i, unit) in Unit::ALL.into_iter().enumerate() {
            for (j, zone) in zones.into_iter().enumerate() {
                let anchor = if unit == Unit::Hour { None } else { anchors[(i + j) % anchors.len()] };
                let limit = [1, 2, 3, 10, 100_000, 1 << 36][(i * 5 + j) % 6];
                let rule = Rule::Quota { limit, unit, zone, anchor };
                rules.push(Subject::new(rule));
            }
        }
        rules
    });
    select(QUOTAS.clone())
}

fn made(rule: impl Strategy<Value = Rule>) -> impl Strategy<Value = Subject> {
    rule.prop_map(Subject::new)
}

/// A rule of any algorithm.
fn any_rule() -> BoxedStrategy<Subject> {
    let plain = prop_oneof![4 => made(bucket()), 1 => made(once()), 2 => made(fixed()), 3 => made(sliding()), 2 => made(log())];
    #[cfg(feature = "quota")]
    let plain = prop_oneof![12 => plain, 1 => quota()];
    plain.boxed()
}

// ---- histories ----

/// A cost, in terms of the limit and of what is left.
#[derive(Clone, Copy, Debug)]
enum Cost {
    Units(u64),
    Left,
    OverLeft,
    Share(u64),
    Capacity,
    OverCapacity,
    Most,
}

/// A time, in terms of the limit and of the answer before.
#[derive(Clone, Copy, Debug)]
enum Time {
    Same,
    Later(u64),
    /// So many tokens' time later, and some ns.
    Tokens(u64, i64),
    /// To an edge of the window that is aligned to the epoch, and some ns.
    Edge(i64),
    /// What the answer before said, and some ns.
    Retry(i64),
    Reset(i64),
    Earlier(u64),
    Epoch,
    End,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Check,
    Peek,
    Allow,
    Maintain,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    key: usize,
    cost: Cost,
    time: Time,
    act: Act,
}

fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        6 => (1u64..4).prop_map(Cost::Units),
        2 => Just(Cost::Units(0)),
        3 => Just(Cost::Left),
        3 => Just(Cost::OverLeft),
        3 => (1u64..9).prop_map(Cost::Share),
        2 => Just(Cost::Capacity),
        1 => Just(Cost::OverCapacity),
        1 => Just(Cost::Most),
        1 => any_size(64).prop_map(Cost::Units),
    ]
}

/// Times that go forward, and by less than a month at once.
fn onward() -> impl Strategy<Value = Time> {
    prop_oneof![
        5 => Just(Time::Same),
        2 => (1u64..5).prop_map(Time::Later),
        4 => (1u64..4, -1i64..2).prop_map(|(k, by)| Time::Tokens(k, by)),
        3 => (-1i64..2).prop_map(Time::Edge),
        4 => (-1i64..1).prop_map(Time::Retry),
        2 => (-1i64..1).prop_map(Time::Reset),
        2 => (0..30 * DAY).prop_map(Time::Later),
        1 => any_size(36).prop_map(Time::Later),
    ]
}

/// Times that do anything.
fn time() -> impl Strategy<Value = Time> {
    prop_oneof![
        20 => onward(),
        2 => (0..=STALE).prop_map(Time::Earlier),
        1 => select(vec![1, STALE - 1, STALE, STALE + 1]).prop_map(Time::Earlier),
        1 => (STALE..400 * DAY).prop_map(Time::Earlier),
    ]
}

fn wild_time() -> impl Strategy<Value = Time> {
    prop_oneof![16 => time(), 1 => Just(Time::Epoch), 1 => Just(Time::End)]
}

fn steps(time: impl Strategy<Value = Time>, keys: usize, most: usize) -> impl Strategy<Value = Vec<Step>> {
    let act = prop_oneof![16 => Just(Act::Check), 3 => Just(Act::Peek), 2 => Just(Act::Allow), 1 => Just(Act::Maintain)];
    let step = (0..keys, cost(), time, act).prop_map(|(key, cost, time, act)| Step { key, cost, time, act });
    prop::collection::vec(step, 1..most)
}

fn start() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(TODAY), 2 => 0..TIME_MAX - 400 * DAY, 1 => Just(0), 1 => Just(TIME_MAX - 40 * DAY)]
}

/// Turns steps into calls, one after the other.
struct Walk<'a> {
    rule: &'a Rule,
    now: u64,
    retry: u64,
    reset: u64,
}

impl Walk<'_> {
    fn new(rule: &Rule, now: u64) -> Walk<'_> {
        Walk { rule, now, retry: 0, reset: 0 }
    }

    /// The time of the next call.
    fn time(&self, time: Time) -> u64 {
        let Walk { rule, now, .. } = *self;
        let period = rule.period();
        match time {
            Time::Later(by) => now.saturating_add(by),
            Time::Tokens(k, by) => {
                let count = if let Rule::Bucket { count, .. } = rule { *count } else { rule.capacity() };
                let span = u128::from(k) * u128::from(period) / u128::from(count);
                now.saturating_add(u64::try_from(span).unwrap_or(0)).saturating_add_signed(by)
            }
            Time::Edge(by) => (now / period).saturating_add(1).saturating_mul(period).saturating_add_signed(by),
            Time::Retry(by) if self.retry < NEVER - 1 => now.saturating_add(self.retry).saturating_add_signed(by),
            Time::Reset(by) if self.reset < NEVER - 1 => now.saturating_add(self.reset).saturating_add_signed(by),
            Time::Same | Time::Retry(_) | Time::Reset(_) => now,
            Time::Earlier(by) => now.saturating_sub(by),
            Time::Epoch => 0,
            Time::End => u64::MAX,
        }
    }

    fn cost(&self, cost: Cost, left: u64) -> u64 {
        let capacity = self.rule.capacity();
        match cost {
            Cost::Units(n) => n,
            Cost::Left => left,
            Cost::OverLeft => left.saturating_add(1),
            Cost::Share(n) => capacity / n,
            Cost::Capacity => capacity,
            Cost::OverCapacity => capacity.saturating_add(1),
            Cost::Most => u64::MAX,
        }
    }

    fn went(&mut self, now: u64, got: &Decision) {
        self.now = now;
        self.reset = got.reset_after_ns();
        if !got.is_allowed() {
            self.retry = got.retry_after_ns();
        }
    }
}

/// Makes the same calls to the limiter and to the model.
fn agree(rule: &Rule, limit: &Limit, start: u64, steps: &[Step]) -> TestCaseResult {
    let limiter = exact(limit);
    let mut model = Model::new(rule);
    let mut walk = Walk::new(rule, start);
    // A key that rested for longer than its word can tell gives way to one that was never used.
    let mut ages = [0; 8];
    for step in steps {
        let now = walk.time(step.time);
        if model.clock().look(now).n > u128::from(TIME_MAX) {
            continue;
        }
        let mut key = format!("{}-{}", step.key, ages[step.key]);
        if model.rest(key.as_bytes(), now) >= rule.memory() {
            ages[step.key] += 1;
            key = format!("{}-{}", step.key, ages[step.key]);
        }
        let cost = walk.cost(step.cost, model.remaining(key.as_bytes(), now));
        let (got, is_peek) = match step.act {
            Act::Check => (limiter.check_at(&key, cost, now), false),
            Act::Peek => (limiter.peek_at(&key, cost, now), true),
            Act::Allow => {
                let peek = limiter.peek_at(&key, cost, now);
                prop_assert_eq!(limiter.allow_at(&key, cost, now), peek.is_allowed());
                (peek, false)
            }
            Act::Maintain => {
                limiter.maintain_at(now);
                (limiter.peek_at(&key, 0, now), true)
            }
        };
        let cost = if matches!(step.act, Act::Maintain) { 0 } else { cost };
        model.judge(key.as_bytes(), cost, now, is_peek, &got).map_err(TestCaseError::fail)?;
        walk.went(now, &got);
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(2500))]

    #[test]
    fn a_bucket_answers_as_its_model(Subject { rule, limit } in made(bucket()), start in start(), steps in steps(wild_time(), 3, 50)) {
        agree(&rule, &limit, start, &steps)?;
    }

    #[test]
    fn a_bucket_without_refill_answers_as_its_model(Subject { rule, limit } in made(once()), start in start(), steps in steps(wild_time(), 3, 20)) {
        agree(&rule, &limit, start, &steps)?;
    }

    #[test]
    fn a_fixed_window_answers_as_its_model(Subject { rule, limit } in made(fixed()), start in start(), steps in steps(wild_time(), 3, 50)) {
        agree(&rule, &limit, start, &steps)?;
    }

    #[test]
    fn a_sliding_window_answers_as_its_model(Subject { rule, limit } in made(sliding()), start in start(), steps in steps(wild_time(), 3, 50)) {
        agree(&rule, &limit, start, &steps)?;
    }

    #[test]
    fn a_sliding_log_answers_as_its_model(Subject { rule, limit } in made(log()), start in start(), steps in steps(wild_time(), 3, 50)) {
        agree(&rule, &limit, start, &steps)?;
    }
}

#[cfg(feature = "quota")]
proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn a_quota_answers_as_its_model(Subject { rule, limit } in quota(), start in start(), steps in steps(wild_time(), 3, 30)) {
        agree(&rule, &limit, start, &steps)?;
    }
}

// ---- the invariants, one by one ----

fn ratio(n: impl Into<BigInt>) -> BigRational {
    BigRational::from(n.into())
}

/// One call that was allowed: when it was judged, and its cost.
pub(super) type Grant = (u128, u64);

/// What any algorithm promises of an interval: invariant 1.
pub(super) fn bounded(rule: &Rule, grants: &[Grant]) -> TestCaseResult {
    for (i, (from, _)) in grants.iter().enumerate() {
        let mut sum = 0u128;
        for (to, cost) in &grants[i..] {
            sum += u128::from(*cost);
            let dt = ratio(to - from);
            let sum_of = ratio(sum);
            let holds = match *rule {
                Rule::Bucket { count, period, burst, .. } => {
                    let rate = ratio(count) / ratio(period);
                    let bound = ratio(burst) + &rate * dt;
                    let early = &rate * rule.tick();
                    if early.is_zero() { sum_of <= bound } else { sum_of < bound + early }
                }
                Rule::Once { burst } => sum <= u128::from(burst),
                Rule::Fixed { limit, period } => from / u128::from(period) != to / u128::from(period) || sum <= u128::from(limit),
                Rule::Sliding { limit, period, strict: true } => sum_of <= ratio(limit) + ratio(limit) * dt / ratio(period),
                Rule::Sliding { limit, period, strict: false } => {
                    dt > ratio(period) || sum_of < ratio(limit) + ratio(1) + ratio(limit) * dt / ratio(period)
                }
                Rule::Log { limit, period } => to - from >= u128::from(period) || sum <= u128::from(limit),
                #[cfg(feature = "quota")]
                Rule::Quota { .. } => true,
            };
            prop_assert!(holds, "{:?}: {} in {} ns from {}", rule, sum, to - from, from);
        }
    }
    Ok(())
}

/// Runs a history of one key and gives its calls and answers, with the moments they were judged at.
fn run(rule: &Rule, limiter: &Limiter, start: u64, steps: &[Step]) -> Vec<(u64, u64, Decision, u128)> {
    let mut clock = Model::new(rule).clock().clone();
    let mut walk = Walk::new(rule, start);
    let mut calls = Vec::new();
    for step in steps {
        let now = walk.time(step.time);
        if clock.look(now).n > u128::from(TIME_MAX) {
            continue;
        }
        let cost = walk.cost(step.cost, limiter.peek_at("k", 0, now).remaining());
        let got = limiter.check_at("k", cost, now);
        calls.push((now, cost, got, clock.at(now).n));
        walk.went(now, &got);
    }
    calls
}

/// An answer that can be true of some state.
fn makes_sense(rule: &Rule, cost: u64, got: &Decision) -> TestCaseResult {
    let (limit, retry) = (rule.capacity(), got.retry_after_ns());
    let is_queue = matches!(rule, Rule::Bucket { kind: Bucket::Queue, .. });
    prop_assert_eq!(got.limit(), limit);
    prop_assert!(got.remaining() <= limit);
    prop_assert_eq!(got.is_allowed(), retry == 0);
    prop_assert_eq!(got.is_allowed(), got.reason() == Reason::Allowed);
    prop_assert_eq!(cost > limit, got.reason() == Reason::CostAboveLimit);
    prop_assert_eq!(retry == NEVER, !matches!(got.reason(), Reason::Allowed | Reason::Limited));
    prop_assert!(!got.is_allowed() || got.remaining() <= limit - cost.min(limit));
    prop_assert!(got.is_allowed() || cost > got.remaining());
    prop_assert!(got.delay_ns() == 0 || is_queue && got.is_allowed());
    prop_assert!(got.retry_after_ns() <= got.reset_after_ns() || retry == NEVER, "full again before it can be tried again");
    prop_assert_eq!(got.reset_after_ns() == NEVER, matches!(rule, Rule::Once { .. }) && got.remaining() < limit);
    Ok(())
}

proptest! {
    #![proptest_config(config(1500))]

    /// Invariant 1: the bound of the algorithm holds in every interval.
    #[test]
    fn no_interval_admits_more_than_its_bound(Subject { rule, limit } in any_rule(), start in start(), steps in steps(wild_time(), 1, 60)) {
        let calls = run(&rule, &exact(&limit), start, &steps);
        let grants: Vec<Grant> = calls.iter().filter(|call| call.2.is_allowed()).map(|call| (call.3, call.1)).collect();
        bounded(&rule, &grants)?;
    }

    /// Invariant 2: a caller that keeps the rate is never refused, whatever its phase.
    #[test]
    fn a_caller_that_keeps_the_rate_always_passes(count in any_size(32), period in any_size(60), burst in 1u64..4, phase in 0..DAY) {
        prop_assume!(can_be_kept(count, period, count.max(burst)));
        let at = |k: u64, span: u128| TODAY + phase + (u128::from(k) * span) as u64;
        // Alone in the bucket: each call leaves it empty.
        let interval = u128::from(period.div_ceil(count));
        let bucket = limiter(&Rule::token(count, period, 1));
        // With room for the rounding to a whole ns: as the rate itself would have it.
        let roomy = limiter(&Rule::token(count, period, 1 + count.div_ceil(period)));
        let queue = limiter(&Rule::Bucket { kind: Bucket::Queue, count, period, burst: 1 + count.div_ceil(period) });
        for k in 0..100.min((400 * DAY) / interval as u64) {
            prop_assert!(bucket.allow_at("k", 1, at(k, interval)), "{}/{}ns, call {} alone", count, period, k);
            let even = TODAY + phase + (u128::from(k) * u128::from(period) / u128::from(count)) as u64;
            prop_assert!(roomy.allow_at("k", 1, even), "{}/{}ns, call {}", count, period, k);
            prop_assert!(queue.allow_at("k", 1, even), "{}/{}ns queue, call {}", count, period, k);
        }
    }

    /// The same of windows: a fixed window and a log never refuse, a sliding window one call a window.
    #[test]
    fn a_window_lets_its_rate_pass(count in 1u64..60, period in 60..DAY, phase in 0..DAY) {
        let fixed = limiter(&Rule::Fixed { limit: count, period });
        let log = limiter(&Rule::Log { limit: count, period });
        let sliding = [false, true].map(|strict| Rule::Sliding { limit: count, period, strict });
        let sliding = sliding.map(|rule| rule.limit().is_ok().then(|| limiter(&rule)));
        let mut passed = [[0; 8]; 2];
        for k in 0..8 * count {
            let now = TODAY / period * period + phase % period + k * period / count;
            prop_assert!(fixed.allow_at("k", 1, now), "call {}", k);
            prop_assert!(log.allow_at("k", 1, now), "call {}", k);
            for (passed, limiter) in passed.iter_mut().zip(&sliding) {
                passed[(k / count) as usize] += u64::from(limiter.as_ref().is_none_or(|limiter| limiter.allow_at("k", 1, now)));
            }
        }
        for passed in passed {
            prop_assert!(passed[2..].iter().all(|n| n + 1 >= count), "{:?} of {}", passed, count);
        }
    }

    /// Invariant 2: no fraction of a token is lost or minted, however often the key is asked.
    #[test]
    fn a_poller_gets_exactly_the_rate(count in any_size(32), period in any_size(52), burst in 2u64..100, phase in 0..DAY, share in 1u64..50) {
        prop_assume!(can_be_kept(count, period, burst) && period / count >= 1);
        let rule = Rule::token(count, period, burst);
        let (rate, bucket) = (ratio(count) / ratio(period), limiter(&rule));
        let (t0, step) = (TODAY + phase, (period / count / share).max(1));
        prop_assert!(bucket.allow_at("k", burst, t0));
        let polls = 400;
        let passed = (1..=polls).filter(|k| bucket.allow_at("k", 1, t0 + k * step)).count();
        let earned = |early: BigRational| ((ratio(polls * step) + early) * &rate).to_integer();
        prop_assert!(earned(BigRational::zero()) <= passed.into() && earned(rule.tick()) >= passed.into(), "{}/{}ns: {}", count, period, passed);
    }

    /// Invariants 3 and 8: what is refused, and what is only asked, leaves no trace.
    #[test]
    fn refusals_and_peeks_leave_no_trace(Subject { rule, limit } in any_rule(), start in start(), steps in steps(time(), 1, 30), asked in cost()) {
        let limiter = exact(&limit);
        let mut walk = Walk::new(&rule, start);
        for step in &steps {
            let now = walk.time(step.time);
            if now > TIME_MAX {
                continue;
            }
            let before = limiter.peek_at("k", 0, now);
            let cost = walk.cost(step.cost, before.remaining());
            let told = limiter.peek_at("k", cost, now);
            let other = walk.cost(asked, before.remaining());
            prop_assert_eq!(limiter.peek_at("k", other, now), limiter.peek_at("k", other, now));
            prop_assert_eq!(limiter.check_at("k", 0, now), before);
            let got = limiter.check_at("k", cost, now);
            prop_assert_eq!(got, told, "a peek tells what the call gets");
            if !got.is_allowed() {
                prop_assert_eq!(limiter.peek_at("k", 0, now), before);
                prop_assert_eq!(got.remaining(), before.remaining());
                prop_assert_eq!(got.reset_after_ns(), before.reset_after_ns());
            }
            walk.went(now, &got);
        }
    }

    /// Invariant 8: a cost of the whole limit passes, one above it never does.
    #[test]
    fn the_limit_itself_is_the_largest_cost(Subject { rule, limit } in any_rule(), start in start(), above in any::<u64>()) {
        let limiter = exact(&limit);
        let capacity = rule.capacity();
        let above = above.max(capacity + 1);
        for cost in [capacity + 1, above, u64::MAX] {
            let got = limiter.check_at("k", cost, start);
            prop_assert_eq!((got.reason(), got.retry_after_ns(), got.remaining()), (Reason::CostAboveLimit, NEVER, capacity));
            prop_assert_eq!(got.reset_after_ns(), 0);
        }
        let got = limiter.check_at("k", capacity, start);
        prop_assert_eq!((got.reason(), got.remaining()), (Reason::Allowed, 0));
        let got = limiter.check_at("k", 0, start);
        prop_assert_eq!((got.reason(), got.remaining()), (Reason::Allowed, 0));
        let got = limiter.check_at("k", above, start);
        prop_assert_eq!((got.reason(), got.retry_after_ns(), got.remaining()), (Reason::CostAboveLimit, NEVER, 0));
        prop_assert!(!limiter.allow_at("k", 1, start));
        prop_assert!(limiter.allow_at("another", capacity, start));
    }

    /// Invariant 9: the call alone passes at now + retry and not 1 ns earlier, and the key is as good
    /// as new at now + reset and not 1 ns earlier.
    #[test]
    fn what_is_reported_is_true(Subject { rule, limit } in any_rule(), start in start(), steps in steps(time(), 1, 20)) {
        let calls = run(&rule, &exact(&limit), start, &steps);
        // The same history again, on a limiter that has seen nothing else.
        let after = |n: usize| {
            let limiter = exact(&limit);
            for (now, cost, got, _) in &calls[..n] {
                assert_eq!(limiter.check_at("k", *cost, *now), *got);
            }
            limiter
        };
        let soon = |now: u64, n: u128, wait: u64| {
            now.checked_add(wait).filter(|t| *t <= TIME_MAX && n + u128::from(wait) <= u128::from(TIME_MAX))
        };
        if let Some(i) = calls.iter().rposition(|call| call.2.reason() == Reason::Limited) {
            let (now, cost, got, n) = calls[i];
            if let Some(then) = soon(now, n, got.retry_after_ns()) {
                prop_assert!(after(i + 1).allow_at("k", cost, then), "{:?}: {} at {} refused at {}", rule, cost, now, then);
                prop_assert!(!after(i + 1).allow_at("k", cost, then - 1), "{:?}: {} at {} passed before {}", rule, cost, now, then);
            }
        }
        if let Some((now, _, got, n)) = calls.last() {
            let reset = got.reset_after_ns();
            if let Some(then) = soon(*now, *n, reset) {
                let whole = after(calls.len()).peek_at("k", 0, then);
                prop_assert_eq!((whole.remaining(), whole.reset_after_ns()), (rule.capacity(), 0));
                if reset > 0 {
                    let part = after(calls.len()).peek_at("k", 0, then - 1);
                    prop_assert_eq!(part.reset_after_ns(), 1);
                    let floor = matches!(rule, Rule::Sliding { strict: false, .. });
                    prop_assert!(part.remaining() < rule.capacity() || floor);
                }
            }
        }
    }

    /// Invariant 4 of one limiter: a batch is its calls, one after the other.
    #[test]
    fn a_batch_is_its_calls_in_order(Subject { rule, limit } in any_rule(), start in start(), batches in prop::collection::vec((prop::collection::vec((0u8..6, cost()), 1..40), onward()), 1..4)) {
        let (single, batch) = (exact(&limit), exact(&limit));
        let mut walk = Walk::new(&rule, start);
        let mut out = Vec::new();
        for (calls, time) in &batches {
            let now = walk.time(*time).min(TIME_MAX);
            let calls: Vec<([u8; 1], u64)> = calls.iter().map(|(key, cost)| ([*key], walk.cost(*cost, single.peek_at([*key], 0, now).remaining()))).collect();
            batch.check_batch_at(&calls, now, &mut out);
            let singles: Vec<Decision> = calls.iter().map(|(key, cost)| single.check_at(key, *cost, now)).collect();
            prop_assert_eq!(&out, &singles);
            if let Some(last) = singles.last() {
                walk.went(now, last);
            }
        }
    }

    /// Invariant 14 at its smallest: keys that differ share nothing.
    #[test]
    fn keys_do_not_touch_each_other(Subject { rule, limit } in any_rule(), start in start(), steps in steps(onward(), 8, 40)) {
        let together = exact(&limit);
        let apart: Vec<Limiter> = (0..8).map(|_| exact(&limit)).collect();
        let names: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"a", b"A", b"a ", b"a\0", &[b'a'; 300]];
        let mut walk = Walk::new(&rule, start);
        for step in &steps {
            let now = walk.time(step.time).max(walk.now).min(TIME_MAX);
            let cost = walk.cost(step.cost, together.peek_at(names[step.key], 0, now).remaining());
            let got = together.check_at(names[step.key], cost, now);
            prop_assert_eq!(got, apart[step.key].check_at("k", cost, now), "{:?}", rule);
            walk.went(now, &got);
        }
    }

    /// Invariant 5: a late call is judged at the latest time, and only its waits are longer.
    #[test]
    fn a_late_call_is_judged_at_the_latest_time(Subject { rule, limit } in any_rule(), start in STALE..TIME_MAX - DAY, spent in cost(), asked in cost(), late in 0..=STALE) {
        let (late_one, other) = (exact(&limit), exact(&limit));
        let walk = Walk::new(&rule, start);
        let (spent, asked) = (walk.cost(spent, rule.capacity() / 2), walk.cost(asked, rule.capacity() / 2));
        for limiter in [&late_one, &other] {
            let _ = limiter.check_at("k", spent, start);
            // Another key's call moves the time of all.
            let _ = limiter.check_at("another", 1, start + 7);
        }
        let here = other.check_at("k", asked, start + 7);
        let there = late_one.check_at("k", asked, start + 7 - late);
        let longer = |wait: u64| if wait == 0 || wait == NEVER { wait } else { wait.saturating_add(late).min(NEVER - 1) };
        prop_assert_eq!(there.reason(), here.reason());
        prop_assert_eq!(there.remaining(), here.remaining());
        prop_assert_eq!(there.retry_after_ns(), longer(here.retry_after_ns()));
        prop_assert_eq!(there.reset_after_ns(), longer(here.reset_after_ns()));
        prop_assert_eq!(there.delay_ns(), longer(here.delay_ns()));
    }

    /// Invariant 5: a clock that was set back grants nothing, and time goes on from where it was.
    #[test]
    fn a_clock_set_back_goes_on(Subject { rule, limit } in any_rule(), start in 400 * DAY..TIME_MAX - 400 * DAY, back in STALE + 1..400 * DAY, steps in steps(onward(), 1, 20)) {
        let (moved, still) = (exact(&limit), exact(&limit));
        let mut walk = Walk::new(&rule, start);
        for limiter in [&moved, &still] {
            let _ = limiter.check_at("k", rule.capacity(), start);
        }
        for (i, step) in steps.iter().enumerate() {
            let now = if i == 0 { start } else { walk.time(step.time).max(walk.now).min(TIME_MAX) };
            let cost = walk.cost(step.cost, still.peek_at("k", 0, now).remaining());
            let got = still.check_at("k", cost, now);
            prop_assert_eq!(moved.check_at("k", cost, now - back), got, "{:?}", rule);
            walk.went(now, &got);
        }
    }

    /// Invariants 1 and 5: readings of the clock that differ by less than the grain are each judged at
    /// themselves, in any order; that loosens nothing.
    #[test]
    fn a_grain_of_time_loosens_nothing(
        Subject { rule, limit } in any_rule(),
        start in start(),
        grain in prop_oneof![0u64..100, Just(1_000_000)],
        calls in prop::collection::vec((0u64..300, any::<bool>(), cost()), 1..60),
    ) {
        let limiter = Limiter::builder(limit).time_grain(grain).max_memory(1 << 20).build();
        let Ok(limiter) = limiter else { return Ok(()) };
        let (walk, mut base, mut grants) = (Walk::new(&rule, start), start, Vec::<Grant>::new());
        // The latest time that was published: whoever is behind it is judged at it.
        let mut published = 0;
        for (by, goes_on, cost) in &calls {
            let now = base + by * grain.max(1) / 100;
            base = if *goes_on { now } else { base };
            published = if now.saturating_sub(published) > grain { now } else { published };
            let cost = walk.cost(*cost, rule.capacity() / 2);
            let got = limiter.check_at("k", cost, now);
            makes_sense(&rule, cost, &got)?;
            if got.is_allowed() && cost > 0 {
                // A call in front of one that was allowed at a later time counts as made then.
                let latest = grants.last().map_or(0, |(t, _)| *t);
                grants.push((u128::from(now.max(published).min(TIME_MAX)).max(latest), cost));
            }
        }
        bounded(&rule, &grants)?;
    }

    /// Invariant 6: any time, any cost, in any order: an answer that makes sense, and no panic.
    #[test]
    fn nothing_makes_an_answer_senseless(Subject { rule, limit } in any_rule(), calls in prop::collection::vec((any_size(64), prop_oneof![any_size(64), Just(0), Just(u64::MAX)], 0u8..3), 1..60)) {
        let limiter = exact(&limit);
        for (cost, now, key) in &calls {
            makes_sense(&rule, *cost, &limiter.peek_at([*key], *cost, *now))?;
            makes_sense(&rule, *cost, &limiter.check_at([*key], *cost, *now))?;
            makes_sense(&rule, 0, &limiter.check_at([*key], 0, *now))?;
        }
    }

    /// Invariant 7: what can be kept exactly is accepted, and nothing else.
    #[test]
    fn a_bucket_is_accepted_when_it_can_be_kept(count in prop_oneof![any_size(64), Just(0)], period in any_size(64), burst in prop_oneof![any_size(64), Just(0)]) {
        prop_assert_eq!(Rule::token(count, period, burst).limit().is_ok(), can_be_kept(count, period, burst));
        let built = Limit::token_bucket(count, ns(period)).burst(burst).build();
        prop_assert_eq!(built.is_ok(), can_be_kept(count, period, burst));
    }

    /// Invariant 7: what windows and logs take.
    #[test]
    fn a_window_is_accepted_when_it_can_be_counted(limit in prop_oneof![any_size(64), Just(0)], period in prop_oneof![any_size(64), Just(0)]) {
        // The number of a window must not come again within five years.
        let windows = (5 * 365 * u128::from(DAY)).div_ceil(u128::from(period.max(1)));
        let number = (1..64).find(|bits| windows <= 1 << bits).unwrap_or(64).max(2);
        let counts = |n: u32| 58u32.checked_sub(number).map_or(0, |rest| (1u64 << (rest / n)) - 1);
        let ok = limit > 0 && (1..1 << 63).contains(&period);
        let is_ok = |rule: Rule| rule.limit().is_ok();
        prop_assert_eq!(is_ok(Rule::Fixed { limit, period }), ok && limit <= counts(1));
        prop_assert_eq!(is_ok(Rule::Sliding { limit, period, strict: false }), ok && limit <= counts(2));
        prop_assert_eq!(is_ok(Rule::Log { limit, period }), ok && limit < 1 << 18);
    }
}

// ---- tables that are full, grow and shrink ----

/// The bytes of the smallest table of a limit.
fn least_memory(limit: &Limit) -> u64 {
    let fits = |bytes: u64| Limiter::builder(limit.clone()).max_memory(bytes).build().is_ok();
    let (mut no, mut yes) = (0, 1 << 30);
    while yes - no > 1 {
        let middle = u64::midpoint(no, yes);
        if fits(middle) { yes = middle } else { no = middle }
    }
    yes
}

/// A limiter whose table is so many times the smallest.
pub(super) fn small(limit: Limit, times: u64) -> Limiter {
    let memory = times * least_memory(&limit);
    Limiter::builder(limit).time_grain(0).max_memory(memory).build().expect("at least the smallest")
}

/// Maintains until `is_done`. What is retired is freed when no call that may see it is under way, also
/// of other tests, and until then stands in the way of the next table where the ceiling is low.
pub(super) fn maintain_until(limiter: &Limiter, now: u64, is_done: impl Fn(&Statistics) -> bool) -> Statistics {
    for _ in 0..1_000_000 {
        limiter.maintain_at(now);
        if is_done(&limiter.statistics()) {
            break;
        }
        thread::yield_now();
    }
    let end = limiter.statistics();
    assert!(is_done(&end), "not after a million times: {end:?}");
    end
}

proptest! {
    #![proptest_config(config(600))]

    /// Invariants 1 and 12: many more keys than slots, and no key ever gets more than the bound of its
    /// limit, evicted or not; every answer is at most as generous as the model's.
    #[test]
    fn a_flood_gives_nobody_a_fresh_bucket(Subject { rule, limit } in any_rule(), times in 1u64..12, start in start(), steps in steps(time(), 30, 250)) {
        let limiter = small(limit, times);
        let mut model = Model::new(&rule);
        let mut walk = Walk::new(&rule, start);
        let mut grants = vec![Vec::new(); 30];
        for step in &steps {
            let now = walk.time(step.time);
            if model.clock().look(now).n > u128::from(TIME_MAX) {
                continue;
            }
            let key = [step.key as u8];
            if model.rest(&key, now) >= rule.memory() {
                continue;
            }
            let got = if matches!(step.act, Act::Maintain) {
                limiter.maintain_at(now);
                model.pass(now);
                limiter.peek_at(key, 0, now)
            } else {
                let cost = walk.cost(step.cost, limiter.peek_at(key, 0, now).remaining());
                let got = limiter.check_at(key, cost, now);
                model.judge_no_more_generous(&key, cost, now, &got).map_err(TestCaseError::fail)?;
                if got.is_allowed() {
                    grants[step.key].push((model.clock().look(now).n, cost));
                }
                got
            };
            walk.went(now, &got);
        }
        for grants in &grants {
            bounded(&rule, grants)?;
        }
    }

    /// Invariant 9 in a full table: a newcomer that must wait passes when it was told to come back, and
    /// not 1 ns earlier. (In a sliding window it may be told a longer wait than needed: of two words with
    /// two counts each, the one that is fresh first need not be the one that has room first.)
    #[test]
    fn a_newcomer_to_a_full_table_is_told_the_truth(
        Subject { rule, limit } in any_rule(),
        start in TODAY..TODAY + 3 * DAY,
        spent in prop::collection::vec((cost(), onward()), 4..40),
        asked in cost(),
    ) {
        let limiter = small(limit, 1);
        let mut walk = Walk::new(&rule, start);
        for (key, (cost, time)) in spent.iter().enumerate() {
            let now = walk.time(*time).max(walk.now).min(TIME_MAX / 2);
            if u128::from(now - start) >= rule.memory() / 2 {
                continue;
            }
            let got = limiter.check_at(key.to_le_bytes(), walk.cost(*cost, 1), now);
            walk.went(now, &got);
        }
        let cost = walk.cost(asked, 1);
        let got = limiter.check_at("newcomer", cost, walk.now);
        makes_sense(&rule, cost, &got)?;
        if got.reason() == Reason::Limited && got.retry_after_ns() < TIME_MAX / 4 {
            let then = walk.now + got.retry_after_ns();
            let early = limiter.allow_at("newcomer", cost, then - 1);
            prop_assert!(!early || matches!(rule, Rule::Sliding { .. }), "{:?}: {} passed before {}", rule, cost, then);
            prop_assert!(early || limiter.allow_at("newcomer", cost, then), "{:?}: {} refused at {}", rule, cost, then);
        }
    }

    /// Invariants 2 and 11: whatever a full table has seen and however long ago, a newcomer waits at
    /// most as long as it takes to fill, and then passes.
    #[test]
    fn an_old_table_serves_newcomers(Subject { rule, limit } in any_rule(), rest in prop_oneof![any_size(61), (0u64..64).prop_map(|k| k << 55)], by in 0..DAY) {
        let limiter = small(limit, 1);
        for key in 0..20u64 {
            let _ = limiter.check_at(key.to_le_bytes(), rule.capacity(), TODAY + key);
        }
        let now = (TODAY + by).saturating_add(rest).min(TIME_MAX / 2);
        prop_assume!(!matches!(rule, Rule::Once { .. }));
        let got = limiter.check_at("newcomer", 1, now);
        if !got.is_allowed() && got.retry_after_ns() < TIME_MAX / 4 {
            let then = now + got.retry_after_ns();
            prop_assert!(limiter.allow_at("newcomer", 1, then), "{:?}: refused at {} for {} ns, and again then", rule, now, got.retry_after_ns());
        }
    }
}

/// Invariant 11: growing, shrinking and dropping what is idle gives nobody anything, and once all are
/// idle every key is as good as new.
#[test]
fn forgetting_what_is_idle_changes_nothing() {
    for rule in [
        Rule::token(10, SECOND, 20),
        Rule::token(7, 11 * SECOND, 7),
        Rule::Fixed { limit: 5, period: 60 * SECOND },
        Rule::Sliding { limit: 5, period: 60 * SECOND, strict: false },
        Rule::Log { limit: 4, period: 60 * SECOND },
    ] {
        let limiter =
            Limiter::builder(rule.limit().expect("a limit")).time_grain(0).build().expect("the default memory is enough");
        let mut model = Model::new(&rule);
        let smallest = limiter.statistics().memory_bytes;
        let mut call = |key: u64, cost: u64, now: u64| {
            let got = limiter.check_at(key.to_le_bytes(), cost, now);
            let agrees = if limiter.statistics().takeovers_indebted == 0 {
                model.judge(&key.to_le_bytes(), cost, now, false, &got)
            } else {
                model.judge_no_more_generous(&key.to_le_bytes(), cost, now, &got)
            };
            agrees.unwrap_or_else(|e| panic!("key {key}: {e}"));
        };
        // Many keys, most of them soon idle; then the cleaner between all kinds of later times.
        for key in 0..6000 {
            call(key, 1 + key % (rule.capacity() + 1), TODAY + key);
        }
        for later in [0, 1, SECOND / 10, SECOND, 11 * SECOND, 59 * SECOND, 60 * SECOND, 61 * SECOND] {
            limiter.maintain_at(TODAY + 6000 + later);
            for key in (0..6000).step_by(7) {
                call(key, key % 3, TODAY + 6000 + later);
            }
            limiter.maintain_at(TODAY + 6000 + later);
        }
        let idle = TODAY + 1000 * SECOND;
        maintain_until(&limiter, idle, |now| now.memory_bytes == smallest);
        // As many keys as the smallest table has slots.
        for key in [0u64, 7, 14, 21] {
            let got = limiter.check_at(key.to_le_bytes(), rule.capacity(), idle);
            model.judge(&key.to_le_bytes(), rule.capacity(), idle, false, &got).unwrap_or_else(|e| panic!("key {key}: {e}"));
        }
    }
}

// ---- with threads ----

pub(super) const THREADS: u64 = 4;

/// Runs `work` in all threads at once and adds up what they give.
pub(super) fn together(threads: u64, work: impl Fn(u64) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(threads as usize);
    thread::scope(|scope| {
        let run = |i| {
            barrier.wait();
            work(i)
        };
        let handles: Vec<_> = (0..threads).map(|i| scope.spawn(move || run(i))).collect();
        handles.into_iter().map(|handle| handle.join().expect("a thread that ends well")).sum()
    })
}

/// Rules of every algorithm that admit exactly `n` at one instant.
fn of_each_kind(n: u64) -> Vec<Rule> {
    vec![
        Rule::token(n, 3600 * SECOND, n),
        Rule::token(997, SECOND, n),
        Rule::Bucket { kind: Bucket::Queue, count: 10, period: SECOND, burst: n },
        Rule::Once { burst: n },
        Rule::Fixed { limit: n, period: SECOND },
        Rule::Sliding { limit: n, period: SECOND, strict: false },
        Rule::Log { limit: n, period: SECOND },
        #[cfg(feature = "quota")]
        Rule::Quota { limit: n, unit: super::model::calendar::Unit::Month, zone: "UTC", anchor: None },
    ]
}

#[test]
fn one_key_at_one_instant_gets_exactly_its_limit() {
    for rule in of_each_kind(1000) {
        let limiter = limiter(&rule);
        let passed = together(THREADS, |_| (0..800).filter(|_| limiter.allow_at("k", 1, TODAY)).count() as u64);
        assert_eq!(passed, 1000, "{rule:?}");
        assert_eq!(limiter.peek_at("k", 0, TODAY).remaining(), 0);
    }
}

#[test]
fn mixed_costs_never_add_up_to_more_than_the_limit() {
    for rule in of_each_kind(1000) {
        let limiter = limiter(&rule);
        let passed = together(THREADS, |i| {
            (0..400).map(|k| if limiter.allow_at("k", 1 + (i + k) % 5, TODAY) { 1 + (i + k) % 5 } else { 0 }).sum()
        });
        // The last unit is always taken by a call of cost 1, which all threads make to the end.
        assert_eq!(passed, 1000, "{rule:?}");
    }
}

/// What each of many keys was granted when threads meet at all of them.
fn grants_of_many(limiter: &Limiter, keys: u64) -> Vec<u64> {
    let grants: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(0)).collect();
    together(THREADS, |i| {
        for (round, k) in (0..2u64).flat_map(|round| (0..keys).map(move |k| (round, k))) {
            // Two threads go up and two go down.
            let key = if i % 2 == 0 { k } else { keys - 1 - k };
            if limiter.allow_at(key.to_le_bytes(), 1, TODAY + round) {
                grants[key as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
        0
    });
    grants.into_iter().map(AtomicU64::into_inner).collect()
}

#[test]
fn each_of_many_keys_gets_exactly_its_limit() {
    for rule in of_each_kind(3) {
        let (keys, limit) = (2000, rule.limit().expect("a limit"));
        let limiter = Limiter::builder(limit).time_grain(0).expected_keys(400_000).build().expect("the default memory is enough");
        let wrong: Vec<_> = grants_of_many(&limiter, keys).into_iter().enumerate().filter(|(_, n)| *n != 3).collect();
        assert!(wrong.is_empty(), "{rule:?}: {wrong:?}");
    }
}

/// While the table grows under the threads' feet every key still gets exactly its limit; less only if a
/// debt had to be inherited, which a table below its ceiling has no need to do. (A log's table has its
/// full size at once.)
#[test]
fn each_of_many_keys_gets_exactly_its_limit_while_the_table_grows() {
    for rule in of_each_kind(3) {
        let limiter =
            Limiter::builder(rule.limit().expect("a limit")).time_grain(0).build().expect("the default memory is enough");
        let grants = grants_of_many(&limiter, 3000);
        let counts = limiter.statistics();
        let least = if counts.takeovers_indebted == 0 { 3 } else { 0 };
        let wrong: Vec<_> = grants.into_iter().enumerate().filter(|(_, n)| !(least..=3).contains(n)).collect();
        assert!(wrong.is_empty(), "{rule:?}: {wrong:?}");
        assert!(counts.growths > 3 || matches!(rule, Rule::Log { .. }), "{rule:?}: {counts:?}");
    }
}

/// Debts that were inherited are not forgotten when the table shrinks: the evicted keys come back to a
/// smaller table, and find them there.
#[test]
fn a_table_that_shrinks_remembers_whom_it_evicted() {
    let mut evicted = 0;
    for round in 0..12 {
        let limiter = small(Rule::token(10, 10 * SECOND, 10).limit().expect("a limit"), 33_000);
        // So many keys that the table grows to its ceiling; soon they are idle.
        for key in 0..40_000u64 {
            let _ = limiter.allow_at(key.to_le_bytes(), 1, TODAY);
        }
        // So few that they fit in a quarter of it, and so many that some groups get five of them. The
        // fifth takes the slot of another, with its debt: there is room for both.
        let later = TODAY + 2 * SECOND;
        let heavy = 1_000_000..1_007_500u64;
        let before = limiter.statistics().takeovers_indebted;
        let passed: Vec<bool> = heavy.clone().map(|key| limiter.allow_at(key.to_le_bytes(), 4, later)).collect();
        evicted += limiter.statistics().takeovers_indebted - before;
        maintain_until(&limiter, later, |now| now.shrinks > 0);
        for (key, _) in heavy.zip(passed).filter(|(_, passed)| *passed) {
            assert!(!limiter.allow_at(key.to_le_bytes(), 7, later), "round {round}: key {key} was given a fresh bucket");
        }
    }
    assert!(evicted > 0, "nobody was evicted: the test says nothing");
}

/// While time goes on and demand is above the rate, every token is given out once: what was granted
/// and what is left add up to the burst and the refill.
#[test]
fn no_token_is_lost_or_minted_while_time_goes_on() {
    for (count, period, burst, step) in
        [(1_000_000, SECOND, 50, 100), (1000, SECOND, 1, 10_000), (3, 7, 1000, 1), (30, SECOND, 60, 1_000_000)]
    {
        let rule = Rule::token(count, period, burst);
        assert!(rule.tick().is_zero() || count == 3, "{rule:?}");
        let limiter = limiter(&rule);
        let clock = AtomicU64::new(TODAY);
        assert!(limiter.allow_at("k", burst, TODAY));
        let passed = together(THREADS, |_| {
            (0..20_000).filter(|_| limiter.allow_at("k", 1, clock.fetch_add(step, Ordering::Relaxed))).count() as u64
        });
        let end = clock.load(Ordering::Relaxed);
        let earned = ratio(count) * ratio(end - TODAY) / ratio(period);
        let left = limiter.peek_at("k", 0, end).remaining();
        let most = earned.to_integer().to_u64().expect("a few tokens");
        assert!(passed <= most, "{rule:?}: {passed} of {most}");
        // A full bucket earns nothing more; these never are, but for the one that holds a single token.
        if burst > 1 {
            assert_eq!(passed + left, most, "{rule:?}");
        }
    }
}

/// The exact log, at instants that all threads share: no half-open period ever holds more.
#[test]
fn threads_keep_the_bound_of_a_log_in_every_period() {
    let (limiter, round) = (limiter(&Rule::Log { limit: 100, period: SECOND }), SECOND / 10);
    let mut grants = Vec::new();
    for k in 0..60 {
        // A burst now and then, so that what leaves the log does so at different times.
        let demand = [40, 3, 0, 11, 90][k as usize % 5];
        let now = TODAY + k * round;
        grants.push((now, together(THREADS, |_| (0..demand).filter(|_| limiter.allow_at("k", 1, now)).count() as u64)));
        let held: u64 = grants.iter().filter(|(t, _)| now < t + SECOND).map(|(_, n)| n).sum();
        assert!(held <= 100, "{held} in the second up to {now}");
        assert_eq!(limiter.peek_at("k", 0, now).remaining(), 100 - held);
    }
}

/// For laps of its ring no call begins at a place where one of another length began before: that length is forgotten.
#[test]
fn a_log_takes_no_old_length_for_a_new_one() {
    for (limit, laps) in [(262_143u64, 9), (131_077, 9), (65_535, 513)] {
        let rule = Rule::Log { limit, period: SECOND }.limit().expect("a limit");
        let limiter = Limiter::builder(rule).time_grain(0).build().expect("memory for a group");
        let half = limit.next_power_of_two() / 2;
        let mut now = TODAY;
        let mut go = |cost| {
            now += 2 * SECOND;
            assert!(limiter.allow_at("k", cost, now));
            now
        };
        go(half);
        go(half - 1);
        (1..laps).for_each(|_| _ = (go(half), go(half)));
        go(1);
        let last = go(1);
        assert!(limiter.allow_at("k", limit - 11, last + 9 * SECOND / 10));
        assert!(limiter.allow_at("k", 10, last + 9 * SECOND / 10));
        let granted = (0..limit).filter(|_| limiter.allow_at("k", 1, last + SECOND)).count();
        assert_eq!(granted, 1, "{limit} after {laps} laps");
    }
}
