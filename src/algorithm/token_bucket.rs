//! Token bucket: capacity `burst`, continuous refill at the rate, a cost for each call.
//!
//! What must be remembered of a key is how much was spent and when. Both are kept in ticks, and a
//! token is a whole number of them (`ticks.rs`). Spending d at stamp s is the same state as spending
//! d-1 at stamp s+1, so only one of these pairs is ever stored: the one whose stamp is the coarse
//! line at or below the instant when nothing is owed any more. Side by side, that stamp and what is
//! spent past it are the binary number `full_at`, modulo 2^58:
//!
//! ```text
//!  57                          k                        0
//! ┌─────────────────────────────┬───────────────────────┐
//! │ stamp, in steps of 2^k ticks│ ticks spent past it   │   for every k: full_at
//! └─────────────────────────────┴───────────────────────┘
//! ```
//!
//! With T the tick of now and d = (`full_at` - T) modulo 2^58:
//!
//! | d | the key |
//! |---|---|
//! | 0, or above 2^57 | owes nothing: full again, or never used; may be forgotten |
//! | up to the legal debt | owes d ticks |
//! | between | cannot be: the clock or the memory lied, or years went by (below). The key's own word is read as empty once, and mended; a floor, or what another key left, as nothing |
//!
//! To charge is to move `full_at` forward by cost * m ticks if it then lies within the capacity of
//! T. No division, no rounding: the one floor was taken at the clock. Whatever the exact bucket
//! admits is admitted, and what is admitted beyond it in any interval is less than one tick. A key
//! idle for longer than 2^57 ticks (4.5 years at 1 ns) is read as empty once, then as it is.
//!
//! Source: the virtual scheduling form of the generic cell rate algorithm (ITU-T I.371, annex A).

use super::{Answer, Ask, retry, wait};
use crate::decision::{Decision, NEVER, Reason};
use crate::guard::Moment;
use crate::plan::{AHEAD, BucketPlan};
use crate::rule::{Keeper, Rank, Ring, Rule, Step, Timed};
use crate::word::{PAYLOAD_MASK, PlanId, Word};

/// One call of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'p> {
    plan: &'p BucketPlan,
    moment: Moment<'p>,
    /// The tick of now, modulo 2^64.
    tick: u64,
    ask: Ask,
}

/// What a step found, in ticks; the report is made of it outside the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome<'p> {
    /// Of the call as it was judged, which may be later than it began.
    moment: Moment<'p>,
    reason: Reason,
    /// Owed before the call.
    before: u64,
    /// Owed after it.
    owed: u64,
    /// What must run off before a refused call fits.
    short: u64,
}

impl<'p> Call<'p> {
    #[inline(always)]
    pub(crate) fn new(plan: &'p BucketPlan, moment: Moment<'p>, ask: Ask) -> Call<'p> {
        Call { plan, moment, tick: plan.rate.tick(moment.now), ask }
    }

    /// What `word` owes; `None` for a word that cannot be.
    #[inline(always)]
    fn read(&self, word: Word) -> Option<u64> {
        let ahead = word.payload().wrapping_sub(self.tick) & PAYLOAD_MASK;
        if word.is_fresh() || ahead > AHEAD {
            Some(0)
        } else if ahead > self.plan.legal {
            None
        } else {
            Some(ahead)
        }
    }

    /// What `word`, which is not the caller's own, owes.
    fn owed(&self, word: Word) -> u64 {
        self.read(word).unwrap_or(0)
    }

    /// The word that owes `owed` ticks.
    #[inline(always)]
    fn owing(&self, owed: u64) -> Word {
        Word::new(PlanId::ONLY, self.tick.wrapping_add(owed) & PAYLOAD_MASK)
    }

    /// Judges the call of a key that owes `before`.
    #[inline(always)]
    fn judge(&self, before: u64) -> Step<Outcome<'p>> {
        let (plan, moment) = (self.plan, self.moment);
        let refused = |reason, short| Step::Keep(Outcome { moment, reason, before, owed: before, short });
        if self.ask.cost > plan.limit {
            return refused(Reason::CostAboveLimit, 0);
        }
        // cost <= limit, so the product is at most the capacity: below 2^58 with `before`.
        let owed = before + self.ask.cost * plan.token;
        if owed > plan.capacity && self.ask.cost > 0 {
            let reason = if plan.rate.is_stopped() { Reason::NeverRefills } else { Reason::Limited };
            return refused(reason, owed - plan.capacity);
        }
        let outcome = Outcome { moment, reason: Reason::Allowed, before, owed, short: 0 };
        if self.ask.charges() { Step::Write(self.owing(owed), outcome) } else { Step::Keep(outcome) }
    }

    /// Nanoseconds from the call's own time, judged at `moment`, until `ticks` have run off.
    #[inline(always)]
    fn until(&self, ticks: u64, moment: Moment<'_>) -> u64 {
        let rate = &self.plan.rate;
        if ticks == 0 {
            0
        } else if rate.is_stopped() {
            NEVER
        } else if rate.is_one() {
            wait(u128::from(ticks), moment.lead)
        } else {
            let at = rate.at_least(rate.tick_exact(moment.now) + u128::from(ticks));
            wait(at - u128::from(moment.now), moment.lead)
        }
    }
}

impl Timed for Call<'_> {
    fn again(&self) -> Self {
        self.moment.again().map_or(*self, |moment| Call::new(self.plan, moment, self.ask))
    }
}

impl Keeper for Call<'_> {
    fn rank(&self, word: Word, _ring: Ring<'_>) -> Rank {
        match self.owed(word) {
            0 => Rank::IDLE,
            owed if self.plan.rate.is_stopped() => Rank { ns: NEVER, units: owed },
            owed => Rank { ns: self.plan.rate.span(owed), units: owed },
        }
    }

    fn join(&self, a: Word, b: Word) -> Word {
        if self.owed(b) > self.owed(a) { b } else { a }
    }

    fn adopt(&self, word: Word, floor: Word, _ring: Ring<'_>) -> Option<Word> {
        Some(self.owing(self.owed(self.join(word, floor))))
    }
}

impl<'p> Rule for Call<'p> {
    type Outcome = Outcome<'p>;
    type Keeper = Self;

    fn keeper(&self) -> Self {
        Call::new(self.plan, self.moment.published(), self.ask)
    }

    #[inline(always)]
    fn step(&self, word: Word, _ring: Ring<'_>) -> Step<Outcome<'p>> {
        match self.read(word) {
            Some(owed) => self.judge(owed),
            // Mended whoever asks, a peek too, so that what is reported comes true.
            None => self.judge(self.plan.capacity).mending(|| self.owing(self.plan.capacity)),
        }
    }

    fn newcomer(&self, word: Word, floor: Word, _ring: Ring<'_>) -> Step<Outcome<'p>> {
        self.judge(self.owed(word).max(self.owed(floor)))
    }
}

impl<'p> Answer for Call<'p> {
    #[inline(always)]
    fn is_allowed(&self, outcome: &Outcome<'p>) -> bool {
        outcome.reason == Reason::Allowed
    }

    #[inline(always)]
    fn decide(&self, outcome: &Outcome<'p>) -> Decision {
        let plan = self.plan;
        let allowed = outcome.reason == Reason::Allowed;
        let until = |ticks| self.until(ticks, outcome.moment);
        Decision {
            reason: outcome.reason,
            limit: plan.limit,
            remaining: (plan.capacity - outcome.owed.min(plan.capacity)) / plan.token,
            retry_after_ns: retry(outcome.reason, || until(outcome.short)),
            reset_after_ns: until(outcome.owed),
            delay_ns: if plan.queue && allowed { until(outcome.before) } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(plan: &BucketPlan, now: u64, cost: u64) -> Call<'_> {
        Call::new(plan, Moment::at(now), Ask { cost, peek: false })
    }

    #[test]
    fn a_word_from_the_impossible_future_reads_as_empty_once() {
        let plan = BucketPlan::new(1, 1_000_000_000, 5, false).unwrap();
        let now = 1_700_000_000_000_000_000;
        let lie = Word::new(PlanId::ONLY, (now + (1 << 56)) & PAYLOAD_MASK);
        for (cost, reason) in [(0, Reason::Allowed), (1, Reason::Limited)] {
            let Step::Mend(_, outcome) = call(&plan, now, cost).step(lie, Ring::NONE) else { panic!("not mended") };
            assert_eq!((outcome.reason, outcome.owed), (reason, plan.capacity));
        }
        let Step::Mend(mended, _) = call(&plan, now, 1).step(lie, Ring::NONE) else { panic!("not mended") };
        assert!(matches!(call(&plan, now + 1_000_000_000, 1).step(mended, Ring::NONE), Step::Write(..)));
    }

    #[test]
    fn words_compare_modulo_their_width() {
        let plan = BucketPlan::new(1, 1, 4, false).unwrap();
        for now in [(1 << 58) - 2, (1 << 58) - 1, 1 << 58, (1 << 60) - 1] {
            let Step::Write(word, _) = call(&plan, now, 4).step(Word::FRESH, Ring::NONE) else { panic!("refused") };
            assert!(matches!(call(&plan, now, 1).step(word, Ring::NONE), Step::Keep(Outcome { short: 1, .. })));
            assert!(matches!(call(&plan, now + 1, 1).step(word, Ring::NONE), Step::Write(..)));
        }
    }

    #[test]
    fn nobody_inherits_what_cannot_be() {
        let plan = BucketPlan::new(1, 1_000_000_000, 5, false).unwrap();
        let now = 1_700_000_000_000_000_000;
        let lie = Word::new(PlanId::ONLY, (now + (1 << 56)) & PAYLOAD_MASK);
        let call = call(&plan, now, 5);
        assert!(matches!(call.newcomer(lie, Word::FRESH, Ring::NONE), Step::Write(..)));
        assert!(matches!(call.newcomer(Word::FRESH, lie, Ring::NONE), Step::Write(..)));
        assert!(call.rank(lie, Ring::NONE).is_idle());
    }

    #[test]
    fn the_join_owes_what_the_larger_owes() {
        let plan = BucketPlan::new(1, 1000, 4, false).unwrap();
        let at = call(&plan, 5000, 0);
        let (small, large) = (at.owing(10), at.owing(20));
        assert_eq!(at.join(small, large), large);
        assert_eq!(at.join(large, small), large);
        assert_eq!(at.join(Word::FRESH, small), small);
        assert_eq!(at.join(small, Word::FRESH), small);
    }
}
