//! The table against a `HashMap`, over every tiny size and every short history; and under threads.
//!
//! Groups have four slots in tests, so that growth, takeover and shrinkage happen within a few calls.

use super::unit::{BUSY, IDLE, LIMIT, Unit};
use crate::table::{Counts, Hash, Size, Table};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn size(max_bytes: u64, expected_keys: u64) -> Size {
    Size { max_bytes: Some(max_bytes), expected_keys, cells: 0 }
}

/// Bytes of one group.
fn group() -> u64 {
    Table::new(size(0, 0)).err().expect("nothing fits in 0 bytes")
}

fn key(n: u64) -> Hash {
    // Spread over the bits that choose groups and lines, the same in every run.
    Hash::new((n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn call(table: &Table, n: u64, rule: Unit) -> bool {
    table.visit().call(key(n), rule)
}

/// Repeats `step` until the table holds `bytes`: garbage waits for the calls of other threads that are
/// under way, of other tests here too. Gives up in the end.
fn until(table: &Table, bytes: u64, step: impl Fn()) {
    for _ in 0..1_000_000 {
        step();
        if table.counts().bytes == bytes {
            return;
        }
        std::thread::yield_now();
    }
}

fn maintain_until(table: &Table, rule: Unit, bytes: u64) {
    until(table, bytes, || table.maintain(&rule));
}

/// Runs `keys` as calls, one after the other; room for all of them: the map is right to the call.
fn agrees_with_a_map(table: &Table, keys: &[u64]) {
    let mut map = HashMap::new();
    for (i, n) in keys.iter().enumerate() {
        let used: &mut u64 = map.entry(*n).or_default();
        assert_eq!(call(table, *n, BUSY), *used < LIMIT, "call {i} of {keys:?}");
        *used = (*used + 1).min(LIMIT);
        if i % 5 == 4 {
            table.maintain(&BUSY);
        }
    }
}

#[test]
fn every_short_history_over_every_tiny_table_that_may_grow() {
    for expected_keys in 0..12 {
        for length in 0..6u32 {
            for history in 0..6u64.pow(length) {
                let keys: Vec<u64> = (0..length).map(|i| history / 6u64.pow(i) % 6).collect();
                agrees_with_a_map(&Table::new(size(1 << 20, expected_keys)).expect("a table"), &keys);
            }
        }
    }
}

#[test]
fn every_short_history_of_more_keys_than_a_full_table_holds() {
    // Six keys in four slots: the fifth inherits. Nobody is granted more than the limit for that, and
    // nobody is refused who has not used it while there is a free slot.
    for history in 0..6u64.pow(8) {
        let table = Table::new(size(group(), 0)).expect("a table");
        let mut granted: HashMap<u64, u64> = HashMap::new();
        for n in (0..8).map(|i| history / 6u64.pow(i) % 6) {
            let seen = granted.len();
            let used = granted.entry(n).or_default();
            let allowed = call(&table, n, BUSY);
            *used += u64::from(allowed);
            assert!(*used <= LIMIT, "{history}");
            assert!(allowed || *used == LIMIT || seen >= 4, "{history}");
        }
    }
}

#[test]
fn idle_keys_are_forgotten_and_the_table_shrinks() {
    let table = Table::new(size(1 << 20, 0)).expect("a table");
    let smallest = table.counts();
    for n in 0..1000 {
        assert!(call(&table, n, BUSY));
    }
    let full = table.counts();
    assert_eq!((full.took_idle, full.took_indebted), (0, 0));
    assert!(full.keys == 1000 && full.growths > 5 && full.bytes > 50 * smallest.bytes);
    maintain_until(&table, IDLE, smallest.bytes);
    let shrunk = table.counts();
    assert!(shrunk.shrinks > 0 && shrunk.keys == 0 && shrunk.bytes == smallest.bytes, "{shrunk:?}");
    // What is forgotten was idle: it is granted its limit again, and no more.
    assert!((0..LIMIT).all(|_| call(&table, 7, BUSY)) && !call(&table, 7, BUSY));
}

/// A table of 1000 keys that are spread evenly, so that it grew for its load and not because five met in
/// a group of four; and a call of such a key.
fn even() -> (Table, impl Fn(&Table, u64, Unit)) {
    let table = Table::new(size(1 << 20, 0)).expect("a table");
    let call = |table: &Table, n: u64, rule| _ = table.visit().call(Hash::new((n + 1).reverse_bits()), rule);
    (0..1000).for_each(|n| call(&table, n, BUSY));
    (table, call)
}

#[test]
fn calls_shrink_a_table_whose_keys_stay_idle() {
    let (table, call) = even();
    let full = table.counts();
    // New keys come by while everything is idle; nobody maintains.
    for n in 1000..3000 {
        call(&table, n, IDLE);
    }
    let counts = table.counts();
    assert!(counts.shrinks > 0 && counts.capacity * 8 <= full.capacity, "{full:?} {counts:?}");
}

#[test]
fn a_table_whose_keys_become_idle_all_at_once_keeps_its_size() {
    let (table, call) = even();
    let full = table.counts();
    // As at the edge of a window, again and again, when the keys of each are a tenth of the slots.
    for edge in 1..20 {
        for n in 0..full.capacity / 10 {
            call(&table, edge * 1000 + n, if n < full.capacity / 20 { IDLE } else { BUSY });
        }
    }
    assert_eq!(table.counts().shrinks, 0);
}

#[test]
fn a_table_that_was_crowded_is_not_halved_again_by_calls() {
    let table = Table::new(size(1 << 20, 0)).expect("a table");
    let call = |raw: u64, rule| _ = table.visit().call(Hash::new(raw), rule);
    // Five keys that only the tenth bit of a group's number tells apart, and few others.
    (0..5u64).for_each(|n| call(n << 54, BUSY));
    assert_eq!(table.counts().growths, 8);
    (0..2000u64).for_each(|n| call((n << 1 | 1).reverse_bits(), IDLE));
    let counts = table.counts();
    assert_eq!((counts.shrinks, counts.growths), (0, 8));
}

#[test]
fn an_idle_slot_is_taken_before_the_table_grows_or_evicts() {
    let table = Table::new(size(1 << 20, 0)).expect("a table");
    for n in 0..4 {
        assert!(call(&table, n, IDLE));
    }
    // One group, full. To this call all of it is idle; the newcomer still inherits what it finds.
    assert!(call(&table, 4, IDLE) && call(&table, 4, BUSY) && !call(&table, 4, BUSY));
    let counts = table.counts();
    assert_eq!((counts.keys, counts.took_idle, counts.took_indebted, counts.growths), (4, 1, 0, 0));
    // To this one nothing is, so that the table grows.
    assert!(call(&table, 5, BUSY));
    assert!(table.counts().took_indebted == 0 && table.counts().growths > 0);
}

#[test]
fn a_table_never_takes_more_than_its_ceiling() {
    for groups in 1..40 {
        let ceiling = groups * group();
        let table = Table::new(size(ceiling, 0)).expect("a table");
        for n in 0..400 {
            call(&table, n, BUSY);
            assert!(table.counts().bytes <= ceiling);
        }
        let counts = table.counts();
        assert!(counts.keys <= counts.capacity && counts.took_indebted > 0);
    }
}

/// Calls 3000 keys, while a visit began before if `held_up`: whatever that may look at cannot be freed.
fn crowd(ceiling: u64, held_up: bool) -> Counts {
    let table = Table::new(size(ceiling, 0)).expect("a table");
    let _visit = held_up.then(|| table.visit());
    for n in 0..3000 {
        call(&table, n, BUSY);
        assert!(table.counts().bytes <= ceiling);
    }
    table.counts()
}

#[test]
fn a_thread_that_is_held_up_keeps_nobody_from_growing() {
    for groups in [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 95, 96, 97, 127, 128, 1 << 14] {
        let (held_up, free) = (crowd(groups * group(), true), crowd(groups * group(), false));
        assert_eq!((held_up.capacity, held_up.took_indebted), (free.capacity, free.took_indebted), "{groups}");
    }
}

#[test]
fn threads_that_grow_at_once_evict_nobody_below_the_ceiling() {
    let alone = crowd(1 << 30, false);
    let ceiling = 2 * alone.capacity / 4 * group();
    for round in 0..10 {
        let table = Table::new(size(ceiling, 0)).expect("a table");
        let granted = storm(&table, [6, 3000, 1], false, |_| BUSY);
        let wrong = granted.iter().filter(|n| **n != LIMIT).count();
        assert!(wrong == 0 && table.counts().took_indebted == 0, "round {round}: {wrong} {:?}", table.counts());
    }
}

#[test]
fn tables_that_were_left_behind_are_freed() {
    for maintain in [false, true] {
        let table = Table::new(size(1 << 24, 0)).expect("a table");
        for n in 0..10_000 {
            call(&table, n, BUSY);
        }
        if maintain {
            maintain_until(&table, BUSY, table.counts().capacity / 4 * group());
        } else {
            until(&table, table.counts().capacity / 4 * group(), || _ = call(&table, 0, BUSY));
        }
        let counts = table.counts();
        assert_eq!(counts.bytes, counts.capacity / 4 * group(), "{counts:?}");
    }
}

/// `threads` threads call `keys` keys in different orders, and the first now and then maintains if it
/// `maintains`; gives what each key was granted.
fn storm(table: &Table, [threads, keys, rounds]: [u64; 3], maintains: bool, rule: impl Fn(u64) -> Unit + Sync) -> Vec<u64> {
    let granted: Vec<AtomicU64> = (0..keys).map(|_| AtomicU64::new(0)).collect();
    let start = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (granted, start, rule) = (&granted, &start, &rule);
            scope.spawn(move || {
                start.wait();
                for i in 0..rounds * keys {
                    let n = (i * (2 * thread + 1) + thread * 7) % keys;
                    if call(table, n, rule(i)) {
                        granted[n as usize].fetch_add(1, Relaxed);
                    }
                    if maintains && thread == 0 && i % 64 == 63 {
                        table.maintain(&BUSY);
                    }
                }
            });
        }
    });
    granted.into_iter().map(AtomicU64::into_inner).collect()
}

#[test]
fn threads_grant_each_key_exactly_its_limit_while_the_table_grows() {
    for round in 0..60 {
        let table = Table::new(size(1 << 22, 0)).expect("a table");
        let granted = storm(&table, [4, 50 + round, LIMIT], true, |_| BUSY);
        assert!(granted.iter().all(|n| *n == LIMIT), "{granted:?}");
        assert_eq!(table.counts().took_indebted, 0);
    }
}

#[test]
fn threads_never_grant_a_key_more_than_its_limit_in_a_full_table() {
    for round in 0..60 {
        for groups in [1, 3, 8] {
            // Every third call takes whatever it finds as idle, so that slots change hands all the time. To
            // move would be to forget what is idle, so the table has its one size.
            let table = Table::new(size(groups * group(), 1000)).expect("a table");
            let granted = storm(&table, [4, 40 + round, 5], true, |i| if i % 3 == 0 { IDLE } else { BUSY });
            assert!(granted.iter().all(|n| *n <= LIMIT), "{granted:?}");
        }
    }
}

proptest! {
    #[test]
    fn long_histories_agree_with_a_map(keys in prop::collection::vec(0u64..80, 0..600), expected in 0u64..200) {
        agrees_with_a_map(&Table::new(size(1 << 20, expected)).expect("a table"), &keys);
    }
}
