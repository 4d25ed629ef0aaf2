//! Limits: what people say.
//!
//! One language for limits everywhere: the command line, the C ABI, rules and hosts. A limit is one
//! line of text, and [`Limit`] is that line checked whole; the builder says the same in Rust.
//!
//! ```text
//! token-bucket   100/1m burst=20           fixed-window   100/1m             sliding-log 100/1m
//! leaky-bucket   10/s   burst=20 [queue]   sliding-window 100/1m [strict]    quota 100000/month [tz=Europe/Madrid] [anchor=2026-01-31]
//! ```
//!
//! | part | meaning |
//! |---|---|
//! | `N/PERIOD` | N whole units, 1 or more, in PERIOD = `[k]ns\|us\|ms\|s\|m\|h\|d` (a day is 86 400 s); k is 1 when left out |
//! | quota's `N/UNIT` | UNIT = `hour\|day\|week\|month\|year` of the calendar |
//! | `burst=B` | buckets: the capacity; N when left out |
//! | `queue` | leaky bucket: an allowed call is told how long to wait for its turn |
//! | `strict` | sliding window: count fractions of the previous window's units too |
//! | `tz=ZONE` | quota: an IANA zone; UTC when left out |
//! | `anchor=YYYY-MM-DD` | quota: the date that days, weeks, months or years are counted from |

mod parse;

#[cfg(feature = "quota")]
use crate::plan::{Anchor, QuotaPlan};
use crate::plan::{BucketPlan, Fault, Field, LogPlan, Plan, WindowPlan};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "quota")]
pub use crate::plan::Unit;

/// The algorithm that keeps a limit. `Display` gives the name that the limit language uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Capacity `burst`, continuous refill at the rate. In any t at most burst + rate * t pass.
    TokenBucket,
    /// The token bucket seen from below: a meter, or with `queue` a shaper that gives delays.
    LeakyBucket,
    /// At most N in each window aligned to the Unix epoch; up to 2 N across an edge.
    FixedWindow,
    /// Two fixed windows, the previous one weighted by the share of it that is still in sight.
    SlidingWindow,
    /// Exact: at most N in any period (t - period, t]. Keeps 16 bytes a unit for each key.
    SlidingLog,
    /// At most N in each calendar period.
    Quota,
}

impl Algorithm {
    const ALL: [Algorithm; 6] = [
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
        Algorithm::Quota,
    ];

    const fn name(self) -> &'static str {
        match self {
            Algorithm::TokenBucket => "token-bucket",
            Algorithm::LeakyBucket => "leaky-bucket",
            Algorithm::FixedWindow => "fixed-window",
            Algorithm::SlidingWindow => "sliding-window",
            Algorithm::SlidingLog => "sliding-log",
            Algorithm::Quota => "quota",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A limit, checked whole: what exists can be kept exactly.
///
/// ```
/// use azud::Limit;
/// let limit: Limit = "token-bucket 100/1m burst=20".parse()?;
/// assert_eq!(limit, Limit::token_bucket(100, std::time::Duration::from_secs(60)).burst(20).build()?);
/// assert_eq!(limit.to_string(), "token-bucket 100/1m burst=20");
///
/// let error = "token-bucket 100/1x".parse::<Limit>().unwrap_err();
/// assert_eq!(error.to_string(), "\"1x\" (column 18): no such period; expected [k]ns, us, ms, s, m, h or d");
/// # Ok::<(), azud::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limit {
    spec: Spec,
    plan: Arc<Plan>,
}

/// What was said, before it is checked; shared by the parser and the builder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Spec {
    algorithm: Algorithm,
    count: u64,
    per: Per,
    burst: Option<u64>,
    queue: bool,
    strict: bool,
    tz: Option<String>,
    #[cfg(feature = "quota")]
    anchor: Option<Anchor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Per {
    /// Nanoseconds.
    Time(u64),
    /// A calendar unit.
    #[cfg(feature = "quota")]
    Calendar(Unit),
    /// A bucket that is filled once.
    Never,
}

impl Spec {
    fn new(algorithm: Algorithm, count: u64, per: Per) -> Spec {
        Spec {
            algorithm,
            count,
            per,
            burst: None,
            queue: false,
            strict: false,
            tz: None,
            #[cfg(feature = "quota")]
            anchor: None,
        }
    }

    /// Checks everything and makes the plan.
    fn compile(self) -> Result<Limit, Fault> {
        use Algorithm::{FixedWindow, LeakyBucket, Quota, SlidingLog, SlidingWindow, TokenBucket};
        let only = |given: bool, field: Field, owner: &str| {
            if given {
                Err(Fault::new(field, format!("{} does not have it", self.algorithm), format!("it with {owner}")))
            } else {
                Ok(())
            }
        };
        let is_bucket = matches!(self.algorithm, TokenBucket | LeakyBucket);
        only(self.burst.is_some() && !is_bucket, Field::Burst, "token-bucket or leaky-bucket")?;
        only(self.queue && self.algorithm != LeakyBucket, Field::Queue, "leaky-bucket")?;
        only(self.strict && self.algorithm != SlidingWindow, Field::Strict, "sliding-window")?;
        only(self.tz.is_some() && self.algorithm != Quota, Field::Tz, "quota")?;
        #[cfg(feature = "quota")]
        only(self.anchor.is_some() && self.algorithm != Quota, Field::Anchor, "quota")?;

        let count = self.count;
        let burst = self.burst.unwrap_or(count);
        let plan = match (self.algorithm, self.per) {
            (TokenBucket | LeakyBucket, Per::Never) => Plan::Bucket(BucketPlan::without_refill(burst)?),
            (TokenBucket | LeakyBucket, Per::Time(ns)) => Plan::Bucket(BucketPlan::new(count, ns, burst, self.queue)?),
            (FixedWindow, Per::Time(ns)) => Plan::FixedWindow(WindowPlan::fixed(count, ns)?),
            (SlidingWindow, Per::Time(ns)) => Plan::SlidingWindow(WindowPlan::sliding(count, ns, self.strict)?),
            (SlidingLog, Per::Time(ns)) => Plan::SlidingLog(LogPlan::new(count, ns)?),
            #[cfg(feature = "quota")]
            (Quota, Per::Calendar(unit)) => Plan::Quota(QuotaPlan::new(count, unit, self.tz.as_deref(), self.anchor)?),
            #[cfg(not(feature = "quota"))]
            (Quota, _) => {
                return Err(Fault::new(
                    Field::Algorithm,
                    "this build has no calendar quotas",
                    "a build with the feature `quota`",
                ));
            }
            (algorithm, _) => {
                return Err(Fault::new(
                    Field::Period,
                    format!("not a period of {algorithm}"),
                    "a period that fits the algorithm",
                ));
            }
        };
        Ok(Limit { spec: self, plan: Arc::new(plan) })
    }
}

impl Limit {
    /// A token bucket: `count` tokens each `period`, at most `burst` (`count` unless set) at once.
    pub fn token_bucket(count: u64, period: Duration) -> LimitBuilder {
        LimitBuilder::new(Algorithm::TokenBucket, count, period)
    }

    /// A token bucket that holds `burst` tokens once and never refills.
    pub fn token_bucket_without_refill(burst: u64) -> LimitBuilder {
        LimitBuilder { spec: Spec::new(Algorithm::TokenBucket, burst, Per::Never) }
    }

    /// A leaky bucket: a meter, or with [`queue`](LimitBuilder::queue) a shaper.
    pub fn leaky_bucket(count: u64, period: Duration) -> LimitBuilder {
        LimitBuilder::new(Algorithm::LeakyBucket, count, period)
    }

    /// A fixed window: at most `count` in each `period` counted from the Unix epoch.
    pub fn fixed_window(count: u64, period: Duration) -> LimitBuilder {
        LimitBuilder::new(Algorithm::FixedWindow, count, period)
    }

    /// A sliding window counter.
    pub fn sliding_window(count: u64, period: Duration) -> LimitBuilder {
        LimitBuilder::new(Algorithm::SlidingWindow, count, period)
    }

    /// A sliding window log: at most `count` in any `period`, exactly.
    pub fn sliding_log(count: u64, period: Duration) -> LimitBuilder {
        LimitBuilder::new(Algorithm::SlidingLog, count, period)
    }

    /// A calendar quota: at most `count` in each `unit`.
    #[cfg(feature = "quota")]
    pub fn quota(count: u64, unit: Unit) -> LimitBuilder {
        LimitBuilder { spec: Spec::new(Algorithm::Quota, count, Per::Calendar(unit)) }
    }

    /// The algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.spec.algorithm
    }

    /// The largest cost that can ever pass: the burst of a bucket, else the count.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.plan.limit()
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }
}

impl PartialEq for Limit {
    fn eq(&self, other: &Limit) -> bool {
        self.spec == other.spec
    }
}

impl Eq for Limit {}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Limit, LimitError> {
        parse::limit(text)
    }
}

/// The canonical text, which parses to an equal limit. A bucket that never refills has no text in
/// the language and prints as `token-bucket (no refill) burst=B`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.spec;
        write!(f, "{} ", spec.algorithm)?;
        match spec.per {
            Per::Never => return write!(f, "(no refill) burst={}", spec.burst.unwrap_or(spec.count)),
            Per::Time(ns) => write!(f, "{}/{}", spec.count, parse::period_text(ns))?,
            #[cfg(feature = "quota")]
            Per::Calendar(unit) => write!(f, "{}/{}", spec.count, parse::unit_name(unit))?,
        }
        if let Some(burst) = spec.burst {
            write!(f, " burst={burst}")?;
        }
        if spec.queue {
            f.write_str(" queue")?;
        }
        if spec.strict {
            f.write_str(" strict")?;
        }
        if let Some(tz) = &spec.tz {
            write!(f, " tz={tz}")?;
        }
        #[cfg(feature = "quota")]
        if let Some(anchor) = spec.anchor {
            write!(f, " anchor={anchor}")?;
        }
        Ok(())
    }
}

/// A limit in the making. Whatever does not fit the algorithm is refused by [`build`](Self::build).
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct LimitBuilder {
    spec: Spec,
}

impl LimitBuilder {
    fn new(algorithm: Algorithm, count: u64, period: Duration) -> LimitBuilder {
        // What does not fit is out of range, as zero is.
        let ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        LimitBuilder { spec: Spec::new(algorithm, count, Per::Time(ns)) }
    }

    /// Buckets: the capacity, 1 or more; without it, the count of the rate.
    pub fn burst(mut self, burst: u64) -> LimitBuilder {
        self.spec.burst = Some(burst);
        self
    }

    /// Leaky bucket: an allowed call is told how long to wait for its turn.
    pub fn queue(mut self) -> LimitBuilder {
        self.spec.queue = true;
        self
    }

    /// Sliding window: count fractions of the previous window's units too.
    pub fn strict(mut self) -> LimitBuilder {
        self.spec.strict = true;
        self
    }

    /// Quota: an IANA zone such as `Europe/Madrid`; UTC when not set.
    #[cfg(feature = "quota")]
    pub fn tz(mut self, zone: impl Into<String>) -> LimitBuilder {
        self.spec.tz = Some(zone.into());
        self
    }

    /// Quota: the date (year, month, day) that the periods are counted from.
    ///
    /// # Errors
    /// When there is no such date.
    #[cfg(feature = "quota")]
    pub fn anchor(mut self, year: i16, month: i8, day: i8) -> Result<LimitBuilder, LimitError> {
        let date = Anchor::new(year, month, day).map_err(|e| LimitError::from(parse::no_such_date(&e)))?;
        self.spec.anchor = Some(date);
        Ok(self)
    }

    /// The limit, checked whole.
    ///
    /// # Errors
    /// When the limit means nothing (zero counts or periods, an option of another algorithm) or
    /// cannot be kept exactly.
    pub fn build(self) -> Result<Limit, LimitError> {
        self.spec.compile().map_err(LimitError::from)
    }
}

/// Why a limit is refused: where, what is wrong, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitError {
    /// The part of the text; `None` when the limit was not made from text.
    at: Option<(Range<usize>, String)>,
    field: Field,
    problem: String,
    expected: String,
}

impl LimitError {
    /// The bytes of the text that are at fault; `None` when the limit was not made from text.
    #[must_use]
    pub fn position(&self) -> Option<Range<usize>> {
        self.at.as_ref().map(|(range, _)| range.clone())
    }
}

impl From<Fault> for LimitError {
    fn from(fault: Fault) -> LimitError {
        LimitError { at: None, field: fault.field, problem: fault.problem, expected: fault.expected }
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some((range, part)) if part.is_empty() => write!(f, "column {}", range.start + 1)?,
            Some((range, part)) => write!(f, "{part:?} (column {})", range.start + 1)?,
            None => write!(f, "{}", format!("{:?}", self.field).to_lowercase())?,
        }
        write!(f, ": {}; expected {}", self.problem, self.expected)
    }
}

impl std::error::Error for LimitError {}
