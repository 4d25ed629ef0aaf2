//! Slots: a tag and a word each, four to a cache line.
//!
//! ```text
//!  tag    63                                   7   6   5  4       0
//!        ┌──────────────────────────────────────┬───┬───┬──────────┐
//!        │ key hash, low 57 bits                │ P │ F │ version  │
//!        └──────────────────────────────────────┴───┴───┴──────────┘
//!  line  ┌─────┬─────┬─────┬─────┬──────┬──────┬──────┬──────┐
//!        │tag 0│tag 1│tag 2│tag 3│word 0│word 1│word 2│word 3│  64 bytes
//!        └─────┴─────┴─────┴─────┴──────┴──────┴──────┴──────┘
//!  hash   63        57                         5            0
//!        ┌─────────────────────────────────────┬─────────────┐
//!        │ group, from the top ...             │ home line   │
//!        └─────────────────────────────────────┴─────────────┘
//! ```
//!
//! The group's number takes at least the top 7 bits of the hash, which the tag leaves out, so that
//! where a slot lies and its tag together are the whole hash: 64 bits of identity. Ten million live
//! keys hold a pair that shares a slot with a chance of 3 in a million. (A table with rings may have
//! fewer groups; it never moves, and so few keys need no more than the tag's 57 bits.)
//!
//! | P | F | version = epoch | the slot is |
//! |---|---|---|---|
//! | tag 0 ||| empty: never used |
//! | 0 | 0 | yes | live: its word is its key's |
//! | 0 | 0 | no | vacant: closed or dropped; anyone may re-label it |
//! | 1 | 0 | yes | reserved: being inserted, not live yet |
//! | 1 | 0 | no | a reservation overtaken; becomes vacant |
//! | - | 1 | - | frozen: the table moves on, look in the next generation |
//!
//! The version counts re-labellings modulo 32, its low two bits are compared with the word's epoch.
//! To be fooled by the wrap, a thread must sleep through 8 to 32 takeovers of one slot between
//! two adjacent instructions and wake when the same key holds it again.

use super::memory::Zeroable;
use crate::sync::{AtomicU64, Ordering};
use crate::word::{EPOCH_BITS, Word, low};
use Ordering::{AcqRel, Acquire};

/// Slots in a line.
pub(crate) const WAYS: usize = if cfg!(loom) { 2 } else { 4 };
/// The group number has at least this many bits.
pub(crate) const GROUP_BITS_MIN: u32 = if cfg!(any(test, loom, fuzzing)) { 0 } else { 7 };

const TAG_HASH_BITS: u32 = 57;
const VERSION_BITS: u32 = 5;
const FROZEN: u64 = 1 << 5;
const RESERVED: u64 = 1 << 6;
const HASH_SHIFT: u32 = 7;
const HASH_BITS: u32 = TAG_HASH_BITS + GROUP_BITS_MIN;

const _: () = assert!(TAG_HASH_BITS + 2 + VERSION_BITS == u64::BITS);
const _: () = assert!(HASH_BITS <= u64::BITS && EPOCH_BITS <= VERSION_BITS);

/// Where a key lives and how its tag reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hash(u64);

impl Hash {
    /// Of any 64 bits. The tag's part is never 0, so that no tag in use reads as empty.
    #[inline(always)]
    pub(crate) fn new(raw: u64) -> Hash {
        let hash = raw >> (u64::BITS - HASH_BITS);
        Hash(hash | u64::from(hash & low(TAG_HASH_BITS) == 0))
    }

    /// The hash of the key whose `tag` is in group `group` of 2^`group_bits`.
    pub(super) fn of_tag(tag: Tag, group: usize, group_bits: u32) -> Hash {
        Hash(tag.hash_bits() | (group as u64 >> (group_bits - GROUP_BITS_MIN)) << TAG_HASH_BITS)
    }

    #[inline(always)]
    pub(super) fn group(self, group_bits: u32) -> usize {
        // Two shifts, since one of all 57 bits (tests: no group bits) is allowed and one of 64 not.
        (self.0 >> (HASH_BITS - 1 - group_bits) >> 1) as usize
    }

    #[inline(always)]
    pub(super) fn home(self, lines: usize) -> usize {
        self.0 as usize & (lines - 1)
    }

    /// What a live slot's tag shows above the version.
    #[inline(always)]
    fn wanted(self) -> u64 {
        self.0 << HASH_SHIFT
    }
}

/// A slot's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag(pub(super) u64);

impl Tag {
    pub(super) const EMPTY: Tag = Tag(0);

    /// `hash` reserves a slot whose word has epoch `epoch`; `last` is the tag before.
    pub(super) fn reserve(hash: Hash, last: Tag, epoch: u64) -> Tag {
        // The next version, at least one further, that equals the epoch modulo 4.
        let next = last.version() + 1;
        let version = next + (epoch.wrapping_sub(next) & low(EPOCH_BITS));
        Tag(hash.wanted() | RESERVED | version & low(VERSION_BITS))
    }

    /// `hash` reserves an empty slot, whose word is 0.
    pub(super) fn first(hash: Hash) -> Tag {
        Tag(hash.wanted() | RESERVED)
    }

    fn hash_bits(self) -> u64 {
        self.0 >> HASH_SHIFT
    }

    #[inline(always)]
    fn version(self) -> u64 {
        self.0 & low(VERSION_BITS)
    }

    #[inline(always)]
    pub(super) fn is_frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    #[inline(always)]
    pub(super) fn is_reserved(self) -> bool {
        self.0 & RESERVED != 0
    }

    /// Whether the tag is `hash`'s and neither reserved nor frozen.
    #[inline(always)]
    pub(super) fn is_of(self, hash: Hash) -> bool {
        self.0 & !low(VERSION_BITS) == hash.wanted()
    }

    /// Whether the tag is `hash`'s reservation.
    #[inline(always)]
    pub(super) fn is_reserved_by(self, hash: Hash) -> bool {
        self.0 & !low(VERSION_BITS) == hash.wanted() | RESERVED
    }

    /// Whether the slot is its key's, if it is neither reserved nor frozen.
    #[inline(always)]
    pub(super) fn matches(self, word: Word) -> bool {
        self.version() & low(EPOCH_BITS) == word.epoch()
    }

    /// Whether the slot, if frozen, was its key's when its word was sealed.
    pub(super) fn was_sealed_with(self, word: Word) -> bool {
        (self.version() + 1) & low(EPOCH_BITS) == word.epoch()
    }

    /// The reservation settled: live if the word matches, else vacant.
    pub(super) fn settled(self) -> Tag {
        Tag(self.0 & !RESERVED)
    }

    /// The reservation dropped: vacant.
    pub(super) fn dropped(self) -> Tag {
        let version = (self.version() + 1) & low(VERSION_BITS);
        Tag(self.0 & !(RESERVED | low(VERSION_BITS)) | version)
    }

    pub(super) fn frozen(self) -> Tag {
        Tag(self.0 | FROZEN)
    }
}

/// Four slots.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Line {
    tags: [AtomicU64; WAYS],
    words: [AtomicU64; WAYS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64);

// SAFETY: a line is atomics of a u64 and nothing else.
unsafe impl Zeroable for Line {
    #[cfg(loom)]
    fn zero() -> Line {
        Line { tags: std::array::from_fn(|_| AtomicU64::new(0)), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Line {
    #[inline(always)]
    pub(super) fn slot(&self, way: usize) -> Slot<'_> {
        Slot { tag: &self.tags[way], word: &self.words[way] }
    }
}

/// One slot's two atomics.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'t> {
    tag: &'t AtomicU64,
    word: &'t AtomicU64,
}

impl Slot<'_> {
    #[inline(always)]
    pub(super) fn tag(self) -> Tag {
        // Acquire: pairs with the release half of `swap_tag`; without it a thread could match a new
        // tenant's tag and still read the old tenant's word.
        Tag(self.tag.load(Acquire))
    }

    #[inline(always)]
    pub(super) fn word(self) -> Word {
        // Acquire: pairs with the release half of `swap_word`; and it keeps the second load of the
        // tag, which follows, behind it.
        Word(self.word.load(Acquire))
    }

    /// Puts `new` in place of `old`, or gives what is there.
    #[inline(always)]
    pub(super) fn swap_word(self, old: Word, new: Word) -> bool {
        // AcqRel: release pairs with the Acquire of `word`. The hit path's one locked instruction.
        self.word.compare_exchange(old.0, new.0, AcqRel, Acquire).is_ok()
    }

    /// Puts `new` in place of `old`, or gives what is there.
    pub(super) fn swap_tag(self, old: Tag, new: Tag) -> Result<(), Tag> {
        // AcqRel: release pairs with the Acquire of `tag`. That reservations and scans have one order
        // is the business of the fence in `Group::only_reservation`.
        self.tag.compare_exchange(old.0, new.0, AcqRel, Acquire).map(|_| ()).map_err(Tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_reservation_matches_its_epoch_and_never_repeats_at_once(raw: u64, last: u64, epoch in 0u64..4) {
            let tag = Tag::reserve(Hash::new(raw), Tag(last), epoch);
            prop_assert!(tag.is_reserved_by(Hash::new(raw)) && !tag.is_frozen());
            prop_assert!(tag.matches(Word(0).with_epoch(epoch)));
            prop_assert_ne!(tag.version(), Tag(last).version());
            prop_assert!(tag.settled().is_of(Hash::new(raw)));
            prop_assert!(!tag.dropped().matches(Word(0).with_epoch(epoch)));
            prop_assert!(tag.dropped().is_of(Hash::new(raw)));
            prop_assert!(tag.was_sealed_with(Word(0).with_epoch(epoch + 1)));
        }

        #[test]
        fn place_and_tag_are_the_whole_hash(raw: u64, bits in GROUP_BITS_MIN..20) {
            let hash = Hash::new(raw);
            let tag = Tag::first(hash).settled();
            prop_assert_ne!(tag, Tag::EMPTY);
            prop_assert_eq!(Hash::of_tag(tag, hash.group(bits), bits), hash);
            prop_assert!(hash.group(bits) < 1 << bits);
            prop_assert_eq!(hash.group(bits), hash.group(bits + 1) >> 1);
        }
    }

    #[test]
    fn a_hash_of_zero_is_no_empty_tag() {
        assert_ne!(Tag::first(Hash::new(0)).settled(), Tag::EMPTY);
    }
}
