//! Memory that begins as zeros and costs nothing until it is used.
//!
//! A table of millions of slots is asked for in one piece while a call waits, so nothing may touch it:
//! the system hands out zero pages as they are used. It does so only for allocations of its own usual
//! alignment (a larger one is zeroed by hand), so lines are aligned here, inside a piece slightly larger.

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

    /// What the system's allocator gives zeroed without touching it.
    const USUAL_ALIGN: usize = align_of::<u64>();

    fn layout<T>(len: usize) -> Option<Layout> {
        let bytes = size_of::<T>().checked_mul(len)?.checked_add(align_of::<T>() - USUAL_ALIGN)?;
        Layout::from_size_align(bytes, USUAL_ALIGN).ok()
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
            let layout = layout::<T>(len)?;
            // SAFETY: the layout's size is not 0, since `len` is not and a `T` has a size.
            let piece = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })?;
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
                // SAFETY: allocated in `new` with this layout, and dropped once.
                unsafe { std::alloc::dealloc(self.piece.as_ptr(), layout) };
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
        for len in [0, 1, 2, 63, 1000] {
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
