//! Plans: the integers that the hot path needs of a limit, computed once and checked once.
//!
//! A limit is what people say ("100/1m burst=20"); a plan is what the algorithms read. Whatever
//! cannot be kept exactly is refused here, with the field that is at fault, so that a check has
//! nothing left to refuse.

#[cfg(feature = "quota")]
mod calendar;

#[cfg(feature = "quota")]
pub use calendar::Unit;
#[cfg(feature = "quota")]
pub(crate) use calendar::{Anchor, Calendar, Period};

use crate::ticks::{TickRate, gcd};
use crate::word::{PAYLOAD_BITS, bits, low};

/// The largest debt of a bucket, in ticks: the half of the word's range that lies ahead of now.
pub(crate) const AHEAD: u64 = 1 << (PAYLOAD_BITS - 1);
/// How far behind the latest time a call may be and still be judged at the latest; ns.
pub(crate) const STALE: u64 = 60_000_000_000;
/// Times above are taken as this (the year 2116).
pub(crate) const TIME_MAX: u64 = 1 << 62;
/// Where time ends: once a clock has shown [`TIME_MAX`] and was set right, time goes on from there. 18
/// years are left for that.
pub(crate) const TIME_END: u64 = TIME_MAX + (1 << 59);
/// A window's number must not repeat within this time; ns (5 years).
const CYCLE: u128 = 5 * 365 * 86_400_000_000_000;
/// The largest limit of a sliding log: its ring takes 16 bytes a unit.
pub(crate) const LOG_MAX: u64 = (1 << 18) - 1;

/// The part of a limit that a refusal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Algorithm,
    Count,
    Period,
    Burst,
    Queue,
    Strict,
    Tz,
    Anchor,
}

/// Why a limit is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) field: Field,
    pub(crate) problem: String,
    pub(crate) expected: String,
}

impl Fault {
    pub(crate) fn new(field: Field, problem: impl Into<String>, expected: impl Into<String>) -> Fault {
        Fault { field, problem: problem.into(), expected: expected.into() }
    }
}

/// The integers of one limit.
#[derive(Debug)]
pub(crate) enum Plan {
    /// Token bucket, and leaky bucket as a meter or as a queue: one machine.
    Bucket(BucketPlan),
    FixedWindow(WindowPlan),
    SlidingWindow(WindowPlan),
    SlidingLog(LogPlan),
    #[cfg(feature = "quota")]
    Quota(QuotaPlan),
}

impl Plan {
    /// The largest cost that can ever pass.
    pub(crate) fn limit(&self) -> u64 {
        match self {
            Plan::Bucket(plan) => plan.limit,
            Plan::FixedWindow(plan) | Plan::SlidingWindow(plan) => plan.limit,
            Plan::SlidingLog(plan) => plan.limit,
            #[cfg(feature = "quota")]
            Plan::Quota(plan) => plan.limit,
        }
    }
}

/// A bucket that holds `limit` tokens of `token` ticks each.
#[derive(Debug)]
pub(crate) struct BucketPlan {
    pub(crate) limit: u64,
    /// Ticks a token (m).
    pub(crate) token: u64,
    /// The capacity in ticks: limit * token.
    pub(crate) capacity: u64,
    /// The largest debt, in ticks, that a sound word can show: the capacity and [`STALE`].
    pub(crate) legal: u64,
    pub(crate) rate: TickRate,
    /// Whether an allowed call waits for its turn.
    pub(crate) queue: bool,
}

impl BucketPlan {
    /// `count` tokens each `period` ns, at most `burst` at once.
    pub(crate) fn new(count: u64, period: u64, burst: u64, queue: bool) -> Result<BucketPlan, Fault> {
        nonzero(Field::Count, count)?;
        check_period(period)?;
        nonzero(Field::Burst, burst)?;
        let g = gcd(count.into(), period.into());
        let (n, d) = (u128::from(count) / g, u128::from(period) / g);
        // Up to 4 ticks a ns keep 1 to 4 tokens a ns exact at every ns; others get ticks of 1 to 2 ns.
        let per_ns = if n <= 4 { 4 } else { 1 };
        let span = (u128::from(burst) * d).div_ceil(n) + u128::from(STALE);
        // The longest time to fill: 2^57 ticks. n * span < 2^128 needs burst * d, checked by division.
        let longest = (d << (PAYLOAD_BITS - 1)).checked_div(n.checked_mul(span).ok_or_else(|| too_long(burst))?);
        let longest = longest.unwrap_or(0);
        let mut token = d.min(per_ns * d / n).min(longest);
        if token == 0 && 4 * d >= n && longest >= 1 {
            token = 1;
        }
        if longest == 0 {
            return Err(too_long(burst));
        }
        if token == 0 {
            return Err(Fault::new(Field::Count, "the rate is above 4e9 tokens a second", "at most 4 tokens a nanosecond"));
        }
        let legal = (span * n * token).div_ceil(d).min(u128::from(AHEAD));
        Ok(BucketPlan {
            limit: burst,
            token: token as u64,
            capacity: burst * token as u64,
            legal: legal as u64,
            rate: TickRate::new(n * token, d),
            queue,
        })
    }

    /// A bucket of `burst` tokens that never refills.
    pub(crate) fn without_refill(burst: u64) -> Result<BucketPlan, Fault> {
        nonzero(Field::Burst, burst)?;
        if burst > AHEAD {
            return Err(Fault::new(Field::Burst, "the burst is too large", format!("at most {AHEAD}")));
        }
        Ok(BucketPlan { limit: burst, token: 1, capacity: burst, legal: AHEAD, rate: TickRate::stopped(), queue: false })
    }
}

/// A fixed or sliding window of `period` ns, aligned to the Unix epoch.
#[derive(Debug)]
pub(crate) struct WindowPlan {
    pub(crate) limit: u64,
    pub(crate) period: u64,
    /// Bits of a count.
    pub(crate) count_bits: u32,
    /// Bits of the window's number, which is kept modulo `2^number_bits`.
    pub(crate) number_bits: u32,
    /// Windows that a stored number may be ahead of now: those that begin within [`STALE`].
    pub(crate) ahead: u64,
    /// Sliding only: count fractions of the previous window's units too.
    pub(crate) strict: bool,
}

impl WindowPlan {
    pub(crate) fn fixed(limit: u64, period: u64) -> Result<WindowPlan, Fault> {
        WindowPlan::new(limit, period, 1, false)
    }

    pub(crate) fn sliding(limit: u64, period: u64, strict: bool) -> Result<WindowPlan, Fault> {
        WindowPlan::new(limit, period, 2, strict)
    }

    fn new(limit: u64, period: u64, counts: u32, strict: bool) -> Result<WindowPlan, Fault> {
        nonzero(Field::Count, limit)?;
        check_period(period)?;
        // The least width whose numbers do not repeat within CYCLE; the rest is the counts'.
        let windows = CYCLE.div_ceil(u128::from(period)) as u64;
        let largest = PAYLOAD_BITS.checked_sub(bits(windows - 1).max(2)).map_or(0, |rest| low(rest / counts));
        if limit > largest {
            let other = if counts == 1 { "token-bucket" } else { "token-bucket or sliding-log" };
            let expected =
                if largest == 0 { format!("a longer period, or {other}") } else { format!("at most {largest}, or {other}") };
            return Err(Fault::new(Field::Count, "too many in a window of this period to count exactly", expected));
        }
        let count_bits = bits(limit);
        let number_bits = PAYLOAD_BITS - counts * count_bits;
        let ahead = STALE.div_ceil(period) + 1;
        Ok(WindowPlan { limit, period, count_bits, number_bits, ahead: ahead.min(low(number_bits) / 2), strict })
    }

    /// Whether no sound word's window is `ahead` of now's by so many; from half of all numbers on, it is behind.
    #[inline(always)]
    pub(crate) fn cannot_be(&self, ahead: u64) -> bool {
        ahead > self.ahead && ahead <= low(self.number_bits) / 2
    }
}

/// At most `limit` in any `period` ns.
#[derive(Debug)]
pub(crate) struct LogPlan {
    pub(crate) limit: u64,
    pub(crate) period: u64,
    /// Bits of a count of units.
    pub(crate) count_bits: u32,
    /// Units that the ring has room for, as a power of two.
    pub(crate) ring_bits: u32,
}

impl LogPlan {
    pub(crate) fn new(limit: u64, period: u64) -> Result<LogPlan, Fault> {
        nonzero(Field::Count, limit)?;
        check_period(period)?;
        if limit > LOG_MAX {
            return Err(Fault::new(
                Field::Count,
                "too many for a log, which keeps 16 bytes for each",
                format!("at most {LOG_MAX}, or sliding-window or token-bucket"),
            ));
        }
        Ok(LogPlan { limit, period, count_bits: bits(limit), ring_bits: bits(limit - 1) })
    }
}

/// At most `limit` in a calendar period.
#[cfg(feature = "quota")]
#[derive(Debug)]
pub(crate) struct QuotaPlan {
    pub(crate) limit: u64,
    pub(crate) calendar: Calendar,
    /// Bits of the count.
    pub(crate) count_bits: u32,
    /// The largest period number.
    pub(crate) last: u64,
}

#[cfg(feature = "quota")]
impl QuotaPlan {
    pub(crate) fn new(limit: u64, unit: Unit, tz: Option<&str>, anchor: Option<Anchor>) -> Result<QuotaPlan, Fault> {
        nonzero(Field::Count, limit)?;
        let calendar = Calendar::new(unit, tz, anchor)?;
        let last = calendar.last();
        let largest = low(PAYLOAD_BITS - bits(last));
        if limit > largest {
            return Err(Fault::new(Field::Count, "the quota is too large to count exactly", format!("at most {largest}")));
        }
        Ok(QuotaPlan { limit, calendar, count_bits: bits(limit), last })
    }
}

fn nonzero(field: Field, n: u64) -> Result<(), Fault> {
    if n == 0 {
        return Err(Fault::new(field, "zero allows nothing", "a whole number of at least 1"));
    }
    Ok(())
}

fn check_period(period: u64) -> Result<(), Fault> {
    if period == 0 || period >= 1 << 63 {
        return Err(Fault::new(Field::Period, "the period is out of range", "1 ns to 106751 d"));
    }
    Ok(())
}

fn too_long(burst: u64) -> Fault {
    Fault::new(
        Field::Burst,
        format!("{burst} tokens at this rate take too long to fill to be kept exactly"),
        "a smaller burst or a higher rate",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_token_is_a_whole_number_of_ticks() {
        for (count, period, token) in [
            (10, SECOND, 100_000_000),
            (7, SECOND, 142_857_142),
            (30, SECOND, 100_000_000),
            (999_983, SECOND, 1000),
            (1_000_000_000, SECOND, 1),
            (2_000_000_000, SECOND, 1),
            (100_000, 30 * 86_400 * SECOND, 25_920_000_000),
        ] {
            assert_eq!(BucketPlan::new(count, period, count, false).unwrap().token, token, "{count}/{period}");
        }
    }

    #[test]
    fn the_largest_windows_are_those_of_the_table() {
        let ms = 1_000_000;
        for (period, fixed, sliding) in [
            (ms, 1_048_575, 1023),
            (1000 * ms, (1 << 30) - 1, 32_767),
            (60_000 * ms, (1 << 36) - 1, 262_143),
            (86_400_000 * ms, (1 << 47) - 1, 8_388_607),
        ] {
            assert!(WindowPlan::fixed(fixed, period).is_ok());
            assert!(WindowPlan::fixed(fixed + 1, period).is_err());
            assert!(WindowPlan::sliding(sliding, period, false).is_ok());
            assert!(WindowPlan::sliding(sliding + 1, period, false).is_err());
        }
    }

    #[test]
    fn what_cannot_be_kept_names_its_field() {
        let field = |r: Result<BucketPlan, Fault>| r.unwrap_err().field;
        assert_eq!(field(BucketPlan::new(0, SECOND, 1, false)), Field::Count);
        assert_eq!(field(BucketPlan::new(1, 0, 1, false)), Field::Period);
        assert_eq!(field(BucketPlan::new(1, 1 << 63, 1, false)), Field::Period);
        assert_eq!(field(BucketPlan::new(1, SECOND, 0, false)), Field::Burst);
        assert_eq!(field(BucketPlan::new(1, SECOND, u64::MAX, false)), Field::Burst);
        assert_eq!(field(BucketPlan::new(5_000_000_000, SECOND, 1, false)), Field::Count);
        assert_eq!(field(BucketPlan::new(u64::MAX, (1 << 63) - 1, u64::MAX, false)), Field::Burst);
        assert_eq!(field(BucketPlan::without_refill(0)), Field::Burst);
        assert!(BucketPlan::new(4_000_000_000, SECOND, 1, false).is_ok());
    }

    #[test]
    fn no_accepted_bucket_can_owe_more_than_the_word_holds() {
        for count in [1, 3, 7, 997, 999_983, 3_999_999_999] {
            for period in [1, 7, SECOND, 36_500 * 86_400 * SECOND] {
                for burst in [1, 2, 1000, 1 << 40, 1 << 62] {
                    if let Ok(plan) = BucketPlan::new(count, period, burst, false) {
                        assert!(plan.capacity <= plan.legal && plan.legal <= AHEAD);
                        assert_eq!(plan.capacity / plan.token, burst);
                    }
                }
            }
        }
    }
}
