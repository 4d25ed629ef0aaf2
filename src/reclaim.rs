//! Memory that is given back when nobody can see it any more: epoch-based reclamation
//! (crossbeam-epoch; Fraser, *Practical lock-freedom*, 2004), for whole generations of a table.
//!
//! A [`Pin`] is held for the length of one call; what was loaded under it lives as long as it. The
//! collector is the process's, has no thread of its own, and frees garbage as later pins come by.
//! After a `fork` the child pins and loads as before; garbage of threads that exist in the parent
//! only may never be freed in the child, which costs memory and blocks nothing.

#[cfg(not(loom))]
mod real {
    use crate::sync::Ordering::{AcqRel, Acquire};
    use crossbeam_epoch::{Atomic, Guard, Owned, Shared};

    /// A witness that whatever is loaded under it stays.
    pub(crate) struct Pin(Guard);

    #[inline(always)]
    pub(crate) fn pin() -> Pin {
        Pin(crossbeam_epoch::pin())
    }

    impl Pin {
        /// Hands the calling thread's garbage over and frees what nobody can see.
        pub(crate) fn collect(&self) {
            self.0.flush();
        }
    }

    /// A pointer to a `T` that readers follow under a [`Pin`]. It owns what it points at until it is
    /// moved on; a clone of the pointer made by [`advance`](Link::advance) does not.
    pub(crate) struct Link<T>(Atomic<T>);

    impl<T> Link<T> {
        pub(crate) fn new(value: T) -> Link<T> {
            Link(Atomic::new(value))
        }

        pub(crate) fn null() -> Link<T> {
            Link(Atomic::null())
        }

        #[inline(always)]
        pub(crate) fn get<'p>(&self, pin: &'p Pin) -> Option<&'p T> {
            // Acquire: pairs with the AcqRel of `set` and `advance`, so that the value is seen whole.
            let shared = self.0.load(Acquire, &pin.0);
            // SAFETY: a non-null link points at a value that was moved in whole; it is destroyed only
            // through `advance` (after every pin that could have loaded it) or `take` (exclusive).
            unsafe { shared.as_ref() }
        }

        /// Points a null link at `value`; drops `value` if the link was set before.
        pub(crate) fn set(&self, value: T, pin: &Pin) -> bool {
            // AcqRel: release publishes the value to `get`.
            self.0.compare_exchange(Shared::null(), Owned::new(value), AcqRel, Acquire, &pin.0).is_ok()
        }

        /// Moves this link from `from` to where `to` points, and retires `from`: it is destroyed when
        /// no pin of now is left. `to` then no longer owns its value. Does nothing if somebody else did it.
        pub(crate) fn advance(&self, from: &T, to: &Link<T>, pin: &Pin) -> bool {
            // Acquire: pairs with `set`.
            let target = to.0.load(Acquire, &pin.0);
            let current = Shared::from(std::ptr::from_ref(from));
            // AcqRel: release publishes the target to `get`.
            let moved = self.0.compare_exchange(current, target, AcqRel, Acquire, &pin.0).is_ok();
            if moved {
                // SAFETY: `current` was this link's own value, no link leads to it any more, and only
                // the one caller whose exchange succeeded gets here.
                unsafe { pin.0.defer_destroy(current) };
                // One piece of garbage would wait in this thread's bag for dozens more; a table is large.
                pin.collect();
            }
            moved
        }

        /// Takes the value out of a link that owns it.
        ///
        /// # Safety
        /// The link must own its value: no other link was `advance`d to it.
        pub(crate) unsafe fn take(&mut self) -> Option<T> {
            let link = std::mem::replace(&mut self.0, Atomic::null());
            // SAFETY: `&mut self` excludes readers, and the caller promises that no other link owns it.
            unsafe { link.try_into_owned() }.map(|owned| *owned.into_box())
        }
    }
}

/// Under loom nothing is freed: the models are about the table's protocol, not the collector's.
#[cfg(loom)]
mod real {
    use loom::sync::atomic::AtomicPtr;
    use loom::sync::atomic::Ordering::{AcqRel, Acquire};

    pub(crate) struct Pin;

    pub(crate) fn pin() -> Pin {
        Pin
    }

    impl Pin {
        pub(crate) fn collect(&self) {}
    }

    pub(crate) struct Link<T>(AtomicPtr<T>);

    impl<T> Link<T> {
        pub(crate) fn new(value: T) -> Link<T> {
            Link(AtomicPtr::new(Box::into_raw(Box::new(value))))
        }

        pub(crate) fn null() -> Link<T> {
            Link(AtomicPtr::new(std::ptr::null_mut()))
        }

        pub(crate) fn get<'p>(&self, _pin: &'p Pin) -> Option<&'p T> {
            // SAFETY: what a link points at is never freed in a model.
            unsafe { self.0.load(Acquire).as_ref() }
        }

        pub(crate) fn set(&self, value: T, _pin: &Pin) -> bool {
            let new = Box::into_raw(Box::new(value));
            self.0.compare_exchange(std::ptr::null_mut(), new, AcqRel, Acquire).is_ok()
        }

        pub(crate) fn advance(&self, from: &T, to: &Link<T>, _pin: &Pin) -> bool {
            let target = to.0.load(Acquire);
            self.0.compare_exchange(std::ptr::from_ref(from).cast_mut(), target, AcqRel, Acquire).is_ok()
        }

        /// # Safety
        /// None needed: it takes nothing.
        pub(crate) unsafe fn take(&mut self) -> Option<T> {
            None
        }
    }
}

pub(crate) use real::{Link, Pin, pin};
