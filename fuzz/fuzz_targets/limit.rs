//! Any text as a limit.
//!
//! Accepted: its canonical text is the same limit, and a small limiter of it gives sane answers for the
//! smallest and largest costs at the first and last times. Refused: the error points into the text.

#![no_main]

use azud::{Algorithm, Decision, Limit, Limiter, NEVER, Reason};
use libfuzzer_sys::fuzz_target;

const TODAY: u64 = 1_796_000_000_000_000_000;
/// Waits are followed up to here; the engine takes later times than 2^62 as 2^62.
const FAR: u64 = 1 << 61;

fuzz_target!(|text: &str| {
    match text.parse::<Limit>() {
        Ok(limit) => accepted(&limit, text.len()),
        Err(error) => {
            let at = error.position().expect("the limit was a text");
            assert!(at.start <= at.end && text.get(at.clone()).is_some(), "{at:?} is no part of {text:?}");
            assert!(!error.to_string().is_empty());
        }
    }
});

fn accepted(limit: &Limit, choice: usize) {
    let canonical = limit.to_string();
    let again = canonical.parse::<Limit>();
    assert_eq!(again.as_ref(), Ok(limit), "{canonical}");
    assert_eq!(again.map(|limit| limit.to_string()), Ok(canonical));

    let make = || Limiter::builder(limit.clone()).max_memory(1 << 20).time_grain(0).build();
    let limiter = match make() {
        Ok(limiter) => limiter,
        Err(error) => {
            // Only the rings of a log make the smallest table, a group of 128 keys, larger than that.
            assert!(limit.algorithm() == Algorithm::SlidingLog && limit.capacity() > 256, "{limit}: {error}");
            assert!(error.to_string().contains("the smallest table"), "{error}");
            return;
        }
    };
    let capacity = limit.capacity();
    let costs = [0, 1, capacity / 2, capacity, capacity.saturating_add(1), u64::MAX];
    // The clock is set back in between, and goes on from the latest.
    let times = [0, 1, 1_000_000_000, TODAY, TODAY - 1, TODAY - 3_600_000_000_000, FAR, 1 << 62, (1 << 62) + 1, u64::MAX, 0, 5];
    for (turn, now) in times.into_iter().enumerate() {
        // A key that no other time knows, and one that all of them do.
        let key = turn.to_le_bytes();
        for cost in costs.into_iter().chain([1, 0, capacity]) {
            is_sane(limit, cost, &limiter.check_at(key, cost, now));
            is_sane(limit, cost, &limiter.peek_at(b"all", cost, now));
            is_sane(limit, cost, &limiter.check_at(b"all", cost, now));
        }
    }
    // Waits are followed in a limiter whose clock was never set back: one time in each run.
    let now = [0, 1, TODAY, FAR][choice % 4];
    is_consistent(&make().expect("it was made before"), capacity, now);
}

/// What holds for any answer.
fn is_sane(limit: &Limit, cost: u64, got: &Decision) {
    let capacity = limit.capacity();
    let shown = || format!("{limit}, cost {cost}: {got:?}");
    assert!(got.limit() == capacity && got.remaining() <= capacity, "{}", shown());
    assert_eq!(got.is_allowed(), got.retry_after_ns() == 0, "{}", shown());
    assert_eq!(got.is_allowed(), got.reason() == Reason::Allowed, "{}", shown());
    assert_eq!(cost > capacity, got.reason() == Reason::CostAboveLimit, "{}", shown());
    assert_eq!(cost > capacity, got.retry_after_ns() == NEVER, "{}", shown());
    assert!(cost != 0 || got.is_allowed(), "{}", shown());
    assert!(got.is_allowed() || got.delay_ns() == 0, "{}", shown());
    assert!(got.is_allowed() || got.remaining() < cost, "{}", shown());
    assert!(got.delay_ns() <= got.reset_after_ns(), "{}", shown());
}

/// What remains is the largest cost that passes, and a wait is the least one that helps.
fn is_consistent(limiter: &Limiter, capacity: u64, now: u64) {
    let key = b"one";
    for cost in [1, capacity / 2, capacity / 3, capacity] {
        let _ = limiter.check_at(key, cost, now);
        let left = limiter.peek_at(key, 0, now).remaining();
        assert!(left < capacity, "something was charged");
        assert!(limiter.peek_at(key, left, now).is_allowed());
        assert!(!limiter.peek_at(key, left + 1, now).is_allowed());
    }
    let left = limiter.peek_at(key, 0, now).remaining();
    let wait = limiter.peek_at(key, left + 1, now).retry_after_ns();
    if wait > FAR {
        return;
    }
    assert!(wait == 1 || !limiter.peek_at(key, left + 1, now + wait - 1).is_allowed(), "{wait} is not the least wait");
    assert!(limiter.peek_at(key, left + 1, now + wait).is_allowed(), "{wait} is not enough");
}
