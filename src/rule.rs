//! The seam between algorithms and table: what a table must know of the words that it holds.
//!
//! The table moves words about; it does not know what they mean. One call of one algorithm is a
//! [`Rule`]: it judges words ([`step`](Rule::step)), orders them ([`rank`](Rule::rank)), and says
//! what a newcomer owes. All of it is pure; the sliding log also reads cells of its slot's [`Ring`].

use crate::sync::{AtomicU64, Ordering};
use crate::word::Word;
use Ordering::{AcqRel, Acquire};

/// What a call does to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<O> {
    /// Nothing: a refusal or a peek. Writes nothing.
    Keep(O),
    /// A refusal or a peek that found a word which cannot be: what to put in its place, if it is still there.
    Mend(Word, O),
    /// The call counts once this word has replaced the one that was judged.
    Write(Word, O),
}

/// How far a word is from fresh: nanoseconds first, then units. Zero time is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) ns: u64,
    pub(crate) units: u64,
}

impl Rank {
    pub(crate) const IDLE: Rank = Rank { ns: 0, units: 0 };

    pub(crate) fn is_idle(self) -> bool {
        self.ns == 0
    }
}

/// One call of one algorithm.
///
/// "Owes at least" orders words; a table never lets what is recorded for a key owe less than what the
/// key was granted. The **floor** of a group is a word that owes at least what every key owed that was
/// evicted from the group; what it means is the algorithm's own.
pub(crate) trait Rule {
    type Outcome;

    /// The rule that keys are moved by when this call meets a table that grows: itself, unless it is
    /// such a move.
    type Mover: Rule<Mover = Self::Mover>;

    fn mover(&self) -> &Self::Mover;

    /// Whether words need their slot's ring. Then a `Keep` is confirmed by a second load of the word.
    const RING: bool = false;

    /// Judges the call against the key's own word.
    fn step(&self, word: Word, ring: Ring<'_>) -> Step<Self::Outcome>;

    /// Judges the call of a key that is new to a slot whose word is `word`, vacant or the key's own
    /// reservation: it starts from what it finds there or the floor, whichever owes more.
    fn newcomer(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<Self::Outcome>;

    /// Judges the call of a key that would take the slot of a living key.
    fn heir(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<Self::Outcome> {
        self.newcomer(word, floor, ring)
    }

    /// How far `word` is from fresh.
    fn rank(&self, word: Word, ring: Ring<'_>) -> Rank;

    /// The floor after the key of `word` was evicted.
    fn raise(&self, floor: Word, word: Word, ring: Ring<'_>) -> Word;

    /// A word that owes at least what `a` and `b` owe; `a` itself if that does.
    fn join(&self, a: Word, b: Word) -> Word;

    /// What an evicted key leaves in its slot.
    fn left_behind(&self, word: Word) -> Word {
        word
    }

    /// Runs before every attempt to replace `old` by `new`; what it does must do no harm if the
    /// attempt fails.
    fn before_write(&self, _old: Word, _new: Word, _ring: Ring<'_>) {}
}

/// The cells of one slot beside its word; none for algorithms that need no more than a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a>(&'a [AtomicU64]);

impl<'a> Ring<'a> {
    pub(crate) fn new(cells: &'a [AtomicU64]) -> Ring<'a> {
        Ring(cells)
    }

    pub(crate) fn get(self, cell: usize) -> u64 {
        // Acquire: pairs with the AcqRel of `replace` and `raise`, which come before the word's own
        // release, so that a reader of the word sees the cells that it speaks of.
        self.0[cell].load(Acquire)
    }

    /// Puts `new` where `old` is; whether or not it still is.
    pub(crate) fn replace(self, cell: usize, old: u64, new: u64) {
        // AcqRel: release pairs with the Acquire of `get`. A failure means that another call wrote
        // the same thing, or that the ring has moved on.
        let _ = self.0[cell].compare_exchange(old, new, AcqRel, Acquire);
    }

    /// Raises a cell to at least `n`.
    pub(crate) fn raise(self, cell: usize, n: u64) {
        // AcqRel: release pairs with the Acquire of `get`.
        self.0[cell].fetch_max(n, AcqRel);
    }
}

#[cfg(test)]
impl Ring<'static> {
    /// No cells.
    pub(crate) const NONE: Ring<'static> = Ring(&[]);
}
