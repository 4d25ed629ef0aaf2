//! Callers that are held up between two of their steps, for as long as it takes to do harm: others come
//! while they stand, time goes on, and they go on from there.
//!
//! A rule that calls a function when the table comes to one of its methods stands for the thread.

use crate::algorithm::{Answer, Ask, fixed_window, sliding_log, sliding_window, token_bucket};
use crate::guard::{Moment, TimeGuard};
use crate::plan::{BucketPlan, LogPlan, STALE, TIME_END, TIME_MAX, WindowPlan};
use crate::rule::{Keeper, Rank, Ring, Rule, Step, Timed};
use crate::table::{Hash, Size, Table};
use crate::word::Word;
use std::cell::Cell;

const SECOND: u64 = 1_000_000_000;
/// The start of a minute in 2023.
const T: u64 = 1_700_000_040 * SECOND;

/// Before which step the caller is held up.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    UseOfKeeper,
    Newcomer,
    Rank,
    Write,
}

/// A rule or keeper whose caller is held up.
#[derive(Clone, Copy)]
struct Slow<'m, R> {
    rule: R,
    before: Before,
    meanwhile: &'m dyn Fn(),
}

impl<R> Slow<'_, R> {
    fn come_to(&self, step: Before) {
        if self.before == step {
            (self.meanwhile)();
        }
    }
}

impl<R: Timed> Timed for Slow<'_, R> {
    fn again(&self) -> Self {
        Slow { rule: self.rule.again(), ..*self }
    }
}

impl<K: Keeper> Keeper for Slow<'_, K> {
    const RING: bool = K::RING;

    fn rank(&self, word: Word, ring: Ring<'_>) -> Rank {
        self.come_to(Before::Rank);
        self.rule.rank(word, ring)
    }

    fn join(&self, a: Word, b: Word) -> Word {
        self.rule.join(a, b)
    }

    fn adopt(&self, word: Word, floor: Word, ring: Ring<'_>) -> Option<Word> {
        self.rule.adopt(word, floor, ring)
    }

    fn raise(&self, floor: Word, word: Word, ring: Ring<'_>) -> Word {
        self.rule.raise(floor, word, ring)
    }

    fn left_behind(&self, word: Word) -> Word {
        self.rule.left_behind(word)
    }
}

impl<'m, R: Rule> Rule for Slow<'m, R> {
    type Outcome = R::Outcome;
    type Keeper = Slow<'m, R::Keeper>;

    fn keeper(&self) -> Self::Keeper {
        let keeper = Slow { rule: self.rule.keeper(), before: self.before, meanwhile: self.meanwhile };
        self.come_to(Before::UseOfKeeper);
        keeper
    }

    fn step(&self, word: Word, ring: Ring<'_>) -> Step<R::Outcome> {
        self.rule.step(word, ring)
    }

    fn newcomer(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<R::Outcome> {
        self.come_to(Before::Newcomer);
        self.rule.newcomer(word, floor, ring)
    }

    fn heir(&self, word: Word, floor: Word, ring: Ring<'_>) -> Step<R::Outcome> {
        self.rule.heir(word, floor, ring)
    }

    fn before_write(&self, old: Word, new: Word, ring: Ring<'_>, is_old: impl Fn() -> bool) {
        self.come_to(Before::Write);
        self.rule.before_write(old, new, ring, is_old);
    }
}

/// A function that runs `act` at its `n`th call only.
fn nth(n: u32, act: impl Fn()) -> impl Fn() {
    let calls = Cell::new(0);
    move || {
        calls.set(calls.get() + 1);
        if calls.get() == n {
            act();
        }
    }
}

fn guard() -> TimeGuard {
    TimeGuard::new(1_000_000, STALE, TIME_MAX, TIME_END)
}

fn table(groups: u64, cells: usize) -> Table {
    let size = |bytes| Size { max_bytes: Some(bytes), expected_keys: 0, cells };
    let least = Table::new(size(0)).err().expect("nothing fits in 0 bytes");
    Table::new(size(groups * least)).expect("memory")
}

fn spread(n: u64) -> Hash {
    Hash::new((n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Keys that share the one group of the smallest table, and the first of two; not the first of four.
fn near(n: u64) -> Hash {
    Hash::new((n + 1) << 7 | (n & 1) << 62)
}

fn ask(cost: u64) -> Ask {
    Ask { cost, peek: false }
}

fn charge<C: Answer>(table: &Table, key: Hash, call: C) -> bool {
    call.is_allowed(&table.visit().call(key, call))
}

/// A key spends `all` at `T` and is forgotten at `later`. A caller that took its moment at `T` comes while another is
/// held up behind its reservation, which a peek settled: of the two only one passes.
fn a_peek_settles<'a, P, C: Answer>(
    plan: &'a P,
    guard: &'a TimeGuard,
    call: impl Fn(&'a P, Moment<'a>, Ask) -> C,
    all: u64,
    later: u64,
) {
    let table = table(64, 0);
    let at = |now, ask| call(plan, guard.moment(|| now), ask);
    let key = spread(1);
    assert!(charge(&table, key, at(T, ask(all))) && !charge(&table, key, at(T, ask(1))));
    let of_then = at(T, ask(all));
    for n in 100..140 {
        charge(&table, spread(n), at(later, ask(1)));
    }
    assert!(table.counts().growths > 0);
    table.maintain(&at(later, ask(0)).keeper());
    let passed_late = Cell::new(false);
    let meanwhile = nth(2, || {
        let peek = at(later, Ask { cost: 1, peek: true });
        let _ = table.visit().call(key, peek);
        passed_late.set(charge(&table, key, of_then));
    });
    let slow = Slow { rule: at(later, ask(all)), before: Before::Newcomer, meanwhile: &meanwhile };
    let outcome = table.visit().call(key, slow);
    assert!(!(slow.rule.is_allowed(&outcome) && passed_late.get()), "all was spent again at the time of the first");
}

#[test]
fn what_a_peek_settles_is_of_the_time_of_the_peek() {
    let minute = 60 * SECOND;
    a_peek_settles(&WindowPlan::fixed(10, minute).unwrap(), &guard(), fixed_window::Call::new, 10, T + minute);
    let sliding = WindowPlan::sliding(10, 20 * SECOND, false).unwrap();
    a_peek_settles(&sliding, &guard(), sliding_window::Call::new, 10, T + minute);
    let bucket = BucketPlan::new(10, 10 * SECOND, 10, false).unwrap();
    a_peek_settles(&bucket, &guard(), token_bucket::Call::new, 10, T + 10 * SECOND);
}

#[test]
fn a_mover_that_was_held_up_brings_back_no_word_of_before() {
    let (plan, guard, table) = (WindowPlan::fixed(10, 60 * SECOND).unwrap(), guard(), table(1 << 12, 0));
    let at = |now: u64, cost| fixed_window::Call::new(&plan, guard.moment(|| now), ask(cost));
    let go = |call| charge(&table, near(1), call);
    for n in [1, 0, 2, 3] {
        assert!(charge(&table, near(n), at(T, 1)));
    }
    let later = T + 60 * SECOND;
    let (held_up, is_first) = (Cell::new(None), Cell::new(true));
    let meanwhile = || {
        if table.counts().growths < 2 || !is_first.replace(false) {
            return;
        }
        // The mover has sealed the group. Another moves it, the key spends all it has; then it is forgotten.
        assert!(go(at(T + SECOND, 9)) && !go(at(T + SECOND, 1)));
        held_up.set(Some(at(T + SECOND, 9)));
        for n in 100..300 {
            charge(&table, spread(n), at(later, 1));
        }
        table.maintain(&at(later, 0));
    };
    // The group is full: this newcomer makes the table grow, and moves it.
    let _ = table.visit().call(near(4), Slow { rule: at(T, 1), before: Before::Rank, meanwhile: &meanwhile });
    let passed_late = go(held_up.get().expect("the mover came to that"));
    assert!(!(passed_late && go(at(later, 10))), "nine more of the first minute were granted");
}

#[test]
fn a_taker_that_was_held_up_takes_nobody_in_debt_for_idle() {
    let (plan, guard, table) = (WindowPlan::fixed(10, 60 * SECOND).unwrap(), guard(), table(1 << 12, 0));
    let at = |now: u64, cost| fixed_window::Call::new(&plan, guard.moment(|| now), ask(cost));
    let later = T + 600 * SECOND;
    for n in 0..4 {
        assert!(charge(&table, near(n), at(T, 10)));
    }
    let meanwhile = nth(1, || (0..4).for_each(|n| assert!(charge(&table, near(n), at(later, 9)))));
    let _ = table.visit().call(near(9), Slow { rule: at(T, 1), before: Before::UseOfKeeper, meanwhile: &meanwhile });
    assert_eq!(table.counts().took_idle, 0);
    assert!(charge(&table, near(10), at(later, 10)), "an innocent key inherits");
}

/// What a log grants a second after all but one unit of it were spent a little later than the one; with a caller
/// that sleeps through nine laps of the ring between reading the word and writing to a cell if `is_slow`.
fn granted_after_nine_laps(is_slow: bool) -> usize {
    const LIMIT: u64 = (1 << 18) - 1;
    let plan = LogPlan::new(LIMIT, SECOND).unwrap();
    let (guard, table) = (guard(), table(1, 2 << plan.ring_bits));
    let at = |now: u64, cost| sliding_log::Call::new(&plan, guard.moment(|| now), ask(cost));
    let go = |call| charge(&table, spread(1), call);
    assert!(go(at(T, 1000)));
    let time = Cell::new(T);
    let next = |cost| {
        time.set(time.get() + 2 * SECOND);
        assert!(go(at(time.get(), cost)));
    };
    let meanwhile = nth(1, || {
        next(200_000);
        next(LIMIT + 1 - 201_000);
        for _ in 1..9 {
            [1, 200_000, LIMIT - 200_000].into_iter().for_each(next);
        }
        next(1);
        assert!(go(at(time.get() + 1000, LIMIT - 101)) && go(at(time.get() + 2000, 100)));
        assert!(!go(at(time.get() + 2000, 1)));
    });
    if is_slow {
        let _ = table.visit().call(spread(1), Slow { rule: at(T, 1), before: Before::Write, meanwhile: &meanwhile });
    } else {
        meanwhile();
    }
    (0..2000).filter(|_| go(at(time.get() + SECOND, 1))).count()
}

#[test]
fn a_log_outlasts_a_caller_that_sleeps_for_laps() {
    assert_eq!(granted_after_nine_laps(false), 1);
    assert_eq!(granted_after_nine_laps(true), 1);
}
