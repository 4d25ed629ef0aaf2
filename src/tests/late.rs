//! Calls whose time is not that of what they find: held up between the clock and the word, late within
//! the grain, or told the time by a clock gone wild.

use crate::{Limit, Limiter};
use std::cell::Cell;

const SECOND: u64 = 1_000_000_000;
/// The start of a minute in 2023.
const T: u64 = 1_700_000_040 * SECOND;

/// Whether this build knows the limit.
fn is_known(text: &&str) -> bool {
    cfg!(feature = "quota") || !text.starts_with("quota")
}

fn limit(text: &str) -> Limit {
    text.parse().expect("a limit")
}

/// A call that takes its moment at `T`, is held up for `held` ns while others call, and goes on then:
/// gives what was granted at `T + held`, by all. An iterator that calls while its batch waits does it.
fn granted_around_a_call_held_up(text: &str, held: u64, known: bool) -> u64 {
    let limiter = Limiter::new(limit(text)).expect("a limiter");
    if known {
        assert!(limiter.allow_at("k", 1, T));
    }
    let (calls, granted) = (Cell::new(0), Cell::new(0));
    let others = std::iter::from_fn(|| {
        calls.set(calls.get() + 1);
        (calls.get() == 1).then(|| {
            granted.set((0..40).filter(|_| limiter.allow_at("k", 1, T + held)).count() as u64);
            (&b"k"[..], 1)
        })
    });
    let mut sum = 0;
    limiter.check_batch_each(others, T, |decision| sum += u64::from(decision.is_allowed()));
    sum + granted.get() + (0..40).filter(|_| limiter.allow_at("k", 1, T + held + 1)).count() as u64
}

#[test]
fn a_call_held_up_for_long_erases_nothing() {
    let texts = ["fixed-window 10/1m", "token-bucket 10/1h", "sliding-window 10/1m", "sliding-log 10/1m", "quota 10/hour"];
    for text in texts.into_iter().filter(is_known) {
        for held in [1, SECOND, 59 * SECOND, 200 * SECOND, 7200 * SECOND] {
            for known in [false, true] {
                let granted = granted_around_a_call_held_up(text, held, known);
                // The unit that made the key known may be in sight still.
                assert!((10 - u64::from(known)..=10).contains(&granted), "{text}, held up for {held}: {granted}");
            }
        }
    }
}

/// A key that spends all at `spent`, is forgotten at `end` and asks again at `late`, before `end` and
/// within the grain of it: it finds its debt.
fn spends_twice(text: &str, burst: u64, [spent, late, end]: [u64; 3], forget: impl Fn(&Limiter, u64)) -> usize {
    let limiter = Limiter::builder(limit(text)).max_memory(1 << 16).build().expect("a limiter");
    let keys = || (0..500u64).map(u64::to_le_bytes);
    for key in keys() {
        let _ = limiter.allow_at(key, 1, spent - 7200 * SECOND);
    }
    let first: Vec<bool> = keys().map(|key| limiter.allow_at(key, burst, spent)).collect();
    assert!(first.iter().filter(|passed| **passed).count() > 100, "{text}");
    // Time goes on, so that `end` is within the grain of what all know.
    let _ = limiter.allow_at("clock", 1, late);
    forget(&limiter, end);
    keys().zip(first).filter(|(key, first)| *first && limiter.allow_at(key, burst, late)).count()
}

#[test]
fn a_late_call_finds_what_is_idle_to_others() {
    let hour = T / (3600 * SECOND) * 3600 * SECOND;
    let cases = [
        ("fixed-window 1000/1s", 1000, [T + 999_500_000, T + 999_900_000, T + 1_000_100_000]),
        ("sliding-window 1000/1s strict", 1000, [T + 999_500_000, T + 1_999_900_000, T + 2_000_100_000]),
        ("token-bucket 1000000/1s burst=500", 500, [T, T + 10_000, T + 600_000]),
        ("quota 1000/hour", 1000, [hour - 500_000, hour - 100_000, hour + 100_000]),
    ];
    for (text, burst, times) in cases.into_iter().filter(|(text, ..)| is_known(text)) {
        let taken = spends_twice(text, burst, times, |limiter, end| {
            for key in 10_000..40_000u64 {
                let _ = limiter.allow_at(key.to_le_bytes(), 1, end);
            }
        });
        assert_eq!(taken, 0, "{text}: keys got their burst a second time after their slots were taken");
        let shrunk = spends_twice(text, burst, times, Limiter::maintain_at);
        assert_eq!(shrunk, 0, "{text}: keys got their burst a second time after the table shrank");
    }
}

#[test]
fn a_wild_clock_locks_nobody_out_for_ever() {
    let texts = ["token-bucket 3/1h", "fixed-window 3/1h", "sliding-window 3/1h", "sliding-log 3/1h", "quota 3/hour"];
    for text in texts.into_iter().filter(is_known) {
        let limiter = Limiter::builder(limit(text)).time_grain(0).build().expect("a limiter");
        for swing in 0..5 {
            for wild in [u64::MAX, 1 << 62, (1 << 62) - SECOND] {
                let _ = limiter.allow_at("x", 1, T + swing);
                let _ = limiter.allow_at("x", 1, wild);
            }
        }
        assert!(limiter.allow_at("k", 3, T + 6), "{text}");
        let refused = limiter.check_at("k", 3, T + 7);
        let wait = refused.retry_after_ns();
        assert!(!refused.is_allowed() && wait > 1 && wait <= 7200 * SECOND, "{text}: {refused:?}");
        let early = limiter.check_at("k", 3, T + 7 + wait - 1);
        assert!(!early.is_allowed(), "{text}: {early:?}");
        assert!(limiter.allow_at("k", 3, T + 7 + wait), "{text}");
    }
}

#[test]
fn a_grain_as_long_as_calls_may_be_late_is_refused() {
    let build = |ns| Limiter::builder(limit("token-bucket 1/1s")).time_grain(ns).build();
    assert!(build(SECOND).is_ok());
    for ns in [SECOND + 1, 60 * SECOND, u64::MAX] {
        let error = build(ns).expect_err("too long").to_string();
        assert_eq!(error, format!("time_grain is {ns} ns; expected 0 to 1000000000 ns (1 s)"));
    }
}
