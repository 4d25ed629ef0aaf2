//! The atomics: the standard library's, or loom's when the models run (`--cfg loom`).
//!
//! Where loom differs from the truth: its `SeqCst` loads and stores are no stronger than acquire and
//! release, so what leans on a single order leans on a fence, which it models; and its atomics are not zero-initialised memory, so tables are built slot by slot.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

use std::sync::atomic::Ordering::Relaxed;

/// A counter that no protocol decides by: relaxed, away from the lines that decisions read, and the
/// standard library's in loom's models too, where it would only add to the interleavings.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Counter(std::sync::atomic::AtomicU64);

impl Counter {
    pub(crate) fn new(n: u64) -> Counter {
        Counter(std::sync::atomic::AtomicU64::new(n))
    }

    /// Adds one and gives the count before. Relaxed: the number alone matters, it publishes nothing.
    pub(crate) fn add_one(&self) -> u64 {
        self.0.fetch_add(1, Relaxed)
    }

    /// Relaxed, as [`add_one`](Self::add_one).
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A sum that is kept under a ceiling. Relaxed: the number alone matters, it publishes nothing.
#[derive(Debug)]
pub(crate) struct Gauge(std::sync::atomic::AtomicU64);

impl Gauge {
    pub(crate) fn new() -> Gauge {
        Gauge(std::sync::atomic::AtomicU64::new(0))
    }

    /// Adds `n` unless the sum would be above `max`; gives whether it did.
    pub(crate) fn add_up_to(&self, n: u64, max: u64) -> bool {
        // Relaxed, both: see above.
        self.0.fetch_update(Relaxed, Relaxed, |sum| sum.checked_add(n).filter(|sum| *sum <= max)).is_ok()
    }

    /// Takes away `n` that was added.
    pub(crate) fn take(&self, n: u64) {
        // Relaxed: see above.
        self.0.fetch_sub(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: see above.
        self.0.load(Relaxed)
    }
}
