//! The kernel's clock, interpolated by the processor's cycle counter.
//!
//! A reading of the kernel's clock takes about 20 ns, more than a decision; one of the cycle counter
//! less than half. So the kernel is asked about twice a millisecond, and in between its last answer (the
//! anchor) is carried on by cycles counted since. Only where the kernel itself keeps time by this counter
//! (clock source `tsc`), which says that it runs evenly and the same on all processors.
//!
//! | what may happen | what follows |
//! |---|---|
//! | the counter stood still or began anew (suspend) | the distance to the anchor is not small: ask the kernel |
//! | a thread is interrupted between the two readings of an anchor | they are too far apart: no anchor is made |
//! | two threads make an anchor | one does; the other returns what the kernel said |
//! | the rate is off, by d | time is off by d times half a millisecond, until the next anchor |
//!
//! The rate is measured from the first anchor on, so that its error shrinks from 0.1 % after 10 ms to
//! nothing. Until then, and wherever anything looks odd, the kernel is asked.

use crate::sync::{AtomicU64, Ordering, fence};
use Ordering::{AcqRel, Acquire, Relaxed, Release};

/// How far an anchor is carried, in cycles: about half a millisecond.
const CARRY: u64 = 1 << 20;
/// How far apart the two readings around an anchor may be, in cycles: a few microseconds.
const APART: u64 = 1 << 14;
/// How long a rate is measured at least, in cycles: about 10 ms.
const MEASURE: u64 = 1 << 25;

/// A clock that the kernel sets and cycles carry on.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Interpolated {
    /// Even: the three words below are an anchor. Odd: one is being made.
    sequence: AtomicU64,
    cycles: AtomicU64,
    ns: AtomicU64,
    /// Nanoseconds a cycle, in 2^-32; 0: not known.
    rate: AtomicU64,
    /// Where the rate is measured from; used by whoever makes an anchor only.
    first_cycles: AtomicU64,
    first_ns: AtomicU64,
}

impl Interpolated {
    pub(super) fn new() -> Interpolated {
        let word = || AtomicU64::new(0);
        Interpolated { sequence: word(), cycles: word(), ns: word(), rate: word(), first_cycles: word(), first_ns: word() }
    }

    /// What `kernel` would say, or a little less.
    #[inline(always)]
    pub(super) fn now(&self, kernel: fn() -> u64) -> u64 {
        self.at(cycles, kernel)
    }

    #[inline(always)]
    fn at(&self, counter: impl Fn() -> u64, kernel: impl Fn() -> u64) -> u64 {
        // Acquire: pairs with the Release that ends an anchor; the words are of that anchor or a later one.
        let sequence = self.sequence.load(Acquire);
        // Relaxed, thrice: the sequence says afterwards whether they belong together.
        let (cycles, ns, rate) = (self.cycles.load(Relaxed), self.ns.load(Relaxed), self.rate.load(Relaxed));
        // Acquire: keeps the loads above before the second load of the sequence, which is Relaxed.
        fence(Acquire);
        let whole = sequence.is_multiple_of(2) && self.sequence.load(Relaxed) == sequence;
        let since = counter().wrapping_sub(cycles);
        if whole && rate != 0 && since < CARRY {
            // since < 2^20 and rate < 2^36.
            return ns + ((since * rate) >> 32);
        }
        self.anchor(sequence, counter, kernel)
    }

    #[cold]
    #[inline(never)]
    fn anchor(&self, sequence: u64, counter: impl Fn() -> u64, kernel: impl Fn() -> u64) -> u64 {
        let before = counter();
        let ns = kernel();
        let after = counter();
        if after.wrapping_sub(before) > APART || !sequence.is_multiple_of(2) {
            return ns;
        }
        // AcqRel: acquire pairs with the Release below of the anchor before, whose words are read here.
        // Relaxed on failure: whoever loses leaves it to the winner and reads nothing.
        if self.sequence.compare_exchange(sequence, sequence + 1, AcqRel, Relaxed).is_err() {
            return ns;
        }
        // Relaxed, all: the sequence is odd, so that nobody else writes them and nobody believes them. The
        // fence keeps the writes behind the odd sequence for whoever reads them.
        fence(Release);
        let known = self.rate.load(Relaxed);
        let (cycles, time) = (after.wrapping_sub(self.first_cycles.load(Relaxed)), ns.wrapping_sub(self.first_ns.load(Relaxed)));
        let measured = rate(cycles, time);
        let expected = self.ns.load(Relaxed).wrapping_add(carried(after.wrapping_sub(self.cycles.load(Relaxed)), known));
        // A step of the clock, a suspend, or the first anchor ever: measure anew.
        let odd = measured.is_none() || known != 0 && ns.abs_diff(expected) > STEP;
        if odd {
            // Relaxed, both: see above.
            self.first_cycles.store(after, Relaxed);
            self.first_ns.store(ns, Relaxed);
        }
        let rate = if odd || cycles < MEASURE { 0 } else { measured.unwrap_or(0) };
        // Relaxed, all three: see above.
        self.cycles.store(after, Relaxed);
        self.ns.store(ns, Relaxed);
        self.rate.store(rate, Relaxed);
        // Release: pairs with the Acquire in `at`.
        self.sequence.store(sequence + 2, Release);
        ns
    }
}

/// How far the kernel's time may be from the carried one before the rate is measured anew; ns.
const STEP: u64 = 100_000_000;

/// Nanoseconds a cycle in 2^-32, if they are those of a processor (62 MHz to 16 GHz).
fn rate(cycles: u64, ns: u64) -> Option<u64> {
    let rate = (u128::from(ns) << 32).checked_div(u128::from(cycles))?;
    (1 << 28..1 << 36).contains(&rate).then_some(rate as u64)
}

fn carried(cycles: u64, rate: u64) -> u64 {
    ((u128::from(cycles) * u128::from(rate)) >> 32) as u64
}

/// Whether the kernel keeps time by the cycle counter.
pub(super) fn are_even() -> bool {
    static EVEN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *EVEN.get_or_init(|| {
        let source = std::fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        source.is_ok_and(|name| name.trim_ascii() == b"tsc")
    })
}

#[inline(always)]
fn cycles() -> u64 {
    // SAFETY: the instruction is part of x86-64; where the kernel forbids it, it does not use it either.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A machine whose counter runs at 2.5 GHz; every reading of the kernel's clock is counted.
    struct Machine {
        clock: Interpolated,
        cycles: Cell<u64>,
        ns: Cell<u64>,
        asked: Cell<u32>,
    }

    impl Machine {
        fn new() -> Machine {
            Machine { clock: Interpolated::new(), cycles: Cell::new(1 << 40), ns: Cell::new(77), asked: Cell::new(0) }
        }

        fn pass(&self, ns: u64) {
            self.ns.set(self.ns.get() + ns);
            self.cycles.set(self.cycles.get().wrapping_add(ns * 5 / 2));
        }

        fn now(&self) -> u64 {
            self.clock.at(
                || self.cycles.get(),
                || {
                    self.asked.set(self.asked.get() + 1);
                    self.ns.get()
                },
            )
        }

        fn warm_up(&self) {
            for _ in 0..100 {
                self.now();
                self.pass(400_000);
            }
        }
    }

    #[test]
    fn cycles_carry_the_kernels_time_on() {
        let machine = Machine::new();
        machine.warm_up();
        let before = machine.asked.get();
        for _ in 0..10_000 {
            machine.pass(1000);
            let off = machine.ns.get() - machine.now();
            assert!(off <= 2, "{off}");
        }
        let asked = machine.asked.get() - before;
        assert!((20..=30).contains(&asked), "10 ms by {asked} questions");
    }

    #[test]
    fn a_suspend_is_noticed() {
        for lost in [0, 5_000_000_000] {
            let machine = Machine::new();
            machine.warm_up();
            machine.now();
            // The clock goes on; the counter stood still, or began anew.
            machine.ns.set(machine.ns.get() + 3_600_000_000_000);
            machine.cycles.set(if lost == 0 { 5 } else { machine.cycles.get() + lost });
            assert_eq!(machine.now(), machine.ns.get());
            machine.pass(1000);
            assert_eq!(machine.now(), machine.ns.get(), "the rate of before is not trusted");
            machine.warm_up();
            machine.pass(1000);
            assert!(machine.ns.get() - machine.now() <= 2);
        }
    }

    #[test]
    fn an_interrupted_reading_is_no_anchor() {
        let machine = Machine::new();
        machine.warm_up();
        let slow = || {
            machine.pass(1_000_000);
            machine.ns.get()
        };
        machine.pass(1_000_000);
        let sequence = machine.clock.sequence.load(Relaxed);
        assert_eq!(machine.clock.at(|| machine.cycles.get(), slow), machine.ns.get());
        assert_eq!(machine.clock.sequence.load(Relaxed), sequence);
    }
}
