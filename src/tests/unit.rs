//! The harshest rule there is, for tests of the table: a key may be granted [`LIMIT`] units and nothing
//! ever runs off, so that every unit of debt that gets lost shows as a grant too many.

use crate::rule::{Rank, Ring, Rule, Step};
use crate::word::{PlanId, Word};

pub(super) const LIMIT: u64 = 3;

/// One unit of a limit that never refills. `idle`: everything reads as idle, so that slots are taken
/// at no loss and the floor alone remembers.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) idle: bool,
}

impl Unit {
    fn judge(used: u64) -> Step<bool> {
        if used < LIMIT { Step::Write(Word::new(PlanId::ONLY, used + 1), true) } else { Step::Keep(false) }
    }
}

impl Rule for Unit {
    type Outcome = bool;
    type Mover = Unit;

    fn mover(&self) -> &Unit {
        self
    }

    fn step(&self, word: Word, _ring: Ring<'_>) -> Step<bool> {
        Unit::judge(word.payload())
    }

    fn newcomer(&self, word: Word, floor: Word, _ring: Ring<'_>) -> Step<bool> {
        Unit::judge(word.payload().max(floor.payload()))
    }

    fn rank(&self, word: Word, _ring: Ring<'_>) -> Rank {
        Rank { ns: if self.idle { 0 } else { word.payload() }, units: word.payload() }
    }

    fn raise(&self, floor: Word, word: Word, _ring: Ring<'_>) -> Word {
        self.join(floor, word)
    }

    fn join(&self, a: Word, b: Word) -> Word {
        if b.payload() > a.payload() { b } else { a }
    }
}
