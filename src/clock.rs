//! The clocks that calls without a `now` read, in nanoseconds since the Unix epoch.
//!
//! Rates and windows read a monotonic clock that counts suspended time (Linux: `CLOCK_BOOTTIME`),
//! set to the wall clock once, when the limiter is made: later steps of the wall clock cannot grant
//! or refuse anything. Quotas are about the calendar and read the wall clock itself; the guard
//! (`guard.rs`) keeps it from going back.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod cycles;

use std::time::{SystemTime, UNIX_EPOCH};

/// A clock of one limiter.
#[derive(Debug)]
pub(crate) enum Clock {
    /// Monotonic; the value added makes it the wall clock of the time when it was made (wrapping).
    Monotonic(u64),
    /// The same, with the kernel's clock carried on by cycles.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Interpolated(u64, cycles::Interpolated),
    /// The wall clock.
    Wall,
}

impl Clock {
    pub(crate) fn monotonic() -> Clock {
        let offset = wall().wrapping_sub(boot());
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        if cycles::are_even() {
            return Clock::Interpolated(offset, cycles::Interpolated::new());
        }
        Clock::Monotonic(offset)
    }

    /// Nanoseconds since the Unix epoch.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self {
            Clock::Monotonic(offset) => boot().wrapping_add(*offset),
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Clock::Interpolated(offset, cycles) => cycles.now(boot).wrapping_add(*offset),
            Clock::Wall => wall(),
        }
    }
}

/// A wall clock before 1970 reads as 1970.
fn wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Nanoseconds since the machine was started, suspended time included where the system counts it.
#[cfg(unix)]
#[inline]
fn boot() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result for the whole call.
    let status = unsafe { libc::clock_gettime(CLOCK, &raw mut time) };
    // The call fails only for a clock that the system does not know; time then stands at 0, and
    // `Clock::now` at the wall clock of the limiter's birth, which refuses rather than grants.
    debug_assert_eq!(status, 0);
    time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec.cast_unsigned())
}

#[cfg(not(unix))]
fn boot() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_tell_the_wall_time_and_advance() {
        for clock in [Clock::monotonic(), Clock::Monotonic(wall().wrapping_sub(boot())), Clock::Wall] {
            // Far into the time when cycles are trusted, if they are.
            let mut last = 0;
            for _ in 0..300_000 {
                let now = clock.now();
                assert!(now + 1_000_000 >= last, "{clock:?} went from {last} to {now}");
                last = now;
            }
            assert!(wall().abs_diff(last) < 5_000_000_000);
        }
    }
}
