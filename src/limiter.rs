//! The limiter: the one place where keys, time, algorithms and the table meet.
//!
//! ```text
//! key ─ hash ─┐
//! now ─ guard ┼─ call (plan, moment, cost) ─ table: word ─ step ─ exchange ─ outcome ─ decision
//! cost ───────┘
//! ```

use crate::algorithm::{Answer, Ask, fixed_window, leaky_bucket, sliding_log, sliding_window, token_bucket};
use crate::clock::Clock;
use crate::decision::Decision;
use crate::guard::{Moment, TimeGuard};
use crate::hash::KeyHash;
use crate::limit::{Algorithm, Limit};
use crate::plan::{Plan, STALE, TIME_END, TIME_MAX};
use crate::statistics::Statistics;
use crate::table::{Hash, Size, Table};
use std::fmt;
use std::sync::Arc;

/// Calls of a batch that are under way together: their lines are asked for before the first is judged.
const BATCH: usize = 16;
const DEFAULT_TIME_GRAIN: u64 = 1_000_000;
const TIME_GRAIN_MAX: u64 = 1_000_000_000;

/// One limit over any number of keys, shared by any number of threads.
///
/// Every method takes `&self` and may be called from all threads at once. No call blocks, and a call
/// for a known key allocates nothing.
///
/// ```
/// use azud::{Limit, Limiter};
/// let limiter = Limiter::new("token-bucket 100/1m burst=2".parse()?)?;
/// assert!(limiter.allow("10.0.0.1", 1));
/// let decision = limiter.check("10.0.0.1", 1);
/// assert!(decision.is_allowed() && decision.remaining() == 0);
/// let refused = limiter.check("10.0.0.1", 1);
/// assert!(!refused.is_allowed() && refused.retry_after_ns() > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Limiter {
    plan: Arc<Plan>,
    hash: KeyHash,
    clock: Clock,
    table: Table,
    guard: TimeGuard,
    limit: Limit,
}

impl Limiter {
    /// A limiter with default settings.
    ///
    /// # Errors
    /// See [`LimiterBuilder::build`].
    pub fn new(limit: Limit) -> Result<Limiter, BuildError> {
        Limiter::builder(limit).build()
    }

    /// A limiter with settings.
    pub fn builder(limit: Limit) -> LimiterBuilder {
        LimiterBuilder { limit, max_memory: None, expected_keys: 0, time_grain: DEFAULT_TIME_GRAIN }
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// What the calls without a `now` read: nanoseconds since the Unix epoch, from a monotonic clock
    /// that counts suspended time (rates, windows) or from the wall clock (quotas).
    #[must_use]
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Charges `cost` units to `key` if the limit allows it; the verdict alone.
    ///
    /// Cost 0 is always allowed and charges nothing. An empty key is a key like any other.
    #[must_use]
    pub fn allow(&self, key: impl AsRef<[u8]>, cost: u64) -> bool {
        self.run(key.as_ref(), Ask { cost, peek: false }, || self.now(), AllowOnly)
    }

    /// [`allow`](Self::allow) at `now_ns`.
    ///
    /// Whoever gives the time gives it in every call of this limiter, from one clock: nanoseconds of
    /// any origin for buckets and logs, since the Unix epoch where windows or calendars are aligned. A
    /// time up to 60 s behind the latest is judged at the latest; one further behind says that the
    /// clock was set back, and time goes on from the latest. Times above 2^62 are taken as 2^62. (A
    /// thread that is held up for more than 60 s after it read its clock looks like a clock set back, and moves
    /// time forward for all keys; calls without a time ask the clock again instead.)
    #[must_use]
    pub fn allow_at(&self, key: impl AsRef<[u8]>, cost: u64, now_ns: u64) -> bool {
        self.run(key.as_ref(), Ask { cost, peek: false }, || now_ns, AllowOnly)
    }

    /// Charges `cost` units to `key` if the limit allows it.
    pub fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.run(key.as_ref(), Ask { cost, peek: false }, || self.now(), Decide)
    }

    /// [`check`](Self::check) at `now_ns`; see [`allow_at`](Self::allow_at) for what may be given.
    pub fn check_at(&self, key: impl AsRef<[u8]>, cost: u64, now_ns: u64) -> Decision {
        self.run(key.as_ref(), Ask { cost, peek: false }, || now_ns, Decide)
    }

    /// What [`check`](Self::check) would answer now, charging nothing.
    pub fn peek(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.run(key.as_ref(), Ask { cost, peek: true }, || self.now(), Decide)
    }

    /// [`peek`](Self::peek) at `now_ns`.
    pub fn peek_at(&self, key: impl AsRef<[u8]>, cost: u64, now_ns: u64) -> Decision {
        self.run(key.as_ref(), Ask { cost, peek: true }, || now_ns, Decide)
    }

    /// Checks many calls (key, cost) in order, as single calls would, with one reading of the clock and
    /// with the table's lines asked for ahead. `out` is cleared and gets one decision for each call.
    pub fn check_batch<K: AsRef<[u8]>>(&self, calls: &[(K, u64)], out: &mut Vec<Decision>) {
        out.clear();
        self.batch(calls.iter().map(borrowed), || self.now(), |decision| out.push(decision));
    }

    /// [`check_batch`](Self::check_batch) at `now_ns`.
    pub fn check_batch_at<K: AsRef<[u8]>>(&self, calls: &[(K, u64)], now_ns: u64, out: &mut Vec<Decision>) {
        out.clear();
        self.check_batch_each(calls.iter().map(borrowed), now_ns, |decision| out.push(decision));
    }

    /// The batch without a vector: `sink` gets one decision for each call, in order.
    pub fn check_batch_each<'k>(
        &self,
        calls: impl IntoIterator<Item = (&'k [u8], u64)>,
        now_ns: u64,
        sink: impl FnMut(Decision),
    ) {
        self.batch(calls.into_iter(), || now_ns, sink);
    }

    /// The batch at the time that `clock` says, which is asked again where one reading is not enough.
    pub(crate) fn batch<'k>(
        &self,
        calls: impl Iterator<Item = (&'k [u8], u64)>,
        clock: impl Fn() -> u64,
        mut sink: impl FnMut(Decision),
    ) {
        let moment = self.guard.moment(clock);
        let mut calls = calls.map(|(key, cost)| (self.hash_of(key), Ask { cost, peek: false }));
        loop {
            let mut chunk = [None; BATCH];
            for place in &mut chunk {
                *place = calls.next();
            }
            // The visit ends before the caller's code runs again: it keeps old tables from being freed.
            let visit = self.table.visit();
            for (hash, _) in chunk.iter().flatten() {
                visit.prefetch(*hash);
            }
            let decisions = chunk.map(|call| call.map(|(hash, ask)| self.answer(hash, ask, moment, Decide)));
            drop(visit);
            decisions.into_iter().flatten().for_each(&mut sink);
            if chunk[BATCH - 1].is_none() {
                return;
            }
        }
    }

    /// What the limiter counts about itself.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let counts = self.table.counts();
        Statistics {
            keys: counts.keys,
            capacity: counts.capacity,
            memory_bytes: counts.bytes,
            generations: 1 + counts.growths + counts.shrinks,
            growths: counts.growths,
            shrinks: counts.shrinks,
            takeovers_idle: counts.took_idle,
            takeovers_indebted: counts.took_indebted,
        }
    }

    /// Gives back the memory of idle keys when most are idle. Calls do this as they come by; this is
    /// for a process without traffic, or with a moment to spare: it looks at every slot.
    pub fn maintain(&self) {
        self.maintain_by(|| self.now());
    }

    /// [`maintain`](Self::maintain) at `now_ns`.
    pub fn maintain_at(&self, now_ns: u64) {
        self.maintain_by(|| now_ns);
    }

    fn maintain_by(&self, clock: impl Fn() -> u64) {
        let moment = self.guard.moment(clock).published();
        let ask = Ask { cost: 0, peek: true };
        match &*self.plan {
            Plan::Bucket(plan) => self.table.maintain(&token_bucket::Call::new(plan, moment, ask)),
            Plan::FixedWindow(plan) => self.table.maintain(&fixed_window::Call::new(plan, moment, ask)),
            Plan::SlidingWindow(plan) => self.table.maintain(&sliding_window::Call::new(plan, moment, ask)),
            Plan::SlidingLog(plan) => self.table.maintain(&sliding_log::Call::new(plan, moment, ask)),
            #[cfg(feature = "quota")]
            Plan::Quota(plan) => self.table.maintain(&crate::algorithm::quota::Call::new(plan, moment, ask)),
        }
    }

    #[inline(always)]
    fn hash_of(&self, key: &[u8]) -> Hash {
        Hash::new(self.hash.of(key))
    }

    #[inline(always)]
    fn run<V: View>(&self, key: &[u8], ask: Ask, clock: impl Fn() -> u64, view: V) -> V::Answer {
        self.answer(self.hash_of(key), ask, self.guard.moment(clock), view)
    }

    /// One call: the plan's algorithm, the table, the answer.
    #[inline(always)]
    fn answer<V: View>(&self, hash: Hash, ask: Ask, moment: Moment<'_>, view: V) -> V::Answer {
        match &*self.plan {
            Plan::Bucket(plan) => self.through(hash, leaky_bucket::Call::new(plan, moment, ask), view),
            Plan::FixedWindow(plan) => self.through(hash, fixed_window::Call::new(plan, moment, ask), view),
            Plan::SlidingWindow(plan) => self.through(hash, sliding_window::Call::new(plan, moment, ask), view),
            Plan::SlidingLog(plan) => self.through(hash, sliding_log::Call::new(plan, moment, ask), view),
            #[cfg(feature = "quota")]
            Plan::Quota(plan) => self.through(hash, crate::algorithm::quota::Call::new(plan, moment, ask), view),
        }
    }

    #[inline(always)]
    fn through<A: Answer, V: View>(&self, hash: Hash, call: A, view: V) -> V::Answer {
        let outcome = self.table.visit().call(hash, call);
        view.of(&call, &outcome)
    }
}

/// A call of a batch, borrowed.
fn borrowed<K: AsRef<[u8]>>((key, cost): &(K, u64)) -> (&[u8], u64) {
    (key.as_ref(), *cost)
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter").field("limit", &self.limit).field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

/// How much of the answer is asked for.
trait View: Copy {
    type Answer;
    fn of<A: Answer>(self, call: &A, outcome: &A::Outcome) -> Self::Answer;
}

#[derive(Clone, Copy)]
struct AllowOnly;

impl View for AllowOnly {
    type Answer = bool;
    #[inline(always)]
    fn of<A: Answer>(self, call: &A, outcome: &A::Outcome) -> bool {
        call.is_allowed(outcome)
    }
}

#[derive(Clone, Copy)]
struct Decide;

impl View for Decide {
    type Answer = Decision;
    #[inline(always)]
    fn of<A: Answer>(self, call: &A, outcome: &A::Outcome) -> Decision {
        call.decide(outcome)
    }
}

/// Settings of a limiter.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct LimiterBuilder {
    limit: Limit,
    max_memory: Option<u64>,
    expected_keys: u64,
    time_grain: u64,
}

impl LimiterBuilder {
    /// The ceiling on the table's memory, in bytes: 516 MiB unless set, for a table of 16.7 million slots.
    /// A slot takes 16.125 bytes. The table doubles for as long as twice the next size is under the
    /// ceiling, so that the sizes before it fit beside it while they are moved or looked at. At the
    /// ceiling, a new key in a full group takes the slot of the least indebted key, and its debt.
    ///
    /// A sliding log takes 16 bytes a unit and slot, and has its full size from the start (the system
    /// gives the pages as they are used); unless set, it has room for a group of 128 keys at least.
    pub fn max_memory(mut self, bytes: u64) -> LimiterBuilder {
        self.max_memory = Some(bytes);
        self
    }

    /// Keys to make room for at the start: 0, the smallest table, unless set. The table does not
    /// shrink below it.
    pub fn expected_keys(mut self, keys: u64) -> LimiterBuilder {
        self.expected_keys = keys;
        self
    }

    /// How far time must move, in ns, before a thread publishes it to the others: 1 ms unless set, at
    /// most 1 s. 0 makes the rule of late calls exact to the nanosecond, and threads share one more
    /// written line.
    pub fn time_grain(mut self, ns: u64) -> LimiterBuilder {
        self.time_grain = ns;
        self
    }

    /// The limiter.
    ///
    /// # Errors
    /// When the ceiling does not hold the smallest table, the grain is above 1 s, or the memory is not
    /// to be had.
    pub fn build(self) -> Result<Limiter, BuildError> {
        if self.time_grain > TIME_GRAIN_MAX {
            return Err(BuildError(Fault::TimeGrain(self.time_grain)));
        }
        let plan = self.limit.plan().clone();
        let cells = match &*plan {
            Plan::SlidingLog(plan) => 2 << plan.ring_bits,
            _ => 0,
        };
        let size = Size { max_bytes: self.max_memory, expected_keys: self.expected_keys, cells };
        let table = Table::new(size).map_err(|least| {
            BuildError(match self.max_memory {
                Some(max) if max < least => Fault::MaxMemory { max, least },
                _ => Fault::NoMemory,
            })
        })?;
        let clock = if self.limit.algorithm() == Algorithm::Quota { Clock::Wall } else { Clock::monotonic() };
        Ok(Limiter {
            plan,
            hash: KeyHash::random(),
            clock,
            table,
            guard: TimeGuard::new(self.time_grain, STALE, TIME_MAX, TIME_END),
            limit: self.limit,
        })
    }
}

/// Why a limiter cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError(Fault);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    /// `least`: bytes of the smallest table.
    MaxMemory {
        max: u64,
        least: u64,
    },
    TimeGrain(u64),
    /// The system does not give it.
    NoMemory,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::MaxMemory { max, least } => {
                write!(f, "max_memory is {max} bytes, the smallest table of this limit takes {least}; expected at least that")
            }
            Fault::TimeGrain(ns) => write!(f, "time_grain is {ns} ns; expected 0 to {TIME_GRAIN_MAX} ns (1 s)"),
            Fault::NoMemory => {
                f.write_str("the system does not give the memory for the table; expected a smaller expected_keys or max_memory")
            }
        }
    }
}

impl std::error::Error for BuildError {}
