//! The atomics: the standard library's, or loom's when the models run (`--cfg loom`).
//!
//! Where loom differs from the truth: its `SeqCst` loads and stores are no stronger than acquire and
//! release, so what leans on a single order leans on a fence, which it models; and its atomics are not zero-initialised memory, so tables are built slot by slot.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

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
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Relaxed, as [`add_one`](Self::add_one).
    pub(crate) fn raise(&self, n: u64) {
        self.0.fetch_max(n, Relaxed);
    }

    /// Relaxed, as [`add_one`](Self::add_one).
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A sum of what is held. The standard library's under loom too, as a [`Counter`].
#[derive(Debug)]
pub(crate) struct Gauge(std::sync::atomic::AtomicU64);

impl Gauge {
    pub(crate) fn new() -> Gauge {
        Gauge(std::sync::atomic::AtomicU64::new(0))
    }

    pub(crate) fn add(&self, n: u64) {
        // Release: pairs with the Acquire of `get`: whoever sees the sum sees what was added to it.
        self.0.fetch_add(n, Release);
    }

    /// Takes away `n` that was added.
    pub(crate) fn take(&self, n: u64) {
        // Release: as `add`; it continues what was released before.
        self.0.fetch_sub(n, Release);
    }

    pub(crate) fn get(&self) -> u64 {
        // Acquire: pairs with the Release of `add`.
        self.0.load(Acquire)
    }
}
