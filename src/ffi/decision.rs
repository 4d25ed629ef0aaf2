//! The calls that decide.

use super::boundary::{bytes, call, not_null, slice};
use super::limiter::{InUse, azud_limiter};
use super::status::azud_status::{self, AZUD_ERR_LENGTH, AZUD_OK};
use crate::{Decision, NEVER, Reason};
use std::ffi::c_void;
use std::mem::offset_of;

/// A wait that no time ends.
pub const AZUD_NEVER: u64 = u64::MAX;

/// Why a call was answered as it was: the `reason` of an azud_decision. Later versions may add
/// reasons; `allowed` is always the verdict.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum azud_reason {
    /// Inside the limit.
    AZUD_ALLOWED = 0,
    /// Over the limit; the same call is allowed after `retry_after_ns`.
    AZUD_LIMITED = 1,
    /// The cost is more than the limit can ever hold; waiting does not help.
    AZUD_COST_ABOVE_LIMIT = 2,
    /// The bucket does not refill and holds too little; waiting does not help.
    AZUD_NEVER_REFILLS = 3,
}

const _: () = {
    assert!(AZUD_NEVER == NEVER);
    assert!(azud_reason::AZUD_ALLOWED as i32 == Reason::Allowed as i32);
    assert!(azud_reason::AZUD_LIMITED as i32 == Reason::Limited as i32);
    assert!(azud_reason::AZUD_COST_ABOVE_LIMIT as i32 == Reason::CostAboveLimit as i32);
    assert!(azud_reason::AZUD_NEVER_REFILLS as i32 == Reason::NeverRefills as i32);
};

/// The answer to one call. All of it comes from one look at the key and one reading of the clock, and
/// counts from the call's own time. Waits are in nanoseconds and round up; `remaining` rounds down.
/// The struct has this size for good: 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct azud_decision {
    /// 1: allowed; 0: refused.
    pub allowed: i32,
    /// Why: an azud_reason.
    pub reason: i32,
    /// The largest cost that the limit can ever hold: the burst of a bucket, else the count.
    pub limit: u64,
    /// The largest cost that would pass now, after this call.
    pub remaining: u64,
    /// The least wait after which the same call, alone, is allowed; 0 when it was, AZUD_NEVER when no
    /// wait helps.
    pub retry_after_ns: u64,
    /// The time until the key is as good as never used (0: it is); for a window or a quota in use,
    /// until its end. AZUD_NEVER for a bucket that does not refill.
    pub reset_after_ns: u64,
    /// How long the caller must hold an allowed call back: its place in a leaky bucket with `queue`. 0
    /// for every other limit.
    pub delay_ns: u64,
    /// Written as 0.
    pub reserved: [u64; 2],
}

const _: () = {
    assert!(size_of::<azud_decision>() == 64);
    assert!(offset_of!(azud_decision, reason) == 4);
    assert!(offset_of!(azud_decision, limit) == 8);
    assert!(offset_of!(azud_decision, remaining) == 16);
    assert!(offset_of!(azud_decision, retry_after_ns) == 24);
    assert!(offset_of!(azud_decision, reset_after_ns) == 32);
    assert!(offset_of!(azud_decision, delay_ns) == 40);
    assert!(offset_of!(azud_decision, reserved) == 48);
};

impl From<Decision> for azud_decision {
    fn from(decision: Decision) -> azud_decision {
        azud_decision {
            allowed: i32::from(decision.is_allowed()),
            reason: decision.reason() as i32,
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_ns: decision.retry_after_ns(),
            reset_after_ns: decision.reset_after_ns(),
            delay_ns: decision.delay_ns(),
            reserved: [0; 2],
        }
    }
}

/// One call of a batch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct azud_call {
    /// The key: `key_len` bytes. May be NULL when `key_len` is 0.
    pub key: *const c_void,
    /// The length of the key in bytes.
    pub key_len: usize,
    /// What the call costs.
    pub cost: u64,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<azud_call>() == 24);
    assert!(offset_of!(azud_call, key_len) == 8);
    assert!(offset_of!(azud_call, cost) == 16);
};

/// Charges `cost` to `key` and says whether the call is allowed. A refused call is not charged.
///
/// @param limiter  the limiter
/// @param key      who is limited: `key_len` bytes of any value, not kept. May be NULL when `key_len` is
///                 0: the empty key is a key like any other
/// @param key_len  the length of the key in bytes
/// @param cost     what the call costs, commonly 1. 0 charges nothing; more than the limit can hold is
///                 refused, not an error
/// @return         1 allowed; 0 refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH, AZUD_ERR_PANIC
///
/// It takes no lock, and for a known key allocates nothing.
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_allow(limiter: *const azud_limiter, key: *const c_void, key_len: usize, cost: u64) -> i32 {
    call(|| {
        // SAFETY: the header asks for a limiter that lives and for `key_len` bytes.
        let (limiter, key) = unsafe { limiter_and_key(limiter, key, key_len) }?;
        Ok(i32::from(limiter.allow(key, cost)))
    })
}

/// azud_allow at a time of the caller's, for an event loop that has it already, and for tests.
///
/// @param limiter  the limiter
/// @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
/// @param key_len  the length of the key in bytes
/// @param cost     what the call costs
/// @param now_ns   nanoseconds since the Unix epoch, see TIME at the head of this file
/// @return         1 allowed; 0 refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH, AZUD_ERR_PANIC
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_allow_at(
    limiter: *const azud_limiter,
    key: *const c_void,
    key_len: usize,
    cost: u64,
    now_ns: u64,
) -> i32 {
    call(|| {
        // SAFETY: the header asks for a limiter that lives and for `key_len` bytes.
        let (limiter, key) = unsafe { limiter_and_key(limiter, key, key_len) }?;
        Ok(i32::from(limiter.allow_at(key, cost, now_ns)))
    })
}

/// Charges `cost` to `key` as azud_allow does, and tells all about it.
///
/// @param limiter  the limiter
/// @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
/// @param key_len  the length of the key in bytes
/// @param cost     what the call costs
/// @param out      receives the answer; left as it is, and nothing charged, on an error
/// @return         1 allowed; 0 refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH, AZUD_ERR_PANIC
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_check(
    limiter: *const azud_limiter,
    key: *const c_void,
    key_len: usize,
    cost: u64,
    out: *mut azud_decision,
) -> i32 {
    // SAFETY: what the header asks for is what `answer` does.
    unsafe { answer(limiter, key, key_len, out, |limiter, key| limiter.check(key, cost)) }
}

/// azud_check at a time of the caller's.
///
/// @param limiter  the limiter
/// @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
/// @param key_len  the length of the key in bytes
/// @param cost     what the call costs
/// @param now_ns   nanoseconds since the Unix epoch, see TIME at the head of this file
/// @param out      receives the answer; left as it is, and nothing charged, on an error
/// @return         1 allowed; 0 refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH, AZUD_ERR_PANIC
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_check_at(
    limiter: *const azud_limiter,
    key: *const c_void,
    key_len: usize,
    cost: u64,
    now_ns: u64,
    out: *mut azud_decision,
) -> i32 {
    // SAFETY: what the header asks for is what `answer` does.
    unsafe { answer(limiter, key, key_len, out, |limiter, key| limiter.check_at(key, cost, now_ns)) }
}

/// Tells what azud_check would answer, and charges nothing.
///
/// @param limiter  the limiter
/// @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
/// @param key_len  the length of the key in bytes
/// @param cost     what the call would cost
/// @param out      receives the answer; left as it is on an error
/// @return         1 it would be allowed; 0 it would be refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH,
///                 AZUD_ERR_PANIC
///
/// The answer is the one that azud_check would give, `remaining` included; to see what is left now, give
/// cost 0. Another thread may charge the key before the caller does: to be sure, call azud_check.
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_peek(
    limiter: *const azud_limiter,
    key: *const c_void,
    key_len: usize,
    cost: u64,
    out: *mut azud_decision,
) -> i32 {
    // SAFETY: what the header asks for is what `answer` does.
    unsafe { answer(limiter, key, key_len, out, |limiter, key| limiter.peek(key, cost)) }
}

/// azud_peek at a time of the caller's.
///
/// @param limiter  the limiter
/// @param key      who is limited: `key_len` bytes; may be NULL when `key_len` is 0
/// @param key_len  the length of the key in bytes
/// @param cost     what the call would cost
/// @param now_ns   nanoseconds since the Unix epoch, see TIME at the head of this file
/// @param out      receives the answer; left as it is on an error
/// @return         1 it would be allowed; 0 it would be refused; AZUD_ERR_NULL, AZUD_ERR_LENGTH,
///                 AZUD_ERR_PANIC
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_peek_at(
    limiter: *const azud_limiter,
    key: *const c_void,
    key_len: usize,
    cost: u64,
    now_ns: u64,
    out: *mut azud_decision,
) -> i32 {
    // SAFETY: what the header asks for is what `answer` does.
    unsafe { answer(limiter, key, key_len, out, |limiter, key| limiter.peek_at(key, cost, now_ns)) }
}

/// Makes many calls of azud_check with one reading of the clock. Each is charged or refused by itself,
/// in order, as single calls would be; it is faster because the memory of later keys is fetched while
/// earlier ones are decided.
///
/// @param limiter  the limiter
/// @param calls    `count` calls. May be NULL when `count` is 0
/// @param count    the number of calls
/// @param out      receives `count` answers, in the order of the calls. May be NULL when `count` is 0
/// @return         AZUD_OK, and the verdicts are in `out`; AZUD_ERR_NULL, AZUD_ERR_LENGTH (of an argument
///                 or of a call), AZUD_ERR_PANIC
///
/// The arguments are all looked at first: on AZUD_ERR_NULL and AZUD_ERR_LENGTH nothing was charged and
/// `out` is as it was. `out` may not overlap `calls` or the keys.
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_check_batch(
    limiter: *const azud_limiter,
    calls: *const azud_call,
    count: usize,
    out: *mut azud_decision,
) -> i32 {
    // SAFETY: what the header asks for is what `answer_batch` does.
    unsafe { answer_batch(limiter, calls, count, None, out) }
}

/// azud_check_batch at a time of the caller's.
///
/// @param limiter  the limiter
/// @param calls    `count` calls. May be NULL when `count` is 0
/// @param count    the number of calls
/// @param now_ns   nanoseconds since the Unix epoch, see TIME at the head of this file
/// @param out      receives `count` answers, in the order of the calls. May be NULL when `count` is 0
/// @return         AZUD_OK, and the verdicts are in `out`; AZUD_ERR_NULL, AZUD_ERR_LENGTH (of an argument
///                 or of a call), AZUD_ERR_PANIC
///
/// Threads: any number at once, beside any other call but azud_limiter_free. Since: 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn azud_check_batch_at(
    limiter: *const azud_limiter,
    calls: *const azud_call,
    count: usize,
    now_ns: u64,
    out: *mut azud_decision,
) -> i32 {
    // SAFETY: what the header asks for is what `answer_batch` does.
    unsafe { answer_batch(limiter, calls, count, Some(now_ns), out) }
}

/// The first arguments of every call.
///
/// # Safety
/// `limiter` is NULL or lives for `'a`; `key` is NULL or leads to `key_len` bytes.
unsafe fn limiter_and_key<'a>(
    limiter: *const azud_limiter,
    key: *const c_void,
    key_len: usize,
) -> Result<(InUse<'a>, &'a [u8]), azud_status> {
    // SAFETY: the caller's promise.
    let key = unsafe { bytes(key, key_len) }?;
    // SAFETY: the caller's promise.
    let limiter = unsafe { InUse::new(limiter) }?;
    Ok((limiter, key))
}

/// One call that is told all about.
///
/// # Safety
/// As for [`limiter_and_key`]; `out` is NULL or leads to a place for a decision.
unsafe fn answer(
    limiter: *const azud_limiter,
    key: *const c_void,
    key_len: usize,
    out: *mut azud_decision,
    decide: impl FnOnce(&InUse, &[u8]) -> Decision,
) -> i32 {
    call(|| {
        // SAFETY: the caller's promise.
        let (limiter, key) = unsafe { limiter_and_key(limiter, key, key_len) }?;
        not_null(out)?;
        let decision = azud_decision::from(decide(&limiter, key));
        // SAFETY: not NULL, and the caller vouches for the place.
        unsafe { out.write(decision) };
        Ok(decision.allowed)
    })
}

/// Many calls.
///
/// # Safety
/// As for [`answer`], with `count` calls of which each has such a key, and `count` places at `out`
/// that do not overlap them.
unsafe fn answer_batch(
    limiter: *const azud_limiter,
    calls: *const azud_call,
    count: usize,
    now_ns: Option<u64>,
    out: *mut azud_decision,
) -> i32 {
    call(|| {
        // SAFETY: the caller's promise.
        let limiter = unsafe { InUse::new(limiter) }?;
        // SAFETY: the caller's promise.
        let calls = unsafe { slice(calls, count) }?;
        if count > 0 {
            not_null(out)?;
        }
        if count > isize::MAX.unsigned_abs() / size_of::<azud_decision>() {
            return Err(AZUD_ERR_LENGTH);
        }
        // SAFETY: the caller's promise, for each of the calls.
        let key = |call: &azud_call| unsafe { bytes(call.key, call.key_len) };
        calls.iter().try_for_each(|call| key(call).map(drop))?;

        // None is left out: the line above has seen them all.
        let keyed = calls.iter().filter_map(|call| Some((key(call).ok()?, call.cost)));
        let mut places = (0..count).map(|at| out.wrapping_add(at));
        limiter.batch(
            keyed,
            || now_ns.unwrap_or_else(|| limiter.now()),
            |decision| {
                if let Some(place) = places.next() {
                    // SAFETY: one of the `count` places that the caller vouches for.
                    unsafe { place.write(decision.into()) };
                }
            },
        );
        Ok(AZUD_OK as i32)
    })
}

#[cfg(test)]
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one reason holds for all calls of a test")]
mod tests {
    use super::super::limiter::{azud_limiter_free, azud_limiter_new};
    use super::*;
    use crate::tests::allocations;
    use std::ptr;

    /// Whoever calls from C has no allocator of ours in mind: an event loop, a signal-driven server.
    #[test]
    fn a_call_for_known_keys_allocates_nothing() {
        let mut limiter = ptr::null_mut();
        let limit = c"token-bucket 100/1m burst=20";
        // SAFETY: a text, a place for a handle, and no buffer.
        let status = unsafe { azud_limiter_new(limit.as_ptr(), ptr::null(), &raw mut limiter, ptr::null_mut(), 0) };
        assert_eq!(status, 0);

        let call = |key: &'static str| azud_call { key: key.as_ptr().cast(), key_len: key.len(), cost: 1 };
        let calls: Vec<azud_call> = ["a", "b", "c", ""].into_iter().cycle().take(100).map(call).collect();
        let mut answers = Vec::<azud_decision>::with_capacity(calls.len());
        let mut all_of_them = || {
            let (key, out) = (c"a".as_ptr().cast(), answers.as_mut_ptr());
            // SAFETY: a limiter that lives, a key of one byte, a hundred calls and places.
            unsafe {
                assert!(azud_allow(limiter, key, 1, 1) >= 0);
                assert!(azud_allow_at(limiter, key, 1, 1, 0) >= 0);
                assert!(azud_check(limiter, key, 1, 1, out) >= 0);
                assert!(azud_check_at(limiter, key, 1, 1, 0, out) >= 0);
                assert!(azud_peek(limiter, key, 1, 1, out) >= 0);
                assert!(azud_peek_at(limiter, key, 1, 1, 0, out) >= 0);
                assert_eq!(azud_check_batch(limiter, calls.as_ptr(), 100, out), 0);
                assert_eq!(azud_check_batch_at(limiter, calls.as_ptr(), 100, 0, out), 0);
                assert!(azud_check(limiter, ptr::null(), 1, 1, out) < 0);
                assert!(azud_check_batch(limiter, calls.as_ptr(), usize::MAX, out) < 0);
            }
        };
        all_of_them();
        assert_eq!(allocations(&mut all_of_them), 0);
        // SAFETY: nobody uses it any more.
        unsafe { azud_limiter_free(limiter) };
    }
}
