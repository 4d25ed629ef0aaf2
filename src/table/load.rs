//! When a table is too small or too large: the sizes between which it moves.
//!
//! | who asks | grows when | shrinks when |
//! |---|---|---|
//! | a call whose group is full of keys in debt | at once | |
//! | calls of new keys, now and then, by a sample | 60 % of the slots are in use, 40 % not idle | no more than 6 % are not idle, again and again |
//! | `maintain`, by a count | | half the size would do |

use super::Table;
use super::generation::{Generation, SLOTS};
use super::group::Group;
use super::slot::{GROUP_BITS_MIN, Hash};
use crate::reclaim::Pin;
use crate::rule::Keeper;

/// Groups that a look at the load samples.
const SAMPLE: usize = 16;
/// Looks in a row at a table that is nearly empty before it is halved.
const QUIET: u64 = 8;

impl Table {
    /// Whether the next size is under the ceiling. Twice its bytes, since all the sizes before it take as
    /// much again if nobody shrank between: so a thread that is held up in an old table, which can't be
    /// freed then, keeps nobody from growing.
    pub(super) fn may_grow_from(&self, generation: &Generation) -> bool {
        self.cells == 0 && Generation::bytes(generation.group_bits + 1, 0).saturating_mul(2) <= self.max_bytes
    }

    /// Looks at a few groups each time that as many keys as 1/64 of the slots have come. Doubles the table
    /// when 60 % of its slots are in use and 40 % are not idle; halves it when no more than 6 % were
    /// not idle at [`QUIET`] looks in a row, during which twice as many keys came: so a table whose keys
    /// become idle all at once, at the edge of a window, is not halved for that alone.
    pub(super) fn look_at_load<K: Keeper>(&self, hash: Hash, keeper: &K, pin: &Pin) {
        let generation = self.generation(pin);
        let (claimed, slots) = (generation.claimed.get(), generation.slots());
        let keys = claimed + self.took_idle.get();
        if self.cells > 0 || generation.next.get(pin).is_some() || !keys.is_multiple_of((slots / 64).max(1)) {
            return;
        }
        let sample = SAMPLE.min(generation.groups());
        let first = hash.group(generation.group_bits);
        let stride = generation.groups() / sample;
        let group = |i| Group { generation, index: (first + i * stride) % generation.groups() };
        let busy: u64 = (0..sample).map(|i| group(i).busy(keeper)).sum();
        let seen = (sample * SLOTS) as u64;
        if busy * 16 > seen {
            generation.quiet.set(0);
        } else if generation.quiet.add_one() + 1 >= QUIET {
            let least = self.bits_uncrowded.get().max(self.bits_min.into());
            if u64::from(generation.group_bits) > least {
                self.start(generation, generation.group_bits - 1, pin);
            }
        }
        if claimed * 5 >= slots * 3 && busy * 5 >= seen * 2 && self.may_grow_from(generation) {
            self.start(generation, generation.group_bits + 1, pin);
        }
    }

    /// Ends a move that is under way, and moves to the size for the keys that are not idle, if that is smaller.
    pub(super) fn shrink<K: Keeper>(&self, keeper: &K, pin: &Pin) {
        self.finish(keeper, pin);
        let generation = self.generation(pin);
        if self.cells == 0 && generation.next.get(pin).is_none() {
            let busy = (0..generation.groups()).map(|index| Group { generation, index }.busy(keeper)).sum();
            let bits = bits_for(busy).max(self.bits_min);
            self.bits_uncrowded.set(0);
            if bits < generation.group_bits && self.start(generation, bits, pin) {
                self.finish(keeper, pin);
            }
        }
    }
}

/// The least number of group bits at which `keys` keys load a table by half or less.
pub(super) fn bits_for(keys: u64) -> u32 {
    let groups = keys.saturating_mul(2).div_ceil(SLOTS as u64).max(1 << GROUP_BITS_MIN);
    groups.next_power_of_two().ilog2()
}
