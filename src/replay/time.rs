//! Times of access logs: `17/May/2015:10:05:03 +0000` to nanoseconds since the Unix epoch, and back
//! to text for people.
//!
//! ```text
//! DD/Mon/YYYY:HH:MM:SS[.fraction] ±HHMM
//! ```
//!
//! The text is a local time; the offset at its end is subtracted, so that two servers in different
//! zones agree. Dates are the Gregorian calendar without a library: days are counted from 1970-01-01
//! with years that begin in March, where the leap day is the last one and disturbs no other
//! (Howard Hinnant, *chrono-compatible low-level date algorithms*). Unix time has no name for a leap
//! second: the 60th second is the same instant as the second that follows it.

use std::fmt;

const NS_PER_S: u64 = 1_000_000_000;
const S_PER_DAY: u64 = 86_400;
const MONTHS: [&[u8; 3]; 12] = [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// The engine takes times up to 2^62 ns, in February 2116.
const YEARS: std::ops::RangeInclusive<u64> = 1970..=2115;

/// What [`parse`] wants; said in messages.
pub(super) const EXPECTED: &str = "a time from 1970 to 2115 such as [17/May/2015:10:05:03 +0000]";

/// Nanoseconds since the Unix epoch; `None` for anything but a time.
pub(super) fn parse(text: &[u8]) -> Option<u64> {
    let (local, text) = local_seconds(text)?;
    let (fraction_ns, text) = fraction(text)?;
    let utc = match zone(text)? {
        (true, east) => local.checked_sub(east)?,
        (false, west) => local + west,
    };
    Some(utc * NS_PER_S + fraction_ns)
}

/// `17/May/2015:10:05:03` as seconds since the epoch by the local clock, and what follows it.
fn local_seconds(text: &[u8]) -> Option<(u64, &[u8])> {
    let (stamp, rest) = text.split_at_checked(20)?;
    if [stamp[2], stamp[6], stamp[11], stamp[14], stamp[17]] != *b"//:::" {
        return None;
    }
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(&stamp[3..6]))? as u64 + 1;
    let (day, year) = (digits(&stamp[..2])?, digits(&stamp[7..11])?);
    let (hour, minute, second) = (digits(&stamp[12..14])?, digits(&stamp[15..17])?, digits(&stamp[18..20])?);
    let is_date = YEARS.contains(&year) && (1..=days_of_month(year, month)).contains(&day);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    (is_date && is_time).then(|| (days(year, month, day) * S_PER_DAY + hour * 3600 + minute * 60 + second, rest))
}

/// Nothing, or `.123` with up to nine digits, as nanoseconds, and what follows it.
fn fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let Some(text) = text.strip_prefix(b".") else { return Some((0, text)) };
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=9).contains(&length) {
        return None;
    }
    let (part, rest) = text.split_at(length);
    Some((digits(part)? * 10_u64.pow(9 - length as u32), rest))
}

/// ` +0130` as (east of Greenwich, seconds).
fn zone(text: &[u8]) -> Option<(bool, u64)> {
    let &[b' ', sign @ (b'+' | b'-'), ref offset @ ..] = text else { return None };
    if offset.len() != 4 {
        return None;
    }
    let (hours, minutes) = (digits(&offset[..2])?, digits(&offset[2..])?);
    (hours < 24 && minutes < 60).then_some((sign == b'+', hours * 3600 + minutes * 60))
}

/// Decimal digits and nothing else; at most nine, so that nothing overflows.
fn digits(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

const fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: u64 = 719_468;
/// Days of 400 years.
const CYCLE: u64 = 146_097;

/// Days since 1970-01-01 of a date in 1970 or later.
const fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_cycle = year % 400;
    year / 400 * CYCLE + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + day_of_year - EPOCH
}

/// The date (year, month, day) that is `days` after 1970-01-01.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH;
    let (cycle, of_cycle) = (days / CYCLE, days % CYCLE);
    let year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let day_of_year = of_cycle - (365 * year + year / 4 - year / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12 + 1;
    (cycle * 400 + year + (month <= 2) as u64, month, day)
}

/// Shows nanoseconds since the Unix epoch as a date and a time of day in UTC, to the second.
///
/// ```
/// assert_eq!(azud::replay::Utc(1_431_857_103_000_000_000).to_string(), "2015-05-17 10:05:03");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc(pub u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / NS_PER_S;
        let (year, month, day) = date(seconds / S_PER_DAY);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse(text.as_bytes()).map_or_else(|| "no time".into(), |ns| Utc(ns).to_string())
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("17/May/2015:10:05:03 +0000", "2015-05-17 10:05:03"),
            ("01/Jan/1970:00:00:00 +0000", "1970-01-01 00:00:00"),
            ("01/Jan/1970:05:30:00 +0530", "1970-01-01 00:00:00"),
            ("31/Dec/1999:23:30:00 -0100", "2000-01-01 00:30:00"),
            ("01/Mar/2024:00:30:00 +0100", "2024-02-29 23:30:00"),
            ("29/Feb/2000:12:00:00 +0000", "2000-02-29 12:00:00"),
            ("28/Feb/2100:12:00:00 +0000", "2100-02-28 12:00:00"),
            ("31/dec/2016:23:59:60 +0000", "2017-01-01 00:00:00"),
            ("17/May/2015:10:05:03 -0930", "2015-05-17 19:35:03"),
            // Not times.
            ("01/Jan/1970:00:00:00 +0001", "no time"),
            ("29/Feb/2015:12:00:00 +0000", "no time"),
            ("29/Feb/2100:12:00:00 +0000", "no time"),
            ("31/Apr/2015:12:00:00 +0000", "no time"),
            ("00/May/2015:12:00:00 +0000", "no time"),
            ("17/Mai/2015:12:00:00 +0000", "no time"),
            ("17/May/1969:12:00:00 +0000", "no time"),
            ("17/May/2116:12:00:00 +0000", "no time"),
            ("17/May/2015:24:00:00 +0000", "no time"),
            ("17/May/2015:12:60:00 +0000", "no time"),
            ("17/May/2015:12:00:61 +0000", "no time"),
            ("17/May/2015:12:00:00", "no time"),
            ("17/May/2015:12:00:00 0000", "no time"),
            ("17/May/2015:12:00:00 +000", "no time"),
            ("17/May/2015:12:00:00 +00000", "no time"),
            ("17/May/2015:12:00:00 +0060", "no time"),
            ("17/May/2015:12:00:00 +2400", "no time"),
            ("17/May/2015:12:00:00. +0000", "no time"),
            ("17/May/2015:12:00:00.1234567890 +0000", "no time"),
            ("1/May/2015:12:00:00 +0000", "no time"),
            ("-1/May/2015:12:00:00 +0000", "no time"),
            ("2015-05-17T10:05:03+00:00", "no time"),
            ("", "no time"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn fractions_of_a_second() {
        let at = |text: &str| parse(text.as_bytes()).map(|ns| ns % NS_PER_S);
        assert_eq!(at("17/May/2015:10:05:03.5 +0000"), Some(500_000_000));
        assert_eq!(at("17/May/2015:10:05:03.000000001 +0000"), Some(1));
        assert_eq!(at("17/May/2015:10:05:03.123456 -0700"), Some(123_456_000));
    }

    /// Every day of the range, forth and back, against counting.
    #[test]
    fn every_day() {
        let mut count = 0;
        for year in YEARS {
            for month in 1..=12 {
                for day in 1..=days_of_month(year, month) {
                    assert_eq!(days(year, month, day), count);
                    assert_eq!(date(count), (year, month, day));
                    count += 1;
                }
            }
        }
    }

    /// The same against a second calendar.
    #[test]
    fn agrees_with_jiff() {
        let mut seconds: u64 = 0;
        while seconds < 4_600_000_000 {
            let other = jiff::Timestamp::from_second(seconds.cast_signed()).unwrap();
            let text = other.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string();
            assert_eq!(parse(text.as_bytes()), Some(seconds * NS_PER_S), "{text}");
            assert_eq!(Utc(seconds * NS_PER_S).to_string(), other.strftime("%F %T").to_string());
            seconds += 1_234_567;
        }
    }
}
