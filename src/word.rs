//! The word: everything that is remembered of one key, in one atomic `u64`.
//!
//! ```text
//!  63      60 59  58 57                                                     0
//! ┌──────────┬──────┬────────────────────────────────────────────────────────┐
//! │ plan (4) │ ep(2)│ payload (58): what the plan's algorithm keeps          │
//! └──────────┴──────┴────────────────────────────────────────────────────────┘
//!
//!  payload, by algorithm
//!  token, leaky bucket   full_at (58): a coarse stamp and the ticks spent past it, side by side
//!  fixed window          window number (58-b) │ count (b)                  b = bits(limit)
//!  sliding window        window number (58-2b) │ previous (b) │ current (b)
//!  sliding log           head position (58-2b) │ length of newest (b) │ used (b)
//!  quota                 period number (58-b) │ count (b)
//! ```
//!
//! | word | meaning |
//! |---|---|
//! | 0 | never used: reads as fresh |
//! | plan 1 to 15 | last written under that plan |
//! | plan 0, rest not 0 | never written |
//!
//! The **epoch** belongs to the table, not to the algorithm: a slot is live while its tag's version
//! equals its word's epoch modulo 4 (see `table`). To close a slot is to give its word the next
//! epoch, which makes every compare-and-swap under way on it fail.

/// Bits of the plan's number.
pub(crate) const PLAN_BITS: u32 = 4;
/// Bits of the slot's epoch.
pub(crate) const EPOCH_BITS: u32 = 2;
/// Bits that are the algorithm's own.
pub(crate) const PAYLOAD_BITS: u32 = 58;
/// All payload bits set.
pub(crate) const PAYLOAD_MASK: u64 = (1 << PAYLOAD_BITS) - 1;

const EPOCH_SHIFT: u32 = PAYLOAD_BITS;
const PLAN_SHIFT: u32 = PAYLOAD_BITS + EPOCH_BITS;
const EPOCH_MASK: u64 = (1 << EPOCH_BITS) - 1;

const _: () = assert!(PLAN_BITS + EPOCH_BITS + PAYLOAD_BITS == u64::BITS);

/// The state of one key. A plain value; the atomics that hold it are the table's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    /// Never used.
    pub(crate) const FRESH: Word = Word(0);

    /// A word of plan `plan` (1 to 15) and epoch 0.
    #[inline(always)]
    pub(crate) const fn new(plan: PlanId, payload: u64) -> Word {
        debug_assert!(payload <= PAYLOAD_MASK);
        Word((plan.0 as u64) << PLAN_SHIFT | payload)
    }

    #[inline(always)]
    pub(crate) const fn is_fresh(self) -> bool {
        self.0 >> PLAN_SHIFT == 0
    }

    #[inline(always)]
    pub(crate) const fn payload(self) -> u64 {
        self.0 & PAYLOAD_MASK
    }

    #[inline(always)]
    pub(crate) const fn epoch(self) -> u64 {
        self.0 >> EPOCH_SHIFT & EPOCH_MASK
    }

    /// The same state under another epoch (taken modulo 4).
    #[inline(always)]
    pub(crate) const fn with_epoch(self, epoch: u64) -> Word {
        Word(self.0 & !(EPOCH_MASK << EPOCH_SHIFT) | (epoch & EPOCH_MASK) << EPOCH_SHIFT)
    }
}

/// The number of a plan in its limiter's plan table: 1 to 15, so that a written word is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlanId(u8);

impl PlanId {
    /// The plan of a limiter that has one limit.
    pub(crate) const ONLY: PlanId = PlanId(1);
}

/// The number of bits that `n` takes; 0 for 0.
pub(crate) const fn bits(n: u64) -> u32 {
    u64::BITS - n.leading_zeros()
}

/// All ones in the low `n` bits (`n` at most 63).
#[inline(always)]
pub(crate) const fn low(n: u32) -> u64 {
    (1 << n) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_do_not_touch_each_other(payload in 0..=PAYLOAD_MASK, epoch in 0u64..9) {
            let word = Word::new(PlanId(15), payload).with_epoch(epoch);
            prop_assert_eq!(word.payload(), payload);
            prop_assert_eq!(word.epoch(), epoch % 4);
            prop_assert!(!word.is_fresh());
            prop_assert_eq!(word.with_epoch(0), Word::new(PlanId(15), payload));
        }
    }

    #[test]
    fn no_written_word_is_the_fresh_one() {
        assert_ne!(Word::new(PlanId::ONLY, 0), Word::FRESH);
        assert!(Word::FRESH.with_epoch(3).is_fresh());
    }
}
