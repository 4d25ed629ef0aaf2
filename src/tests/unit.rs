//! The harshest rule there is, for tests of the table: a key may be granted [`LIMIT`] units and nothing
//! ever runs off, so that every unit of debt that gets lost shows as a grant too many.

use crate::rule::{Keeper, Rank, Ring, Rule, Step, Timed};
use crate::word::{PlanId, Word};

pub(super) const LIMIT: u64 = 3;

/// One unit of a limit that never refills. `idle`: everything reads as idle, so that slots are taken
/// at no loss and the floor alone remembers. `peek`: asks and charges nothing.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    idle: bool,
    peek: bool,
}

pub(super) const BUSY: Unit = Unit { idle: false, peek: false };
pub(super) const IDLE: Unit = Unit { idle: true, peek: false };
#[cfg(loom)]
pub(super) const PEEK: Unit = Unit { idle: false, peek: true };

impl Unit {
    fn judge(self, used: u64) -> Step<bool> {
        let is_granted = used < LIMIT && !self.peek;
        if is_granted { Step::Write(Word::new(PlanId::ONLY, used + 1), true) } else { Step::Keep(false) }
    }
}

impl Timed for Unit {
    fn again(&self) -> Unit {
        *self
    }
}

impl Keeper for Unit {
    fn rank(&self, word: Word, _ring: Ring<'_>) -> Rank {
        Rank { ns: if self.idle { 0 } else { word.payload() }, units: word.payload() }
    }

    fn join(&self, a: Word, b: Word) -> Word {
        if b.payload() > a.payload() { b } else { a }
    }

    fn adopt(&self, word: Word, floor: Word, _ring: Ring<'_>) -> Option<Word> {
        Some(self.join(word, floor))
    }
}

impl Rule for Unit {
    type Outcome = bool;
    type Keeper = Unit;

    fn keeper(&self) -> Unit {
        *self
    }

    fn step(&self, word: Word, _ring: Ring<'_>) -> Step<bool> {
        self.judge(word.payload())
    }

    fn newcomer(&self, word: Word, floor: Word, _ring: Ring<'_>) -> Step<bool> {
        self.judge(word.payload().max(floor.payload()))
    }
}
