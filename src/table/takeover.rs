//! Taking over: a key that is new to a full group takes a slot of it, and what that slot owes.
//!
//! | step | every state in between is legal, because |
//! |---|---|
//! | 1. choose the slot, judge the call from what it owes or the floor | nothing is written: a refusal leaves no trace |
//! | 2. raise the floor to what the slot owes | the floor may be higher than it need be |
//! | 3. close the word: its next epoch | the slot is vacant; the floor speaks for its key; no charge under way succeeds |
//! | 4. exchange the tag for a reservation | as after an insert |

use super::group::{Event, Group, Miss, kept};
use super::slot::{Hash, Tag};
use crate::rule::{Keeper, Rank, Rule};
use crate::word::Word;

/// What is to be taken.
enum Victim {
    Vacant,
    Live(Rank),
    Reserved,
}

impl Group<'_> {
    #[cold]
    pub(super) fn take_over<R: Rule>(
        self,
        hash: Hash,
        rule: &R,
        crowded_ends: bool,
        event: &mut impl FnMut(Event),
    ) -> Result<R::Outcome, Miss> {
        let (at, tag, word, state) = self.victim(hash, &rule.keeper())?;
        let (slot, ring) = (self.slot(at), self.ring::<R::Keeper>(at));
        match state {
            Victim::Vacant => {
                let floor = self.floor();
                if let Some(outcome) = kept(rule.again().newcomer(word, floor, ring)) {
                    return Ok(outcome);
                }
                slot.swap_tag(tag, Tag::reserve(hash, tag, word.epoch())).map_err(|_| Miss::Again)?;
            }
            Victim::Reserved => {
                // Nobody finished it. Vacant, it can be taken on the next attempt.
                let _ = slot.swap_tag(tag, tag.dropped());
                return Err(Miss::Again);
            }
            Victim::Live(rank) => {
                if crowded_ends && !rank.is_idle() {
                    return Err(Miss::Crowded);
                }
                let floor = self.floor();
                if let Some(outcome) = kept(rule.again().heir(word, floor, ring)) {
                    return Ok(outcome);
                }
                // First the floor, then the word, then the tag: from the moment when the key's slot
                // is no longer its own, the floor speaks for it.
                self.raise_floor(|floor| rule.keeper().raise(floor, word, ring));
                let closed = rule.keeper().left_behind(word).with_epoch(word.epoch() + 1);
                if !slot.swap_word(word, closed) {
                    return Err(Miss::Again);
                }
                event(if rank.is_idle() { Event::TookIdle } else { Event::TookIndebted });
                slot.swap_tag(tag, Tag::reserve(hash, tag, closed.epoch())).map_err(|_| Miss::Again)?;
            }
        }
        self.resolve(hash, rule)
    }

    /// The slot to take: a vacant one, else an idle one, else the one with the least time until it is
    /// as good as fresh, else a reservation that nobody finished.
    fn victim<K: Keeper>(self, hash: Hash, keeper: &K) -> Result<(usize, Tag, Word, Victim), Miss> {
        let mut least: Option<(usize, Tag, Word, Rank)> = None;
        let mut reservation = None;
        for at in Self::probe(hash) {
            let slot = self.slot(at);
            let tag = slot.tag();
            if tag == Tag::EMPTY {
                return Err(Miss::Again);
            }
            if tag.is_frozen() {
                return Err(Miss::Frozen);
            }
            if tag.is_reserved() {
                reservation = Some((at, tag));
                continue;
            }
            let word = slot.word();
            if slot.tag() != tag {
                return Err(Miss::Again);
            }
            if !tag.matches(word) {
                return Ok((at, tag, word, Victim::Vacant));
            }
            // As of now: to a keeper older than the word, it may be one that cannot be, which counts as idle.
            let rank = keeper.again().rank(word, self.ring::<K>(at));
            if rank.is_idle() {
                return Ok((at, tag, word, Victim::Live(rank)));
            }
            if least.is_none_or(|(_, _, _, other)| rank < other) {
                least = Some((at, tag, word, rank));
            }
        }
        match (least, reservation) {
            (Some((at, tag, word, rank)), _) => Ok((at, tag, word, Victim::Live(rank))),
            (None, Some((at, tag))) => Ok((at, tag, Word::FRESH, Victim::Reserved)),
            (None, None) => Err(Miss::Again),
        }
    }
}
