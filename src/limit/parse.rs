//! The limit language: text to [`Limit`], with the place of every fault.
//!
//! Words are separated by blanks. Numbers are decimal digits and nothing else: no sign, no point, no
//! exponent, so that `nan`, `inf`, `0.1` and `-5` are refused where they stand.

use super::{Algorithm, Limit, LimitError, Per, Spec};
#[cfg(feature = "quota")]
use crate::plan::{Anchor, Unit};
use crate::plan::{Fault, Field};
use std::ops::Range;

const PERIODS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

#[cfg(feature = "quota")]
const UNITS: [(&str, Unit); 5] =
    [("hour", Unit::Hour), ("day", Unit::Day), ("week", Unit::Week), ("month", Unit::Month), ("year", Unit::Year)];

/// A part of the text and where it stands.
#[derive(Clone)]
struct Part<'a> {
    text: &'a str,
    range: Range<usize>,
}

impl<'a> Part<'a> {
    /// The parts before and after the first `at`.
    fn split(&self, at: char) -> Option<(Part<'a>, Part<'a>)> {
        let (head, tail) = self.text.split_once(at)?;
        let middle = self.range.start + head.len();
        Some((
            Part { text: head, range: self.range.start..middle },
            Part { text: tail, range: middle + at.len_utf8()..self.range.end },
        ))
    }

    fn refuse(&self, fault: Fault) -> LimitError {
        LimitError { at: Some((self.range.clone(), self.text.to_owned())), ..LimitError::from(fault) }
    }

    fn number(&self, field: Field) -> Result<u64, LimitError> {
        let expected = "a whole number of at least 1";
        if self.text.is_empty() || !self.text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.refuse(Fault::new(field, "not a whole number", expected)));
        }
        self.text.parse().map_err(|_| self.refuse(Fault::new(field, "the number is too large", format!("at most {}", u64::MAX))))
    }
}

pub(super) fn limit(text: &str) -> Result<Limit, LimitError> {
    let mut words = words(text);
    let end = Part { text: "", range: text.len()..text.len() };
    let first = words.next().unwrap_or_else(|| end.clone());
    let names = Algorithm::ALL.map(Algorithm::name).join(", ");
    let algorithm = Algorithm::ALL
        .into_iter()
        .find(|a| a.name() == first.text)
        .ok_or_else(|| first.refuse(Fault::new(Field::Algorithm, "no such algorithm", names)))?;

    let rate_form = if algorithm == Algorithm::Quota { "N/UNIT such as 1000/month" } else { "N/PERIOD such as 100/1m" };
    let rate = words.next().unwrap_or_else(|| end.clone());
    let (count, period) =
        rate.split('/').ok_or_else(|| rate.refuse(Fault::new(Field::Count, format!("{algorithm} needs a rate"), rate_form)))?;
    let mut spec = Spec::new(algorithm, count.number(Field::Count)?, per(algorithm, &period)?);

    // Where each field stands, for the faults that only the plan can find.
    let mut places = vec![(Field::Algorithm, first), (Field::Count, count), (Field::Period, period)];
    for word in words {
        let (name, value) = word.split('=').map_or((word.clone(), None), |(name, value)| (name, Some(value)));
        let field = match (name.text, &value) {
            ("burst", _) => Field::Burst,
            ("queue", None) => Field::Queue,
            ("strict", None) => Field::Strict,
            ("tz", _) => Field::Tz,
            ("anchor", _) => Field::Anchor,
            _ => return Err(word.refuse(Fault::new(Field::Algorithm, "no such option", options(algorithm)))),
        };
        if places.iter().any(|(f, _)| *f == field) {
            return Err(word.refuse(Fault::new(field, "said twice", "it once")));
        }
        let value_part = value.clone().unwrap_or_else(|| word.clone());
        match (field, value) {
            (Field::Burst, Some(value)) => spec.burst = Some(value.number(field)?),
            (Field::Queue, _) => spec.queue = true,
            (Field::Strict, _) => spec.strict = true,
            (Field::Tz, Some(value)) => spec.tz = Some(value.text.to_owned()),
            #[cfg(feature = "quota")]
            (Field::Anchor, Some(value)) => spec.anchor = Some(date(&value)?),
            #[cfg(not(feature = "quota"))]
            (Field::Anchor, Some(_)) => {}
            _ => return Err(word.refuse(Fault::new(field, "a value is missing", format!("{}=VALUE", name.text)))),
        }
        places.push((field, value_part));
    }
    spec.compile().map_err(|fault| {
        let place = places.iter().find(|(field, _)| *field == fault.field).map_or(&rate, |(_, part)| part);
        place.refuse(fault)
    })
}

fn words(text: &str) -> impl Iterator<Item = Part<'_>> {
    text.split([' ', '\t']).filter(|word| !word.is_empty()).map(move |word| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        Part { text: word, range: start..start + word.len() }
    })
}

fn per(algorithm: Algorithm, part: &Part<'_>) -> Result<Per, LimitError> {
    #[cfg(feature = "quota")]
    if algorithm == Algorithm::Quota {
        let unit = UNITS.iter().find(|(name, _)| *name == part.text);
        let fault = || part.refuse(Fault::new(Field::Period, "no such calendar period", "hour, day, week, month or year"));
        return unit.map(|(_, unit)| Per::Calendar(*unit)).ok_or_else(fault);
    }
    #[cfg(not(feature = "quota"))]
    if algorithm == Algorithm::Quota {
        return Ok(Per::Never);
    }
    let digits = part.text.bytes().take_while(u8::is_ascii_digit).count();
    let (k, unit) = part.text.split_at(digits);
    let Some((_, scale)) = PERIODS.iter().find(|(name, _)| *name == unit) else {
        return Err(part.refuse(Fault::new(Field::Period, "no such period", "[k]ns, us, ms, s, m, h or d")));
    };
    let k = if digits == 0 { 1 } else { Part { text: k, range: part.range.clone() }.number(Field::Period).unwrap_or(u64::MAX) };
    // What overflows is out of range, which the plan refuses with the bounds.
    Ok(Per::Time(k.saturating_mul(*scale)))
}

fn options(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket => "burst=B",
        Algorithm::LeakyBucket => "burst=B or queue",
        Algorithm::SlidingWindow => "strict",
        Algorithm::FixedWindow | Algorithm::SlidingLog => "nothing more",
        Algorithm::Quota => "tz=ZONE or anchor=YYYY-MM-DD",
    }
}

#[cfg(feature = "quota")]
fn date(part: &Part<'_>) -> Result<Anchor, LimitError> {
    let form = part.text.len() == 10
        && part.text.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    let date = form.then(|| part.text.parse::<Anchor>());
    match date {
        Some(Ok(date)) => Ok(date),
        Some(Err(e)) => Err(part.refuse(no_such_date(&e))),
        None => Err(part.refuse(Fault::new(Field::Anchor, "not a date", "YYYY-MM-DD"))),
    }
}

#[cfg(feature = "quota")]
pub(super) fn no_such_date(error: &jiff::Error) -> Fault {
    Fault::new(Field::Anchor, format!("no such date ({error})"), "YYYY-MM-DD")
}

/// A period in its largest whole unit.
pub(super) fn period_text(ns: u64) -> String {
    let (name, scale) = PERIODS.iter().rev().find(|(_, scale)| ns.is_multiple_of(*scale)).expect("1 ns divides all");
    format!("{}{name}", ns / scale)
}

#[cfg(feature = "quota")]
pub(super) fn unit_name(unit: Unit) -> &'static str {
    UNITS.iter().find(|(_, u)| *u == unit).expect("every unit has a name").0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        text.parse::<Limit>().unwrap_err().to_string()
    }

    #[test]
    fn a_fault_says_where_and_what_was_expected() {
        for (text, error) in [
            (
                "",
                "column 1: no such algorithm; expected token-bucket, leaky-bucket, fixed-window, sliding-window, sliding-log, quota",
            ),
            (
                "gcra 10/1s",
                "\"gcra\" (column 1): no such algorithm; expected token-bucket, leaky-bucket, fixed-window, sliding-window, sliding-log, quota",
            ),
            ("token-bucket", "column 13: token-bucket needs a rate; expected N/PERIOD such as 100/1m"),
            ("token-bucket 100/", "column 18: no such period; expected [k]ns, us, ms, s, m, h or d"),
            ("token-bucket nan/1s", "\"nan\" (column 14): not a whole number; expected a whole number of at least 1"),
            ("token-bucket 0/1s", "\"0\" (column 14): zero allows nothing; expected a whole number of at least 1"),
            ("token-bucket 100/0s", "\"0s\" (column 18): the period is out of range; expected 1 ns to 106751 d"),
            (
                "token-bucket 1/99999999999999999999s",
                "\"99999999999999999999s\" (column 16): the period is out of range; expected 1 ns to 106751 d",
            ),
            ("token-bucket 1/s  burst=0", "\"0\" (column 25): zero allows nothing; expected a whole number of at least 1"),
            ("token-bucket 1/s burst", "\"burst\" (column 18): a value is missing; expected burst=VALUE"),
            ("token-bucket 1/s burst=1 burst=1", "\"burst=1\" (column 26): said twice; expected it once"),
            (
                "fixed-window 1/s burst=5",
                "\"5\" (column 24): fixed-window does not have it; expected it with token-bucket or leaky-bucket",
            ),
            ("sliding-log 1/s queue", "\"queue\" (column 17): sliding-log does not have it; expected it with leaky-bucket"),
            ("sliding-window 1/s wide", "\"wide\" (column 20): no such option; expected strict"),
            (
                "token-bucket 18446744073709551616/s",
                "\"18446744073709551616\" (column 14): the number is too large; expected at most 18446744073709551615",
            ),
        ] {
            assert_eq!(refusal(text), error);
        }
    }

    #[cfg(feature = "quota")]
    #[test]
    fn quotas_are_parsed_as_strictly() {
        for (text, error) in [
            ("quota 10/fortnight", "\"fortnight\" (column 10): no such calendar period; expected hour, day, week, month or year"),
            (
                "quota 10/month tz=Mars/Olympus",
                "\"Mars/Olympus\" (column 19): no zone is called \"Mars/Olympus\"; expected an IANA name such as Europe/Madrid",
            ),
            ("quota 10/month anchor=26-1-1", "\"26-1-1\" (column 23): not a date; expected YYYY-MM-DD"),
            (
                "quota 10/hour anchor=2026-01-01",
                "\"2026-01-01\" (column 22): an hour has no anchor; expected an anchor with day, week, month or year",
            ),
        ] {
            assert_eq!(refusal(text), error);
        }
        assert!(refusal("quota 10/month anchor=2026-02-30").starts_with("\"2026-02-30\" (column 23): no such date"));
    }

    #[test]
    fn the_canonical_text_means_the_same_limit() {
        for (text, canonical) in [
            ("token-bucket 100/60s", "token-bucket 100/1m"),
            (" leaky-bucket  10/s queue   burst=20", "leaky-bucket 10/1s burst=20 queue"),
            ("sliding-window 5/90000ms strict", "sliding-window 5/90s strict"),
            ("sliding-log 3/1us", "sliding-log 3/1us"),
            ("fixed-window 100/d", "fixed-window 100/1d"),
            #[cfg(feature = "quota")]
            ("quota 7/month anchor=2026-01-31 tz=Europe/Madrid", "quota 7/month tz=Europe/Madrid anchor=2026-01-31"),
        ] {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(limit.to_string(), canonical);
            assert_eq!(canonical.parse::<Limit>().unwrap(), limit);
        }
    }
}
