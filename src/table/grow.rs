//! Moving from generation to generation: how a table grows, shrinks and forgets.
//!
//! When a generation is too small or too large, the next one is hung on it, and the callers move the
//! keys: the group of the call's own key, before the key is used, and one group more. (The next one may
//! itself turn out too small before that is done; then a third is hung on it, and keys pass through.)
//! When all groups are moved the table points at the next generation and the old one is retired
//! (`reclaim`): what was idle was not carried over, and its memory is given back when no call can see
//! it. That is how idle keys expire.
//!
//! Moving a group:
//!
//! | step | so that |
//! |---|---|
//! | 1. freeze every tag (one bit), empty ones too | no insert, takeover, settling or dropping succeeds any more |
//! | 2. seal every live word: its next epoch | no charge succeeds any more; the word is final |
//! | 3. raise the next generation's floors to the group's | evicted keys are remembered there |
//! | 4. insert every key that is not idle, with its word | as a newcomer that owes what its word says |
//! | 5. mark the group moved | nobody does it again |
//!
//! Several callers may do this to one group at once, and one may stop for ever: each step leaves
//! alone what is done, and step 4 joins a word to what the key has there, which never owes less for
//! it. A reservation that was not settled when it was frozen did not count; its caller looks again.

use super::generation::{Generation, SLOTS};
use super::group::Group;
use super::slot::{Hash, Tag};
use crate::reclaim::Pin;
use crate::rule::{Keeper, Ring, Rule, Step, Timed};
use crate::sync::Ordering;
use crate::word::Word;
use Ordering::{AcqRel, Acquire};

impl Generation {
    /// Whether every group was moved.
    pub(super) fn is_moved(&self) -> bool {
        // Acquire: pairs with the AcqRel in `move_group`, so that whoever leaves this generation behind,
        // and whoever follows, sees all that was moved.
        self.moved.load(Acquire) == self.groups() as u64
    }

    /// Moves group `index` on: its floor to all later generations, and each key through `carry`, which
    /// inserts it after this generation.
    pub(super) fn move_group<K: Keeper>(&self, index: usize, keeper: &K, pin: &Pin, carry: impl Fn(Hash, Carry<K>)) {
        let group = Group { generation: self, index };
        // Acquire: pairs with the AcqRel below: what was moved is seen in the next generation.
        if group.rare().moved.load(Acquire) != 0 {
            return;
        }
        let sealed: [(Tag, Word); SLOTS] = std::array::from_fn(|at| seal(group, at));
        // The floor after the seal: an eviction raises it before it closes a word, and closing is over.
        // Each raise comes before the look for a still later generation, whose own move reads this floor
        // after it was hung on.
        let floor = group.floor();
        let mut later = self.next.get(pin);
        while let Some(next) = later {
            for child in self.children(index, next) {
                Group { generation: next, index: child }.raise_floor(|held| keeper.again().join(held, floor));
            }
            later = next.next.get(pin);
        }
        // After the seal too: what is idle now stays so.
        let keeper = keeper.again();
        for (tag, word) in sealed {
            let idle = keeper.rank(word, Ring::new(&[])).is_idle();
            if !idle && !tag.is_reserved() && tag.was_sealed_with(word) && tag != Tag::EMPTY.frozen() {
                carry(Hash::of_tag(tag, index, self.group_bits), Carry { keeper, word: word.with_epoch(0) });
            }
        }
        // AcqRel, both: release publishes the moves to the Acquire of whoever finds the group, or all
        // groups, moved.
        if group.rare().moved.compare_exchange(0, 1, AcqRel, Acquire).is_ok() {
            self.moved.fetch_add(1, AcqRel);
        }
    }

    /// The groups of `next` that keys of group `index` go to.
    fn children(&self, index: usize, next: &Generation) -> std::ops::Range<usize> {
        if let Some(more) = next.group_bits.checked_sub(self.group_bits) {
            return index << more..(index + 1) << more;
        }
        let parent = index >> (self.group_bits - next.group_bits);
        parent..parent + 1
    }

    /// The next group that nobody was asked to move yet; over and over, in case somebody stopped.
    pub(super) fn next_to_move(&self) -> usize {
        self.cursor.add_one() as usize % self.groups()
    }
}

/// Freezes the tag at `at`, then seals its word if it was live; gives both as they will stay.
fn seal(group: Group<'_>, at: usize) -> (Tag, Word) {
    let slot = group.slot(at);
    let tag = loop {
        let tag = slot.tag();
        if tag.is_frozen() || slot.swap_tag(tag, tag.frozen()).is_ok() {
            break tag.frozen();
        }
    };
    loop {
        let word = slot.word();
        if !tag.matches(word) {
            return (tag, word);
        }
        let sealed = word.with_epoch(word.epoch() + 1);
        if slot.swap_word(word, sealed) {
            return (tag, sealed);
        }
    }
}

/// A key that moves: it takes its word along.
#[derive(Clone, Copy)]
pub(super) struct Carry<K> {
    keeper: K,
    word: Word,
}

impl<K: Keeper> Timed for Carry<K> {
    fn again(&self) -> Self {
        Carry { keeper: self.keeper.again(), word: self.word }
    }
}

impl<K: Keeper> Rule for Carry<K> {
    type Outcome = ();
    type Keeper = K;

    fn keeper(&self) -> K {
        self.keeper.again()
    }

    /// The key is there: it owes what is larger.
    fn step(&self, word: Word, _ring: Ring<'_>) -> Step<()> {
        let joined = self.keeper.join(word, self.word);
        if joined == word { Step::Keep(()) } else { Step::Write(joined, ()) }
    }

    /// Idle by now, it is forgotten; the mover was held up, and the key may have come, spent and been
    /// forgotten in the next generation since, so that its word is not all that it owed.
    fn newcomer(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<()> {
        if self.keeper.rank(self.word, Ring::new(&[])).is_idle() {
            return Step::Keep(());
        }
        match self.keeper.adopt(self.keeper.join(self.word, word), floor, ring) {
            Some(word) => Step::Write(word, ()),
            None => Step::Keep(()),
        }
    }
}
