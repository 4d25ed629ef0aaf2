//! The races of the table's protocol, each over every interleaving that loom explores.
//!
//! A model is a named race of two or three callers over a group of two slots, under the rule of `unit`.
//! What a key is granted is counted outside.

use super::unit::{BUSY, IDLE, LIMIT, PEEK, Unit};
use crate::table::{Hash, Size, Table};
use loom::sync::Arc;
use loom::thread;

/// The hash of key `n`, from 1: after a growth the odd ones are in one group and the even ones in the other.
fn key(n: u64) -> Hash {
    Hash::new(n << 63 | n << 7)
}

/// A table of one group that cannot grow, or of one that may grow once.
fn table(may_grow: bool) -> Arc<Table> {
    let size = |max_bytes| Size { max_bytes: Some(max_bytes), expected_keys: 0, cells: 0 };
    let least = Table::new(size(0)).err().expect("nothing fits in 0 bytes");
    Arc::new(Table::new(size(if may_grow { 4 * least } else { least })).expect("one group fits"))
}

fn call(table: &Table, n: u64, rule: Unit) -> u64 {
    u64::from(table.visit().call(key(n), rule))
}

/// What one caller asks for, one after the other.
type Calls = &'static [(u64, Unit)];

/// Runs `callers` side by side on what `before` left, then asks for `asked` until it is refused; gives
/// what that key was granted in all.
fn granted(may_grow: bool, before: &[u64], callers: &'static [Calls], asked: u64) -> u64 {
    let table = table(may_grow);
    let grants = move |table: &Table, n, rule| call(table, n, rule) * u64::from(n == asked);
    let run = move |table: &Table, calls: Calls| calls.iter().map(|(n, rule)| grants(table, *n, *rule)).sum::<u64>();
    let mut sum: u64 = before.iter().map(|n| grants(&table, *n, BUSY)).sum();
    let threads: Vec<_> = callers[1..]
        .iter()
        .map(|calls| {
            let table = table.clone();
            thread::spawn(move || run(&table, calls))
        })
        .collect();
    sum += run(&table, callers[0]);
    sum += threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>();
    assert!(table.live_slots(key(asked)) <= 1);
    while call(&table, asked, BUSY) == 1 {
        sum += 1;
    }
    sum
}

/// Nobody else touched the group: the key gets its limit, not one unit more or less.
fn exactly(before: &'static [u64], callers: &'static [Calls]) {
    loom::model(move || assert_eq!(granted(false, before, callers, 1), LIMIT));
}

/// Others took slots: the key never gets more than its limit.
fn at_most(before: &'static [u64], callers: &'static [Calls]) {
    bounded(callers.len() > 2).check(move || assert!(granted(false, before, callers, 1) <= LIMIT));
}

/// The table grows, so that nobody is evicted and the key gets its limit.
fn exactly_while_growing(before: &'static [u64], callers: &'static [Calls]) {
    bounded(true).check(move || assert_eq!(granted(true, before, callers, 1), LIMIT));
}

/// Models of three callers, or of a growth, take so many steps that they are explored with one
/// preemption less than the others.
fn bounded(large: bool) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.map(|most| most.saturating_sub(usize::from(large)));
    builder
}

#[test]
fn loom_two_inserts_of_one_key_make_one_slot() {
    exactly(&[], &[&[(1, BUSY)], &[(1, BUSY)]]);
}

#[test]
fn loom_two_inserts_of_one_key_behind_another() {
    exactly(&[2], &[&[(1, BUSY)], &[(1, BUSY)]]);
}

#[test]
fn loom_charges_of_a_known_key_are_all_counted() {
    exactly(&[1], &[&[(1, BUSY)], &[(1, BUSY)]]);
}

#[test]
fn loom_insert_beside_another_insert_loses_nothing() {
    exactly(&[], &[&[(1, BUSY)], &[(2, BUSY)]]);
}

#[test]
fn loom_charge_against_takeover_of_the_charged_key() {
    at_most(&[1, 2, 2], &[&[(1, BUSY)], &[(3, BUSY)]]);
}

#[test]
fn loom_charge_against_idle_takeover_of_the_charged_key() {
    at_most(&[1, 2], &[&[(1, BUSY)], &[(3, IDLE)]]);
}

#[test]
fn loom_return_of_an_evicted_key_against_another_eviction() {
    at_most(&[1, 2, 3], &[&[(1, BUSY)], &[(2, IDLE)]]);
}

#[test]
fn loom_an_evicted_key_finds_its_debt_in_another_slot() {
    at_most(&[1, 1, 2], &[&[(1, BUSY)], &[(3, IDLE)]]);
}

#[test]
fn loom_two_keys_return_to_each_others_slots() {
    at_most(&[1, 1, 2], &[&[(2, IDLE)], &[(3, IDLE)]]);
}

#[test]
fn loom_two_takeovers_by_one_key() {
    at_most(&[2, 3], &[&[(1, BUSY)], &[(1, BUSY)]]);
}

#[test]
fn loom_two_takeovers_by_one_key_of_idle_slots() {
    at_most(&[2, 3], &[&[(1, IDLE)], &[(1, IDLE)]]);
}

#[test]
fn loom_one_key_takes_two_slots_at_once() {
    // The first takes the first slot that is idle to it, the second the one with the least debt.
    at_most(&[2, 2, 3], &[&[(1, IDLE)], &[(1, BUSY)]]);
}

#[test]
fn loom_one_key_takes_two_slots_at_once_and_one_is_taken_from_it() {
    at_most(&[2, 2, 3], &[&[(1, IDLE)], &[(1, BUSY)], &[(4, IDLE)]]);
}

#[test]
fn loom_takeovers_of_each_others_slots() {
    at_most(&[1, 2], &[&[(3, IDLE)], &[(1, IDLE)]]);
}

#[test]
fn loom_charge_against_growth() {
    exactly_while_growing(&[1, 2], &[&[(1, BUSY)], &[(3, BUSY)]]);
}

#[test]
fn loom_insert_against_growth() {
    exactly_while_growing(&[2, 3], &[&[(1, BUSY)], &[(4, BUSY)]]);
}

#[test]
fn loom_two_inserts_of_one_key_against_growth() {
    exactly_while_growing(&[2, 3], &[&[(1, BUSY)], &[(1, BUSY)]]);
}

#[test]
fn loom_insert_against_a_peek_that_resolves_it() {
    exactly(&[2], &[&[(1, BUSY)], &[(1, PEEK)]]);
}

#[test]
fn loom_an_insert_that_was_settled_by_another_against_growth() {
    exactly_while_growing(&[2], &[&[(1, BUSY)], &[(1, BUSY), (3, BUSY)]]);
}

#[test]
fn loom_three_callers_one_key_one_eviction() {
    at_most(&[1, 2], &[&[(1, BUSY)], &[(3, IDLE)], &[(1, IDLE)]]);
}
