//! A buffer that puts requests into the order of their times.
//!
//! A server writes a line when a request is done, but many write the time at which it began; several
//! workers write to one file; several files cover one day. So times in a log run forward with steps
//! back. The buffer holds what was read until the reader is a whole window further on, and gives it
//! back earliest first; what has equal times keeps the order in which it came.
//!
//! ```text
//!   read:   3 1 2 9 ...        given back:  1 2 3 ...        a step back of at most the window
//!                                                            costs nothing; a longer one comes out
//!   held:   [9]                                              late, and the caller sees that
//! ```
//!
//! A ceiling on the number of items bounds the memory whatever the window: above it the earliest
//! item leaves at once.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

pub(super) struct Reorder<T> {
    heap: BinaryHeap<Reverse<Item<T>>>,
    pushed: u64,
    ceiling: usize,
}

struct Item<T> {
    time_ns: u64,
    /// The how-manieth item this is.
    number: u64,
    value: T,
}

impl<T> Reorder<T> {
    pub(super) fn new(ceiling: usize) -> Reorder<T> {
        Reorder { heap: BinaryHeap::new(), pushed: 0, ceiling }
    }

    pub(super) fn push(&mut self, time_ns: u64, value: T) {
        self.heap.push(Reverse(Item { time_ns, number: self.pushed, value }));
        self.pushed += 1;
    }

    /// The earliest item, if it is not after `until_ns` or there are more items than the ceiling.
    pub(super) fn pop(&mut self, until_ns: u64) -> Option<(u64, T)> {
        let is_over = self.heap.len() > self.ceiling;
        let Reverse(earliest) = self.heap.peek()?;
        if earliest.time_ns > until_ns && !is_over {
            return None;
        }
        self.heap.pop().map(|Reverse(item)| (item.time_ns, item.value))
    }
}

impl<T> Item<T> {
    fn order(&self) -> (u64, u64) {
        (self.time_ns, self.number)
    }
}

impl<T> Ord for Item<T> {
    fn cmp(&self, other: &Item<T>) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl<T> PartialOrd for Item<T> {
    fn partial_cmp(&self, other: &Item<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Item<T> {
    fn eq(&self, other: &Item<T>) -> bool {
        self.order() == other.order()
    }
}

impl<T> Eq for Item<T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Feeds times in this order with a window; what comes out, as (time, place in the input).
    fn run(times: &[u64], window: u64, ceiling: usize) -> Vec<(u64, usize)> {
        let mut buffer = Reorder::new(ceiling);
        let mut out = Vec::new();
        let mut latest = 0;
        for (place, &time) in times.iter().enumerate() {
            buffer.push(time, place);
            latest = latest.max(time);
            while latest >= window
                && let Some(item) = buffer.pop(latest - window)
            {
                out.push(item);
            }
        }
        while let Some(item) = buffer.pop(u64::MAX) {
            out.push(item);
        }
        out
    }

    proptest! {
        /// Steps back within the window: a stable sort.
        #[test]
        fn within_the_window_it_is_a_stable_sort(steps in prop::collection::vec((0_u64..5, 0_u64..=20), 0..200)) {
            let mut now = 20;
            let times: Vec<u64> = steps.iter().map(|&(step, back)| { now += step; now - back }).collect();
            let mut sorted: Vec<(u64, usize)> = times.iter().copied().zip(0..).collect();
            sorted.sort_by_key(|&(time, _)| time);
            prop_assert_eq!(run(&times, 20, usize::MAX), sorted);
        }

        /// Anything else: nothing is lost, and with a ceiling no more is held than that.
        #[test]
        fn nothing_is_lost(times in prop::collection::vec(0_u64..1000, 0..200), window in 0_u64..100, ceiling in 0_usize..20) {
            let mut out = run(&times, window, ceiling);
            out.sort_by_key(|&(_, place)| place);
            prop_assert_eq!(out, times.iter().copied().zip(0..).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_ceiling_holds() {
        let mut buffer = Reorder::new(2);
        for time in [5, 3, 4] {
            buffer.push(time, ());
        }
        assert_eq!(buffer.pop(0), Some((3, ())));
        assert_eq!(buffer.pop(0), None);
        assert_eq!(buffer.pop(4), Some((4, ())));
        assert_eq!(buffer.pop(u64::MAX), Some((5, ())));
        assert_eq!(buffer.pop(u64::MAX), None);
    }
}
