//! What a replay found: plain numbers, for programs to print as they like.

use super::{Cost, Key, Unreadable};
use crate::Limit;

/// What would have happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The limit that was tried.
    pub limit: Limit,
    /// Who was limited.
    pub key: Key,
    /// What a request cost.
    pub cost: Cost,
    /// Earliest and latest time of a request, in ns since the Unix epoch; `None` without requests.
    pub span_ns: Option<(u64, u64)>,
    /// All requests, and those that would have been refused.
    pub requests: Tally,
    /// Distinct keys, and those of which a request would have been refused.
    pub keys: Tally,
    /// The cost of all requests, and of those that would have been refused.
    pub units: Tally,
    /// Requests that cost more than the limit can ever hold, so that no wait would help.
    pub above_limit: u64,
    /// The keys with the most refusals, worst first; at most as many as asked for.
    pub worst: Vec<Worst>,
    /// The waits that a limit with `queue` would have told; `None` for any other limit.
    pub delays: Option<Delays>,
    /// Lines that could not be read.
    pub unreadable: BadLines,
    /// Requests that were judged at a later time than theirs.
    pub late: Late,
    /// Whether no time in the logs has a fraction of a second. Requests of one second then look
    /// simultaneous, and each wait may be wrong by up to a second.
    pub is_whole_seconds: bool,
    /// How often the limiter, out of memory, let a new key inherit another's debt. The answer is
    /// exact if it is 0.
    pub takeovers_indebted: u64,
}

/// How many, and how many of them were refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All.
    pub all: u64,
    /// Those that were refused.
    pub refused: u64,
}

impl Tally {
    /// Those that were not refused.
    #[must_use]
    pub const fn allowed(self) -> u64 {
        self.all - self.refused
    }

    /// Adds `amount`; stops at the largest number there is.
    pub(super) fn add(&mut self, amount: u64, is_allowed: bool) {
        self.all = self.all.saturating_add(amount);
        if !is_allowed {
            self.refused = self.refused.saturating_add(amount);
        }
    }
}

/// A key of which requests were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Worst {
    /// The key, fit to be printed.
    pub key: String,
    /// Its requests.
    pub requests: Tally,
    /// The time of its first refusal, in ns since the Unix epoch.
    pub first_refusal_ns: u64,
}

/// The waits of allowed requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delays {
    /// Allowed requests with a wait above 0.
    pub delayed: u64,
    /// The longest.
    pub max_ns: u64,
    /// The mean over all allowed requests.
    pub mean_ns: u64,
}

/// Lines that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadLines {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<BadLine>,
}

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadLine {
    /// The name of its source.
    pub source: String,
    /// Its number, counted from 1.
    pub line: u64,
    /// Where in the line, and what was expected.
    pub why: Unreadable,
}

/// Requests that came so late that they could not be put into order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Late {
    /// How many.
    pub count: u64,
    /// The largest distance to the latest time before, in ns.
    pub max_ns: u64,
    /// The source and the line of the first of them.
    pub first: Option<(String, u64)>,
}
