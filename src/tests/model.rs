//! The dull twins: what each algorithm means, said slowly.
//!
//! Nothing here is shared with the engine but the public types: rates and tokens are rationals, a log
//! is a list, a calendar is walked day by day, a wait in a window is searched for. A [`Model`] is one
//! limiter with any number of keys; [`Model::judge`] compares it with the answer that an engine gave.
//!
//! Where a nanosecond is not a whole number of ticks a bucket may allow a call less than one tick
//! early. The model then keeps the exact bucket fed with the engine's verdicts and asks for:
//!
//! - whatever the exact bucket allows is allowed;
//! - what is allowed beyond it, it would allow less than one tick later;
//! - every wait is at most the exact one, and less than one tick below it.
//!
//! Everywhere else an answer must be the model's to the last digit.

use crate::{Decision, Limit, LimitError, NEVER, Reason};
use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const SECOND: u64 = 1_000_000_000;
/// A call this far behind the latest is judged at the latest; further behind, the clock was set back.
pub(super) const STALE: u64 = 60 * SECOND;
/// Later times are taken as this one.
pub(super) const TIME_MAX: u64 = 1 << 62;

/// A limit, in the model's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Bucket {
        kind: Bucket,
        count: u64,
        period: u64,
        burst: u64,
    },
    Once {
        burst: u64,
    },
    Fixed {
        limit: u64,
        period: u64,
    },
    Sliding {
        limit: u64,
        period: u64,
        strict: bool,
    },
    Log {
        limit: u64,
        period: u64,
    },
    #[cfg(feature = "quota")]
    Quota {
        limit: u64,
        unit: calendar::Unit,
        zone: &'static str,
        anchor: Option<calendar::Day>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bucket {
    Token,
    Meter,
    Queue,
}

impl Rule {
    pub(super) fn token(count: u64, period: u64, burst: u64) -> Rule {
        Rule::Bucket { kind: Bucket::Token, count, period, burst }
    }

    /// The engine's limit of this rule.
    pub(super) fn limit(&self) -> Result<Limit, LimitError> {
        let text = match self {
            Rule::Once { burst } => return Limit::token_bucket_without_refill(*burst).build(),
            Rule::Bucket { kind, count, period, burst } => {
                let (name, queue) = match kind {
                    Bucket::Token => ("token-bucket", ""),
                    Bucket::Meter => ("leaky-bucket", ""),
                    Bucket::Queue => ("leaky-bucket", " queue"),
                };
                format!("{name} {count}/{period}ns burst={burst}{queue}")
            }
            Rule::Fixed { limit, period } => format!("fixed-window {limit}/{period}ns"),
            Rule::Sliding { limit, period, strict } => {
                format!("sliding-window {limit}/{period}ns{}", if *strict { " strict" } else { "" })
            }
            Rule::Log { limit, period } => format!("sliding-log {limit}/{period}ns"),
            #[cfg(feature = "quota")]
            Rule::Quota { limit, unit, zone, anchor } => {
                let anchor = anchor.map_or(String::new(), |day| format!(" anchor={day}"));
                format!("quota {limit}/{} tz={zone}{anchor}", unit.name())
            }
        };
        text.parse()
    }

    /// The largest cost that can ever pass.
    pub(super) fn capacity(&self) -> u64 {
        match *self {
            Rule::Bucket { burst, .. } | Rule::Once { burst } => burst,
            Rule::Fixed { limit, .. } | Rule::Sliding { limit, .. } | Rule::Log { limit, .. } => limit,
            #[cfg(feature = "quota")]
            Rule::Quota { limit, .. } => limit,
        }
    }

    /// The period in nanoseconds; a quota's is a typical one.
    pub(super) fn period(&self) -> u64 {
        match self {
            Rule::Bucket { period, .. }
            | Rule::Fixed { period, .. }
            | Rule::Sliding { period, .. }
            | Rule::Log { period, .. } => *period,
            Rule::Once { .. } => SECOND,
            #[cfg(feature = "quota")]
            Rule::Quota { unit, .. } => unit.typical(),
        }
    }

    /// For how long a key's word is told apart from an older one, in ns: 2^57 ticks of a bucket, five
    /// years of a window.
    pub(super) fn memory(&self) -> u128 {
        match *self {
            Rule::Bucket { count, period, burst, .. } => {
                let rate = ratio(count) / ratio(period);
                let token = ticks_a_token(&rate, burst).max(BigInt::from(1));
                whole(&(ratio(1 << 57) / (rate * BigRational::from(token))))
            }
            Rule::Once { .. } | Rule::Log { .. } => u128::from(TIME_MAX),
            #[cfg(feature = "quota")]
            Rule::Quota { .. } => u128::from(TIME_MAX),
            // The numbers of four windows at least are told apart, and those of five years; one that is
            // up to 60 s and two windows ahead is a late call's.
            Rule::Fixed { period, .. } | Rule::Sliding { period, .. } => {
                let w = u128::from(period);
                (4 * w).max(5 * 365 * 86_400 * u128::from(SECOND)) - 3 * w - u128::from(STALE.min(period))
            }
        }
    }

    /// The length of a bucket's tick in ns where a nanosecond is not a whole number of ticks; else 0.
    pub(super) fn tick(&self) -> BigRational {
        match *self {
            Rule::Bucket { count, period, burst, .. } => {
                let rate = ratio(count) / ratio(period);
                let token = ticks_a_token(&rate, burst).max(BigInt::from(1));
                let tick = (rate * BigRational::from(token)).recip();
                if tick.numer() == &BigInt::from(1) { BigRational::zero() } else { tick }
            }
            _ => BigRational::zero(),
        }
    }
}

/// Ticks a token, 0 where the next longer one would be needed: as few ns a tick as the rate takes (a
/// quarter, or 1 above 4 tokens a period in lowest terms), and at most 2^57 ticks to fill and 60 s.
pub(super) fn ticks_a_token(rate: &BigRational, burst: u64) -> BigInt {
    let (n, d) = (rate.numer(), rate.denom());
    let a_ns = if *n <= BigInt::from(4) { 4 } else { 1 };
    let span = (ratio(burst) / rate).ceil() + ratio(STALE);
    let by_rate = (BigRational::from(d.clone()) * ratio(a_ns) / BigRational::from(n.clone())).floor();
    let by_span = (BigRational::from(d.clone()) * ratio(1 << 57) / (BigRational::from(n.clone()) * span)).floor();
    BigRational::from(d.clone()).min(by_rate).min(by_span).to_integer()
}

/// Whether a bucket of this rate and burst can be kept exactly: at most 4 tokens a ns, and 2^57 ticks
/// to fill and 60 s when a token is one tick.
pub(super) fn can_be_kept(count: u64, period: u64, burst: u64) -> bool {
    if count == 0 || burst == 0 || period == 0 || period >= 1 << 63 {
        return false;
    }
    let rate = ratio(count) / ratio(period);
    let span = (ratio(burst) / &rate).ceil() + ratio(STALE);
    rate <= ratio(4) && &rate * span <= ratio(1 << 57)
}

fn ratio(n: u64) -> BigRational {
    BigRational::from(BigInt::from(n))
}

/// A wait as it is reported: what does not fit is one below "never".
fn saturate(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(NEVER).min(NEVER - 1)
}

fn whole(x: &BigRational) -> u128 {
    x.to_integer().to_u128().unwrap_or(if x < &BigRational::zero() { 0 } else { u128::MAX })
}

/// One time for the whole limiter, which never goes back.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    latest: u128,
    offset: u128,
}

/// When a call is judged, and how far its own time is behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) n: u128,
    pub(super) lead: u128,
}

impl Clock {
    /// When a call at `now` would be judged.
    pub(super) fn look(&self, now: u64) -> At {
        let n = u128::from(now.min(TIME_MAX)) + self.offset;
        if n >= self.latest {
            At { n, lead: 0 }
        } else if self.latest - n <= u128::from(STALE) {
            At { n: self.latest, lead: self.latest - n }
        } else {
            At { n: self.latest, lead: 0 }
        }
    }

    /// The same, and the limiter's time is then that.
    pub(super) fn at(&mut self, now: u64) -> At {
        let at = self.look(now);
        let n = u128::from(now.min(TIME_MAX)) + self.offset;
        if n + at.lead < self.latest {
            self.offset += self.latest - n;
        }
        self.latest = at.n;
        at
    }
}

/// What may be answered: ranges, which are one number wherever the answer is exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) reason: Reason,
    pub(super) remaining: (u64, u64),
    pub(super) retry: (u64, u64),
    pub(super) reset: (u64, u64),
    pub(super) delay: (u64, u64),
}

impl Answer {
    fn exact(reason: Reason, remaining: u64, retry: u64, reset: u64) -> Answer {
        Answer { reason, remaining: (remaining, remaining), retry: (retry, retry), reset: (reset, reset), delay: (0, 0) }
    }
}

/// What one key has done so far.
#[derive(Clone, Debug)]
enum State {
    /// Tokens left at a time.
    Bucket {
        tokens: BigRational,
        at: u128,
    },
    Once {
        used: u64,
    },
    /// What passed in a window.
    Fixed {
        window: u128,
        count: u64,
    },
    Sliding {
        window: u128,
        previous: u64,
        current: u64,
    },
    /// What passed, and when.
    Log {
        calls: Vec<(u128, u64)>,
    },
    #[cfg(feature = "quota")]
    Quota {
        start: i128,
        count: u64,
    },
}

/// A limiter as the documents describe it.
#[derive(Clone, Debug)]
pub(super) struct Model {
    rule: Rule,
    tick: BigRational,
    clock: Clock,
    keys: BTreeMap<Vec<u8>, State>,
    charged: BTreeMap<Vec<u8>, u128>,
}

impl Model {
    pub(super) fn new(rule: &Rule) -> Model {
        Model { rule: rule.clone(), tick: rule.tick(), clock: Clock::default(), keys: BTreeMap::new(), charged: BTreeMap::new() }
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A call that asks nothing of any key, but moves the limiter's time.
    pub(super) fn pass(&mut self, now: u64) {
        let _ = self.clock.at(now);
    }

    /// The largest cost that would pass at `now`, by the exact rule.
    pub(super) fn remaining(&self, key: &[u8], now: u64) -> u64 {
        let at = self.clock.look(now);
        self.answer(&self.state(key, at.n), 0, at, true).1.remaining.0
    }

    /// How long ago a key was last charged when it is called at `now`; 0 for one that never was.
    pub(super) fn rest(&self, key: &[u8], now: u64) -> u128 {
        self.charged.get(key).map_or(0, |n| self.clock.look(now).n - n)
    }

    /// Whether an answer is at most as generous as the model's, which is charged with whatever was
    /// granted: the law of a table in which a newcomer may inherit a debt.
    pub(super) fn judge_no_more_generous(&mut self, key: &[u8], cost: u64, now: u64, got: &Decision) -> Result<(), String> {
        let at = self.clock.at(now);
        let state = self.state(key, at.n);
        let (may, _) = self.verdicts(&state, cost, at.n);
        let (after, answer) = self.answer(&state, cost, at, got.is_allowed() && may);
        if got.is_allowed() && cost > 0 {
            self.keys.insert(key.to_vec(), after);
            self.charged.insert(key.to_vec(), at.n);
        }
        let agrees = (may || !got.is_allowed())
            && got.remaining() <= answer.remaining.1
            && got.retry_after_ns() >= if may { 0 } else { answer.retry.0 }
            && got.reset_after_ns() >= answer.reset.0;
        if agrees {
            Ok(())
        } else {
            Err(format!("{:?}: at {now}, cost {cost}:\n got {got:?}\nmost {answer:?}\nfrom {state:?}", self.rule))
        }
    }

    /// What the exact rule answers, and charges.
    pub(super) fn call(&mut self, key: &[u8], cost: u64, now: u64) -> Answer {
        let at = self.clock.at(now);
        let state = self.state(key, at.n);
        let (_, allowed) = self.verdicts(&state, cost, at.n);
        let (after, answer) = self.answer(&state, cost, at, allowed);
        if allowed && cost > 0 {
            self.keys.insert(key.to_vec(), after);
            self.charged.insert(key.to_vec(), at.n);
        }
        answer
    }

    /// Whether the limiter answered a call as it must; a call that is allowed and is no peek is
    /// charged.
    pub(super) fn judge(&mut self, key: &[u8], cost: u64, now: u64, is_peek: bool, got: &Decision) -> Result<(), String> {
        let at = self.clock.at(now);
        let state = self.state(key, at.n);
        let (may, must) = self.verdicts(&state, cost, at.n);
        let allowed = if got.is_allowed() { may } else { must };
        let (after, answer) = self.answer(&state, cost, at, allowed);
        if !is_peek && allowed && cost > 0 {
            self.keys.insert(key.to_vec(), after);
            self.charged.insert(key.to_vec(), at.n);
        }
        let within = |n: u64, (low, high): (u64, u64)| low <= n && n <= high;
        let agrees = got.reason() == answer.reason
            && got.limit() == self.rule.capacity()
            && within(got.remaining(), answer.remaining)
            && within(got.retry_after_ns(), answer.retry)
            && within(got.reset_after_ns(), answer.reset)
            && within(got.delay_ns(), answer.delay);
        let call = if is_peek { "peek" } else { "check" };
        let text = self.rule.limit().map_or(String::new(), |limit| limit.to_string());
        if agrees {
            Ok(())
        } else {
            Err(format!("{text}: {call} at {now}, cost {cost}, {at:?}:\n got {got:?}\nwant {answer:?}\nfrom {state:?}"))
        }
    }

    /// The key's state as it is at `n`.
    fn state(&self, key: &[u8], n: u128) -> State {
        match (&self.rule, self.keys.get(key)) {
            (Rule::Bucket { count, period, burst, .. }, Some(State::Bucket { tokens, at })) => {
                let refill = BigRational::from(BigInt::from(n - at)) * ratio(*count) / ratio(*period);
                State::Bucket { tokens: (tokens + refill).min(ratio(*burst)), at: n }
            }
            (Rule::Bucket { burst, .. }, _) => State::Bucket { tokens: ratio(*burst), at: n },
            (Rule::Once { .. }, Some(state)) => state.clone(),
            (Rule::Once { .. }, None) => State::Once { used: 0 },
            (Rule::Fixed { period, .. }, state) => {
                let now = n / u128::from(*period);
                match state {
                    Some(State::Fixed { window, count }) if *window == now => State::Fixed { window: now, count: *count },
                    _ => State::Fixed { window: now, count: 0 },
                }
            }
            (Rule::Sliding { period, .. }, state) => {
                let now = n / u128::from(*period);
                match *state.unwrap_or(&State::Once { used: 0 }) {
                    State::Sliding { window, previous, current } if window == now => State::Sliding { window, previous, current },
                    State::Sliding { window, current, .. } if window + 1 == now => {
                        State::Sliding { window: now, previous: current, current: 0 }
                    }
                    _ => State::Sliding { window: now, previous: 0, current: 0 },
                }
            }
            (Rule::Log { period, .. }, state) => {
                let all = if let Some(State::Log { calls }) = state { calls.clone() } else { Vec::new() };
                State::Log { calls: all.into_iter().filter(|(t, _)| n < t + u128::from(*period)).collect() }
            }
            #[cfg(feature = "quota")]
            (Rule::Quota { unit, zone, anchor, .. }, state) => {
                let (now, _) = calendar::period(*unit, zone, *anchor, n);
                match state {
                    Some(State::Quota { start, count }) if *start == now => State::Quota { start: now, count: *count },
                    _ => State::Quota { start: now, count: 0 },
                }
            }
        }
    }

    /// Whether a call may, and whether it must be allowed.
    fn verdicts(&self, state: &State, cost: u64, n: u128) -> (bool, bool) {
        if cost == 0 {
            return (true, true);
        }
        if cost > self.rule.capacity() {
            return (false, false);
        }
        let must = match (&self.rule, state) {
            (Rule::Bucket { count, period, .. }, State::Bucket { tokens, .. }) => {
                let missing = (ratio(cost) - tokens) * ratio(*period) / ratio(*count);
                let must = missing <= BigRational::zero();
                return (must || missing < self.tick, must);
            }
            (Rule::Sliding { limit, period, strict }, state) => {
                i128::from(cost) <= Model::estimate_left(*limit, *period, *strict, state, n)
            }
            (_, state) => cost <= self.left(state),
        };
        (must, must)
    }

    /// The largest cost that passes, where a count is all that counts.
    fn left(&self, state: &State) -> u64 {
        let used = match state {
            State::Once { used } => *used,
            State::Fixed { count, .. } => *count,
            State::Log { calls } => calls.iter().map(|(_, cost)| cost).sum(),
            #[cfg(feature = "quota")]
            State::Quota { count, .. } => *count,
            State::Bucket { .. } | State::Sliding { .. } => unreachable!("these have rules of their own"),
        };
        self.rule.capacity() - used
    }

    /// What is left in a sliding window at `n`; negative when weights overshoot.
    fn estimate_left(limit: u64, period: u64, strict: bool, state: &State, n: u128) -> i128 {
        let State::Sliding { window, previous, current } = *state else { unreachable!("a sliding window") };
        let w = u128::from(period);
        let (previous, current) = match n / w - window {
            0 => (previous, current),
            1 => (current, 0),
            _ => (0, 0),
        };
        let weighted = u128::from(previous) * (w - n % w);
        let estimate = if strict { weighted.div_ceil(w) } else { weighted / w };
        i128::from(limit) - i128::from(current) - estimate.cast_signed()
    }

    /// The state after the call and its answer, given the verdict.
    fn answer(&self, state: &State, cost: u64, at: At, allowed: bool) -> (State, Answer) {
        let reason = match self.rule {
            _ if allowed => Reason::Allowed,
            _ if cost > self.rule.capacity() => Reason::CostAboveLimit,
            Rule::Once { .. } => Reason::NeverRefills,
            _ => Reason::Limited,
        };
        let charged = if allowed { cost } else { 0 };
        let late = |ns: u128| if ns == 0 { 0 } else { saturate(ns + at.lead) };
        let retry = |ns: u128| match reason {
            Reason::Allowed => 0,
            Reason::Limited => late(ns),
            _ => NEVER,
        };
        let n = at.n;
        let mut after = state.clone();
        let answer = match (&self.rule, &mut after) {
            (Rule::Bucket { .. }, State::Bucket { tokens, .. }) => {
                let before = tokens.clone();
                *tokens -= ratio(charged);
                let tokens = tokens.clone();
                return (after, self.bucket_answer(reason, &before, &tokens, cost, at));
            }
            (Rule::Once { burst }, State::Once { used }) => {
                *used += charged;
                Answer::exact(reason, burst - *used, retry(0), if *used == 0 { 0 } else { NEVER })
            }
            (Rule::Fixed { limit, period }, State::Fixed { count, .. }) => {
                *count += charged;
                let end = u128::from(*period) - n % u128::from(*period);
                Answer::exact(reason, limit - *count, retry(end), if *count == 0 { 0 } else { late(end) })
            }
            (Rule::Sliding { limit, period, strict }, State::Sliding { current, .. }) => {
                *current += charged;
                let w = u128::from(*period);
                let left = |t: u128| Model::estimate_left(*limit, *period, *strict, &after, t);
                // What is left never falls while nothing is charged, and two windows on all is left.
                let (mut no, mut yes) = (n, n + 2 * w);
                while reason == Reason::Limited && yes - no > 1 {
                    let middle = u128::midpoint(no, yes);
                    if left(middle) >= i128::from(cost) { yes = middle } else { no = middle }
                }
                let remaining = left(n).max(0).cast_unsigned() as u64;
                let State::Sliding { previous, current, .. } = after else { unreachable!("a sliding window") };
                let reset = if current > 0 {
                    2 * w - n % w
                } else if previous > 0 {
                    w - n % w
                } else {
                    0
                };
                Answer::exact(reason, remaining, retry(yes - n), late(reset))
            }
            (Rule::Log { limit, period }, State::Log { calls }) => {
                if charged > 0 {
                    calls.push((n, charged));
                }
                let used = |t: u128| calls.iter().filter(|(c, _)| t < c + u128::from(*period)).map(|(_, cost)| cost).sum::<u64>();
                let ends = || calls.iter().map(|(t, _)| t + u128::from(*period));
                let first = ends().find(|t| used(*t).saturating_add(cost) <= *limit).unwrap_or(n);
                Answer::exact(reason, limit - used(n), retry(first - n), late(ends().max().unwrap_or(n) - n))
            }
            #[cfg(feature = "quota")]
            (Rule::Quota { limit, unit, zone, anchor }, State::Quota { count, .. }) => {
                *count += charged;
                let (_, end) = calendar::period(*unit, zone, *anchor, n);
                let wait = (end - n.cast_signed()).cast_unsigned();
                Answer::exact(reason, limit - *count, retry(wait), if *count == 0 { 0 } else { late(wait) })
            }
            _ => unreachable!("a state of its own rule"),
        };
        if let Rule::Sliding { .. } = self.rule {
            debug_assert!(answer.retry.0 == NEVER || answer.retry.0 <= saturate(2 * u128::from(self.rule.period()) + at.lead));
        }
        (after, answer)
    }

    fn bucket_answer(&self, reason: Reason, before: &BigRational, tokens: &BigRational, cost: u64, at: At) -> Answer {
        let Rule::Bucket { kind, count, period, burst } = self.rule else { unreachable!("a bucket") };
        let rate = ratio(count) / ratio(period);
        let is_exact = self.tick.is_zero();
        // The wait until `missing` tokens have come, from one tick early to exactly.
        let wait = |missing: BigRational, least: u128| {
            let exact = missing / &rate;
            let high = whole(&exact.ceil());
            let low = if is_exact { high } else { whole(&((exact - &self.tick).floor() + ratio(1))).min(high) };
            let late = |ns: u128| if ns == 0 { 0 } else { saturate(ns + at.lead) };
            (late(low.max(least)), late(high.max(least)))
        };
        let left = if is_exact { tokens.clone() } else { (tokens + &rate * &self.tick).ceil() - ratio(1) };
        let room = |x: &BigRational| whole(&x.floor().max(BigRational::zero()).min(ratio(burst))) as u64;
        let low = room(tokens);
        Answer {
            reason,
            remaining: (low, room(&left).max(low)),
            retry: match reason {
                Reason::Allowed => (0, 0),
                Reason::Limited => wait(ratio(cost) - before, 1),
                _ => (NEVER, NEVER),
            },
            reset: wait(ratio(burst) - tokens, 0),
            delay: if kind == Bucket::Queue && reason == Reason::Allowed { wait(ratio(burst) - before, 0) } else { (0, 0) },
        }
    }
}

/// The model is right where the answers were computed by others: in every call of the vectors.
#[test]
fn the_model_gives_the_answers_of_the_vectors() {
    let (mut blocks, mut calls) = (0, 0);
    for block in include_str!("../../bindings/vectors/vectors.tsv").split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.starts_with("## "));
        let Some(head) = lines.next().and_then(|line| line.strip_prefix("# ")) else { continue };
        let (id, text) = head.split_once('\t').expect("an id and a limit");
        let Some(rule) = rule(text) else { continue };
        blocks += 1;
        let mut model = Model::new(&rule);
        let mut repeat = (1, 0);
        for line in lines {
            if repeat.0 > 10_000 {
                // A million rational numbers say nothing that a few thousand do not.
                break;
            }
            if let Some(rest) = line.strip_prefix("@repeat ") {
                let (n, step) = rest.split_once(' ').expect("a number and a step");
                repeat = (n.parse().unwrap(), step.parse().unwrap());
                continue;
            }
            let fields: Vec<&str> = line.split('\t').collect();
            let (time, key, cost) = (fields[0].parse::<u64>().unwrap(), fields[1], fields[2].parse().unwrap());
            let mut allowed = 0;
            for k in 0..repeat.0 {
                calls += 1;
                let answer = model.call(key.as_bytes(), cost, time + k * repeat.1);
                allowed += u64::from(answer.reason == Reason::Allowed);
                if fields[3].starts_with("count=") {
                    continue;
                }
                let verdict = if answer.reason == Reason::Allowed { "allow" } else { "deny" };
                assert_eq!(verdict, fields[3], "{id}: {line}");
                let waits = [answer.remaining, answer.retry, answer.reset, answer.delay];
                for ((low, high), field) in waits.into_iter().zip(&fields[4..]) {
                    let wanted = match *field {
                        "*" => continue,
                        "-" => 0,
                        "never" => NEVER,
                        number => number.parse().unwrap(),
                    };
                    assert!(low <= wanted && wanted == high, "{id}: {line}: {answer:?}");
                }
            }
            if let Some(count) = fields[3].strip_prefix("count=") {
                assert_eq!(allowed, count.parse::<u64>().unwrap(), "{id}: {line}");
            }
            repeat = (1, 0);
        }
    }
    assert!(blocks > 100 && calls > 1000, "{blocks} blocks, {calls} calls");
}

/// The rule that a limit's text means; `None` for a quota in a build without them.
#[cfg(test)]
fn rule(text: &str) -> Option<Rule> {
    let mut words = text.split(' ');
    let (name, rate) = (words.next()?, words.next()?);
    let (count, per) = rate.split_once('/')?;
    let count = count.parse().ok()?;
    let options: Vec<&str> = words.collect();
    let value = |name: &str| options.iter().find_map(|option| option.strip_prefix(name));
    let burst = value("burst=").map_or(count, |n| n.parse().expect("a number"));
    if name == "quota" {
        #[cfg(feature = "quota")]
        {
            let unit = calendar::Unit::ALL.into_iter().find(|unit| unit.name() == per)?;
            let number = |text: &str| text.parse::<i16>().expect("a number");
            let anchor =
                value("anchor=").map(|d| calendar::Day::new(number(&d[..4]), number(&d[5..7]) as i8, number(&d[8..]) as i8));
            let zone = value("tz=").unwrap_or("UTC").to_owned().leak();
            return Some(Rule::Quota { limit: count, unit, zone, anchor });
        }
        #[cfg(not(feature = "quota"))]
        return None;
    }
    let digits = per.bytes().take_while(u8::is_ascii_digit).count();
    let units = [
        ("ns", 1),
        ("us", 1000),
        ("ms", 1_000_000),
        ("s", SECOND),
        ("m", 60 * SECOND),
        ("h", 3600 * SECOND),
        ("d", 86_400 * SECOND),
    ];
    let (_, scale) = units.into_iter().find(|(name, _)| *name == &per[digits..])?;
    let period = per[..digits].parse().unwrap_or(1) * scale;
    let limit = count;
    Some(match name {
        "token-bucket" => Rule::token(count, period, burst),
        "leaky-bucket" => {
            let kind = if options.contains(&"queue") { Bucket::Queue } else { Bucket::Meter };
            Rule::Bucket { kind, count, period, burst }
        }
        "fixed-window" => Rule::Fixed { limit, period },
        "sliding-window" => Rule::Sliding { limit, period, strict: options.contains(&"strict") },
        "sliding-log" => Rule::Log { limit, period },
        _ => return None,
    })
}

/// The duration of so many nanoseconds, for the builder.
pub(super) fn ns(n: u64) -> Duration {
    Duration::from_nanos(n)
}

/// The civil calendar, walked day by day. Only the instant of a date's midnight is asked of jiff.
#[cfg(feature = "quota")]
pub(super) mod calendar {
    use super::SECOND;
    use jiff::tz::TimeZone;
    use std::fmt;

    const DAY: i128 = 86_400 * SECOND as i128;
    const HOUR: i128 = 3600 * SECOND as i128;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in super::super) enum Unit {
        Hour,
        Day,
        Week,
        Month,
        Year,
    }

    impl Unit {
        pub(in super::super) const ALL: [Unit; 5] = [Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year];

        pub(super) fn name(self) -> &'static str {
            ["hour", "day", "week", "month", "year"][self as usize]
        }

        pub(super) fn typical(self) -> u64 {
            [1, 24, 7 * 24, 30 * 24, 365 * 24][self as usize] * 3600 * SECOND
        }
    }

    /// A date, and its number counted from the Unix epoch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in super::super) struct Day {
        year: i16,
        month: i8,
        date: i8,
        number: i64,
    }

    impl fmt::Display for Day {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.date)
        }
    }

    fn is_leap(year: i16) -> bool {
        year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    }

    fn days_in_month(year: i16, month: i8) -> i8 {
        match month {
            2 => 28 + i8::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    impl Day {
        /// The date, found by walking from the epoch.
        pub(in super::super) fn new(year: i16, month: i8, day: i8) -> Day {
            let mut at = Day::EPOCH;
            while (at.year, at.month, at.date) < (year, month, day) {
                at = at.next();
            }
            while (at.year, at.month, at.date) > (year, month, day) {
                at = at.back();
            }
            at
        }

        const EPOCH: Day = Day { year: 1970, month: 1, date: 1, number: 0 };

        /// Day `number` from the epoch.
        pub(in super::super) fn numbered(number: i64) -> Day {
            let mut at = Day::EPOCH;
            let length = |year: i16| 365 + i64::from(is_leap(year));
            while number - at.number >= length(at.year) {
                at = Day { year: at.year + 1, number: at.number + length(at.year), ..at };
            }
            while at.number < number {
                at = at.next();
            }
            while at.number > number {
                at = at.back();
            }
            at
        }

        fn next(self) -> Day {
            let Day { year, month, date, number } = self;
            let number = number + 1;
            if date < days_in_month(year, month) {
                Day { date: date + 1, number, ..self }
            } else if month < 12 {
                Day { year, month: month + 1, date: 1, number }
            } else {
                Day { year: year + 1, month: 1, date: 1, number }
            }
        }

        fn back(self) -> Day {
            let Day { year, month, date, number } = self;
            let number = number - 1;
            if date > 1 {
                Day { date: date - 1, number, ..self }
            } else if month > 1 {
                Day { year, month: month - 1, date: days_in_month(year, month - 1), number }
            } else {
                Day { year: year - 1, month: 12, date: 31, number }
            }
        }

        /// 0 on Monday. The epoch was a Thursday.
        fn weekday(self) -> i64 {
            (self.number + 3).rem_euclid(7)
        }

        fn begins(self, unit: Unit, anchor: Option<Day>) -> bool {
            let same_day = |of: i8| self.date == of.min(days_in_month(self.year, self.month));
            match unit {
                Unit::Hour | Unit::Day => true,
                Unit::Week => self.weekday() == anchor.map_or(0, Day::weekday),
                Unit::Month => same_day(anchor.map_or(1, |a| a.date)),
                Unit::Year => self.month == anchor.map_or(1, |a| a.month) && same_day(anchor.map_or(1, |a| a.date)),
            }
        }

        fn midnight(self, zone: &TimeZone) -> i128 {
            let date = jiff::civil::date(self.year, self.month, self.date);
            zone.to_timestamp(date.at(0, 0, 0, 0)).expect("a date that jiff knows").as_nanosecond()
        }
    }

    /// The start and the end of the period that holds `n`.
    pub(super) fn period(unit: Unit, zone: &str, anchor: Option<Day>, n: u128) -> (i128, i128) {
        let n = n.cast_signed();
        if unit == Unit::Hour {
            // Hours are counted from the local midnight, which is the same as from the epoch where the
            // zone is whole hours away from UTC.
            let (midnight, next) = period(Unit::Day, zone, None, n.cast_unsigned());
            let start = midnight + (n - midnight) / HOUR * HOUR;
            return (start, (start + HOUR).min(next));
        }
        let zone = TimeZone::get(zone).expect("a zone of the tests");
        let near = Day::numbered((n / DAY) as i64);
        let mut day = near.next().next();
        let start = loop {
            if day.begins(unit, anchor) && day.midnight(&zone) <= n {
                break day.midnight(&zone);
            }
            day = day.back();
        };
        let mut day = near.back().back();
        let end = loop {
            if day.begins(unit, anchor) && day.midnight(&zone) > n {
                break day.midnight(&zone);
            }
            day = day.next();
        };
        (start, end)
    }

    /// The walk is right where everybody knows the answer.
    #[test]
    fn known_dates_have_their_numbers_and_weekdays() {
        for (year, month, day, number, weekday) in
            [(1970, 1, 1, 0, 3), (1969, 12, 28, -4, 6), (2000, 2, 29, 11_016, 1), (2026, 3, 1, 20_513, 6)]
        {
            let date = Day::new(year, month, day);
            assert_eq!((date.number, date.weekday()), (number, weekday), "{date}");
            assert_eq!(Day::numbered(number), date);
        }
    }
}
