//! The seam between algorithms and table: what a table must know of the words that it holds.
//!
//! The table moves words about; it does not know what they mean. A [`Keeper`] orders words: by it they
//! are kept, moved and forgotten. One call of one algorithm is a [`Rule`]: it judges words
//! ([`step`](Rule::step)), and says what a newcomer owes. All of it is pure; the sliding log also reads
//! cells of its slot's [`Ring`].

use crate::sync::{AtomicU64, Ordering};
use crate::word::Word;
use Ordering::{AcqRel, Acquire};

/// What a call does to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<O> {
    /// Nothing: a refusal or a peek. Writes nothing.
    Keep(O),
    /// The call counts once this word has replaced the one that was judged.
    Write(Word, O),
    /// The same, where the word that was judged cannot be, unless the call's time is not of this hour:
    /// whoever has not looked at the time since it read the word does that first.
    Mend(Word, O),
}

impl<O> Step<O> {
    /// The step of a word that cannot be; `as_is` replaces it where the step would keep it.
    pub(crate) fn mending(self, as_is: impl FnOnce() -> Word) -> Step<O> {
        match self {
            Step::Keep(outcome) => Step::Mend(as_is(), outcome),
            Step::Write(word, outcome) | Step::Mend(word, outcome) => Step::Mend(word, outcome),
        }
    }
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

/// What judges words as of a time.
///
/// A call may be held up for long between reading the clock and reading a word. So off the hit path a
/// table reads first, asks for the judge again then, and nothing is judged by what is older than it.
pub(crate) trait Timed: Copy {
    /// The same as of now.
    fn again(&self) -> Self;
}

/// What words are kept, moved and forgotten by: as of a time that no call which comes after is judged
/// before, so that what is idle to it is idle to all of them.
///
/// "Owes at least" orders words; a table never lets what is recorded for a key owe less than what the
/// key was granted. The **floor** of a group is a word that owes at least what every key owed that was
/// evicted from the group; what it means is the algorithm's own.
pub(crate) trait Keeper: Timed {
    /// Whether words need their slot's ring. Then a `Keep` is confirmed by a second load of the word.
    const RING: bool = false;

    /// How far `word` is from fresh.
    fn rank(&self, word: Word, ring: Ring<'_>) -> Rank;

    /// A word that owes at least what `a` and `b` owe; `a` itself if that does.
    fn join(&self, a: Word, b: Word) -> Word;

    /// The floor after the key of `word` was evicted.
    fn raise(&self, floor: Word, word: Word, _ring: Ring<'_>) -> Word {
        self.join(floor, word)
    }

    /// The word that a key may begin to live with which finds `word` in the slot it reserved, charged or
    /// not: it owes what the floor says, too, and is of now, so that whoever is late by now is judged no
    /// earlier (what the key owed then is forgotten). `None` if a word cannot say that.
    fn adopt(&self, word: Word, floor: Word, ring: Ring<'_>) -> Option<Word>;

    /// What an evicted key leaves in its slot.
    fn left_behind(&self, word: Word) -> Word {
        word
    }
}

/// One call of one algorithm.
pub(crate) trait Rule: Timed {
    type Outcome;
    type Keeper: Keeper;

    /// The keeper as of now.
    fn keeper(&self) -> Self::Keeper;

    /// Judges the call against the key's own word.
    fn step(&self, word: Word, ring: Ring<'_>) -> Step<Self::Outcome>;

    /// Judges the call of a key that is new to a slot whose word is `word`, vacant or the key's own
    /// reservation: it starts from what it finds there or the floor, whichever owes more.
    fn newcomer(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<Self::Outcome>;

    /// Judges the call of a key that would take the slot of a living key.
    fn heir(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<Self::Outcome> {
        self.newcomer(word, floor, ring)
    }

    /// Runs before every attempt to replace `old` by `new`; what it does must do no harm if the
    /// attempt fails. `is_old` looks whether the word is `old` still.
    fn before_write(&self, _old: Word, _new: Word, _ring: Ring<'_>, _is_old: impl Fn() -> bool) {}
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
