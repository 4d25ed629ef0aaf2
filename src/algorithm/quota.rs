//! Quota: at most `limit` in each calendar period (hour, day, week, month, year) of a zone.
//!
//! ```text
//!  57                       b                              0
//! ┌──────────────────────────┬──────────────────────────────┐
//! │ period number since 1970 │ count (b = bits of the limit)│
//! └──────────────────────────┴──────────────────────────────┘
//! ```
//!
//! A quota is a fixed window whose edges come from a calendar (`plan::calendar`); the count, the
//! verdict and the report are the window's. Numbers do not wrap: the calendar has an end, 18 years after
//! the latest time that is told apart. A number ahead of now's means that the call is late; it is judged at the start of the stored period.

use super::fixed_window::{Count, Outcome};
use super::{Answer, Ask};
use crate::decision::Decision;
use crate::guard::Moment;
use crate::plan::{Period, QuotaPlan};
use crate::rule::{Keeper, Rank, Ring, Rule, Step, Timed};
use crate::word::{PlanId, Word, low};

/// One call of a quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'p> {
    plan: &'p QuotaPlan,
    moment: Moment<'p>,
    period: Period,
    ask: Ask,
}

impl<'p> Call<'p> {
    #[inline]
    pub(crate) fn new(plan: &'p QuotaPlan, moment: Moment<'p>, ask: Ask) -> Call<'p> {
        Call { plan, moment, period: plan.calendar.period(moment.now), ask }
    }

    fn read(&self, word: Word) -> Count {
        let stored = word.payload() >> self.plan.count_bits;
        let used = word.payload() & low(self.plan.count_bits);
        let at = |period: Period, used| Count {
            number: period.index,
            used,
            until_end: period.end.saturating_sub(self.moment.now).max(1),
        };
        if word.is_fresh() || stored < self.period.index || stored > self.plan.last {
            at(self.period, 0)
        } else if stored == self.period.index {
            at(self.period, used)
        } else {
            at(self.plan.calendar.numbered(stored), used)
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

    #[inline]
    fn step(&self, word: Word, _ring: Ring<'_>) -> Step<Outcome> {
        self.read(word).judge(self.plan.limit, self.ask, self.moment.lead, |count| self.word(count))
    }

    fn newcomer(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<Outcome> {
        self.step(self.join(word, floor), ring)
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
