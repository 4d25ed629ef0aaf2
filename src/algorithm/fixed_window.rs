//! Fixed window: at most `limit` in each window of W ns counted from the Unix epoch.
//!
//! ```text
//!  57                    b                              0
//! ┌───────────────────────┬──────────────────────────────┐
//! │ window number, modulo │ count (b = bits of the limit)│
//! └───────────────────────┴──────────────────────────────┘
//! ```
//!
//! | stored number, against now's | the key |
//! |---|---|
//! | the same | has used the count |
//! | ahead, within 60 s | the call is late: judged at the start of the stored window |
//! | further ahead, up to half of all numbers | cannot be; see `Step::Mend`. Has used nothing, and is mended |
//! | behind | has used nothing |
//!
//! In any W ns up to twice the limit can pass, half of it on each side of an edge. The number is kept
//! modulo at least 5 years of windows; a key that comes back after exactly that long finds its count.

use super::{Answer, Ask, reason, retry, wait};
use crate::decision::{Decision, Reason};
use crate::guard::Moment;
use crate::plan::WindowPlan;
use crate::rule::{Keeper, Rank, Ring, Rule, Step, Timed};
use crate::word::{PlanId, Word, low};

/// What is counted in a window, a period, or any other span that ends all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// The window or period that the call is judged in.
    pub(crate) number: u64,
    pub(crate) used: u64,
    /// Nanoseconds from the call's moment to its end.
    pub(crate) until_end: u64,
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    reason: Reason,
    after: Count,
    /// By how much the call was judged later than at its own time.
    lead: u64,
}

impl Count {
    /// Judges `ask` against `limit`; `word` makes the word of a count.
    #[inline(always)]
    pub(crate) fn judge(self, limit: u64, ask: Ask, lead: u64, word: impl FnOnce(Count) -> Word) -> Step<Outcome> {
        let allowed = ask.cost == 0 || ask.cost <= limit.saturating_sub(self.used);
        if !allowed {
            return Step::Keep(Outcome { reason: reason(false, ask.cost, limit), after: self, lead });
        }
        let after = Count { used: self.used + ask.cost, ..self };
        let outcome = Outcome { reason: Reason::Allowed, after, lead };
        if ask.charges() { Step::Write(word(after), outcome) } else { Step::Keep(outcome) }
    }

    pub(crate) fn rank(self) -> Rank {
        if self.used == 0 { Rank::IDLE } else { Rank { ns: self.until_end, units: self.used } }
    }

    /// Whether this owes more than `other`: it ends later, or it is the larger count.
    pub(crate) fn owes_more(self, other: Count) -> bool {
        self.used > 0 && (other.used == 0 || (self.until_end, self.used) > (other.until_end, other.used))
    }
}

impl Outcome {
    #[inline(always)]
    pub(crate) fn decide(&self, limit: u64) -> Decision {
        let Count { used, until_end, .. } = self.after;
        let end = || wait(u128::from(until_end), self.lead);
        Decision {
            reason: self.reason,
            limit,
            remaining: limit.saturating_sub(used),
            retry_after_ns: retry(self.reason, end),
            reset_after_ns: if used == 0 { 0 } else { end() },
            delay_ns: 0,
        }
    }

    pub(crate) fn is_allowed(&self) -> bool {
        self.reason == Reason::Allowed
    }
}

/// One call of a fixed window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'p> {
    plan: &'p WindowPlan,
    moment: Moment<'p>,
    number: u64,
    elapsed: u64,
    ask: Ask,
}

impl<'p> Call<'p> {
    #[inline(always)]
    pub(crate) fn new(plan: &'p WindowPlan, moment: Moment<'p>, ask: Ask) -> Call<'p> {
        let number = (moment.now / plan.period) & low(plan.number_bits);
        Call { plan, moment, number, elapsed: moment.now % plan.period, ask }
    }

    /// How many windows that of `word` is ahead of now's, modulo all of them.
    #[inline(always)]
    fn ahead(&self, word: Word) -> u64 {
        (word.payload() >> self.plan.count_bits).wrapping_sub(self.number) & low(self.plan.number_bits)
    }

    #[inline(always)]
    fn read(&self, word: Word) -> Count {
        let plan = self.plan;
        let ahead = self.ahead(word);
        if word.is_fresh() || ahead > plan.ahead {
            return Count { number: self.number, used: 0, until_end: plan.period - self.elapsed };
        }
        // ahead * period is at most 60 s and two periods, each below 2^63.
        let until_end = (u128::from(ahead) + 1) * u128::from(plan.period) - u128::from(self.elapsed);
        Count {
            number: word.payload() >> plan.count_bits,
            used: word.payload() & low(plan.count_bits),
            until_end: crate::ticks::saturate(until_end),
        }
    }

    fn word(&self, count: Count) -> Word {
        Word::new(PlanId::ONLY, count.number << self.plan.count_bits | count.used)
    }
}

impl Timed for Call<'_> {
    fn again(&self) -> Self {
        self.moment.again().map_or(*self, |moment| Call::new(self.plan, moment, self.ask))
    }
}

impl Keeper for Call<'_> {
    fn rank(&self, word: Word, _ring: Ring<'_>) -> Rank {
        self.read(word).rank()
    }

    fn join(&self, a: Word, b: Word) -> Word {
        if self.read(b).owes_more(self.read(a)) { b } else { a }
    }

    fn adopt(&self, word: Word, floor: Word, _ring: Ring<'_>) -> Option<Word> {
        Some(self.word(self.read(self.join(word, floor))))
    }
}

impl Rule for Call<'_> {
    type Outcome = Outcome;
    type Keeper = Self;

    fn keeper(&self) -> Self {
        Call::new(self.plan, self.moment.published(), self.ask)
    }

    #[inline(always)]
    fn step(&self, word: Word, _ring: Ring<'_>) -> Step<Outcome> {
        let count = self.read(word);
        let step = count.judge(self.plan.limit, self.ask, self.moment.lead, |count| self.word(count));
        let cannot_be = !word.is_fresh() && self.plan.cannot_be(self.ahead(word));
        if cannot_be { step.mending(|| self.word(count)) } else { step }
    }

    fn newcomer(&self, word: Word, floor: Word, _ring: Ring<'_>) -> Step<Outcome> {
        let owed = self.join(word, floor);
        self.read(owed).judge(self.plan.limit, self.ask, self.moment.lead, |count| self.word(count))
    }
}

impl Answer for Call<'_> {
    fn is_allowed(&self, outcome: &Outcome) -> bool {
        outcome.is_allowed()
    }

    fn decide(&self, outcome: &Outcome) -> Decision {
        outcome.decide(self.plan.limit)
    }
}
