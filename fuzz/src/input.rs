//! The input: limits, costs and times as choices that a fuzzer can turn one at a time.

use crate::model::{Kind, Rule, SECOND, TIME_MAX};
use arbitrary::Arbitrary;
use azud::Decision;

/// A number of any size, also beside a power of two.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Number {
    Small(u8),
    Middle(u16),
    Large(u32),
    Any(u64),
    Power(u8, i8),
}

impl Number {
    pub fn get(self) -> u64 {
        match self {
            Number::Small(n) => n.into(),
            Number::Middle(n) => n.into(),
            Number::Large(n) => n.into(),
            Number::Any(n) => n,
            Number::Power(bit, off) => (1u64 << (bit % 64)).wrapping_add_signed(off.into()),
        }
    }
}

#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Kept {
    TokenBucket,
    Meter,
    Queue,
    FixedWindow,
    SlidingWindow,
    SlidingWindowStrict,
    SlidingLog,
    QuotaHour,
    QuotaDay,
}

/// A limit.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Choice {
    kept: Kept,
    count: Number,
    period: Number,
    /// The period is counted in ns, us, ms, s, m, h or d.
    unit: u8,
    burst: Option<Number>,
}

impl Choice {
    pub fn rule(&self) -> Rule {
        const UNITS: [u64; 7] = [1, 1000, 1_000_000, SECOND, 60 * SECOND, 3600 * SECOND, 86_400 * SECOND];
        let count = self.count.get();
        let period = self.period.get().saturating_mul(UNITS[usize::from(self.unit) % UNITS.len()]);
        let bucket = |kind| Rule::Bucket { kind, count, period, burst: self.burst.map_or(count, Number::get) };
        match self.kept {
            Kept::TokenBucket => bucket(Kind::Token),
            Kept::Meter => bucket(Kind::Meter),
            Kept::Queue => bucket(Kind::Queue),
            Kept::FixedWindow => Rule::Fixed { limit: count, period },
            Kept::SlidingWindow => Rule::Sliding { limit: count, period, strict: false },
            Kept::SlidingWindowStrict => Rule::Sliding { limit: count, period, strict: true },
            Kept::SlidingLog => Rule::Log { limit: count, period },
            Kept::QuotaHour => Rule::Quota { limit: count, daily: false },
            Kept::QuotaDay => Rule::Quota { limit: count, daily: true },
        }
    }
}

/// A cost, in terms of the limit and of what is left.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Cost {
    Units(u8),
    Left,
    OverLeft,
    /// So many 256ths of the capacity.
    Share(u8),
    Capacity,
    OverCapacity,
    Any(Number),
}

impl Cost {
    pub fn of(self, rule: &Rule, left: u64) -> u64 {
        match self {
            Cost::Units(n) => n.into(),
            Cost::Left => left,
            Cost::OverLeft => left + 1,
            Cost::Share(n) => (u128::from(rule.capacity()) * u128::from(n) / 256) as u64,
            Cost::Capacity => rule.capacity(),
            Cost::OverCapacity => rule.capacity().saturating_add(1),
            Cost::Any(n) => n.get(),
        }
    }
}

/// A time, in terms of the limit and of the call before.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Time {
    Same,
    Later(Number),
    /// So many 64ths of the period later.
    Part(u8),
    /// To the next edge of an aligned window, and some ns.
    Edge(i8),
    /// To where the answer before said that the call would pass, and some ns.
    Retry(i8),
    /// To where the answer before said that the key would be fresh, and some ns.
    Reset(i8),
    Earlier(Number),
    /// Seconds earlier, around the 60 s of a late call.
    Back(u8),
    At(Number),
}

/// Where a history has come to.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    pub now: u64,
    retry: u64,
    reset: u64,
}

impl Walk {
    pub fn new(start: u64) -> Walk {
        Walk { now: start, retry: 0, reset: 0 }
    }

    pub fn time(&self, time: Time, period: u64) -> u64 {
        let to = |at: u64, off: i8| at.saturating_add_signed(off.into());
        match time {
            Time::Same => self.now,
            Time::Later(n) => self.now.saturating_add(n.get()),
            Time::Part(n) => self.now.saturating_add((u128::from(period) * u128::from(n) / 64).min(u64::MAX.into()) as u64),
            Time::Edge(off) => to((self.now.min(TIME_MAX) / period + 1).saturating_mul(period), off),
            Time::Retry(off) => to(self.now.saturating_add(self.retry), off),
            Time::Reset(off) => to(self.now.saturating_add(self.reset), off),
            Time::Earlier(n) => self.now.saturating_sub(n.get()),
            Time::Back(n) => self.now.saturating_sub(u64::from(n) * SECOND / 2),
            Time::At(n) => n.get(),
        }
    }

    pub fn went(&mut self, now: u64, got: &Decision) {
        *self = Walk { now, retry: got.retry_after_ns(), reset: got.reset_after_ns() };
    }
}
