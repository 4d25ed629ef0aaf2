//! Runs the blocks of a vector file through `azud decide`, one process a block. The format is
//! described at the top of `bindings/vectors/vectors.tsv`; `check_vectors.py` beside it does the same
//! for programs in other languages.
//!
//! Every value is compared exactly, with one exception: where a bucket's tick is no whole part of
//! 1 ns, a wait may be off by that tick (see [`slack_ns`]).

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::thread;

/// What a block that is refused is fed.
const PROBE: &[u8] = b"1700000000000000000\tk\t1\n";

pub(crate) fn check_file(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bindings/vectors").join(name);
    let text = fs::read_to_string(path).unwrap();
    let blocks = parse(&text).unwrap();
    assert!(blocks.len() >= 20, "only {} blocks", blocks.len());
    let bad: Vec<String> = blocks.iter().flat_map(check).collect();
    assert!(bad.is_empty(), "{} mismatches in {} blocks:\n{}", bad.len(), blocks.len(), bad.join("\n"));
}

struct Block<'a> {
    id: &'a str,
    limit: &'a str,
    is_refused: bool,
    calls: Vec<Call<'a>>,
}

struct Call<'a> {
    line: usize,
    time_ns: u64,
    key: &'a str,
    cost: u64,
    expected: Expected<'a>,
}

enum Expected<'a> {
    /// allow|deny, remaining, retry, reset, delay.
    Answer([&'a str; 5]),
    /// Of this many calls, each so much later than the one before, so many are allowed.
    Count { calls: u64, step_ns: u64, allowed: u64 },
}

// ---- Reading ----

fn parse(text: &str) -> Result<Vec<Block<'_>>, String> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut is_inside = false;
    let mut repeat = None;
    for (line, text) in (1..).zip(text.split('\n')) {
        let malformed = |what: &str| Err(format!("line {line}: {what}"));
        if text == "##" || text.starts_with("## ") {
            continue;
        }
        if text.is_empty() {
            if repeat.is_some() {
                return malformed("@repeat without a call");
            }
            is_inside = false;
        } else if !is_inside {
            let Some(block) = head(text) else { return malformed("no head of a block") };
            if blocks.iter().any(|other| other.id == block.id) {
                return malformed("this id occurs twice");
            }
            blocks.push(block);
            is_inside = true;
        } else if let Some(block) = blocks.last_mut() {
            if block.is_refused {
                return malformed("calls in a block that is refused");
            }
            if let Some(numbers) = text.strip_prefix("@repeat ") {
                let numbers = numbers.split_once(' ').and_then(|(calls, step)| Some((calls.parse().ok()?, step.parse().ok()?)));
                if numbers.is_none() || repeat.is_some() {
                    return malformed("no good @repeat");
                }
                repeat = numbers;
                continue;
            }
            let Some(call) = call(text, line, repeat.take()) else { return malformed("no call") };
            block.calls.push(call);
        }
    }
    match blocks.iter().find(|block| block.is_refused != block.calls.is_empty()) {
        Some(block) => Err(format!("{} has no calls", block.id)),
        None => Ok(blocks),
    }
}

fn head(text: &str) -> Option<Block<'_>> {
    let fields: Vec<&str> = text.split('\t').collect();
    let (id, limit, is_refused) = match fields[..] {
        [id, limit] => (id.strip_prefix("# ")?, limit, false),
        [id, limit, "refused"] => (id.strip_prefix("! ")?, limit, true),
        _ => return None,
    };
    Some(Block { id, limit, is_refused, calls: Vec::new() })
}

fn call(text: &str, line: usize, repeat: Option<(u64, u64)>) -> Option<Call<'_>> {
    let fields: Vec<&str> = text.split('\t').collect();
    let (&[time, key, cost], rest) = fields.split_first_chunk()?;
    let expected = match repeat {
        Some((calls, step_ns)) => {
            let allowed = rest.first()?.strip_prefix("count=")?.parse().ok()?;
            rest[1..].iter().all(|&field| field == "*").then_some(Expected::Count { calls, step_ns, allowed })?
        }
        None => Expected::Answer(rest.try_into().ok().filter(|answer: &[&str; 5]| matches!(answer[0], "allow" | "deny"))?),
    };
    Some(Call { line, time_ns: time.parse().ok()?, key, cost: cost.parse().ok()?, expected })
}

// ---- Running ----

/// The mismatches of one block.
fn check(block: &Block<'_>) -> Vec<String> {
    let bad = if block.is_refused { check_refused(block.limit) } else { check_calls(block) };
    bad.iter().map(|what| format!("{} [{}] {what}", block.id, block.limit)).collect()
}

fn check_refused(limit: &str) -> Vec<String> {
    let ended = super::decide(limit, PROBE);
    let mut bad = Vec::new();
    if ended.code != Some(2) {
        bad.push(format!("want a refusal (exit code 2), got {:?}; {}", ended.code, ended.err));
    }
    if !ended.out.is_empty() {
        bad.push(format!("want nothing on standard output, got {:?}", ended.out));
    }
    if ended.err.is_empty() {
        bad.push("refused without a reason on standard error".into());
    }
    bad
}

fn check_calls(block: &Block<'_>) -> Vec<String> {
    let (mut child, stdin, stdout, mut stderr) = super::start(&["decide", "--limit", block.limit]);
    thread::scope(|scope| {
        scope.spawn(move || feed(&block.calls, BufWriter::new(stdin)));
        let err = scope.spawn(move || super::text_of(&mut stderr));
        let mut answers = BufReader::new(stdout);
        let slack_ns = slack_ns(block.limit);
        let mut bad: Vec<String> = block.calls.iter().flat_map(|call| check_call(call, &mut answers, slack_ns)).collect();
        if next_line(&mut answers).is_some() {
            bad.push("more answers than calls".into());
        }
        // Closes the pipe, so that the program ends whatever it still has to say.
        drop(answers);
        let code = child.wait().unwrap().code();
        let err = err.join().unwrap();
        if code != Some(0) || !err.is_empty() {
            bad.push(format!("exit code {code:?}; {err}"));
        }
        bad
    })
}

/// Ends early if the program does: its answers tell.
fn feed(calls: &[Call<'_>], mut input: impl Write) -> std::io::Result<()> {
    for Call { time_ns, key, cost, expected, .. } in calls {
        let (calls, step_ns) = match *expected {
            Expected::Answer(_) => (1, 0),
            Expected::Count { calls, step_ns, .. } => (calls, step_ns),
        };
        for index in 0..calls {
            writeln!(input, "{}\t{key}\t{cost}", time_ns + index * step_ns)?;
        }
    }
    input.flush()
}

fn next_line(answers: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    answers.read_line(&mut line).ok()?;
    line.strip_suffix('\n').map(str::to_owned)
}

fn check_call(call: &Call<'_>, answers: &mut impl BufRead, slack_ns: u64) -> Vec<String> {
    let place = format!("line {}: time {} cost {}", call.line, call.time_ns, call.cost);
    let mut answer = || next_line(answers).filter(|line| is_answer(line));
    match call.expected {
        Expected::Answer(want) => match answer() {
            None => vec![format!("{place}: no answer")],
            Some(line) => compare(&want, &line, slack_ns).into_iter().map(|what| format!("{place}: {what}")).collect(),
        },
        Expected::Count { calls, allowed, .. } => {
            let answers: Vec<String> = (0..calls).map_while(|_| answer()).collect();
            let got = answers.iter().filter(|line| line.starts_with("allow")).count() as u64;
            if answers.len() as u64 != calls {
                vec![format!("{place}: {} answers to {calls} calls", answers.len())]
            } else if got != allowed {
                vec![format!("{place}: want {allowed} of {calls} allowed, got {got}")]
            } else {
                Vec::new()
            }
        }
    }
}

/// Five fields of digits, `never` only for a retry, `-` for a retry just when allowed.
fn is_answer(line: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let fields: Vec<&str> = line.split('\t').collect();
    let &[verdict, remaining, retry, reset, delay] = &fields[..] else { return false };
    let is_retry = match verdict {
        "allow" => retry == "-",
        "deny" => retry == "never" || is_number(retry),
        _ => false,
    };
    is_retry && [remaining, reset, delay].into_iter().all(is_number)
}

/// What differs between an expected answer and an answer.
fn compare(want: &[&str; 5], line: &str, slack_ns: u64) -> Vec<String> {
    let got: Vec<&str> = line.split('\t').collect();
    if want[0] != got[0] {
        return vec![format!("want {}, got {}", want.join(" "), got.join(" "))];
    }
    let is_near = |want: &str, got: &str| match (want.parse::<u64>(), got.parse::<u64>()) {
        (Ok(want), Ok(got)) => want.abs_diff(got) <= slack_ns,
        _ => false,
    };
    let fields = [("remaining", false), ("retry_after", true), ("reset_after", true), ("delay", true)];
    let differs = |want: &str, got: &str, is_wait: bool| want != "*" && want != got && !(is_wait && is_near(want, got));
    fields
        .into_iter()
        .zip(want[1..].iter().zip(&got[1..]))
        .filter(|&((_, is_wait), (want, got))| differs(want, got, is_wait))
        .map(|((name, _), (want, got))| format!("{name} want {want}, got {got}"))
        .collect()
}

/// The ns by which a wait may be off: 0 where 1 ns is a whole number of a bucket's ticks, else the
/// tick, rounded up, at least 2.
fn slack_ns(limit: &str) -> u64 {
    bucket(limit).map_or(0, |(count, period_ns, burst)| {
        let numerator = count / gcd(count, period_ns);
        let span_ns = burst * period_ns / count + 60_000_000_000;
        if numerator <= 4 && numerator * span_ns <= 1 << 57 { 0 } else { 2.max((span_ns >> 57) + 2) as u64 }
    })
}

/// (count, period in ns, burst) of a bucket; `None` for any other limit.
fn bucket(limit: &str) -> Option<(u128, u128, u128)> {
    let mut words = limit.split(' ');
    let ("token-bucket" | "leaky-bucket") = words.next()? else { return None };
    let (count, period) = words.next()?.split_once('/')?;
    let count = count.parse().ok().filter(|&count: &u128| count > 0)?;
    let unit_at = period.find(|char: char| !char.is_ascii_digit())?;
    let (number, unit) = period.split_at(unit_at);
    let unit_ns = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    let number: u128 = if number.is_empty() { 1 } else { number.parse().ok()? };
    let burst = words.find_map(|word| word.strip_prefix("burst=")?.parse().ok()).unwrap_or(count);
    Some((count, number * unit_ns, burst))
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

// ---- The runner itself ----

/// A wrong expectation of each kind is found, and a right one is not.
#[test]
fn the_runner_finds_mismatches() {
    let found = |text: &str| parse(text).map(|blocks| blocks.iter().flat_map(check).collect::<Vec<String>>().join("; "));
    let call = |expected: &str| found(&format!("## note\n\n# X\ttoken-bucket 1/s\n0\tk\t1\t{expected}\n"));
    assert_eq!(call("allow\t0\t-\t1000000000\t0"), Ok(String::new()));
    assert_eq!(call("allow\t*\t*\t*\t*"), Ok(String::new()));
    assert!(call("deny\t0\t1\t1000000000\t0").unwrap().contains("want deny"));
    assert!(call("allow\t1\t-\t1000000000\t0").unwrap().contains("remaining want 1, got 0"));
    assert!(call("allow\t0\t-\t1000000001\t0").unwrap().contains("reset_after want 1000000001"));
    let repeat = |count: u64| found(&format!("# X\ttoken-bucket 1/s\n@repeat 5 500000000\n0\tk\t1\tcount={count}\n"));
    assert_eq!(repeat(3), Ok(String::new()));
    assert!(repeat(4).unwrap().contains("want 4 of 5 allowed, got 3"));
    assert_eq!(found("! X\ttoken-bucket 0/s\trefused\n"), Ok(String::new()));
    assert!(found("! X\ttoken-bucket 1/s\trefused\n").unwrap().contains("want a refusal"));
    assert!(found("# X\ttoken-bucket 0/s\n0\tk\t1\tallow\t0\t-\t0\t0\n").unwrap().contains("no answer"));
    for malformed in [
        "# X\ttoken-bucket 1/s\n",
        "0\tk\t1\n",
        "# X\tl\n@repeat 1 1\n\n",
        "# X\tl\n0\tk\t1\tallow\n",
        "# X\tl\n0\tk\t1\tmaybe\t0\t-\t0\t0\n",
    ] {
        assert!(found(malformed).is_err(), "{malformed}");
    }
    assert_eq!(slack_ns("token-bucket 10/s burst=20"), 0);
    assert_eq!(slack_ns("token-bucket 7/s burst=1000"), 2);
    assert_eq!(slack_ns("leaky-bucket 1/36500d burst=3 queue"), 67);
    assert_eq!(slack_ns("fixed-window 7/s"), 0);
}
