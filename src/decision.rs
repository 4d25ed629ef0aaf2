//! The answer to one call.
//!
//! Everything in a [`Decision`] comes from one snapshot of the key's state and one reading of the
//! clock, and counts from the call's own time. Waits are in nanoseconds and round up; what remains
//! rounds down. `Duration` forms are beside the `_ns` ones.

use std::time::Duration;

/// The wait that stands for "never": the call cannot be allowed at any later time.
pub const NEVER: u64 = u64::MAX;

/// Why a call was answered as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Reason {
    /// The call was inside the limit.
    Allowed = 0,
    /// The call was over the limit; it would be allowed after `retry_after`.
    Limited = 1,
    /// The call costs more than the limit can ever hold; waiting does not help.
    CostAboveLimit = 2,
    /// The bucket does not refill and holds too little; waiting does not help.
    NeverRefills = 3,
}

/// The answer to one call: whether it is allowed, and what the caller may tell its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a decision that nobody reads limits nothing"]
pub struct Decision {
    pub(crate) reason: Reason,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after_ns: u64,
    pub(crate) reset_after_ns: u64,
    pub(crate) delay_ns: u64,
}

impl Decision {
    /// Whether the call is allowed.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.reason, Reason::Allowed)
    }

    /// Why the call was answered as it was.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// The largest cost that the limit can ever hold: the burst of a bucket, the count of a window,
    /// a log or a quota.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// What is left after the call, rounded down: the largest cost that would pass now.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Nanoseconds after which the same call, alone, is allowed, and one nanosecond earlier is not.
    /// 0 when the call was allowed, [`NEVER`] when no wait helps.
    #[must_use]
    pub const fn retry_after_ns(&self) -> u64 {
        self.retry_after_ns
    }

    /// [`retry_after_ns`](Self::retry_after_ns) as a duration; `None` when no wait helps.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.retry_after_ns {
            NEVER => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    /// Nanoseconds until the key is as good as never used (0: it is); for a window or a quota in
    /// use, until its end. [`NEVER`] for a bucket that does not refill and was used.
    #[must_use]
    pub const fn reset_after_ns(&self) -> u64 {
        self.reset_after_ns
    }

    /// [`reset_after_ns`](Self::reset_after_ns) as a duration; `None` for never.
    #[must_use]
    pub const fn reset_after(&self) -> Option<Duration> {
        match self.reset_after_ns {
            NEVER => None,
            ns => Some(Duration::from_nanos(ns)),
        }
    }

    /// Nanoseconds that the caller must hold an allowed call back: the place in a leaky bucket's
    /// queue. 0 for every other limit and for a refusal.
    #[must_use]
    pub const fn delay_ns(&self) -> u64 {
        self.delay_ns
    }

    /// [`delay_ns`](Self::delay_ns) as a duration.
    #[must_use]
    pub const fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay_ns)
    }
}
