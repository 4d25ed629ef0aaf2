//! A generation: the groups of one size, and the memory that they lie in.

use super::memory::{Zeroable, Zeroed};
use super::slot::{Hash, Line, WAYS};
use crate::reclaim::Link;
use crate::rule::Ring;
use crate::sync::{AtomicU64, Counter, Gauge, Ordering};
use crate::word::bits;
use Ordering::{AcqRel, Acquire};
use std::sync::Arc;

/// Lines in a group. At 32 a group of 128 slots overflows at 60 % load once in 40 million groups;
/// one line in tests makes every group overflow.
pub(super) const LINES: usize = if cfg!(any(test, loom, fuzzing)) { 1 } else { 32 };
/// Slots in a group.
pub(super) const SLOTS: usize = LINES * WAYS;

const _: () = assert!(LINES.is_power_of_two() && bits(LINES as u64) <= 6);

/// What a group keeps beside its lines.
#[derive(Debug)]
pub(super) struct Rare {
    /// Owes at least what every key owed that was evicted from the group; see `Rule::raise`.
    pub(super) floor: AtomicU64,
    /// 1 once every key of the group is in the next generation.
    pub(super) moved: AtomicU64,
}

// SAFETY: atomics of a u64 and nothing else.
unsafe impl Zeroable for Rare {
    #[cfg(loom)]
    fn zero() -> Rare {
        Rare { floor: AtomicU64::new(0), moved: AtomicU64::new(0) }
    }
}

/// The groups of one size.
pub(super) struct Generation {
    pub(super) next: Link<Generation>,
    pub(super) group_bits: u32,
    lines: Zeroed<Line>,
    rare: Zeroed<Rare>,
    rings: Zeroed<AtomicU64>,
    /// Cells of a slot's ring.
    cells: usize,
    /// Slots whose tag is in use.
    pub(super) claimed: Counter,
    /// Looks in a row that found nearly all keys idle.
    pub(super) quiet: Counter,
    /// The next group that a caller helps to move.
    pub(super) cursor: Counter,
    /// Groups that are moved.
    pub(super) moved: AtomicU64,
    /// 1 once this generation is in `held`.
    counted: AtomicU64,
    /// Bytes of all generations of the table, those that are retired and not yet freed too.
    held: Arc<Gauge>,
}

impl Drop for Generation {
    fn drop(&mut self) {
        // Acquire: pairs with the AcqRel of `count`. It was retired by somebody who saw it whole.
        if self.counted.load(Acquire) != 0 {
            self.held.take(Generation::bytes(self.group_bits, self.cells));
        }
    }
}

impl Generation {
    /// Bytes of a generation of 2^`group_bits` groups with `cells` ring cells a slot.
    pub(super) fn bytes(group_bits: u32, cells: usize) -> u64 {
        let group = LINES * size_of::<Line>() + size_of::<Rare>() + SLOTS * cells * size_of::<AtomicU64>();
        (group as u64).saturating_mul(1u64.checked_shl(group_bits).unwrap_or(u64::MAX))
    }

    /// `None` when the memory is not to be had.
    pub(super) fn new(group_bits: u32, cells: usize, held: &Arc<Gauge>) -> Option<Generation> {
        let groups = 1usize.checked_shl(group_bits)?;
        Some(Generation {
            next: Link::null(),
            group_bits,
            lines: Zeroed::new(groups.checked_mul(LINES)?)?,
            rare: Zeroed::new(groups)?,
            rings: Zeroed::new(groups.checked_mul(SLOTS)?.checked_mul(cells)?)?,
            cells,
            claimed: Counter::new(0),
            quiet: Counter::new(0),
            cursor: Counter::new(0),
            moved: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            held: held.clone(),
        })
    }

    /// Adds its bytes to what is held, once: by whoever made it part of the table, or whoever finds it
    /// there and is about to reckon with what is held. (Before that it is a promise of the system's, of
    /// which nothing was touched.)
    pub(super) fn count(&self) {
        // AcqRel: pairs with the Acquire of `drop`, and orders the two counts of one generation.
        if self.counted.swap(1, AcqRel) == 0 {
            self.held.add(Generation::bytes(self.group_bits, self.cells));
        }
    }

    pub(super) fn groups(&self) -> usize {
        1 << self.group_bits
    }

    pub(super) fn slots(&self) -> u64 {
        (self.groups() * SLOTS) as u64
    }

    #[inline(always)]
    pub(super) fn line(&self, index: usize) -> &Line {
        &self.lines[index]
    }

    pub(super) fn rare(&self, group: usize) -> &Rare {
        &self.rare[group]
    }

    /// The ring of the slot with this number in the generation.
    pub(super) fn ring(&self, slot: usize) -> Ring<'_> {
        Ring::new(&self.rings[slot * self.cells..(slot + 1) * self.cells])
    }

    /// The line where `hash` is looked for first.
    #[inline(always)]
    pub(super) fn home_line(&self, hash: Hash) -> *const Line {
        &raw const self.lines[hash.group(self.group_bits) * LINES + hash.home(LINES)]
    }
}
