//! Calendar periods: where each hour, day, week, month or year begins in a zone.
//!
//! A period is half-open, [start, end). Period 0 is the one that holds the Unix epoch; periods are
//! numbered from there, up to the one that holds [`TIME_END`]. Hours, and days and weeks of UTC, are
//! even stretches and need no table; everything else is a table of edges (164 years of months are
//! 16 KB, of days 480 KB), made once, so that a decision does no calendar arithmetic and shares no cache.
//!
//! The rules (each with a vector in `bindings/vectors`):
//!
//! - a period begins at local midnight; a midnight that does not exist moves forward to the first
//!   instant that does, one that exists twice is the earlier;
//! - weeks begin on Monday, or on the anchor's day of the week;
//! - months and years begin on the 1st and on January 1st, or on the anchor's anniversary, counted
//!   from the anchor itself (so the 31st is the 28th in February and the 31st again in March);
//! - an hour begins when the zone's clock shows a full hour: the UTC hour, shifted in zones whose
//!   offset is not whole hours (Asia/Kathmandu). A step by whole hours changes nothing; a step forward by
//!   half an hour (`Australia/Lord_Howe`) makes a shorter period, one back a longer.

use super::{Fault, Field, TIME_END};
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;
const EPOCH: Date = Date::constant(1970, 1, 1);

/// A quota's anchor: the date that its periods are counted from.
pub(crate) type Anchor = Date;

/// The length of a quota's period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A UTC hour.
    Hour,
    /// A civil day.
    Day,
    /// Seven civil days.
    Week,
    /// A civil month.
    Month,
    /// A civil year.
    Year,
}

/// One period. `start` is 0 for the period that holds the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) index: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The edges between periods.
#[derive(Debug)]
pub(crate) enum Calendar {
    /// Edges a fixed length apart, in one or more stretches.
    Even { length: u64, stretches: Box<[Stretch]> },
    /// Edge i ends period i.
    Listed(Box<[u64]>),
}

/// Where even edges keep their phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// Where it begins; its first edge is there or later.
    from: u64,
    /// The first edge.
    first: u64,
    /// The number of the period that it ends.
    ends: u64,
}

impl Calendar {
    pub(crate) fn new(unit: Unit, tz: Option<&str>, anchor: Option<Anchor>) -> Result<Calendar, Fault> {
        let zone = match tz {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_| {
                Fault::new(Field::Tz, format!("no zone is called {name:?}"), "an IANA name such as Europe/Madrid")
            })?,
        };
        if unit == Unit::Hour && anchor.is_some() {
            return Err(Fault::new(Field::Anchor, "an hour has no anchor", "an anchor with day, week, month or year"));
        }
        let even = |length, first| Calendar::Even { length, stretches: Box::new([Stretch { from: 0, first, ends: 0 }]) };
        let utc = zone == TimeZone::UTC;
        Ok(match unit {
            Unit::Hour => Calendar::Even { length: HOUR, stretches: hours(&zone) },
            Unit::Day if utc => even(DAY, DAY),
            Unit::Week if utc => even(7 * DAY, days_to_week(anchor) * DAY),
            _ => Calendar::Listed(edges(unit, &zone, anchor)?),
        })
    }

    /// The period that holds `now`.
    #[inline]
    pub(crate) fn period(&self, now: u64) -> Period {
        let now = now.min(TIME_END);
        let index = match self {
            Calendar::Even { length, stretches } => {
                let stretch = stretches[stretches.partition_point(|s| s.from <= now) - 1];
                stretch.ends + now.checked_sub(stretch.first).map_or(0, |since| since / length + 1)
            }
            Calendar::Listed(edges) => find(edges, now) as u64,
        };
        self.numbered(index)
    }

    /// Period `index`, which must be at most [`last`](Self::last).
    pub(crate) fn numbered(&self, index: u64) -> Period {
        let edge = |i: u64| match self {
            Calendar::Even { length, stretches } => {
                let stretch = stretches[stretches.partition_point(|s| s.ends <= i) - 1];
                stretch.first + (i - stretch.ends) * length
            }
            Calendar::Listed(edges) => edges[i as usize],
        };
        Period { index, start: if index == 0 { 0 } else { edge(index - 1) }, end: edge(index) }
    }

    /// The largest index that [`numbered`](Self::numbered) takes.
    pub(crate) fn last(&self) -> u64 {
        self.period(TIME_END).index
    }
}

/// How many edges are at or before `now`. Edges are nearly even, so that the proportional guess is
/// off by one or two.
#[inline]
fn find(edges: &[u64], now: u64) -> usize {
    let last = edges.len() - 1;
    let guess = u128::from(now) * edges.len() as u128 / u128::from(edges[last]);
    let mut i = (guess as usize).min(last);
    while i > 0 && edges[i - 1] > now {
        i -= 1;
    }
    while edges[i] <= now {
        i += 1;
    }
    i
}

/// The full hours of a zone's clock: a stretch for each time that its offset changes by other than
/// whole hours.
fn hours(zone: &TimeZone) -> Box<[Stretch]> {
    let offset = |at: Timestamp| i64::from(zone.to_offset(at).seconds());
    let phase = |offset: i64| (-offset).rem_euclid(3600) as u64 * SECOND;
    // The first time from `at` on that is `phase` past a UTC hour.
    let next = |at: u64, phase: u64| at + (phase + HOUR - at % HOUR) % HOUR;
    let mut before = offset(Timestamp::UNIX_EPOCH);
    let mut stretches = vec![Stretch { from: 0, first: next(1, phase(before)), ends: 0 }];
    for transition in zone.following(Timestamp::UNIX_EPOCH) {
        let (at, after) = (transition.timestamp(), offset(transition.timestamp()));
        let Ok(from) = u64::try_from(at.as_nanosecond()) else { continue };
        if from > TIME_END {
            break;
        }
        if phase(after) != phase(before) {
            let last = stretches[stretches.len() - 1];
            let mut ends = last.ends + from.checked_sub(last.first + 1).map_or(0, |since| since / HOUR + 1);
            let mut shifted = from;
            if (at.as_second() + after).div_euclid(3600) > (at.as_second() - 1 + before).div_euclid(3600) {
                // The step skips a full hour, or ends at one: an hour begins here.
                stretches.push(Stretch { from, first: from, ends });
                ends += 1;
                shifted += 1;
            }
            stretches.push(Stretch { from: shifted, first: next(shifted, phase(after)), ends });
        }
        before = after;
    }
    stretches.into()
}

/// All edges after the epoch, up to the first after [`TIME_END`].
fn edges(unit: Unit, zone: &TimeZone, anchor: Option<Anchor>) -> Result<Box<[u64]>, Fault> {
    let base = base(unit, anchor);
    let mut edges = Vec::new();
    let mut step = first_step(unit, base);
    loop {
        let date = base.checked_add(steps(unit, step)).map_err(|e| out_of_range(&e))?;
        step += 1;
        let start = zone.to_timestamp(date.at(0, 0, 0, 0)).map_err(|e| out_of_range(&e))?;
        let Ok(ns @ 1..) = u64::try_from(start.as_nanosecond()) else { continue };
        edges.push(ns);
        if ns > TIME_END {
            return Ok(edges.into());
        }
    }
}

/// The date that steps are counted from.
fn base(unit: Unit, anchor: Option<Anchor>) -> Date {
    anchor.unwrap_or(match unit {
        Unit::Week => EPOCH.nth_weekday(-1, Weekday::Monday).expect("a Monday before the epoch"),
        _ => EPOCH,
    })
}

/// A step that lands well before the epoch in every zone.
fn first_step(unit: Unit, base: Date) -> i64 {
    let days = i64::from((EPOCH - base).get_days());
    match unit {
        Unit::Hour | Unit::Day => days - 2,
        Unit::Week => days.div_euclid(7) - 1,
        Unit::Month => (1970 - i64::from(base.year())) * 12 + 1 - i64::from(base.month()) - 2,
        Unit::Year => 1970 - i64::from(base.year()) - 2,
    }
}

fn steps(unit: Unit, n: i64) -> Span {
    match unit {
        Unit::Hour | Unit::Day => n.days(),
        Unit::Week => n.weeks(),
        Unit::Month => n.months(),
        Unit::Year => n.years(),
    }
}

/// Days from the epoch to the first week that begins after it.
fn days_to_week(anchor: Option<Anchor>) -> u64 {
    match EPOCH.weekday().until(anchor.map_or(Weekday::Monday, Date::weekday)) {
        0 => 7,
        days => u64::from(days.unsigned_abs()),
    }
}

fn out_of_range(error: &jiff::Error) -> Fault {
    Fault::new(Field::Anchor, format!("the anchor is out of range ({error})"), "a year between 1900 and 2100")
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    /// The dull twin: walk from the period's edge list by asking jiff for each date's own midnight.
    fn starts_on(unit: Unit, anchor: Option<Date>, day: Date) -> bool {
        match (unit, anchor) {
            (Unit::Week, anchor) => day.weekday() == anchor.map_or(Weekday::Monday, Date::weekday),
            (Unit::Month, None) => day.day() == 1,
            (Unit::Month, Some(a)) => day.day() == a.day().min(day.days_in_month()),
            (Unit::Year, None) => day.day_of_year() == 1,
            (Unit::Year, Some(a)) => day.month() == a.month() && day.day() == a.day().min(day.days_in_month()),
            (Unit::Hour | Unit::Day, _) => true,
        }
    }

    #[test]
    fn edges_are_the_midnights_of_the_days_that_begin_a_period() {
        for zone in ["UTC", "Europe/Madrid", "America/Havana", "Pacific/Apia", "Asia/Kathmandu"] {
            let tz = TimeZone::get(zone).unwrap();
            for unit in [Unit::Day, Unit::Week, Unit::Month, Unit::Year] {
                for anchor in [None, Some(date(2024, 2, 29)), Some(date(1931, 8, 31)), Some(date(2090, 1, 30))] {
                    let calendar = Calendar::new(unit, Some(zone), anchor).unwrap();
                    let mut expected = Vec::new();
                    let mut day = date(1969, 12, 30);
                    while expected.len() < 400 && day < date(2031, 1, 1) {
                        if starts_on(unit, anchor, day) {
                            let ns = tz.to_timestamp(day.at(0, 0, 0, 0)).unwrap().as_nanosecond();
                            expected.extend(u64::try_from(ns).ok().filter(|ns| *ns > 0));
                        }
                        day = day.tomorrow().unwrap();
                    }
                    for (i, edge) in expected.iter().enumerate() {
                        assert_eq!(calendar.numbered(i as u64).end, *edge, "{zone} {unit:?} {anchor:?} {i}");
                        let at = calendar.period(*edge);
                        assert!(at.start <= *edge && *edge < at.end);
                        assert!(calendar.period(edge - 1).end == *edge);
                    }
                }
            }
        }
    }

    /// The dull twin: every minute of two years, asking jiff what the zone's clock shows.
    #[test]
    fn an_hour_begins_when_the_clock_shows_a_full_hour() {
        for (zone, from) in
            [("Asia/Kathmandu", 504_000_000), ("Australia/Lord_Howe", 1_700_000_000), ("Europe/Madrid", 1_700_000_000)]
        {
            let tz = TimeZone::get(zone).unwrap();
            let calendar = Calendar::new(Unit::Hour, Some(zone), None).unwrap();
            let from = from / 60 * 60;
            let mut index = calendar.period((from - 60) * SECOND).index;
            let at = |second: u64| tz.to_datetime(Timestamp::from_second(second.cast_signed()).unwrap());
            for second in (from..from + 2 * 366 * 86_400).step_by(60) {
                let (shows, before) = (at(second), at(second - 60));
                let skipped = (shows.date(), shows.hour()) > (before.date(), before.hour());
                index += u64::from(shows.minute() == 0 || skipped);
                let period = calendar.period(second * SECOND);
                assert_eq!(period.index, index, "{zone} {second} {shows}");
                assert!(period.start <= second * SECOND && second * SECOND < period.end);
            }
        }
    }

    #[test]
    fn the_table_reaches_the_end_of_time() {
        for unit in [Unit::Hour, Unit::Day, Unit::Week, Unit::Month, Unit::Year] {
            for tz in [None, Some("Pacific/Kiritimati"), Some("America/Adak")] {
                let calendar = Calendar::new(unit, tz, None).unwrap();
                let last = calendar.period(u64::MAX);
                assert!(last.start <= TIME_END && TIME_END < last.end);
                assert_eq!(calendar.period(0).index, 0);
                assert_eq!(calendar.last(), last.index);
            }
        }
    }
}
