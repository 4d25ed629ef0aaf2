//! Sliding window log: at most `limit` in any (t - W, t], exactly.
//!
//! A log remembers every admitted call of the last W ns. The word says where the log lies in the
//! slot's ring, which has room for `limit` units; a call of cost c takes c positions and writes the
//! first. The head only counts up, and a position's lap (how often the head has come by) is in its cell,
//! so that whoever means to replace the cell of one lap does not replace that of the next.
//!
//! ```text
//!  57                  2b                  b                   0
//! ┌─────────────────────┬───────────────────┬───────────────────┐
//! │ head, modulo        │ length of newest  │ used: head - tail │   b = bits of the limit
//! └─────────────────────┴───────────────────┴───────────────────┘
//!
//! ring, R = 2^r positions of two cells     ──┬────────┬────────────┬───────────┬────────┬──
//!   2p    lap and length of the call at p    │ expired│ oldest ... │ newest    │  free  │
//!   2p+1  its time                         ──┴────────┴────────────┴───────────┴────────┴──
//!                                                      tail                     head
//! ```
//!
//! A call is admitted by the compare-and-swap of the word alone. What it needs in the ring is there
//! before: (1) the length of the newest call, which until then stands in the word only, is copied to
//! its cell, if the word still says so after the cell was read; whoever does it writes the same. (2) The time cell at the head is *raised* to the call's
//! time. If several calls race for the head, the winner's time is the latest of theirs: a time at
//! which the winner was still under way, so that its call is judged at the latest time seen.
//!
//! A caller that sleeps for a whole period between reading the word and step (2) could raise the time
//! of an entry that has come to lie there: that entry would leave later, never earlier.
//!
//! The work is constant for each admitted call: every entry is written once, and passed once when it
//! has expired. A refused call walks no further than the entries that must leave before it fits.
//!
//! A newcomer takes only an idle slot: a log cannot be inherited in part. While all keys of a full
//! group are in debt, newcomers are refused until the first of them is idle (at most W).

use super::{Answer, Ask, reason, retry, wait};
use crate::decision::{Decision, Reason};
use crate::guard::Moment;
use crate::plan::LogPlan;
use crate::rule::{Keeper, Rank, Ring, Rule, Step, Timed};
use crate::word::{PAYLOAD_BITS, PlanId, Word, low};

/// One call of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'p> {
    plan: &'p LogPlan,
    moment: Moment<'p>,
    ask: Ask,
}

/// The word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Log {
    head: u64,
    newest: u64,
    used: u64,
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    reason: Reason,
    /// Units in sight after the call.
    used: u64,
    /// When a refused call fits.
    fits_at: u64,
    /// When the newest unit has left.
    fresh_at: u64,
}

impl<'p> Call<'p> {
    #[inline(always)]
    pub(crate) fn new(plan: &'p LogPlan, moment: Moment<'p>, ask: Ask) -> Call<'p> {
        Call { plan, moment, ask }
    }

    fn head_bits(&self) -> u32 {
        PAYLOAD_BITS - 2 * self.plan.count_bits
    }

    fn unpack(&self, word: Word) -> Log {
        let b = self.plan.count_bits;
        let payload = word.payload();
        Log { head: payload >> (2 * b), newest: payload >> b & low(b), used: payload & low(b) }
    }

    fn pack(&self, log: Log) -> Word {
        let b = self.plan.count_bits;
        Word::new(PlanId::ONLY, (log.head & low(self.head_bits())) << (2 * b) | log.newest << b | log.used)
    }

    /// The cells of position `at`: its index in the ring, and its lap.
    fn place(&self, at: u64) -> (usize, u64) {
        let at = at & low(self.head_bits());
        ((at & low(self.plan.ring_bits)) as usize, at >> self.plan.ring_bits)
    }

    fn time(&self, at: u64, ring: Ring<'_>) -> u64 {
        ring.get(2 * self.place(at).0 + 1)
    }

    /// The length of the call at `at`, which is not the newest. In a word that has been replaced
    /// meanwhile it may be anything; 1 to `most` keeps the walk inside, and the table looks again.
    fn length(&self, at: u64, most: u64, ring: Ring<'_>) -> u64 {
        (ring.get(2 * self.place(at).0) & low(self.plan.count_bits)).clamp(1, most)
    }

    /// Walks the calls from `left` units before the head on, oldest first, for as long as `pass` says
    /// so of a call's time and of what is left; gives what is left then.
    fn walk(&self, log: Log, mut left: u64, ring: Ring<'_>, mut pass: impl FnMut(u64, u64) -> bool) -> u64 {
        while left > 0 {
            let at = log.head.wrapping_sub(left);
            if !pass(self.time(at, ring), left) {
                break;
            }
            left -= if left <= log.newest { left } else { self.length(at, left - log.newest, ring) };
        }
        left
    }

    /// When a unit of time `time` is gone.
    fn gone(&self, time: u64) -> u64 {
        time.saturating_add(self.plan.period)
    }

    /// The time of the newest call, 0 if there is none.
    fn latest(&self, log: Log, ring: Ring<'_>) -> u64 {
        if log.used == 0 { 0 } else { self.time(log.head.wrapping_sub(log.newest), ring) }
    }

    /// The time that the call is judged at: never before the newest in the log.
    fn now(&self, log: Log, ring: Ring<'_>) -> u64 {
        self.moment.now.max(self.latest(log, ring))
    }

    fn refused_until(&self, at: u64, used: u64, fresh_at: u64) -> Step<Outcome> {
        let reason = reason(false, self.ask.cost, self.plan.limit);
        Step::Keep(Outcome { reason, used, fits_at: at, fresh_at })
    }
}

impl Timed for Call<'_> {
    fn again(&self) -> Self {
        self.moment.again().map_or(*self, |moment| Call::new(self.plan, moment, self.ask))
    }
}

impl Keeper for Call<'_> {
    const RING: bool = true;

    fn rank(&self, word: Word, ring: Ring<'_>) -> Rank {
        let log = self.unpack(word);
        if log.used == 0 {
            return Rank::IDLE;
        }
        Rank { ns: self.gone(self.latest(log, ring)).saturating_sub(self.moment.now), units: log.used }
    }

    fn raise(&self, floor: Word, word: Word, ring: Ring<'_>) -> Word {
        let log = self.unpack(word);
        let gone = if log.used == 0 { 0 } else { self.gone(self.latest(log, ring)) };
        Word(floor.0.max(gone))
    }

    /// Logs are not moved, so only `a` itself is ever asked for.
    fn join(&self, a: Word, _b: Word) -> Word {
        a
    }

    fn adopt(&self, word: Word, floor: Word, ring: Ring<'_>) -> Option<Word> {
        let log = self.unpack(word);
        (log.used > 0 && floor.0 <= self.latest(log, ring)).then_some(word)
    }

    fn left_behind(&self, word: Word) -> Word {
        self.pack(Log { newest: 0, used: 0, ..self.unpack(word) })
    }
}

impl Rule for Call<'_> {
    type Outcome = Outcome;
    type Keeper = Self;

    fn keeper(&self) -> Self {
        Call::new(self.plan, self.moment.published(), self.ask)
    }

    fn step(&self, word: Word, ring: Ring<'_>) -> Step<Outcome> {
        let (limit, cost) = (self.plan.limit, self.ask.cost);
        let log = self.unpack(word);
        let now = self.now(log, ring);
        let used = self.walk(log, log.used, ring, |time, _| self.gone(time) <= now);
        let fresh_at = if used == 0 { 0 } else { self.gone(self.latest(log, ring)) };
        if cost > limit {
            return self.refused_until(now, used, fresh_at);
        }
        if cost > 0 && used > limit - cost {
            let mut fits_at = now;
            self.walk(log, used, ring, |time, left| {
                let must_leave = left > limit - cost;
                if must_leave {
                    fits_at = self.gone(time);
                }
                must_leave
            });
            return self.refused_until(fits_at, used, fresh_at);
        }
        if !self.ask.charges() {
            let (used, fresh_at) = if cost > 0 { (used + cost, self.gone(now)) } else { (used, fresh_at) };
            return Step::Keep(Outcome { reason: Reason::Allowed, used, fits_at: 0, fresh_at });
        }
        let after = Log { head: log.head.wrapping_add(cost), newest: cost, used: used + cost };
        let outcome = Outcome { reason: Reason::Allowed, used: after.used, fits_at: 0, fresh_at: self.gone(now) };
        Step::Write(self.pack(after), outcome)
    }

    /// The floor is no log but an instant, in all 64 bits: when whatever was evicted has left.
    fn newcomer(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<Outcome> {
        let until = floor.0;
        if self.ask.cost > 0 && until > self.moment.now {
            return self.refused_until(until, self.plan.limit, until);
        }
        self.step(word, ring)
    }

    fn heir(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<Outcome> {
        let floor = self.raise(floor, word, ring);
        self.newcomer(self.left_behind(word), floor, ring)
    }

    fn before_write(&self, old: Word, _new: Word, ring: Ring<'_>, is_old: impl Fn() -> bool) {
        let log = self.unpack(old);
        if log.newest > 0 {
            let b = self.plan.count_bits;
            let (cell, lap) = self.place(log.head.wrapping_sub(log.newest));
            let (held, new) = (ring.get(2 * cell), lap << b | log.newest);
            // A caller that slept since it read `old` may find a newer call's, which it leaves alone.
            if held != new && is_old() {
                ring.replace(2 * cell, held, new);
            }
        }
        ring.raise(2 * self.place(log.head).0 + 1, self.now(log, ring));
    }
}

impl Answer for Call<'_> {
    fn is_allowed(&self, outcome: &Outcome) -> bool {
        outcome.reason == Reason::Allowed
    }

    fn decide(&self, outcome: &Outcome) -> Decision {
        let until = |at: u64| wait(u128::from(at.saturating_sub(self.moment.now)), self.moment.lead);
        Decision {
            reason: outcome.reason,
            limit: self.plan.limit,
            remaining: self.plan.limit.saturating_sub(outcome.used),
            retry_after_ns: retry(outcome.reason, || until(outcome.fits_at)),
            reset_after_ns: until(outcome.fresh_at),
            delay_ns: 0,
        }
    }
}
