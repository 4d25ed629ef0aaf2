//! The atomics: the standard library's, or loom's when the models run (`--cfg loom`).
//!
//! Where loom differs from the truth: its `SeqCst` loads and stores are no stronger than acquire and
//! release (read-modify-writes and fences are right), so what leans on a single order must lean on
//! compare-and-swap; and its atomics are not zero-initialised memory, so tables are built slot by slot.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};

use Ordering::Relaxed;

/// A counter that nobody decides by: relaxed, and away from the lines that decisions read.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn new(n: u64) -> Counter {
        Counter(AtomicU64::new(n))
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
