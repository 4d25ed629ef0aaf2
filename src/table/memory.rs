//! Memory that begins as zeros, costs nothing until it is used, and goes back to the system when it is
//! given up.
//!
//! A table of millions of slots is asked for in one piece while a call waits, so nothing may touch it:
//! the system hands out zero pages as they are used. On Unix a large piece is a mapping of its own. An
//! allocator might give memory that it has to zero by hand, and keep it when it is freed (glibc does
//! both, up to 32 MiB, once pieces of that size were freed). Small pieces, and all on other systems,
//! are the allocator's; their values are aligned here, inside a piece slightly larger.

use crate::sync::AtomicU64;

/// Types for which all zero bytes are a value, the same that is meant by "never used".
///
/// # Safety
/// All zero bytes must be a value of the type, which must need no drop.
pub(super) unsafe trait Zeroable: Sized {
    /// That value; loom's atomics are made, not found.
    #[cfg(loom)]
    fn zero() -> Self;
}

// SAFETY: an atomic u64 is a u64.
unsafe impl Zeroable for AtomicU64 {
    #[cfg(loom)]
    fn zero() -> AtomicU64 {
        AtomicU64::new(0)
    }
}

/// A slice of values that began as zeros.
#[cfg(not(loom))]
#[derive(Debug)]
pub(super) struct Zeroed<T: Zeroable> {
    /// The first value, aligned; dangling if there are none.
    first: std::ptr::NonNull<T>,
    len: usize,
    /// The piece that the values lie in; dangling if there are none.
    piece: std::ptr::NonNull<u8>,
}

#[cfg(not(loom))]
mod real {
    use super::{Zeroable, Zeroed};
    use std::alloc::Layout;
    use std::ops::Deref;
    use std::ptr::NonNull;

    /// What an allocator gives zeroed without touching it, if any does; to align further is our business.
    const USUAL_ALIGN: usize = align_of::<u64>();
    /// Bytes from which on a piece is a mapping: what it wastes of a page is little then.
    const LARGE: usize = 1 << 17;

    fn layout<T>(len: usize) -> Option<Layout> {
        let bytes = size_of::<T>().checked_mul(len)?.checked_add(align_of::<T>() - USUAL_ALIGN)?;
        Layout::from_size_align(bytes, USUAL_ALIGN).ok()
    }

    fn is_mapped(layout: Layout) -> bool {
        cfg!(unix) && layout.size() >= LARGE
    }

    /// A piece of zeros.
    ///
    /// # Safety
    /// The layout's size is not 0.
    unsafe fn take(layout: Layout) -> Option<NonNull<u8>> {
        #[cfg(unix)]
        if is_mapped(layout) {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping at a place of the system's choice touches no other memory.
            let piece = unsafe { libc::mmap(std::ptr::null_mut(), layout.size(), access, kind, -1, 0) };
            return if piece == libc::MAP_FAILED { None } else { NonNull::new(piece.cast()) };
        }
        // SAFETY: the caller's promise.
        NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
    }

    /// Gives a piece back.
    ///
    /// # Safety
    /// It came from `take` with this layout, and nobody uses it any more.
    unsafe fn give(piece: NonNull<u8>, layout: Layout) {
        #[cfg(unix)]
        if is_mapped(layout) {
            // SAFETY: the caller's promise: this is a whole mapping, and ours.
            let status = unsafe { libc::munmap(piece.as_ptr().cast(), layout.size()) };
            debug_assert_eq!(status, 0);
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { std::alloc::dealloc(piece.as_ptr(), layout) };
    }

    impl<T: Zeroable> Zeroed<T> {
        fn none() -> Zeroed<T> {
            Zeroed { first: NonNull::dangling(), len: 0, piece: NonNull::dangling() }
        }

        /// `None` when the memory is not to be had.
        pub(in crate::table) fn new(len: usize) -> Option<Zeroed<T>> {
            if len == 0 {
                return Some(Zeroed::none());
            }
            // SAFETY: `len` is not 0, and a `T` has a size.
            let piece = unsafe { take(layout::<T>(len)?) }?;
            let skip = piece.align_offset(align_of::<T>());
            // SAFETY: to align within the piece takes at most the bytes that `layout` added for it.
            let first = unsafe { piece.add(skip) }.cast::<T>();
            Some(Zeroed { first, len, piece })
        }
    }

    impl<T: Zeroable> Deref for Zeroed<T> {
        type Target = [T];

        #[inline(always)]
        fn deref(&self) -> &[T] {
            // SAFETY: `first` is aligned, `len` values from there lie in the piece, they are zeros or what
            // was written through their own shared methods, and they live as long as `self`.
            unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
        }
    }

    impl<T: Zeroable> Drop for Zeroed<T> {
        fn drop(&mut self) {
            if self.len > 0 {
                let layout = layout::<T>(self.len).expect("the layout that it was made with");
                // SAFETY: taken in `new` with this layout, and dropped once.
                unsafe { give(self.piece, layout) };
            }
        }
    }

    // SAFETY: a `Zeroed` owns its values as a boxed slice does.
    unsafe impl<T: Zeroable + Send> Send for Zeroed<T> {}
    // SAFETY: shared, it gives out shared values only.
    unsafe impl<T: Zeroable + Sync> Sync for Zeroed<T> {}
}

#[cfg(loom)]
#[derive(Debug)]
pub(super) struct Zeroed<T>(Box<[T]>);

#[cfg(loom)]
impl<T: Zeroable> Zeroed<T> {
    pub(super) fn new(len: usize) -> Option<Zeroed<T>> {
        Some(Zeroed((0..len).map(|_| T::zero()).collect()))
    }
}

#[cfg(loom)]
impl<T> std::ops::Deref for Zeroed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    #[repr(align(64))]
    struct Wide(#[expect(dead_code)] AtomicU64);

    // SAFETY: an atomic u64.
    unsafe impl Zeroable for Wide {
        #[cfg(loom)]
        fn zero() -> Wide {
            Wide(AtomicU64::new(0))
        }
    }

    #[test]
    fn pieces_are_aligned_zero_and_as_long_as_asked() {
        for len in [0, 1, 2, 63, 1000, 100_000] {
            let wide = Zeroed::<Wide>::new(len).unwrap();
            assert_eq!(wide.len(), len);
            assert!(wide.iter().all(|w| std::ptr::from_ref(w).addr().is_multiple_of(64)));
            let cells = Zeroed::<AtomicU64>::new(len).unwrap();
            // Relaxed: one thread.
            assert!(cells.iter().all(|cell| cell.load(Relaxed) == 0));
        }
    }

    #[test]
    fn what_cannot_be_had_is_none() {
        assert!(Zeroed::<AtomicU64>::new(usize::MAX / 8).is_none());
        assert!(Zeroed::<AtomicU64>::new(usize::MAX).is_none());
    }
}
