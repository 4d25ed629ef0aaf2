//! What a limit would have done to yesterday's traffic: access logs run through a limiter.
//!
//! ```text
//!   files ──> source ──> line ──> key ──> stream ──────────> judge ──────────> Report
//!             bytes,     fields   who     one order of time  Limiter::check_at
//!             gzip                        (reorder)          and the tallies
//! ```
//!
//! Each part is one file and reads top to bottom. The stream knows nothing of limits and the judge
//! nothing of logs.
//!
//! # What it assumes, and what it says about it
//!
//! - **Formats**: common and combined as Apache and nginx write them, also with a virtual host in
//!   front (`vhost_combined`); more fields at the end are ignored. See the table in `line`.
//! - **Order**: requests are judged in the order of their times, whatever the order of the lines and of the
//!   sources, as long as a line is at most [`Replay::reorder_window`] behind an earlier line of its
//!   source. A line that is later still is judged at the latest time seen, and counted.
//! - **Time**: most logs hold whole seconds, so that the requests of one second look simultaneous. Apache
//!   logs when a request began, nginx when it ended.
//! - **Bad lines** are counted, and the first few are in the report with their line numbers. Empty
//!   lines (nothing but white space) are nothing and not counted.
//! - **Missing values** are values: all requests without a user share the user `-`.
//! - **Clients adapt**: a client that had been refused would have sent other requests. A replay
//!   cannot know them.
//! - **Memory**: the text and the tally of each distinct key (about 200 bytes), the limiter's table, and
//!   at most two million requests that wait to be put into order.

mod judge;
mod key;
mod line;
mod reorder;
mod report;
mod source;
mod stream;
mod time;

pub use key::{Key, KeyError};
pub use line::Unreadable;
pub use report::{BadLine, BadLines, Delays, Late, Report, Tally, Worst};
pub use source::{Source, SourceError};
pub use time::Utc;

use crate::{BuildError, Limit, Limiter};
use judge::Judge;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use stream::Stream;

/// How many unreadable lines a report shows.
const UNREADABLE_SHOWN_MAX: usize = 5;

/// Ceilings of the limiter's table, tried in this order, then the limiter's own. The first is far above
/// what the tallies leave of most machines, so that no key ever inherits another's debt. A sliding log
/// takes its ceiling at once, as address space, which not every system grants.
const TABLE_BYTES_MAX: [u64; 2] = [8 << 30, 2 << 30];

/// A limit, and how to apply it to access logs.
///
/// ```
/// use azud::replay::{Key, Replay, Source};
///
/// let log = "198.18.0.1 - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 5\n".repeat(5);
/// let log = Source::new("memory", std::io::Cursor::new(log))?;
/// let report = Replay::new("token-bucket 1/1s burst=3".parse()?).key(Key::ip()).run(vec![log])?;
/// assert_eq!((report.requests.all, report.requests.refused), (5, 2));
/// assert_eq!(report.worst[0].key, "198.18.0.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a replay does nothing until it is run"]
pub struct Replay {
    limit: Limit,
    key: Key,
    cost: Cost,
    top: usize,
    reorder_window: Duration,
}

impl Replay {
    /// The limit for each client address, each request at a cost of 1, the 10 worst keys, 5 minutes
    /// to put lines into order.
    pub fn new(limit: Limit) -> Replay {
        Replay { limit, key: Key::ip(), cost: Cost::Request, top: 10, reorder_window: Duration::from_mins(5) }
    }

    /// Who is limited.
    pub fn key(mut self, key: Key) -> Replay {
        self.key = key;
        self
    }

    /// What a request costs.
    pub fn cost(mut self, cost: Cost) -> Replay {
        self.cost = cost;
        self
    }

    /// How many of the worst keys to report.
    pub fn top(mut self, keys: usize) -> Replay {
        self.top = keys;
        self
    }

    /// How far a line may be behind an earlier line of its source and still be put into order:
    /// the longest time from a request's logged time until its line is written.
    pub fn reorder_window(mut self, window: Duration) -> Replay {
        self.reorder_window = window;
        self
    }

    /// Judges every request of the sources, which are merged by time.
    ///
    /// # Errors
    /// When a source breaks off. Lines that cannot be read are no error.
    pub fn run(self, sources: Vec<Source>) -> Result<Report, ReplayError> {
        let limiter = limiter(&self.limit)?;
        let window_ns = u64::try_from(self.reorder_window.as_nanos()).unwrap_or(u64::MAX);
        let mut stream = Stream::new(sources, self.key.clone(), self.cost, window_ns, UNREADABLE_SHOWN_MAX);
        let mut judge = Judge::new(limiter);
        while let Some((time_ns, request)) = stream.next()? {
            judge.judge(&stream, time_ns, request);
        }
        Ok(judge.report(&stream, self.key, self.cost, self.top))
    }
}

/// A limiter with as much memory as can be had.
fn limiter(limit: &Limit) -> Result<Limiter, BuildError> {
    let builder = || Limiter::builder(limit.clone()).time_grain(0);
    let mut large = TABLE_BYTES_MAX.into_iter().filter_map(|bytes| builder().max_memory(bytes).build().ok());
    large.next().map_or_else(|| builder().build(), Ok)
}

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cost {
    /// 1.
    Request,
    /// The size of its response in bytes: the limit bounds traffic. A response of no bytes is free.
    Bytes,
}

impl Cost {
    fn of(self, line: &line::Line<'_>) -> u64 {
        match self {
            Cost::Request => 1,
            Cost::Bytes => line.bytes,
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cost::Request => "request",
            Cost::Bytes => "bytes",
        })
    }
}

impl FromStr for Cost {
    type Err = CostError;

    fn from_str(text: &str) -> Result<Cost, CostError> {
        match text {
            "request" => Ok(Cost::Request),
            "bytes" => Ok(Cost::Bytes),
            _ => Err(CostError(())),
        }
    }
}

/// No such cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostError(());

impl fmt::Display for CostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected request or bytes")
    }
}

impl std::error::Error for CostError {}

/// Why a replay ended before its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// A source could not be read.
    Source(SourceError),
    /// The limiter could not be made.
    Limiter(BuildError),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Source(error) => error.fmt(f),
            ReplayError::Limiter(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<SourceError> for ReplayError {
    fn from(error: SourceError) -> ReplayError {
        ReplayError::Source(error)
    }
}

impl From<BuildError> for ReplayError {
    fn from(error: BuildError) -> ReplayError {
        ReplayError::Limiter(error)
    }
}
