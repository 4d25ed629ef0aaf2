//! `azud decide`: calls in, answers out, by virtual time. The same lines in any language give the
//! same answers, so test vectors for every binding run through here.
//!
//! ```text
//! in:   TIME_NS<TAB>KEY<TAB>COST
//! out:  allow|deny<TAB>REMAINING<TAB>RETRY_AFTER_NS|never|-<TAB>RESET_AFTER_NS<TAB>DELAY_NS
//! ```
//!
//! Answers are written when no whole line is left in the input buffer, just before the program would
//! wait for more: a million lines cost a few hundred system calls, and yet a program at the other end of two
//! pipes gets each answer before it sends its next call.

use crate::Failure;
use azud::{Limit, Limiter, NEVER};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

const ABOUT: &str = "Decide calls from standard input, by virtual time";

const LONG_ABOUT: &str = "\
Decide calls from standard input, by virtual time.

Reads one call a line from standard input:

  TIME_NS<TAB>KEY<TAB>COST

TIME_NS counts nanoseconds (since the Unix epoch, where windows and calendars matter). KEY is any
bytes without tab and newline; it may be empty. A COST of 0 asks without charging. Writes one
answer a line:

  allow|deny<TAB>REMAINING<TAB>RETRY_AFTER_NS|never|-<TAB>RESET_AFTER_NS<TAB>DELAY_NS

Example:

  printf '0\\tann\\t1\\n0\\tann\\t1\\n' | azud decide --limit 'token-bucket 1/1s'";

/// What `azud decide` is told.
#[derive(clap::Args)]
#[command(about = ABOUT, long_about = LONG_ABOUT)]
pub(crate) struct Arguments {
    /// The limit, such as 'token-bucket 100/1m burst=20' (see azud --help)
    #[arg(long, value_name = "LIMIT", allow_hyphen_values = true)]
    limit: Limit,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let limiter = Limiter::builder(arguments.limit).time_grain(0).build().map_err(Failure::input)?;
    decide(&limiter, io::stdin().lock(), io::stdout().lock())
}

const BUFFER_BYTES: usize = 64 * 1024;

/// Answers every line of `input`. Answers to the lines before a bad one are written, too.
fn decide(limiter: &Limiter, input: impl Read, mut output: impl Write) -> Result<(), Failure> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut answers = Vec::with_capacity(BUFFER_BYTES);
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        let read = read_line(&mut input, &mut line, || write_out(&mut output, &mut answers))?;
        if read == 0 {
            return write_out(&mut output, &mut answers);
        }
        number += 1;
        match parse(line.strip_suffix(b"\n").unwrap_or(&line)) {
            Ok(call) => answer(limiter, call, &mut answers),
            Err(why) => {
                write_out(&mut output, &mut answers)?;
                return Err(Failure::input(format_args!("line {number}: {why}")));
            }
        }
    }
}

/// Reads one line with its ending; calls `before_waiting` whenever the buffer runs dry.
fn read_line(
    input: &mut BufReader<impl Read>,
    line: &mut Vec<u8>,
    mut before_waiting: impl FnMut() -> Result<(), Failure>,
) -> Result<usize, Failure> {
    loop {
        let buffer = input.buffer();
        if let Some(length) = buffer.iter().position(|&byte| byte == b'\n') {
            line.extend_from_slice(&buffer[..=length]);
            input.consume(length + 1);
            return Ok(line.len());
        }
        let length = buffer.len();
        line.extend_from_slice(buffer);
        input.consume(length);
        before_waiting()?;
        match input.fill_buf() {
            Ok([]) => return Ok(line.len()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::input(format_args!("standard input: {error}"))),
        }
    }
}

fn write_out(output: &mut impl Write, answers: &mut Vec<u8>) -> Result<(), Failure> {
    output.write_all(answers).and_then(|()| output.flush()).map_err(Failure::Output)?;
    answers.clear();
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call<'a> {
    time_ns: u64,
    key: &'a [u8],
    cost: u64,
}

/// Why a line is no call.
#[derive(Debug, PartialEq, Eq)]
struct BadLine {
    part: String,
    column: usize,
    expected: &'static str,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" (column {}): expected {}", self.part, self.column, self.expected)
    }
}

/// `TIME_NS<TAB>KEY<TAB>COST`
fn parse(line: &[u8]) -> Result<Call<'_>, BadLine> {
    let mut fields = line.split(|&byte| byte == b'\t');
    let (Some(time), Some(key), Some(cost), None) = (fields.next(), fields.next(), fields.next(), fields.next()) else {
        return Err(bad_line(line, 1, "TIME_NS<TAB>KEY<TAB>COST"));
    };
    let time_ns = number(time).ok_or_else(|| bad_line(time, 1, "a time in ns, 0 to 18446744073709551615"))?;
    let column = time.len() + key.len() + 3;
    let cost = number(cost).ok_or_else(|| bad_line(cost, column, "a cost, 0 to 18446744073709551615"))?;
    Ok(Call { time_ns, key, cost })
}

/// Shows at most this much of a bad line.
const SHOWN_BYTES_MAX: usize = 60;

fn bad_line(part: &[u8], column: usize, expected: &'static str) -> BadLine {
    let mut shown = part[..part.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string();
    if part.len() > SHOWN_BYTES_MAX {
        shown.push_str("...");
    }
    BadLine { part: shown, column, expected }
}

/// Digits and nothing else, if the number fits.
fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

fn answer(limiter: &Limiter, call: Call<'_>, out: &mut Vec<u8>) {
    let decision = limiter.check_at(call.key, call.cost, call.time_ns);
    out.extend_from_slice(if decision.is_allowed() { b"allow\t" } else { b"deny\t" });
    push_number(out, decision.remaining());
    out.push(b'\t');
    match decision.retry_after_ns() {
        _ if decision.is_allowed() => out.push(b'-'),
        NEVER => out.extend_from_slice(b"never"),
        wait_ns => push_number(out, wait_ns),
    }
    out.push(b'\t');
    push_number(out, decision.reset_after_ns());
    out.push(b'\t');
    push_number(out, decision.delay_ns());
    out.push(b'\n');
}

/// The decimal digits of a number; several times as fast as the formatting machinery.
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for value in [0, 1, 9, 10, 99, 100, 1_234_567_890, u64::MAX - 1, u64::MAX] {
            let mut text = Vec::new();
            push_number(&mut text, value);
            assert_eq!(text, value.to_string().into_bytes());
            assert_eq!(number(&text), Some(value));
        }
        assert_eq!(number(b"007"), Some(7));
        for text in ["", "-1", "+1", " 1", "1 ", "1_0", "1e3", "18446744073709551616", "99999999999999999999999"] {
            assert_eq!(number(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn calls() {
        assert_eq!(parse(b"5\tann\t1"), Ok(Call { time_ns: 5, key: b"ann", cost: 1 }));
        assert_eq!(parse(b"5\t\t0"), Ok(Call { time_ns: 5, key: b"", cost: 0 }));
        assert_eq!(parse(b"5\t \xff\0\r\t1"), Ok(Call { time_ns: 5, key: b" \xff\0\r", cost: 1 }));
        for (line, expected) in [
            ("", r#""" (column 1): expected TIME_NS<TAB>KEY<TAB>COST"#),
            ("5 ann 1", r#""5 ann 1" (column 1): expected TIME_NS<TAB>KEY<TAB>COST"#),
            ("5\tann\t1\t", r#""5\tann\t1\t" (column 1): expected TIME_NS<TAB>KEY<TAB>COST"#),
            ("-5\tann\t1", r#""-5" (column 1): expected a time"#),
            ("5\tann\t1.5", r#""1.5" (column 7): expected a cost"#),
            ("5\tann\t1\r", r#""1\r" (column 7): expected a cost"#),
            ("5\tann\t", r#""" (column 7): expected a cost"#),
        ] {
            let why = parse(line.as_bytes()).unwrap_err().to_string();
            assert!(why.starts_with(expected), "{line}: {why}");
        }
        let long = parse(&[b'x'; 1000]).unwrap_err().part;
        assert_eq!(long.len(), SHOWN_BYTES_MAX + 3);
    }

    /// A pipe that hands over its text in pieces.
    struct Pieces<'a>(std::vec::IntoIter<&'a [u8]>);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.next().unwrap_or_default();
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    /// However the input is cut: the lines are the same, and before each wait what is whole was handed on.
    #[test]
    fn lines_in_pieces() {
        let pieces: Vec<&[u8]> = vec![b"a", b"b\nc\n", b"\nd", b"", b"never read"];
        let mut input = BufReader::new(Pieces(pieces.into_iter()));
        let mut waits = 0;
        let mut found = Vec::new();
        for _ in 0..4 {
            let mut line = Vec::new();
            let read = read_line(&mut input, &mut line, || {
                waits += 1;
                Ok(())
            });
            assert!(read.is_ok_and(|read| read == line.len()));
            found.push((String::from_utf8(line).unwrap(), waits));
        }
        let found: Vec<(&str, i32)> = found.iter().map(|(line, waits)| (line.as_str(), *waits)).collect();
        assert_eq!(found, [("ab\n", 2), ("c\n", 2), ("\n", 3), ("d", 4)]);
    }
}
