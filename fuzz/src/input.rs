//! The input: bytes read as limits, costs and times, most of them near where something happens.
//!
//! Every choice is one byte of its own, so that a mutation of one byte turns one choice.

use crate::model::{Kind, Rule, SECOND, TIME_MAX};
use azud::Decision;

/// A day of this century, at the edge of every aligned window of up to a day.
pub const TODAY: u64 = 20_787 * 86_400 * SECOND;

/// The bytes that are left.
pub struct Source<'d>(pub &'d [u8]);

impl Source<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte; 0 when there is none.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, n: usize) -> u64 {
        (0..n).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// A number of any size, small ones and those beside a power of two more often.
    pub fn number(&mut self) -> u64 {
        match self.byte() % 8 {
            0..=3 => self.bytes(1),
            4 => self.bytes(2),
            5 => self.bytes(4),
            6 => self.bytes(8),
            _ => (1u64 << (self.byte() % 64)).wrapping_add_signed(self.near()),
        }
    }

    /// 0, one more or one less, seldom something else.
    fn near(&mut self) -> i64 {
        let off = i64::from(self.byte().cast_signed());
        if off.abs() < 96 { off % 2 } else { off }
    }

    pub fn rule(&mut self) -> Rule {
        const UNITS: [u64; 7] = [1, 1000, 1_000_000, SECOND, 60 * SECOND, 3600 * SECOND, 86_400 * SECOND];
        let kept = self.byte() % 9;
        let count = self.number();
        let unit = UNITS[usize::from(self.byte()) % UNITS.len()];
        let period = self.number().saturating_mul(unit);
        let mut bucket = |kind| {
            let burst = if self.byte().is_multiple_of(2) { count } else { self.number() };
            Rule::Bucket { kind, count, period, burst }
        };
        match kept {
            0 => bucket(Kind::Token),
            1 => bucket(Kind::Meter),
            2 => bucket(Kind::Queue),
            3 => Rule::Fixed { limit: count, period },
            4 => Rule::Sliding { limit: count, period, strict: false },
            5 => Rule::Sliding { limit: count, period, strict: true },
            6 => Rule::Log { limit: count, period },
            7 => Rule::Quota { limit: count, daily: false },
            _ => Rule::Quota { limit: count, daily: true },
        }
    }

    pub fn start(&mut self) -> u64 {
        match self.byte() % 3 {
            0 => TODAY,
            1 => 0,
            _ => self.number(),
        }
    }

    pub fn cost(&mut self) -> Cost {
        match self.byte() % 9 {
            0 => Cost::Units(self.byte() % 4),
            1 => Cost::Left,
            2 => Cost::OverLeft,
            3 => Cost::Share(self.byte()),
            4 => Cost::Capacity,
            5 => Cost::OverCapacity,
            6 => Cost::Any(self.number()),
            _ => Cost::Units(1),
        }
    }

    pub fn time(&mut self) -> Time {
        match self.byte() % 12 {
            0 => Time::Later(self.number()),
            1 => Time::Part(self.byte()),
            2 | 3 => Time::Edge(self.near()),
            4 | 5 => Time::Retry(self.near()),
            6 => Time::Reset(self.near()),
            7 => Time::Earlier(self.number()),
            8 => Time::Back(self.byte()),
            9 => Time::At(self.number()),
            _ => Time::Same,
        }
    }
}

/// A cost, in terms of the limit and of what is left.
#[derive(Clone, Copy, Debug)]
pub enum Cost {
    Units(u8),
    Left,
    OverLeft,
    /// So many 256ths of the capacity.
    Share(u8),
    Capacity,
    OverCapacity,
    Any(u64),
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
            Cost::Any(n) => n,
        }
    }
}

/// A time, in terms of the limit and of the call before.
#[derive(Clone, Copy, Debug)]
pub enum Time {
    Same,
    Later(u64),
    /// So many 64ths of the period later.
    Part(u8),
    /// To the next edge of an aligned window, and some ns.
    Edge(i64),
    /// To where the answer before said that the call would pass, and some ns.
    Retry(i64),
    /// To where the answer before said that the key would be fresh, and some ns.
    Reset(i64),
    Earlier(u64),
    /// Half seconds earlier, around the 60 s of a late call.
    Back(u8),
    At(u64),
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
        let to = |at: u64, off: i64| at.saturating_add_signed(off);
        match time {
            Time::Same => self.now,
            Time::Later(n) => self.now.saturating_add(n),
            Time::Part(n) => self.now.saturating_add((u128::from(period) * u128::from(n) / 64).min(u64::MAX.into()) as u64),
            Time::Edge(off) => to((self.now.min(TIME_MAX) / period + 1).saturating_mul(period), off),
            Time::Retry(off) => to(self.now.saturating_add(self.retry), off),
            Time::Reset(off) => to(self.now.saturating_add(self.reset), off),
            Time::Earlier(n) => self.now.saturating_sub(n),
            Time::Back(n) => self.now.saturating_sub(u64::from(n) * SECOND / 2),
            Time::At(n) => n,
        }
    }

    pub fn went(&mut self, now: u64, got: &Decision) {
        *self = Walk { now, retry: got.retry_after_ns(), reset: got.reset_after_ns() };
    }
}
