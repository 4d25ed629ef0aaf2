//! The table: keys to words, without locks. It knows words, not limits.
//!
//! # Where a key lives
//!
//! A table is a number of groups of 128 slots, 32 cache lines. A key's hash chooses its group and,
//! in it, its home line; the key is in the first place that was free, going on from there and round.
//! A used tag never becomes empty again, so that an empty one ends every search. One decision for a
//! known key is: one line, one word, one compare-and-swap (`group.rs`, `slot.rs`).
//!
//! # The protocol
//!
//! A slot is **live** for its tag's key while the tag is not reserved and its version equals its word's
//! epoch. Each group has a **floor**, which owes at least what every key owed that was evicted from it.
//!
//! 1. **Find**: a live slot of the key is charged (2). A reservation of the key is resolved (5). An
//!    empty tag: insert (3). None: take over (4).
//! 2. **Charge**: load the word, whose epoch must match the tag; load the tag again, which must be the
//!    same; judge; exchange the word. A refusal writes nothing. Nothing needs to be confirmed after the
//!    exchange: whoever wants the slot must change the word first.
//! 3. **Insert**: judge from the floor; exchange the empty tag for a reservation; resolve.
//! 4. **Take over**: choose a vacant slot, else an idle one, else the one with the least time until it
//!    is as good as fresh. Judge from what it owes or the floor, whichever is more, before writing
//!    anything. Raise the floor to what the slot owes; close the word (its next epoch); exchange the tag
//!    for a reservation; resolve.
//! 5. **Resolve**: of all reservations of the key drop all but the first, all if it has a live slot. Scan
//!    again if the survivor is not the one that was known before the scan. Read the floor, the word, the
//!    tag. Judge; exchange the word for one with the charge in it, or, if nothing is charged, with what
//!    the floor says; **settle** the tag. The call counts if it was settled, by its caller or by a helper,
//!    and did not if the reservation was dropped.
//!
//! So an idle key's slot is taken at no loss, and no sweeper is needed. Under a flood of new keys a
//! group behaves like a Space-Saving summary (Metwally, Agrawal, El Abbadi, 2005): what is recorded for
//! a key never owes less than what it was granted, and nobody is locked out for longer than the
//! least indebted key of the group.
//!
//! # Why each part is there
//!
//! | without | goes wrong |
//! |---|---|
//! | closing the word before the tag | a charge under way lands on the newcomer, or is lost |
//! | the floor | an evicted key comes back with less debt than it had |
//! | the floor read after the reservation is published | an eviction in between is missed |
//! | an epoch of several values | closed and reopened looks like never closed |
//! | the second load of the tag | word and tag of different tenants are matched |
//!
//! # Progress
//!
//! The hit path is lock-free: an exchange fails only because another call was admitted. The cold path
//! (insert, take over, resolve, move) is obstruction-free with helping: two callers can make each other
//! look again, each time because the other completed a step; a caller that stops for ever blocks nobody,
//! since every state between two steps is one that others carry on from. No path returns an error for
//! contention.
//!
//! Compare Purcell and Harris, *Non-blocking hashtables with open addressing* (2005), and DLHT
//! (Katsarakis and others, 2024). Growth is in `grow.rs`, when it happens in `load.rs`.

mod generation;
mod group;
mod grow;
mod load;
mod memory;
mod slot;
mod takeover;

pub(crate) use slot::Hash;

use crate::reclaim::{Link, Pin, pin};
use crate::rule::{Keeper, Rule};
use crate::sync::{Counter, Gauge};
use generation::Generation;
use group::{Event, Group, Miss};
use load::bits_for;
use slot::GROUP_BITS_MIN;
use std::sync::Arc;

/// The ceiling when none is given: for a table of 16.7 million slots (2^17 groups of 2064 bytes) and those
/// that it grew from.
const MAX_BYTES: u64 = 516 << 20;

/// Pins after which garbage is freed, if no other thread is in a call.
const EPOCHS: usize = 4;

/// How large a table is and may become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The ceiling: bytes of a table and of those that it is moved to, together. `None`: [`MAX_BYTES`],
    /// or one group if that takes more.
    pub(crate) max_bytes: Option<u64>,
    /// Keys to make room for at the start.
    pub(crate) expected_keys: u64,
    /// Ring cells a slot. A table with rings has its full size at once and never moves.
    pub(crate) cells: usize,
}

/// A table of words.
pub(crate) struct Table {
    current: Link<Generation>,
    cells: usize,
    /// It does not shrink below this.
    bits_min: u32,
    /// Calls do not halve it below this: in the size before, all keys of some group were in debt.
    bits_uncrowded: Counter,
    max_bytes: u64,
    /// Bytes of all generations, those that are retired and not yet freed too.
    held: Arc<Gauge>,
    growths: Counter,
    shrinks: Counter,
    took_idle: Counter,
    took_indebted: Counter,
}

/// What a table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) keys: u64,
    pub(crate) capacity: u64,
    pub(crate) bytes: u64,
    pub(crate) growths: u64,
    pub(crate) shrinks: u64,
    pub(crate) took_idle: u64,
    pub(crate) took_indebted: u64,
}

impl Table {
    /// `Err` with the least number of bytes that would do; 0 if the memory is not to be had.
    pub(crate) fn new(size: Size) -> Result<Table, u64> {
        let bytes = |bits| Generation::bytes(bits, size.cells);
        // A table that never moves need not know its keys' whole hash, and may be as small as one group.
        let bits_least = if size.cells > 0 { 0 } else { GROUP_BITS_MIN };
        let least = bytes(bits_least);
        let max_bytes = size.max_bytes.unwrap_or(MAX_BYTES.max(least));
        if max_bytes < least {
            return Err(least);
        }
        let largest = (bits_least..48).take_while(|bits| bytes(*bits) <= max_bytes).last().unwrap_or(bits_least);
        let first = if size.cells > 0 { largest } else { bits_for(size.expected_keys).min(largest) };
        let held = Arc::new(Gauge::new());
        let generation = Generation::new(first, size.cells, &held).ok_or(0u64)?;
        generation.count();
        Ok(Table {
            current: Link::new(generation),
            cells: size.cells,
            bits_min: bits_for(size.expected_keys).min(first),
            bits_uncrowded: Counter::new(0),
            max_bytes,
            held,
            growths: Counter::new(0),
            shrinks: Counter::new(0),
            took_idle: Counter::new(0),
            took_indebted: Counter::new(0),
        })
    }

    /// Starts a call, or a few: what is looked at stays until the visit ends.
    #[inline(always)]
    pub(crate) fn visit(&self) -> Visit<'_> {
        Visit { table: self, pin: pin() }
    }

    /// The counters as they are now.
    pub(crate) fn counts(&self) -> Counts {
        let pin = pin();
        let (mut keys, mut capacity) = (0, 0);
        let mut next = Some(self.generation(&pin));
        while let Some(generation) = next {
            keys = generation.claimed.get().max(keys);
            capacity = generation.slots().max(capacity);
            next = generation.next.get(&pin);
        }
        Counts {
            keys,
            capacity,
            bytes: self.held.get(),
            growths: self.growths.get(),
            shrinks: self.shrinks.get(),
            took_idle: self.took_idle.get(),
            took_indebted: self.took_indebted.get(),
        }
    }

    /// Ends a move that is under way, gives back memory if most keys are idle, and frees what was
    /// retired. Looks at every slot.
    pub(crate) fn maintain<K: Keeper>(&self, keeper: &K) {
        self.shrink(keeper, &pin());
        // What is retired is freed two epochs later, each under a pin of its own.
        for _ in 0..EPOCHS {
            pin().collect();
        }
    }

    /// How many slots of the newest generation are live for `hash`: at most one, ever.
    #[cfg(all(test, loom))]
    pub(crate) fn live_slots(&self, hash: Hash) -> usize {
        let pin = pin();
        let mut newest = self.generation(&pin);
        while let Some(next) = newest.next.get(&pin) {
            newest = next;
        }
        Group::of(newest, hash).live_slots(hash)
    }

    fn generation<'p>(&self, pin: &'p Pin) -> &'p Generation {
        self.current.get(pin).expect("a table always has a generation")
    }

    fn event(&self, generation: &Generation, event: Event) {
        match event {
            Event::Claimed => generation.claimed.add_one(),
            Event::TookIdle => self.took_idle.add_one(),
            Event::TookIndebted => self.took_indebted.add_one(),
        };
    }

    /// Everything but a hit: the key is new, or being moved, or the table is.
    #[cold]
    #[inline(never)]
    fn call<R: Rule>(&self, hash: Hash, rule: R, pin: &Pin) -> R::Outcome {
        let generation = self.generation(pin);
        if generation.next.get(pin).is_some() {
            self.move_group(generation, generation.next_to_move(), &rule.keeper(), pin);
            self.advance(generation, pin);
        }
        let mut came = false;
        let outcome = self.call_from(generation, hash, &rule, pin, &mut came);
        if came {
            self.look_at_load(hash, &rule.keeper(), pin);
        }
        outcome
    }

    /// The call, in the last generation from `first` on; the key's groups before it are moved first.
    /// `came`: whether the key was new and took a slot at nobody's loss.
    fn call_from<R: Rule>(&self, first: &Generation, hash: Hash, rule: &R, pin: &Pin, came: &mut bool) -> R::Outcome {
        let mut generation = first;
        let mut at_ceiling = false;
        loop {
            while let Some(next) = generation.next.get(pin) {
                self.move_group(generation, hash.group(generation.group_bits), &rule.keeper(), pin);
                generation = next;
            }
            let may_grow = !at_ceiling && self.may_grow_from(generation);
            let event = |event| {
                *came |= event != Event::TookIndebted;
                self.event(generation, event);
            };
            match Group::of(generation, hash).attempt(hash, rule, may_grow, event) {
                Ok(outcome) => return outcome,
                Err(Miss::Crowded) => {
                    let bits = generation.group_bits + 1;
                    self.bits_uncrowded.raise(bits.into());
                    // No memory: as if the table were at its ceiling.
                    at_ceiling = !self.start(generation, bits, pin);
                }
                Err(Miss::Again | Miss::Frozen) => {}
            }
        }
    }

    fn move_group<K: Keeper>(&self, from: &Generation, index: usize, keeper: &K, pin: &Pin) {
        from.move_group(index, keeper, pin, |hash, carry| {
            if let Some(next) = from.next.get(pin) {
                self.call_from(next, hash, &carry, pin, &mut false);
            }
        });
    }

    /// Leaves `generation` and those after it behind for as long as they are moved.
    fn advance<'p>(&self, mut generation: &'p Generation, pin: &'p Pin) {
        while generation.is_moved() {
            let Some(next) = generation.next.get(pin) else { return };
            self.current.advance(generation, &generation.next, pin);
            generation = next;
        }
    }

    /// Hangs a next generation on `generation`, unless one is there or would be above the ceiling. Gives
    /// whether one is there now.
    fn start(&self, generation: &Generation, bits: u32, pin: &Pin) -> bool {
        generation.count();
        // Before the look at `next`: what is held may already have the next one in it.
        let held = self.held.get();
        if generation.next.get(pin).is_some() {
            return true;
        }
        if Generation::bytes(bits, self.cells).saturating_add(held) > self.max_bytes {
            return false;
        }
        let Some(next) = Generation::new(bits, self.cells, &self.held) else { return false };
        if generation.next.set(next, pin) {
            if bits > generation.group_bits { &self.growths } else { &self.shrinks }.add_one();
        }
        if let Some(next) = generation.next.get(pin) {
            next.count();
        }
        true
    }

    /// Moves whatever is left of a move.
    fn finish<K: Keeper>(&self, keeper: &K, pin: &Pin) {
        let mut generation = self.generation(pin);
        while let Some(next) = generation.next.get(pin) {
            for index in 0..generation.groups() {
                self.move_group(generation, index, keeper, pin);
            }
            self.advance(generation, pin);
            generation = next;
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // SAFETY: a table's own link owns its generation (`advance` moves the ownership here), and
        // `&mut self` says that no call is under way.
        let mut last = unsafe { self.current.take() };
        while let Some(mut generation) = last {
            // SAFETY: the table pointed at `generation` or one before it, so nobody advanced past it:
            // its link still owns the next one, if there is one.
            last = unsafe { generation.next.take() };
        }
    }
}

/// A stay in the table, under one pin.
pub(crate) struct Visit<'t> {
    table: &'t Table,
    pin: Pin,
}

impl Visit<'_> {
    /// One call of the key of `hash`.
    #[inline(always)]
    pub(crate) fn call<R: Rule>(&self, hash: Hash, rule: R) -> R::Outcome {
        let generation = self.table.generation(&self.pin);
        // A table that moves is everybody's business, or it would never end when no key is new.
        if generation.next.get(&self.pin).is_none()
            && let Some(outcome) = Group::of(generation, hash).hit(hash, &rule)
        {
            return outcome;
        }
        self.table.call(hash, rule, &self.pin)
    }

    /// Asks for the line where `hash` is looked for first.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: Hash) {
        let line = self.table.generation(&self.pin).home_line(hash);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing and cannot fault; SSE is part of x86-64.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}
