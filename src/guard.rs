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
//!
//! With a grain of 0 this is exact. With the default of 1 ms, readings less than 1 ms apart are each
//! judged at themselves, so that the word is shared read-only most of the time; a bucket judged so
//! is harsher by at most the grain's worth of refill and never looser, since words do not go back.

use crate::sync::{AtomicU64, Ordering};
use Ordering::{AcqRel, Acquire, Relaxed};

/// A time that a call is judged at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The engine's time, ns.
    pub(crate) now: u64,
    /// How far the call's own time is behind it; its waits are longer by this.
    pub(crate) lead: u64,
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
}

impl TimeGuard {
    /// `stale`: how far a call may be behind; `max`: the time that later ones are taken as.
    pub(crate) fn new(grain: u64, stale: u64, max: u64) -> TimeGuard {
        TimeGuard { latest: AtomicU64::new(0), offset: AtomicU64::new(0), grain, stale, max }
    }

    /// The moment that a call whose clock reads `reading` is judged at.
    #[inline(always)]
    pub(crate) fn moment(&self, reading: u64) -> Moment {
        // Relaxed: a late view of either word is a late clock, which is what the guard is for; no
        // other data hangs on them. The compare-and-swap of `set_back` keeps `offset` consistent.
        let now = reading.min(self.max).wrapping_add(self.offset.load(Relaxed));
        let latest = self.latest.load(Relaxed);
        if now >= latest {
            if now - latest > self.grain {
                // Relaxed: see above.
                self.latest.fetch_max(now, Relaxed);
            }
            return Moment { now, lead: 0 };
        }
        self.behind(reading, latest)
    }

    #[cold]
    #[inline(never)]
    fn behind(&self, reading: u64, mut latest: u64) -> Moment {
        loop {
            // Acquire: pairs with the AcqRel below, so that a thread that sees a new offset judges
            // by a `latest` that is at least the one it was made from.
            let offset = self.offset.load(Acquire);
            let now = reading.min(self.max).wrapping_add(offset);
            if now >= latest {
                return Moment { now, lead: 0 };
            }
            let lead = latest - now;
            if lead <= self.stale {
                return Moment { now: latest, lead };
            }
            // AcqRel: pairs with the Acquire above. Whoever loses looks again with the winner's offset.
            if self.offset.compare_exchange(offset, offset.wrapping_add(lead), AcqRel, Acquire).is_ok() {
                return Moment { now: latest, lead: 0 };
            }
            // Relaxed: any later value is as good.
            latest = self.latest.load(Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn guard() -> TimeGuard {
        TimeGuard::new(0, 60 * SECOND, 1 << 62)
    }

    #[test]
    fn a_late_call_is_judged_at_the_latest_and_waits_longer() {
        let guard = guard();
        assert_eq!(guard.moment(100 * SECOND), Moment { now: 100 * SECOND, lead: 0 });
        assert_eq!(guard.moment(99 * SECOND), Moment { now: 100 * SECOND, lead: SECOND });
        assert_eq!(guard.moment(40 * SECOND), Moment { now: 100 * SECOND, lead: 60 * SECOND });
        assert_eq!(guard.moment(101 * SECOND), Moment { now: 101 * SECOND, lead: 0 });
    }

    #[test]
    fn a_clock_set_back_goes_on_from_the_latest() {
        let guard = guard();
        let _ = guard.moment(1000 * SECOND);
        assert_eq!(guard.moment(100 * SECOND), Moment { now: 1000 * SECOND, lead: 0 });
        assert_eq!(guard.moment(105 * SECOND), Moment { now: 1005 * SECOND, lead: 0 });
        assert_eq!(guard.moment(104 * SECOND), Moment { now: 1005 * SECOND, lead: SECOND });
        assert_eq!(guard.moment(0), Moment { now: 1005 * SECOND, lead: 0 });
        assert_eq!(guard.moment(7), Moment { now: 1005 * SECOND + 7, lead: 0 });
    }

    #[test]
    fn no_reading_runs_away() {
        let guard = guard();
        assert_eq!(guard.moment(u64::MAX).now, 1 << 62);
        assert_eq!(guard.moment(u64::MAX).now, 1 << 62);
        assert_eq!(guard.moment(5).now, 1 << 62);
        assert_eq!(guard.moment(6).now, (1 << 62) + 1);
    }

    #[test]
    fn within_the_grain_nothing_is_published() {
        let guard = TimeGuard::new(1000, 60 * SECOND, 1 << 62);
        let _ = guard.moment(10_000);
        let _ = guard.moment(10_900);
        assert_eq!(guard.moment(10_400), Moment { now: 10_400, lead: 0 });
        let _ = guard.moment(11_001);
        assert_eq!(guard.moment(10_400), Moment { now: 11_001, lead: 601 });
    }
}
