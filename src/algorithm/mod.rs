//! The algorithms: pure functions over a word.
//!
//! Each file is one algorithm: a `Call` (the plan, the moment, the cost) that implements
//! [`Rule`](crate::rule::Rule). No clock, no atomics, no floats, no `unsafe`, nothing that can fail:
//! what could fail was refused when the plan was made. A call is built once, before the
//! compare-and-swap loop; what depends on the time alone is computed there.
//!
//! | file | limit | keeps in the word |
//! |---|---|---|
//! | `token_bucket` | token bucket | the instant when nothing is owed any more |
//! | `leaky_bucket` | leaky bucket, meter and queue | the same word |
//! | `fixed_window` | fixed window | window number, count |
//! | `sliding_window` | sliding window counter | window number, two counts |
//! | `sliding_log` | sliding window log | positions in a ring of times |
//! | `quota` | calendar quota | period number, count |

pub(crate) mod fixed_window;
pub(crate) mod leaky_bucket;
#[cfg(feature = "quota")]
pub(crate) mod quota;
pub(crate) mod sliding_log;
pub(crate) mod sliding_window;
pub(crate) mod token_bucket;

use crate::decision::{Decision, NEVER, Reason};
use crate::rule::Rule;

/// What a call asks of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) cost: u64,
    /// Answer as for the cost, and charge nothing.
    pub(crate) peek: bool,
}

impl Ask {
    /// Whether an allowed call is to be recorded.
    #[inline(always)]
    pub(crate) fn charges(self) -> bool {
        self.cost > 0 && !self.peek
    }
}

/// A rule that can say what its outcomes mean to the caller.
pub(crate) trait Answer: Rule {
    /// The verdict alone.
    fn is_allowed(&self, outcome: &Self::Outcome) -> bool;

    /// The whole answer.
    fn decide(&self, outcome: &Self::Outcome) -> Decision;
}

/// A wait as it is reported: nothing to wait for is 0; what does not fit is one below [`NEVER`].
#[inline(always)]
pub(crate) fn wait(ns: u128, lead: u64) -> u64 {
    if ns == 0 { 0 } else { crate::ticks::saturate(ns + u128::from(lead)) }
}

/// The verdict of a counter: allowed, refused for now, or refused for ever.
#[inline(always)]
pub(crate) fn reason(allowed: bool, cost: u64, limit: u64) -> Reason {
    match (allowed, cost > limit) {
        (true, _) => Reason::Allowed,
        (false, true) => Reason::CostAboveLimit,
        (false, false) => Reason::Limited,
    }
}

/// The retry of a refused call, given the wait that would help if any does.
#[inline(always)]
pub(crate) fn retry(reason: Reason, wait: impl FnOnce() -> u64) -> u64 {
    match reason {
        Reason::Allowed => 0,
        Reason::Limited => wait(),
        Reason::CostAboveLimit | Reason::NeverRefills => NEVER,
    }
}
