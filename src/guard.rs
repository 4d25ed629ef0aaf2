//! The guard: one time for the whole limiter, which never goes back.
//!
//! Words trust the clock; the guard makes it trustworthy before the step. It keeps two words that
//! are read by every call and written seldom:
//!
//! - `latest`: the latest time seen, published when it has moved by more than the grain;
//! - `offset`: what is added to every reading (wrapping), since the clock was set back.
//!
//! | a reading that is, against `latest` | is judged |
//! |---|---|
//! | ahead | at itself |
//! | behind by up to 60 s: a late thread, a small step | at `latest`; time stands still |
//! | behind by more: the clock was set back | at `latest`, and time goes on from there |
//! | beyond the end of time: nonsense | at `latest` |
//!
//! Whoever is behind asks the clock again before anything is concluded: it may be the thread that was
//! late, not the clock.
//!
//! With a grain of 0 this is exact. With the default of 1 ms, readings less than 1 ms apart are each
//! judged at themselves, so that the word is shared read-only most of the time; a bucket judged so
//! is harsher by at most the grain's worth of refill and never looser, since words do not go back.
//!
//! That words do not go back is not enough where a word is *forgotten*: a call that is late would find
//! nothing. So what may be forgotten is judged at `latest` ([`Moment::published`]), and whoever finds
//! nothing looks at `latest` before it is judged ([`Moment::again`]), and so is judged no earlier.

use crate::sync::{AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};

/// A time that a call is judged at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'g> {
    /// The engine's time, ns.
    pub(crate) now: u64,
    /// How far the call's own time is behind it; its waits are longer by this.
    pub(crate) lead: u64,
    guard: &'g TimeGuard,
}

impl Moment<'_> {
    /// The moment `latest`, if that is later than this one by now. To be asked after reading what is to be
    /// judged: a word is written at most a grain after `latest`, and forgotten at `latest`, so that nothing
    /// that was read is of a time which is not known of, however long the caller was held up before.
    pub(crate) fn again(self) -> Option<Self> {
        // Relaxed: what was read before was read with acquire from whoever was ahead of this call, and
        // that caller had published its time, or seen it published, before it wrote.
        let latest = self.guard.latest.load(Relaxed);
        let late = latest.checked_sub(self.now).filter(|late| *late > 0)?;
        Some(Moment { now: latest, lead: self.lead + late, ..self })
    }

    /// The moment `latest`: no call that begins from now on is judged before it.
    pub(crate) fn published(self) -> Self {
        // Relaxed: an older one is as safe.
        Moment { now: self.guard.latest.load(Relaxed), ..self }
    }
}

/// The two words and the grain.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct TimeGuard {
    latest: AtomicU64,
    offset: AtomicU64,
    grain: u64,
    stale: u64,
    max: u64,
    end: u64,
}

impl TimeGuard {
    /// `grain`: how far time moves before it is published, less than `stale`. `stale`: how far a call
    /// may be behind. `max`: the time that later readings are taken as. `end`: where time ends.
    pub(crate) fn new(grain: u64, stale: u64, max: u64, end: u64) -> TimeGuard {
        debug_assert!(grain < stale && max <= end);
        TimeGuard { latest: AtomicU64::new(0), offset: AtomicU64::new(0), grain, stale, max, end }
    }

    /// The moment that a call whose clock reads `clock()` is judged at.
    #[inline(always)]
    pub(crate) fn moment(&self, clock: impl Fn() -> u64) -> Moment<'_> {
        // Relaxed: a late view of either word is a late clock, which is what the guard is for; no
        // other data hangs on them. The compare-and-swap of `behind` keeps `offset` consistent.
        let now = clock().min(self.max).wrapping_add(self.offset.load(Relaxed));
        let latest = self.latest.load(Relaxed);
        let ahead = now.wrapping_sub(latest);
        if ahead <= self.grain {
            return Moment { now, lead: 0, guard: self };
        }
        if now > latest && now <= self.end {
            // Relaxed: see above.
            self.latest.fetch_max(now, Relaxed);
            return Moment { now, lead: 0, guard: self };
        }
        self.behind(clock, latest)
    }

    #[cold]
    #[inline(never)]
    fn behind(&self, clock: impl Fn() -> u64, mut latest: u64) -> Moment<'_> {
        loop {
            // Acquire: pairs with the AcqRel below, so that a thread that sees a new offset judges
            // by a `latest` that is at least the one it was made from.
            let offset = self.offset.load(Acquire);
            // After `latest` was read, so that a thread which was held up does not take it for a clock
            // that was set back.
            let now = clock().min(self.max).wrapping_add(offset);
            if now > self.end {
                return Moment { now: latest, lead: 0, guard: self };
            }
            if now >= latest {
                if now - latest > self.grain {
                    // Relaxed: see `moment`.
                    self.latest.fetch_max(now, Relaxed);
                }
                return Moment { now, lead: 0, guard: self };
            }
            let lead = latest - now;
            if lead <= self.stale {
                return Moment { now: latest, lead, guard: self };
            }
            // AcqRel: pairs with the Acquire above. Whoever loses looks again with the winner's offset.
            if self.offset.compare_exchange(offset, offset.wrapping_add(lead), AcqRel, Acquire).is_ok() {
                return Moment { now: latest, lead: 0, guard: self };
            }
            // Relaxed: any later value is as good.
            latest = self.latest.load(Relaxed);
        }
    }
}

/// A moment that stays as it is, for tests of what is judged at it.
#[cfg(test)]
impl Moment<'static> {
    pub(crate) fn at(now: u64) -> Moment<'static> {
        static STILL: std::sync::OnceLock<TimeGuard> = std::sync::OnceLock::new();
        Moment { now, lead: 0, guard: STILL.get_or_init(|| TimeGuard::new(0, 1, 0, 0)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const SECOND: u64 = 1_000_000_000;
    const MAX: u64 = 1 << 62;
    const END: u64 = MAX + (1 << 59);

    fn guard() -> TimeGuard {
        TimeGuard::new(0, 60 * SECOND, MAX, END)
    }

    fn at(guard: &TimeGuard, reading: u64) -> (u64, u64) {
        let moment = guard.moment(|| reading);
        (moment.now, moment.lead)
    }

    #[test]
    fn a_late_call_is_judged_at_the_latest_and_waits_longer() {
        let guard = guard();
        assert_eq!(at(&guard, 100 * SECOND), (100 * SECOND, 0));
        assert_eq!(at(&guard, 99 * SECOND), (100 * SECOND, SECOND));
        assert_eq!(at(&guard, 40 * SECOND), (100 * SECOND, 60 * SECOND));
        assert_eq!(at(&guard, 101 * SECOND), (101 * SECOND, 0));
    }

    #[test]
    fn a_clock_set_back_goes_on_from_the_latest() {
        let guard = guard();
        let _ = at(&guard, 1000 * SECOND);
        assert_eq!(at(&guard, 100 * SECOND), (1000 * SECOND, 0));
        assert_eq!(at(&guard, 105 * SECOND), (1005 * SECOND, 0));
        assert_eq!(at(&guard, 104 * SECOND), (1005 * SECOND, SECOND));
        assert_eq!(at(&guard, 0), (1005 * SECOND, 0));
        assert_eq!(at(&guard, 7), (1005 * SECOND + 7, 0));
    }

    #[test]
    fn a_thread_that_was_held_up_is_no_clock_that_was_set_back() {
        let guard = guard();
        let (asked, clock) = (Cell::new(0), Cell::new(100 * SECOND));
        // Between this caller's first reading and its look at `latest`, an hour goes by for all others.
        let held_up = || {
            asked.set(asked.get() + 1);
            let reading = clock.get();
            if asked.get() == 1 {
                clock.set(3700 * SECOND);
                let _ = at(&guard, 3700 * SECOND);
            }
            reading
        };
        let moment = guard.moment(held_up);
        assert_eq!((moment.now, moment.lead, asked.get()), (3700 * SECOND, 0, 2));
        assert_eq!(at(&guard, 3701 * SECOND), (3701 * SECOND, 0));
    }

    #[test]
    fn no_reading_runs_away() {
        let guard = guard();
        assert_eq!(at(&guard, u64::MAX), (MAX, 0));
        assert_eq!(at(&guard, u64::MAX), (MAX, 0));
        assert_eq!(at(&guard, 5), (MAX, 0));
        assert_eq!(at(&guard, 6), (MAX + 1, 0));
        // The clock tells nonsense once more: time goes on as if it had not.
        for swing in 0..10 {
            for reading in [MAX, u64::MAX, MAX - 1] {
                assert_eq!(at(&guard, reading), (MAX + 1 + swing, 0));
            }
            assert_eq!(at(&guard, 7 + swing), (MAX + 2 + swing, 0));
        }
    }

    #[test]
    fn within_the_grain_nothing_is_published() {
        let guard = TimeGuard::new(1000, 60 * SECOND, MAX, END);
        let _ = at(&guard, 10_000);
        let _ = at(&guard, 10_900);
        assert_eq!(at(&guard, 10_400), (10_400, 0));
        let _ = at(&guard, 11_001);
        assert_eq!(at(&guard, 10_400), (11_001, 601));
    }

    #[test]
    fn a_moment_keeps_up_with_the_latest() {
        let guard = TimeGuard::new(1000, 60 * SECOND, MAX, END);
        let (early, ahead) = (guard.moment(|| 10_000), guard.moment(|| 10_900));
        assert!(ahead.again().is_none() && early.again().is_none());
        assert_eq!(ahead.published().now, 10_000);
        let _ = at(&guard, 3600 * SECOND);
        for moment in [early, ahead] {
            let again = moment.again().expect("time went on");
            assert_eq!((again.now, again.lead), (3600 * SECOND, 3600 * SECOND - moment.now));
            assert_eq!(moment.published().now, 3600 * SECOND);
        }
        assert_eq!(at(&guard, 3601 * SECOND), (3601 * SECOND, 0), "to keep up is not to set back");
    }
}
