//! Sliding window counter: two fixed windows, the previous one weighted by the share still in sight.
//!
//! ```text
//!  57                    2b                 b                  0
//! ┌───────────────────────┬──────────────────┬──────────────────┐
//! │ window number, modulo │ previous count   │ current count    │  b = bits of the limit
//! └───────────────────────┴──────────────────┴──────────────────┘
//! ```
//!
//! With e ns of the window gone, the estimate is previous * (W - e) / W + current. A call passes while
//! floor(estimate) + cost <= limit, or with `strict` while estimate + cost <= limit in exact
//! fractions; both are products of integers, no division. Strict bounds what passes in any t by
//! L + L * t / W and costs a caller paced exactly at the rate about one call a window; the floor lets
//! that caller pass and may admit one unit more. Up to almost 2 L can pass in W, as with a bucket of
//! capacity L; the exact ones are the bucket and the log.
//!
//! | stored number, against now's | the key |
//! |---|---|
//! | the same | has both counts |
//! | one behind | its current count is the previous one |
//! | ahead, within 60 s | the call is late: judged at the start of the stored window |
//! | further ahead, up to half of all numbers | cannot be; see `Step::Mend`. Has used nothing, and is mended |
//! | further behind | has used nothing |
//!
//! Source: the counter of Cloudflare's article (2017), in exact integers.

use super::{Answer, Ask, reason, retry, wait};
use crate::decision::{Decision, Reason};
use crate::guard::Moment;
use crate::plan::WindowPlan;
use crate::rule::{Keeper, Rank, Ring, Rule, Step, Timed};
use crate::word::{PlanId, Word, low};

/// One call of a sliding window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'p> {
    plan: &'p WindowPlan,
    moment: Moment<'p>,
    number: u64,
    elapsed: u64,
    ask: Ask,
}

/// Both counts as of the window that the call is judged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    number: u64,
    /// Nanoseconds from the call's moment to the start of that window, when it is ahead.
    early: u64,
    /// Nanoseconds of the window gone.
    elapsed: u64,
    previous: u64,
    current: u64,
}

/// What a step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    reason: Reason,
    after: Counts,
    /// By how much the call was judged later than at its own time.
    lead: u64,
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
        (word.payload() >> (2 * self.plan.count_bits)).wrapping_sub(self.number) & low(self.plan.number_bits)
    }

    #[inline(always)]
    fn read(&self, word: Word) -> Counts {
        let plan = self.plan;
        let b = plan.count_bits;
        let (previous, current) = (word.payload() >> b & low(b), word.payload() & low(b));
        let now = Counts { number: self.number, early: 0, elapsed: self.elapsed, previous: 0, current: 0 };
        if word.is_fresh() {
            return now;
        }
        match self.ahead(word) {
            0 => Counts { previous, current, ..now },
            behind if behind == low(plan.number_bits) => Counts { previous: current, ..now },
            // At most 60 s and a period ahead.
            ahead if ahead <= plan.ahead => {
                let early = u128::from(ahead) * u128::from(plan.period) - u128::from(self.elapsed);
                Counts { number: word.payload() >> (2 * b), early: crate::ticks::saturate(early), elapsed: 0, previous, current }
            }
            _ => now,
        }
    }

    fn word(&self, counts: Counts) -> Word {
        let b = self.plan.count_bits;
        Word::new(PlanId::ONLY, counts.number << (2 * b) | counts.previous << b | counts.current)
    }

    /// The previous window's share of the estimate, times W.
    #[inline(always)]
    fn share(&self, counts: Counts) -> u128 {
        u128::from(counts.previous) * u128::from(self.plan.period - counts.elapsed)
    }

    /// What the estimate counts of `share / W`, in whole units.
    #[inline(always)]
    fn weight(&self, counts: Counts) -> u64 {
        let period = u128::from(self.plan.period);
        let share = self.share(counts);
        (if self.plan.strict { share.div_ceil(period) } else { share / period }) as u64
    }

    /// The least number of ns into a window in which `previous` units weigh at most `room`.
    fn fits_after(&self, previous: u64, room: u64) -> u64 {
        if previous <= room {
            return 0;
        }
        let (period, previous, room) = (u128::from(self.plan.period), u128::from(previous), u128::from(room));
        let after = if self.plan.strict {
            // previous * (W - e) <= room * W
            period - room * period / previous
        } else {
            // previous * (W - e) < (room + 1) * W
            period - ((room + 1) * period).div_ceil(previous) + 1
        };
        after as u64
    }

    /// Nanoseconds from the call's moment until `cost`, at most the limit, fits.
    fn retry(&self, counts: Counts, lead: u64) -> u64 {
        let (plan, cost) = (self.plan, self.ask.cost);
        let room = plan.limit - cost;
        let (period, elapsed) = (u128::from(plan.period), u128::from(counts.elapsed));
        let from_start = if counts.current <= room {
            u128::from(self.fits_after(counts.previous, room - counts.current))
        } else {
            // Not in this window; in the next, current is the previous.
            period + u128::from(self.fits_after(counts.current, room))
        };
        wait(from_start - elapsed + u128::from(counts.early), lead)
    }

    /// Nanoseconds from the call's moment until the last counted window has left.
    fn until_fresh(&self, counts: Counts) -> u128 {
        let (period, elapsed) = (u128::from(self.plan.period), u128::from(counts.elapsed));
        let windows = if counts.current > 0 { 2 } else { u128::from(counts.previous > 0) };
        if windows == 0 { 0 } else { windows * period - elapsed + u128::from(counts.early) }
    }

    /// Judges the call against `counts`.
    #[inline(always)]
    fn judge(&self, counts: Counts) -> Step<Outcome> {
        let (plan, ask, lead) = (self.plan, self.ask, self.moment.lead);
        let room = plan.limit.checked_sub(counts.current).and_then(|left| left.checked_sub(ask.cost));
        let allowed = ask.cost == 0
            || room.is_some_and(|room| {
                let (share, period) = (self.share(counts), u128::from(plan.period));
                if plan.strict { share <= u128::from(room) * period } else { share < (u128::from(room) + 1) * period }
            });
        if !allowed {
            return Step::Keep(Outcome { reason: reason(false, ask.cost, plan.limit), after: counts, lead });
        }
        let after = Counts { current: counts.current + ask.cost, ..counts };
        let outcome = Outcome { reason: Reason::Allowed, after, lead };
        if ask.charges() { Step::Write(self.word(after), outcome) } else { Step::Keep(outcome) }
    }
}

impl Timed for Call<'_> {
    fn again(&self) -> Self {
        self.moment.again().map_or(*self, |moment| Call::new(self.plan, moment, self.ask))
    }
}

impl Keeper for Call<'_> {
    fn rank(&self, word: Word, _ring: Ring<'_>) -> Rank {
        let counts = self.read(word);
        Rank { ns: crate::ticks::saturate(self.until_fresh(counts)), units: counts.previous + counts.current }
    }

    /// The larger of each count, as of the later of the two windows.
    fn join(&self, a: Word, b: Word) -> Word {
        let (one, two) = (self.read(a), self.read(b));
        let (late, other) = if two.early > one.early { (two, one) } else { (one, two) };
        // Counts of an earlier window that are still in sight of a later one are its previous.
        let (previous, current) = if other.number == late.number {
            (other.previous, other.current)
        } else if other.number.wrapping_add(1) & low(self.plan.number_bits) == late.number {
            (other.current, 0)
        } else {
            (0, 0)
        };
        let joined = Counts { previous: late.previous.max(previous), current: late.current.max(current), ..late };
        match joined {
            joined if joined == one => a,
            joined if joined == two => b,
            joined => self.word(joined),
        }
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
        let counts = self.read(word);
        let cannot_be = !word.is_fresh() && self.plan.cannot_be(self.ahead(word));
        if cannot_be { self.judge(counts).mending(|| self.word(counts)) } else { self.judge(counts) }
    }

    fn newcomer(&self, word: Word, floor: Word, _ring: Ring<'_>) -> Step<Outcome> {
        self.judge(self.read(self.join(word, floor)))
    }
}

impl Answer for Call<'_> {
    fn is_allowed(&self, outcome: &Outcome) -> bool {
        outcome.reason == Reason::Allowed
    }

    fn decide(&self, outcome: &Outcome) -> Decision {
        let counts = outcome.after;
        Decision {
            reason: outcome.reason,
            limit: self.plan.limit,
            remaining: self.plan.limit.saturating_sub(counts.current).saturating_sub(self.weight(counts)),
            retry_after_ns: retry(outcome.reason, || self.retry(counts, outcome.lead)),
            reset_after_ns: wait(self.until_fresh(counts), outcome.lead),
            delay_ns: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Ring;

    /// Every refusal of small windows, by trying each later ns; and the report beside it.
    #[test]
    fn retry_and_reset_are_the_first_instants_by_brute_force() {
        for strict in [false, true] {
            for (limit, period) in [(1, 7), (3, 10), (4, 13), (6, 11)] {
                let plan = &WindowPlan { count_bits: 3, number_bits: 52, ahead: 0, limit, period, strict };
                let at = |now, cost| Call::new(plan, Moment::at(now), Ask { cost, peek: false });
                for (previous, current) in (0..=limit).flat_map(|p| (0..=limit).map(move |c| (p, c))) {
                    let word = Word::new(PlanId::ONLY, 5 << 6 | previous << 3 | current);
                    for now in 5 * period..6 * period {
                        for cost in 1..=limit {
                            let call = at(now, cost);
                            let Step::Keep(outcome) = call.step(word, Ring::NONE) else { continue };
                            let passes = |later| matches!(at(later, cost).step(word, Ring::NONE), Step::Write(..));
                            let first = (now..now + 3 * period).find(|later| passes(*later)).unwrap();
                            assert_eq!(
                                call.decide(&outcome).retry_after_ns(),
                                first - now,
                                "{plan:?} {previous} {current} {now} {cost}"
                            );
                        }
                        let Step::Keep(outcome) = at(now, 0).step(word, Ring::NONE) else { panic!("a peek wrote") };
                        let fresh = |later| at(later, 0).rank(word, Ring::NONE).is_idle();
                        let first = (now..now + 3 * period).find(|later| fresh(*later)).unwrap();
                        assert_eq!(at(now, 0).decide(&outcome).reset_after_ns(), first - now);
                        let remaining = at(now, 0).decide(&outcome).remaining();
                        let largest = (0..=limit).rev().find(|c| matches!(at(now, *c).step(word, Ring::NONE), Step::Write(..)));
                        assert_eq!(remaining, largest.unwrap_or(0));
                    }
                }
            }
        }
    }
}
