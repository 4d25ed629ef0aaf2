//! One group: the slots that a key may live in, and the protocol that keys obey there.
//!
//! The steps are those of the essay in `table/mod.rs`: find, charge, insert, take over, resolve. Each
//! is one compare-and-swap from one legal state to another, so that whoever comes next, the same
//! caller or another, carries on from what is there. What fails says [`Miss::Again`] and starts over;
//! every such failure is caused by another caller's completed step.

use super::generation::{Generation, LINES, Rare, SLOTS};
use super::slot::{Hash, Slot, Tag, WAYS};
use crate::rule::{Keeper, Ring, Rule, Step};
use crate::sync::{Ordering, fence};
use crate::word::Word;
use Ordering::{AcqRel, Acquire, SeqCst};

/// Why an attempt gave no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    /// Somebody else's step came between.
    Again,
    /// The group is being moved: look in the next generation.
    Frozen,
    /// All keys of the group are in debt, and the table may grow.
    Crowded,
}

/// What happened besides the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Claimed,
    TookIdle,
    TookIndebted,
}

/// A group of one generation.
#[derive(Clone, Copy)]
pub(super) struct Group<'t> {
    pub(super) generation: &'t Generation,
    pub(super) index: usize,
}

enum Found<'t> {
    Live(usize, Slot<'t>, Tag),
    Reserved,
    Empty(usize, Slot<'t>),
    Full,
    Frozen,
}

impl<'t> Group<'t> {
    /// The group where the key of `hash` lives.
    #[inline(always)]
    pub(super) fn of(generation: &'t Generation, hash: Hash) -> Group<'t> {
        Group { generation, index: hash.group(generation.group_bits) }
    }

    /// The slot at place `at` of the group.
    #[inline(always)]
    pub(super) fn slot(self, at: usize) -> Slot<'t> {
        self.generation.line(self.index * LINES + at / WAYS).slot(at % WAYS)
    }

    /// Its ring; empty for keepers that have none.
    #[inline(always)]
    pub(super) fn ring<K: Keeper>(self, at: usize) -> Ring<'t> {
        if K::RING { self.generation.ring(self.index * SLOTS + at) } else { Ring::new(&[]) }
    }

    pub(super) fn rare(self) -> &'t Rare {
        self.generation.rare(self.index)
    }

    /// The places of the group in the order in which `hash` probes them.
    pub(super) fn probe(hash: Hash) -> impl Iterator<Item = usize> {
        let home = hash.home(LINES);
        (0..SLOTS).map(move |i| (home * WAYS + i) % SLOTS)
    }

    /// The hit path: charges the key's live slot, if its probe finds one that the call need not look
    /// at the time again for.
    #[inline(always)]
    pub(super) fn hit<R: Rule>(self, hash: Hash, rule: &R) -> Option<R::Outcome> {
        let judge = |word, ring| match rule.step(word, ring) {
            Step::Mend(..) => None,
            step => Some(step),
        };
        let home = hash.home(LINES);
        for i in 0..LINES {
            let line = (home + i) & (LINES - 1);
            for way in 0..WAYS {
                let at = line * WAYS + way;
                let slot = self.slot(at);
                let tag = slot.tag();
                if tag.is_of(hash)
                    && let Some(outcome) = self.charge(at, slot, tag, rule, judge)
                {
                    return Some(outcome);
                }
                if tag == Tag::EMPTY {
                    return None;
                }
            }
        }
        None
    }

    /// Charges a slot while `tag` is its tag and it is live, and `judge` has a step for its word. The
    /// one compare-and-swap loop; a failure of the swap means that another call was admitted.
    #[inline(always)]
    fn charge<R: Rule>(
        self,
        at: usize,
        slot: Slot<'t>,
        tag: Tag,
        rule: &R,
        judge: impl Fn(Word, Ring<'t>) -> Option<Step<R::Outcome>>,
    ) -> Option<R::Outcome> {
        let ring = self.ring::<R::Keeper>(at);
        loop {
            let word = slot.word();
            if !tag.matches(word) || slot.tag() != tag {
                return None;
            }
            match judge(word, ring)? {
                Step::Keep(outcome) => {
                    if R::Keeper::RING && slot.word() != word {
                        continue;
                    }
                    return Some(outcome);
                }
                Step::Write(charged, outcome) | Step::Mend(charged, outcome) => {
                    rule.before_write(word, charged, ring, || slot.word() == word);
                    if slot.swap_word(word, charged.with_epoch(word.epoch())) {
                        return Some(outcome);
                    }
                }
            }
        }
    }

    /// How many slots are not idle.
    pub(super) fn busy<K: Keeper>(self, keeper: &K) -> u64 {
        let busy = |at: &usize| {
            let slot = self.slot(*at);
            let (tag, word) = (slot.tag(), slot.word());
            let live = tag != Tag::EMPTY && !tag.is_reserved() && tag.matches(word);
            live && !keeper.again().rank(word, self.ring::<K>(*at)).is_idle()
        };
        (0..SLOTS).filter(busy).count() as u64
    }

    #[cfg(all(test, loom))]
    pub(super) fn live_slots(self, hash: Hash) -> usize {
        let live = |at: &usize| self.slot(*at).tag().is_of(hash) && self.slot(*at).tag().matches(self.slot(*at).word());
        (0..SLOTS).filter(live).count()
    }

    fn find(self, hash: Hash) -> Found<'t> {
        let mut reserved = false;
        for at in Self::probe(hash) {
            let slot = self.slot(at);
            let tag = slot.tag();
            if tag == Tag::EMPTY {
                return if reserved { Found::Reserved } else { Found::Empty(at, slot) };
            }
            if tag.is_frozen() {
                return Found::Frozen;
            }
            if tag.is_of(hash) && tag.matches(slot.word()) {
                return Found::Live(at, slot, tag);
            }
            reserved |= tag.is_reserved_by(hash);
        }
        if reserved { Found::Reserved } else { Found::Full }
    }

    /// One attempt at a call, wherever the key is. `crowded_ends`: rather than evict a key in debt,
    /// say so.
    pub(super) fn attempt<R: Rule>(
        self,
        hash: Hash,
        rule: &R,
        crowded_ends: bool,
        mut event: impl FnMut(Event),
    ) -> Result<R::Outcome, Miss> {
        match self.find(hash) {
            Found::Live(at, slot, tag) => {
                let judge = |word, ring| Some(rule.again().step(word, ring));
                self.charge(at, slot, tag, rule, judge).ok_or(Miss::Again)
            }
            Found::Reserved => self.resolve(hash, rule),
            Found::Empty(at, slot) => self.insert(hash, rule, at, slot, event),
            Found::Full => self.take_over(hash, rule, crowded_ends, &mut event),
            Found::Frozen => Err(Miss::Frozen),
        }
    }

    pub(super) fn floor(self) -> Word {
        // Acquire: pairs with the AcqRel of `raise_floor`. Whoever sees a word that was closed, or a tag
        // that was re-labelled after it, sees the floor that was raised before.
        Word(self.rare().floor.load(Acquire))
    }

    pub(super) fn raise_floor(self, raised: impl Fn(Word) -> Word) {
        let mut floor = self.floor();
        loop {
            let new = raised(floor);
            if new == floor {
                return;
            }
            // AcqRel: release pairs with the Acquire of `floor`. The floor only rises: a failure is a rise.
            match self.rare().floor.compare_exchange(floor.0, new.0, AcqRel, Acquire) {
                Ok(_) => return,
                Err(now) => floor = Word(now),
            }
        }
    }

    #[cold]
    fn insert<R: Rule>(
        self,
        hash: Hash,
        rule: &R,
        at: usize,
        slot: Slot<'t>,
        mut event: impl FnMut(Event),
    ) -> Result<R::Outcome, Miss> {
        // Judged before anything is written: a peek or a refusal leaves no trace.
        let floor = self.floor();
        if let Some(outcome) = kept(rule.again().newcomer(Word::FRESH, floor, self.ring::<R::Keeper>(at))) {
            return Ok(outcome);
        }
        slot.swap_tag(Tag::EMPTY, Tag::first(hash)).map_err(|_| Miss::Again)?;
        event(Event::Claimed);
        self.resolve(hash, rule)
    }

    /// Brings `hash`'s reservations to an end: at most one survives, and it is charged and settled.
    /// Whoever works for the key may do it.
    #[cold]
    pub(super) fn resolve<R: Rule>(self, hash: Hash, rule: &R) -> Result<R::Outcome, Miss> {
        let mut known = None;
        loop {
            let first = self.only_reservation(hash)?;
            let (at, tag) = first;
            if known != Some(first) {
                // A reservation published before this one may have been behind the scan.
                known = Some(first);
                continue;
            }
            let (slot, ring) = (self.slot(at), self.ring::<R::Keeper>(at));
            // Now, not earlier: an eviction of this key that the scan did not see has raised it.
            let floor = self.floor();
            let word = slot.word();
            if slot.tag() != tag {
                return Err(Miss::Again);
            }
            if !tag.matches(word) {
                let _ = slot.swap_tag(tag, tag.settled());
                return Err(Miss::Again);
            }
            let rule = rule.again();
            match rule.newcomer(word, floor, ring) {
                Step::Keep(outcome) => {
                    // A refusal or a peek. The word may hold the charge of another call, which counts
                    // once the tag is settled.
                    let end = match rule.keeper().adopt(word, floor, ring) {
                        None => tag.dropped(),
                        Some(adopted) if slot.swap_word(word, adopted.with_epoch(word.epoch())) => tag.settled(),
                        Some(_) => continue,
                    };
                    let _ = slot.swap_tag(tag, end);
                    return Ok(outcome);
                }
                Step::Write(charged, outcome) | Step::Mend(charged, outcome) => {
                    rule.before_write(word, charged, ring, || slot.word() == word);
                    if !slot.swap_word(word, charged.with_epoch(word.epoch())) {
                        continue;
                    }
                    return match slot.swap_tag(tag, tag.settled()) {
                        Ok(()) => Ok(outcome),
                        // By a helper; the group may be on the move since.
                        Err(now) if now == tag.settled() || now == tag.settled().frozen() => Ok(outcome),
                        // Dropped or frozen before it was settled: the charge did not count. (Or settled,
                        // and taken from the key since: then this call is charged twice, and counts once.)
                        Err(_) => Err(Miss::Again),
                    };
                }
            }
        }
    }

    /// Drops all reservations of `hash` but the first in its probe order, and that one too if the key
    /// has a live slot; gives the one that is left.
    fn only_reservation(self, hash: Hash) -> Result<(usize, Tag), Miss> {
        // SeqCst: pairs with itself in another caller's scan. Each publishes its reservation before the
        // fence and looks at the tags after it, so that of two callers at least one sees the other's
        // reservation, or what became of it; without it both could end with a live slot.
        fence(SeqCst);
        let mut first: Option<(usize, Tag)> = None;
        let mut live = false;
        for at in Self::probe(hash) {
            let slot = self.slot(at);
            let tag = slot.tag();
            if tag == Tag::EMPTY {
                break;
            }
            if tag.is_frozen() {
                return Err(Miss::Frozen);
            }
            if tag.is_of(hash) {
                live |= tag.matches(slot.word());
            } else if tag.is_reserved_by(hash) {
                if live || first.is_some() {
                    let _ = slot.swap_tag(tag, tag.dropped());
                } else {
                    first = Some((at, tag));
                }
            }
        }
        match first {
            Some((at, tag)) if live => {
                let _ = self.slot(at).swap_tag(tag, tag.dropped());
                Err(Miss::Again)
            }
            Some(first) => Ok(first),
            None => Err(Miss::Again),
        }
    }
}

/// The outcome of a step that writes nothing.
pub(super) fn kept<O>(step: Step<O>) -> Option<O> {
    match step {
        Step::Keep(outcome) => Some(outcome),
        Step::Write(..) | Step::Mend(..) => None,
    }
}
