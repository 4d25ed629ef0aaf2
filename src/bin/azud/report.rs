//! The text of a replay's report: the answer in one sentence, the numbers, the worst keys, and last
//! what to know before it is believed. Integers only; shares are rounded to a tenth, but
//! "0.0 %" means none and "100.0 %" means all.

use azud::replay::{Cost, Delays, Report, Tally, Utc, Worst};
use std::fmt::Write;

/// Keys are cut at this many characters.
const KEY_CHARS_MAX: usize = 100;

pub(crate) fn text(report: &Report) -> String {
    let mut paragraphs = vec![answer(report)];
    if report.span_ns.is_some() {
        paragraphs.push(numbers(report));
        paragraphs.extend(worst(report));
        paragraphs.extend(report.delays.map(|delays| waits(delays, report.requests.allowed())));
    }
    paragraphs.extend(unreadable(report));
    paragraphs.extend(caveats(report));
    paragraphs.join("\n")
}

/// One sentence.
fn answer(report: &Report) -> String {
    let Some((first_ns, last_ns)) = report.span_ns else {
        return "There was no request to judge.\n".into();
    };
    let Tally { all, refused } = report.requests;
    let (requests, by, span) = (count(all, "request"), count(report.keys.all, report.key.noun()), span(last_ns - first_ns));
    let counted = if report.cost == Cost::Bytes { " counting bytes" } else { "" };
    let refused = if refused == 0 { "none".into() } else { format!("{refused} ({})", share(refused, all)) };
    let (limit, key) = (&report.limit, &report.key);
    format!("Of {requests} by {by} {span}, {limit} per {key}{counted} would have refused {refused}.\n")
}

/// The numbers as a table.
fn numbers(report: &Report) -> String {
    let mut rows = Vec::from(tally_rows("requests", ["allowed", "refused"], report.requests));
    rows.extend(tally_rows(&plural(report.key.noun()), ["never refused", "ever refused"], report.keys));
    if report.cost == Cost::Bytes {
        rows.extend(tally_rows("bytes", ["allowed", "refused"], report.units));
    }
    let mut text = String::new();
    if let Some((first_ns, last_ns)) = report.span_ns {
        let _ = writeln!(text, "  {:<16}{} UTC\n  {:<16}{} UTC", "first", Utc(first_ns), "last", Utc(last_ns));
    }
    let width = rows.iter().map(|(_, number, _)| number.to_string().len()).max().unwrap_or(0);
    for (name, number, share) in rows {
        let _ = writeln!(text, "{}", format!("  {name:<16}{number:>width$}   {share:>7}").trim_end());
    }
    text
}

/// A total and its two parts: (name, number, share).
fn tally_rows(name: &str, [allowed, refused]: [&str; 2], tally: Tally) -> [(String, u64, String); 3] {
    [
        (name.to_owned(), tally.all, String::new()),
        (format!("  {allowed}"), tally.allowed(), share(tally.allowed(), tally.all)),
        (format!("  {refused}"), tally.refused, share(tally.refused, tally.all)),
    ]
}

/// The keys with the most refusals.
fn worst(report: &Report) -> Option<String> {
    if report.worst.is_empty() {
        return None;
    }
    let noun = report.key.noun();
    let shown = count(report.worst.len() as u64, noun);
    let mut text = if report.worst.len() as u64 == report.keys.refused {
        format!("The {shown} that would have been refused, at least once:\n")
    } else {
        format!("The {shown} with the most refusals:\n")
    };
    let _ = writeln!(text, "  {:>9}  {:>9}  {:>7}  {:<19}  {noun}", "refused", "requests", "share", "first refusal (UTC)");
    for Worst { key, requests: Tally { all, refused }, first_refusal_ns, .. } in &report.worst {
        let _ =
            writeln!(text, "  {refused:>9}  {all:>9}  {:>7}  {}  {}", share(*refused, *all), Utc(*first_refusal_ns), cut(key));
    }
    Some(text)
}

fn waits(delays: Delays, allowed: u64) -> String {
    let Delays { delayed, max_ns, mean_ns, .. } = delays;
    if delayed == 0 {
        return "No allowed request would have waited.\n".into();
    }
    let (of, most, mean) = (share(delayed, allowed), duration(max_ns), duration(mean_ns));
    format!(
        "{delayed} of {} would have waited ({of}): {most} at most, {mean} in the mean over all.\n",
        count(allowed, "allowed request")
    )
}

fn unreadable(report: &Report) -> Option<String> {
    let lines = &report.unreadable;
    if lines.count == 0 {
        return None;
    }
    let were = if lines.count == 1 { "is" } else { "are" };
    let first = if (lines.first.len() as u64) < lines.count { "; the first ones" } else { "" };
    let mut text = format!("{} could not be read and {were} not counted above{first}:\n", count(lines.count, "line"));
    for line in &lines.first {
        let _ = writeln!(text, "  {}:{}: {}", line.source, line.line, line.why);
    }
    Some(text)
}

/// What to know before the answer is believed.
fn caveats(report: &Report) -> Option<String> {
    let mut text = String::new();
    if report.above_limit > 0 {
        let above = count(report.above_limit, "request");
        let _ = writeln!(
            text,
            "{above} cost more than {}, all that the limit ever holds: no wait would help.",
            report.limit.capacity()
        );
    }
    if let Some((source, line)) = &report.late.first {
        let (late, most) = (count(report.late.count, "request"), duration(report.late.max_ns));
        let _ = writeln!(text, "{late} came too late to be put into order (by {most} at most; the first in {source}:{line})");
        let _ = writeln!(text, "and counted as made at the latest time before. A larger --reorder puts more into order.");
    }
    if report.is_whole_seconds && report.requests.all > 1 {
        let _ = writeln!(text, "The times are whole seconds: requests within one second look simultaneous, and the time between");
        let _ = writeln!(text, "two requests may be off by up to a second.");
    }
    if report.takeovers_indebted > 0 {
        let _ =
            writeln!(text, "The memory did not hold all keys: some inherited another's use, so fewer may be refused in truth.");
    }
    (!text.is_empty()).then_some(text)
}

/// `1 client`, `2 clients`.
fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {}", plural(noun)) }
}

fn plural(noun: &str) -> String {
    format!("{noun}s")
}

/// `3.1 %`. Rounded, but never to none or all.
fn share(part: u64, all: u64) -> String {
    if part == 0 || all == 0 {
        return "0.0 %".into();
    }
    let (part, all) = (u128::from(part), u128::from(all));
    match (part * 2000 + all) / (all * 2) {
        0 => "<0.1 %".into(),
        1000 if part < all => ">99.9 %".into(),
        tenths => format!("{}.{} %", tenths / 10, tenths % 10),
    }
}

/// `over 3 d 11 h`; logs have seconds.
fn span(ns: u64) -> String {
    if ns < 1_000_000_000 { "within one second".into() } else { format!("over {}", duration(ns)) }
}

/// Two units at most, rounded down.
fn duration(ns: u64) -> String {
    const US: u64 = 1_000;
    const MS: u64 = 1_000 * US;
    const S: u64 = 1_000 * MS;
    const M: u64 = 60 * S;
    const H: u64 = 60 * M;
    const D: u64 = 24 * H;
    let two = |large: u64, large_name: &str, small: u64, small_name: &str| match ns % large / small {
        0 => format!("{} {large_name}", ns / large),
        rest => format!("{} {large_name} {rest} {small_name}", ns / large),
    };
    let decimal = |unit: u64, name: &str| match ns % unit / (unit / 10) {
        0 => format!("{} {name}", ns / unit),
        tenths => format!("{}.{tenths} {name}", ns / unit),
    };
    match ns {
        D.. => two(D, "d", H, "h"),
        H.. => two(H, "h", M, "min"),
        M.. => two(M, "min", S, "s"),
        S.. => decimal(S, "s"),
        MS.. => decimal(MS, "ms"),
        US.. => decimal(US, "us"),
        _ => format!("{ns} ns"),
    }
}

fn cut(key: &str) -> String {
    match key.char_indices().nth(KEY_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &key[..end]),
        None => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        for (part, all, expected) in [
            (0, 0, "0.0 %"),
            (0, 5, "0.0 %"),
            (5, 5, "100.0 %"),
            (1, 3, "33.3 %"),
            (2, 3, "66.7 %"),
            (1, 2000, "0.1 %"),
            (1, 2001, "<0.1 %"),
            (1999, 2000, ">99.9 %"),
            (1998, 2000, "99.9 %"),
            (u64::MAX - 1, u64::MAX, ">99.9 %"),
        ] {
            assert_eq!(share(part, all), expected, "{part} of {all}");
        }
    }

    #[test]
    fn durations() {
        for (ns, expected) in [
            (0, "0 ns"),
            (1_999, "1.9 us"),
            (250_000_000, "250 ms"),
            (1_500_000_000, "1.5 s"),
            (59_999_999_999, "59.9 s"),
            (60_000_000_000, "1 min"),
            (3_725_000_000_000, "1 h 2 min"),
            (300_000_000_000_000, "3 d 11 h"),
            (86_400_000_000_000, "1 d"),
        ] {
            assert_eq!(duration(ns), expected);
        }
        assert_eq!(span(999_999_999), "within one second");
        assert_eq!(span(1_000_000_000), "over 1 s");
    }

    #[test]
    fn long_keys_are_cut() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"é".repeat(KEY_CHARS_MAX)), "é".repeat(KEY_CHARS_MAX));
        assert_eq!(cut(&"é".repeat(KEY_CHARS_MAX + 1)), "é".repeat(KEY_CHARS_MAX) + "...");
    }
}
