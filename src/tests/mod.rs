//! Tests that go through the public face only: the engine against its dull twins (`model`), the laws
//! that every limiter keeps (`laws`), calls that are late (`late`), and the faults of other limiters as
//! cases (`faults`). `table` and `loom` test the table alone, under a rule of their own (`unit`), and `held_up`
//! with callers that stop between two steps.
//!
//! Time is a value in all of them; nothing sleeps.

#[cfg(not(loom))]
mod faults;
#[cfg(all(feature = "capi", not(loom)))]
mod header;
#[cfg(not(loom))]
mod held_up;
#[cfg(not(loom))]
mod late;
#[cfg(not(loom))]
mod laws;
#[cfg(loom)]
mod loom;
#[cfg(not(loom))]
mod model;
#[cfg(not(loom))]
mod table;
#[cfg(not(loom))]
mod tidy;
mod unit;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counting what each thread asks of it, so that a test can say "nothing".
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts one; in a thread that is being torn down there is nobody left to ask.
fn count_one() {
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is handed to `System` as it came; counting neither allocates nor panics, since
// the counter is a constant-initialised thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: the caller keeps the contract of `alloc`, which is the same for `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` through `alloc` or `realloc` above, with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_one();
        // SAFETY: as for `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        // SAFETY: as for `dealloc`, and the caller vouches for `size`.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// How often this thread asked for memory while `work` ran: the least of a few runs, since a call may
/// also be the one that hands on what other tests' tables left to the process's collector.
pub(crate) fn allocations(mut work: impl FnMut()) -> u64 {
    let mut once = || {
        let before = ALLOCATIONS.get();
        work();
        ALLOCATIONS.get() - before
    };
    (0..4).map(|_| once()).min().expect("four runs")
}

/// Whether `work` ends well and gives true in a child of this process. It must not allocate: another
/// thread may have held the allocator's lock when the child was made.
#[cfg(all(unix, not(loom)))]
fn in_a_fork(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `work`, which takes no lock and does not allocate, and leaves at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a child that hangs ends by this signal. No other thread is in the child.
        unsafe { libc::alarm(20) };
        let code = i32::from(!work());
        // SAFETY: ends the child without running what was left of the parent in it.
        unsafe { libc::_exit(code) }
    }
    let mut status = -1;
    // SAFETY: `status` is a valid place for the result for the whole call.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    child > 0 && ended == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn the_counter_counts_allocations() {
    let mut kept = Vec::new();
    assert_eq!(allocations(|| kept = vec![Box::new(1)]), 2, "the box and the list");
    assert_eq!(allocations(|| assert_eq!(*kept[0], 1)), 0);
}
