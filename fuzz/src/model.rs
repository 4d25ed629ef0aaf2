//! The model: each algorithm said slowly, in whole numbers that cannot overflow for an accepted limit.
//!
//! It shares nothing with the engine but the limit's text and the documented rounding. A bucket's
//! level is counted in 1/D of a token, where N/D is the rate in tokens a ns in lowest terms: a token is D
//! and a ns brings N, so that nothing is ever rounded. The engine may be ahead of this by less than
//! one of its ticks: its level is then one of `level ..= level + slack`, and each answer a range.
//! Everywhere else an answer is one number.

use azud::{Decision, NEVER, Reason};
use std::collections::HashMap;

pub const SECOND: u64 = 1_000_000_000;
/// A call this far behind the latest is judged at the latest; further behind, the clock was set back.
pub const STALE: u128 = 60 * SECOND as u128;
/// Later times are taken as this one.
pub const TIME_MAX: u64 = 1 << 62;
/// Bits that a word has for an algorithm's own state.
const WORD_BITS: u32 = 58;
/// Numbers of windows do not repeat within this time: five years.
const CYCLE: u128 = 5 * 365 * 86_400 * SECOND as u128;

/// A limit, in the model's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    Bucket {
        kind: Kind,
        count: u64,
        period: u64,
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
    /// An hour or a day of UTC, which is a window from the epoch on.
    Quota {
        limit: u64,
        daily: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Token,
    Meter,
    Queue,
}

impl Rule {
    /// The limit's text.
    pub fn text(&self) -> String {
        match self {
            Rule::Bucket { kind: Kind::Token, count, period, burst } => format!("token-bucket {count}/{period}ns burst={burst}"),
            Rule::Bucket { kind, count, period, burst } => {
                let queue = if *kind == Kind::Queue { " queue" } else { "" };
                format!("leaky-bucket {count}/{period}ns burst={burst}{queue}")
            }
            Rule::Fixed { limit, period } => format!("fixed-window {limit}/{period}ns"),
            Rule::Sliding { limit, period, strict } => {
                format!("sliding-window {limit}/{period}ns{}", if *strict { " strict" } else { "" })
            }
            Rule::Log { limit, period } => format!("sliding-log {limit}/{period}ns"),
            Rule::Quota { limit, daily } => format!("quota {limit}/{}", if *daily { "day" } else { "hour" }),
        }
    }

    /// The largest cost that can ever pass.
    pub fn capacity(&self) -> u64 {
        match *self {
            Rule::Bucket { burst, .. } => burst,
            Rule::Fixed { limit, .. } | Rule::Sliding { limit, .. } | Rule::Log { limit, .. } | Rule::Quota { limit, .. } => {
                limit
            }
        }
    }

    pub fn period(&self) -> u64 {
        match *self {
            Rule::Bucket { period, .. }
            | Rule::Fixed { period, .. }
            | Rule::Sliding { period, .. }
            | Rule::Log { period, .. } => period,
            Rule::Quota { daily, .. } => {
                if daily {
                    86_400 * SECOND
                } else {
                    3600 * SECOND
                }
            }
        }
    }

    /// Whether the engine can keep the limit exactly, and so must accept it.
    pub fn can_be_kept(&self) -> bool {
        let (capacity, period) = (self.capacity(), self.period());
        if capacity == 0 || period == 0 || period >= 1 << 63 {
            return false;
        }
        // Both counts of a sliding window have the bits of the limit, and the window's number the rest.
        let fits = |numbers: u128, counts: u32| bits(numbers - 1).max(2) + counts * bits(capacity.into()) <= WORD_BITS;
        match *self {
            Rule::Bucket { count, .. } => count > 0 && Scale::new(count, period, capacity).is_some(),
            Rule::Fixed { .. } => fits(CYCLE.div_ceil(period.into()), 1),
            Rule::Sliding { .. } => fits(CYCLE.div_ceil(period.into()), 2),
            Rule::Log { limit, .. } => limit < 1 << 18,
            Rule::Quota { .. } => bits(u128::from(TIME_MAX / period)) + bits(capacity.into()) <= WORD_BITS,
        }
    }

    /// For how long a key's word is told apart from an older one, in ns.
    pub fn memory(&self) -> u128 {
        match *self {
            Rule::Bucket { count, period, burst, .. } => {
                let scale = Scale::new(count, period, burst).expect("an accepted limit");
                (scale.token << (WORD_BITS - 1)) / (scale.a_ns * scale.ticks)
            }
            Rule::Fixed { period, .. } | Rule::Sliding { period, .. } => {
                let period = u128::from(period);
                (4 * period).max(CYCLE) - 3 * period - STALE.min(period)
            }
            Rule::Log { .. } | Rule::Quota { .. } => TIME_MAX.into(),
        }
    }
}

fn bits(n: u128) -> u32 {
    u128::BITS - n.leading_zeros()
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The numbers of a bucket.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// D: a token.
    token: u128,
    /// N: what a ns brings.
    a_ns: u128,
    /// The engine's ticks in a token.
    ticks: u128,
    /// How far the engine's level may be above the exact one: less than a tick.
    slack: i128,
    full: i128,
}

impl Scale {
    /// `None` when the bucket cannot be kept: more than 4 tokens a ns, or longer than 2^57 ticks to
    /// fill and 60 s.
    fn new(count: u64, period: u64, burst: u64) -> Option<Scale> {
        let g = gcd(count.into(), period.into());
        let (a_ns, token) = (u128::from(count) / g, u128::from(period) / g);
        // At most 2^127, 2^120 and 2^127 + 2^101.
        let full = u128::from(burst) * token;
        let longest = token << (WORD_BITS - 1);
        let span = a_ns * (full.div_ceil(a_ns) + STALE);
        if a_ns > 4 * token || span > longest {
            return None;
        }
        let ticks_a_ns = if a_ns <= 4 { 4 } else { 1 };
        let ticks = token.min(ticks_a_ns * token / a_ns).min(longest / span).max(1);
        let is_exact = (a_ns * ticks).is_multiple_of(token);
        let slack = if is_exact { 0 } else { token.div_ceil(ticks) - 1 };
        Some(Scale { token, a_ns, ticks, slack: slack.cast_signed(), full: full.cast_signed() })
    }

    /// Nanoseconds until `missing` has come.
    fn wait(&self, missing: i128) -> u128 {
        u128::try_from(missing).map_or(0, |missing| missing.div_ceil(self.a_ns))
    }

    fn tokens(&self, level: i128) -> u64 {
        u64::try_from(level.clamp(0, self.full) / self.token.cast_signed()).expect("at most the burst")
    }
}

/// One time for the whole limiter, which never goes back.
#[derive(Clone, Debug, Default)]
struct Clock {
    latest: u128,
    offset: u128,
}

/// When a call is judged, and how far its own time is behind that.
#[derive(Clone, Copy, Debug)]
struct At {
    n: u128,
    lead: u128,
}

impl Clock {
    fn look(&self, now: u64) -> At {
        let n = u128::from(now.min(TIME_MAX)) + self.offset;
        match self.latest.checked_sub(n) {
            None | Some(0) => At { n, lead: 0 },
            Some(behind) if behind <= STALE => At { n: self.latest, lead: behind },
            Some(_) => At { n: self.latest, lead: 0 },
        }
    }

    fn at(&mut self, now: u64) -> At {
        let at = self.look(now);
        self.offset = (at.n - at.lead).saturating_sub(now.min(TIME_MAX).into());
        self.latest = at.n;
        at
    }
}

/// What one key has done so far.
#[derive(Clone, Debug)]
enum State {
    Level(i128),
    Window { number: u128, previous: u64, current: u64 },
    Log(Vec<(u128, u64)>),
}

#[derive(Clone, Debug)]
struct Key {
    state: State,
    /// When it was last charged.
    at: u128,
}

type Range = (u64, u64);

/// What may be answered.
#[derive(Clone, Debug)]
struct Answer {
    reason: Reason,
    remaining: Range,
    retry: Range,
    reset: Range,
    delay: Range,
    limit: u64,
}

impl Answer {
    fn is(&self, got: &Decision) -> bool {
        let within = |n: u64, (low, high): Range| low <= n && n <= high;
        got.reason() == self.reason
            && got.limit() == self.limit
            && within(got.remaining(), self.remaining)
            && within(got.retry_after_ns(), self.retry)
            && within(got.reset_after_ns(), self.reset)
            && within(got.delay_ns(), self.delay)
    }
}

/// What a call is to the limiter.
#[derive(Clone, Copy, Debug)]
pub struct Call<'k> {
    pub key: &'k [u8],
    pub cost: u64,
    pub now: u64,
    pub is_peek: bool,
}

/// A limiter with all the memory and all the time it wants.
#[derive(Clone, Debug)]
pub struct Model {
    rule: Rule,
    scale: Option<Scale>,
    clock: Clock,
    keys: HashMap<Vec<u8>, Key>,
}

impl Model {
    pub fn new(rule: Rule) -> Model {
        let scale = match rule {
            Rule::Bucket { count, period, burst, .. } => Scale::new(count, period, burst),
            _ => None,
        };
        Model { rule, scale, clock: Clock::default(), keys: HashMap::new() }
    }

    /// A call that asks nothing of any key, but moves the limiter's time.
    pub fn pass(&mut self, now: u64) {
        let _ = self.clock.at(now);
    }

    /// When a call at `now` would be judged.
    pub fn time(&self, now: u64) -> u128 {
        self.clock.look(now).n
    }

    /// How long ago a key was last charged when it is called at `now`; 0 for one that never was.
    pub fn rest(&self, key: &[u8], now: u64) -> u128 {
        self.keys.get(key).map_or(0, |key| self.clock.look(now).n - key.at)
    }

    /// The largest cost that would pass at `now`.
    pub fn remaining(&self, key: &[u8], now: u64) -> u64 {
        let at = self.clock.look(now);
        let call = Call { key, cost: 0, now, is_peek: true };
        self.answer(&self.state(key, at.n), call, at, true).1.remaining.0
    }

    /// Whether a key that is called at `now` is as good as never used.
    pub fn is_fresh(&self, key: &[u8], now: u64) -> bool {
        let at = self.clock.look(now);
        let call = Call { key, cost: 0, now, is_peek: true };
        self.answer(&self.state(key, at.n), call, at, true).1.reset.0 == 0
    }

    /// The limiter must have answered so. An allowed call that is no peek is charged.
    pub fn judge(&mut self, call: Call<'_>, got: &Decision) {
        let (at, want, after) = self.want(call, got);
        let state = self.state(call.key, at.n);
        assert!(want.is(got), "{}: {call:?}, {at:?}\n got {got:?}\nwant {want:?}\nfrom {state:?}", self.rule.text());
        self.clock.at(call.now);
        self.charge(call, at, got.is_allowed(), after);
    }

    /// Whether `judge` would agree.
    pub fn agrees(&self, call: Call<'_>, got: &Decision) -> bool {
        self.want(call, got).1.is(got)
    }

    /// When the call is judged, what is to be answered, and the state after it.
    fn want(&self, call: Call<'_>, got: &Decision) -> (At, Answer, State) {
        let at = self.clock.look(call.now);
        let state = self.state(call.key, at.n);
        let (may, must) = self.verdicts(&state, call.cost, at.n);
        let (after, want) = self.answer(&state, call, at, if got.is_allowed() { may } else { must });
        (at, want, after)
    }

    /// The same of the verdict alone.
    pub fn judge_verdict(&mut self, call: Call<'_>, got: bool) {
        let at = self.clock.at(call.now);
        let state = self.state(call.key, at.n);
        let (may, must) = self.verdicts(&state, call.cost, at.n);
        assert!(if got { may } else { !must }, "{}: {call:?}, {at:?}: got {got}\nfrom {state:?}", self.rule.text());
        let (after, _) = self.answer(&state, call, at, got);
        self.charge(call, at, got, after);
    }

    /// Whether an answer is at most as generous as the model's, which is charged with whatever was
    /// granted: the law of a table in which a newcomer may inherit a debt.
    pub fn judge_no_more_generous(&mut self, call: Call<'_>, got: &Decision) {
        let at = self.clock.at(call.now);
        let state = self.state(call.key, at.n);
        let (may, _) = self.verdicts(&state, call.cost, at.n);
        let (after, most) = self.answer(&state, call, at, got.is_allowed() && may);
        self.charge(call, at, got.is_allowed(), after);
        assert!(
            (may || !got.is_allowed())
                && got.limit() == self.rule.capacity()
                && got.remaining() <= most.remaining.1
                && got.retry_after_ns() >= if may { 0 } else { most.retry.0 }
                && got.reset_after_ns() >= most.reset.0
                && got.is_allowed() == (got.retry_after_ns() == 0),
            "{}: {call:?}, {at:?}\n got {got:?}\nmost {most:?}\nfrom {state:?}",
            self.rule.text()
        );
    }

    fn charge(&mut self, call: Call<'_>, at: At, allowed: bool, after: State) {
        if allowed && !call.is_peek && call.cost > 0 {
            self.keys.insert(call.key.to_vec(), Key { state: after, at: at.n });
        }
    }

    /// The key's state as it is at `n`.
    fn state(&self, key: &[u8], n: u128) -> State {
        let key = self.keys.get(key);
        match (&self.rule, key.map(|key| &key.state)) {
            (Rule::Bucket { .. }, state) => {
                let scale = self.scale();
                let Some(State::Level(level)) = state else { return State::Level(scale.full) };
                let brought = scale.a_ns.saturating_mul(n - key.expect("it has a state").at);
                State::Level(level.saturating_add_unsigned(brought.min(i128::MAX.cast_unsigned())).min(scale.full))
            }
            (Rule::Log { period, .. }, state) => {
                let Some(State::Log(calls)) = state else { return State::Log(Vec::new()) };
                State::Log(calls.iter().filter(|(t, _)| n < t + u128::from(*period)).copied().collect())
            }
            (_, state) => {
                let now = n / u128::from(self.rule.period());
                match state {
                    Some(State::Window { number, previous, current }) if *number == now => {
                        State::Window { number: now, previous: *previous, current: *current }
                    }
                    Some(State::Window { number, current, .. }) if number + 1 == now => {
                        State::Window { number: now, previous: *current, current: 0 }
                    }
                    _ => State::Window { number: now, previous: 0, current: 0 },
                }
            }
        }
    }

    fn scale(&self) -> &Scale {
        self.scale.as_ref().expect("a bucket that can be kept")
    }

    /// Whether a call may, and whether it must be allowed.
    fn verdicts(&self, state: &State, cost: u64, n: u128) -> (bool, bool) {
        if cost == 0 || cost > self.rule.capacity() {
            return (cost == 0, cost == 0);
        }
        if let State::Level(level) = state {
            let scale = self.scale();
            let missing = (u128::from(cost) * scale.token).cast_signed() - level;
            return (missing <= scale.slack, missing <= 0);
        }
        let must = i128::from(cost) <= self.left(state, n);
        (must, must)
    }

    /// What is left of a counter or a log at `n`; negative when the weights of a window overshoot.
    fn left(&self, state: &State, n: u128) -> i128 {
        let used = match (&self.rule, state) {
            (Rule::Log { period, .. }, State::Log(calls)) => {
                calls.iter().filter(|(t, _)| n < t + u128::from(*period)).map(|(_, cost)| u128::from(*cost)).sum()
            }
            (Rule::Sliding { period, strict, .. }, State::Window { number, previous, current }) => {
                let w = u128::from(*period);
                let (previous, current) = match n / w - number {
                    0 => (*previous, *current),
                    1 => (*current, 0),
                    _ => (0, 0),
                };
                let weight = u128::from(previous) * (w - n % w);
                u128::from(current) + if *strict { weight.div_ceil(w) } else { weight / w }
            }
            (_, State::Window { current, .. }) => u128::from(*current),
            _ => unreachable!("a bucket has a level"),
        };
        i128::from(self.rule.capacity()) - used.cast_signed()
    }

    /// The state after the call and its answer, given the verdict.
    fn answer(&self, state: &State, call: Call<'_>, at: At, allowed: bool) -> (State, Answer) {
        let capacity = self.rule.capacity();
        let reason = match allowed {
            true => Reason::Allowed,
            false if call.cost > capacity => Reason::CostAboveLimit,
            false => Reason::Limited,
        };
        let charged = if allowed { call.cost } else { 0 };
        // A wait as it is reported: from the call's own time, and one below "never" if it does not fit.
        let wait = |ns: u128| if ns == 0 { 0 } else { u64::try_from(ns + at.lead).unwrap_or(NEVER).min(NEVER - 1) };
        let retry = |low: u128, high: u128| match reason {
            Reason::Allowed => (0, 0),
            Reason::Limited => (wait(low), wait(high)),
            _ => (NEVER, NEVER),
        };
        let both = |n: u64| (n, n);
        let n = at.n;
        let mut after = state.clone();
        let answer = match &mut after {
            State::Level(level) => {
                let (scale, before) = (self.scale(), *level);
                let cost = |units: u64| (u128::from(units) * scale.token).cast_signed();
                // What a wait may be when the engine's level is up to `slack` above.
                let range = |missing: i128| (scale.wait(missing - scale.slack), scale.wait(missing));
                let report = |(low, high): (u128, u128)| (wait(low), wait(high));
                *level -= cost(charged);
                let level = *level;
                let is_delayed = allowed && matches!(self.rule, Rule::Bucket { kind: Kind::Queue, .. });
                let short = if reason == Reason::Limited { range(cost(call.cost) - before) } else { (0, 0) };
                Answer {
                    reason,
                    limit: capacity,
                    remaining: (scale.tokens(level), scale.tokens(level + scale.slack)),
                    retry: retry(short.0.max(1), short.1),
                    reset: report(range(scale.full - level)),
                    delay: if is_delayed { report(range(scale.full - before)) } else { (0, 0) },
                }
            }
            State::Window { previous, current, .. } => {
                *current += charged;
                let w = u128::from(self.rule.period());
                let (previous, current) = (*previous, *current);
                let end = w - n % w;
                let reset = match &self.rule {
                    Rule::Sliding { .. } if current > 0 => w + end,
                    Rule::Sliding { .. } if previous > 0 => end,
                    Rule::Sliding { .. } => 0,
                    _ if current > 0 => end,
                    _ => 0,
                };
                // While nothing is charged what is left never falls, and in the end it is everything.
                let first = match &self.rule {
                    Rule::Sliding { .. } if reason == Reason::Limited => {
                        first_after(n, n + 2 * w, |t| self.left(&after, t) >= i128::from(call.cost)) - n
                    }
                    _ => end,
                };
                let remaining = both(self.left(&after, n).max(0) as u64);
                Answer { reason, limit: capacity, remaining, retry: retry(first, first), reset: both(wait(reset)), delay: (0, 0) }
            }
            State::Log(calls) => {
                if charged > 0 {
                    calls.push((n, charged));
                }
                let ends: Vec<u128> = calls.iter().map(|(t, _)| t + u128::from(self.rule.period())).collect();
                let fits = |t: &&u128| self.left(&after, **t) >= i128::from(call.cost);
                let first = ends.iter().find(fits).map_or(0, |t| t - n);
                let reset = ends.last().map_or(0, |t| t - n);
                let remaining = both(self.left(&after, n) as u64);
                Answer { reason, limit: capacity, remaining, retry: retry(first, first), reset: both(wait(reset)), delay: (0, 0) }
            }
        };
        (after, answer)
    }
}

/// The first of `no + 1 ..= yes` at which `is` holds, which goes on holding.
fn first_after(mut no: u128, mut yes: u128, is: impl Fn(u128) -> bool) -> u128 {
    while yes - no > 1 {
        let middle = u128::midpoint(no, yes);
        if is(middle) { yes = middle } else { no = middle }
    }
    yes
}
