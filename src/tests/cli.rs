//! The program `azud` as people use it: built, started, fed, and its words and exit codes read.
//!
//! What `azud replay` says is compared with a dull twin below: lines cut at spaces, one exact integer
//! bucket a key in a map.

#[path = "cli/vectors.rs"]
mod vectors;

use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

const LOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/data/access.log");

// ---- Starting the program ----

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

fn start(arguments: &[&str]) -> (Child, ChildStdin, ChildStdout, ChildStderr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_azud"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("azud starts");
    let (stdin, stdout, stderr) = (child.stdin.take().unwrap(), child.stdout.take().unwrap(), child.stderr.take().unwrap());
    (child, stdin, stdout, stderr)
}

fn run(arguments: &[&str], input: &[u8]) -> Ended {
    let (mut child, mut stdin, mut stdout, mut stderr) = start(arguments);
    thread::scope(|scope| {
        // The program may end without reading all of it.
        scope.spawn(move || stdin.write_all(input));
        let err = scope.spawn(move || text_of(&mut stderr));
        let out = text_of(&mut stdout);
        Ended { code: child.wait().unwrap().code(), out, err: err.join().unwrap() }
    })
}

fn text_of(stream: &mut impl Read) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn decide(limit: &str, input: &[u8]) -> Ended {
    run(&["decide", "--limit", limit], input)
}

/// The report about these files.
fn replayed(files: &[&Path], options: &[&str]) -> String {
    let mut arguments = vec!["replay"];
    arguments.extend(files.iter().map(|path| path.to_str().unwrap()));
    arguments.extend(options);
    let ended = run(&arguments, b"");
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{arguments:?}");
    ended.out
}

fn write_file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

// ---- Vectors ----

#[test]
fn vectors_tsv() {
    vectors::check_file("vectors.tsv");
}

#[test]
fn arith_vectors_tsv() {
    vectors::check_file("arith_vectors.tsv");
}

// ---- decide ----

#[test]
fn decide_answers_calls() {
    let ended = decide("token-bucket 10/s burst=20", b"0\tk\t21\n0\tk\t20\n0\tk\t1\n0\t\t1\n99999999\tk\t1\n100000000\tk\t1");
    let expected = "deny\t20\tnever\t0\t0\n\
                    allow\t0\t-\t2000000000\t0\n\
                    deny\t0\t100000000\t2000000000\t0\n\
                    allow\t19\t-\t100000000\t0\n\
                    deny\t0\t1\t1900000001\t0\n\
                    allow\t0\t-\t2000000000\t0\n";
    assert_eq!((ended.out.as_str(), ended.err.as_str(), ended.code), (expected, "", Some(0)));
}

#[test]
fn decide_without_input_says_nothing() {
    let ended = decide("token-bucket 10/s", b"");
    assert_eq!((ended.out.as_str(), ended.err.as_str(), ended.code), ("", "", Some(0)));
}

#[test]
fn keys_are_bytes() {
    let ended = decide("fixed-window 1/1m", b"0\t\xff\0 \r\t1\n0\t\xff\0 \t1\n0\t\xff\0 \r\t1\n");
    let verdicts: Vec<&str> = ended.out.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(verdicts, ["allow", "allow", "deny"]);
}

#[test]
fn a_bad_limit_is_refused_with_its_place() {
    for (limit, place) in [("token-bucket 100/1x", "column 18"), ("", "column"), ("-5/s", "column 1"), ("pool 5/s", "column 1")] {
        let ended = decide(limit, b"0\tk\t1\n");
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{limit}");
        assert!(ended.err.contains(place) && ended.err.contains("expected"), "{limit}: {}", ended.err);
    }
}

#[test]
fn a_bad_line_is_named_and_the_answers_before_it_are_kept() {
    let ended = decide("token-bucket 1/s", b"0\tk\t1\n0\tk\t1\n0\tk\tone\n0\tk\t1\n");
    assert_eq!(ended.code, Some(2));
    assert_eq!(ended.out, "allow\t0\t-\t1000000000\t0\ndeny\t0\t1000000000\t1000000000\t0\n");
    assert_eq!(ended.err, "azud decide: line 3: \"one\" (column 5): expected a cost, 0 to 18446744073709551615\n");
}

#[test]
fn each_answer_comes_before_the_next_call_is_sent() {
    let (mut child, mut stdin, stdout, _stderr) = start(&["decide", "--limit", "token-bucket 1/s burst=2"]);
    let mut answers = BufReader::new(stdout);
    for expected in ["allow\t1", "allow\t0", "deny\t0"] {
        stdin.write_all(b"0\tk\t1\n").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.starts_with(expected), "{answer}");
    }
    // Half a line gets no answer, and keeps none back.
    stdin.write_all(b"0\tother\t1\n0\tk").unwrap();
    let mut answer = String::new();
    answers.read_line(&mut answer).unwrap();
    assert!(answer.starts_with("allow\t1"), "{answer}");
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let (mut child, mut stdin, stdout, mut stderr) = start(&["decide", "--limit", "token-bucket 1/s"]);
    drop(stdout);
    let _ = stdin.write_all(&b"0\tk\t1\n".repeat(100_000));
    drop(stdin);
    assert_eq!(text_of(&mut stderr), "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

// ---- Usage ----

#[test]
fn usage() {
    let version = run(&["--version"], b"");
    assert_eq!((version.code, version.out), (Some(0), format!("azud {}\n", env!("CARGO_PKG_VERSION"))));
    let help = run(&["--help"], b"");
    assert_eq!(help.code, Some(0));
    for word in [
        "decide",
        "replay",
        "token-bucket",
        "leaky-bucket",
        "fixed-window",
        "sliding-window",
        "sliding-log",
        "quota",
        "Exit codes",
    ] {
        assert!(help.out.contains(word), "{word}");
    }
    let bad: [&[&str]; 8] = [
        &[],
        &["decide"],
        &["explain"],
        &["replay", LOG],
        &["replay", "--limit", "token-bucket 1/s"],
        &["replay", LOG, "--limit", "token-bucket 1/s", "--key", "cookie"],
        &["replay", LOG, "--limit", "token-bucket 1/s", "--cost", "time"],
        &["replay", "-", "-", "--limit", "token-bucket 1/s"],
    ];
    for arguments in bad {
        let ended = run(arguments, b"");
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(!ended.err.is_empty(), "{arguments:?}");
    }
}

// ---- replay against its dull twin ----

struct Dull {
    key: String,
    path: String,
    bytes: u64,
    /// Since the beginning of May 2015.
    seconds: u64,
}

/// The sample log by cutting at spaces, in the order of its times.
fn dull_log() -> Vec<Dull> {
    let text = fs::read_to_string(LOG).unwrap();
    let mut requests: Vec<Dull> = text
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let time: Vec<&str> = fields[3].split(['[', '/', ':']).collect();
            assert_eq!((time[2], time[3], fields[4]), ("May", "2015", "+0000]"));
            let number = |index: usize| time[index].parse::<u64>().unwrap();
            Dull {
                key: fields[0].into(),
                path: fields[6].split('?').next().unwrap().into(),
                bytes: fields[9].parse().unwrap_or(0),
                seconds: ((number(1) * 24 + number(4)) * 60 + number(5)) * 60 + number(6),
            }
        })
        .collect();
    requests.sort_by_key(|request| request.seconds);
    requests
}

/// `count` tokens each `period` seconds, at most `burst`, in parts of a token of which a second
/// brings `count` and a whole one has `period`.
struct DullBucket {
    count: u64,
    period: u64,
    burst: u64,
    levels: HashMap<String, (u64, u64)>,
}

impl DullBucket {
    fn new(count: u64, period: u64, burst: u64) -> DullBucket {
        DullBucket { count, period, burst, levels: HashMap::new() }
    }

    fn allow(&mut self, key: &str, cost: u64, seconds: u64) -> bool {
        let full = self.burst * self.period;
        let (level, last) = self.levels.entry(key.to_owned()).or_insert((full, seconds));
        *level = full.min(*level + (seconds - *last) * self.count);
        *last = seconds;
        let is_allowed = *level >= cost * self.period;
        if is_allowed {
            *level -= cost * self.period;
        }
        is_allowed
    }
}

/// (refused, requests, key) of each key, the worst first.
fn dull_tallies(verdicts: impl Iterator<Item = (String, bool)>) -> Vec<(u64, u64, String)> {
    let mut tallies: HashMap<String, (u64, u64)> = HashMap::new();
    for (key, is_allowed) in verdicts {
        let (refused, all) = tallies.entry(key).or_default();
        *all += 1;
        *refused += u64::from(!is_allowed);
    }
    let mut sorted: Vec<_> = tallies.into_iter().map(|(key, (refused, all))| (refused, all, key)).collect();
    sorted.sort_by(|a, b| (b.0, b.1, &a.2).cmp(&(a.0, a.1, &b.2)));
    sorted
}

/// The report says what the tallies say: the sentence, the table and the worst keys.
fn assert_agrees(report: &str, noun: &str, tallies: &[(u64, u64, String)]) {
    let (all, keys) = (tallies.iter().map(|tally| tally.1).sum::<u64>(), tallies.len() as u64);
    let refused: u64 = tallies.iter().map(|tally| tally.0).sum();
    let worst: Vec<_> = tallies.iter().filter(|tally| tally.0 > 0).collect();
    assert!(refused > 0, "a limit that refuses nobody tests nothing");

    let sentence = report.lines().next().unwrap();
    assert!(sentence.starts_with(&format!("Of {all} requests by {keys} {noun}s over 3 d 11 h, ")), "{sentence}");
    assert!(sentence.contains(&format!(" would have refused {refused} (")), "{sentence}");

    let rows = |name: &str| -> Vec<u64> {
        let row = |line: &str| line.trim().strip_prefix(name)?.split_whitespace().next()?.parse().ok();
        report.lines().filter_map(row).collect()
    };
    assert_eq!(rows("requests "), [all]);
    assert_eq!(rows("allowed "), [all - refused]);
    assert_eq!(rows(&format!("{noun}s ")), [keys]);
    assert_eq!(rows("never refused "), [keys - worst.len() as u64]);
    assert_eq!(rows("refused "), [refused]);
    assert_eq!(rows("ever refused "), [worst.len() as u64]);

    let table: Vec<(u64, u64, String)> = report
        .lines()
        .skip_while(|line| !line.ends_with(&format!("  {noun}")))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (words[0].parse().unwrap(), words[1].parse().unwrap(), (*words.last().unwrap()).to_owned())
        })
        .collect();
    let expected: Vec<_> = worst.into_iter().take(10).cloned().collect();
    assert_eq!(table, expected);
}

#[test]
fn replay_agrees_with_the_dull_bucket() {
    let mut bucket = DullBucket::new(10, 60, 5);
    let tallies = dull_tallies(dull_log().into_iter().map(|Dull { key, seconds, .. }| {
        let is_allowed = bucket.allow(&key, 1, seconds);
        (key, is_allowed)
    }));
    assert_eq!(tallies.len(), 1753);
    let report = replayed(&[LOG.as_ref()], &["--limit", "token-bucket 10/1m burst=5"]);
    assert_agrees(&report, "client", &tallies);
}

#[test]
fn replay_by_path_and_by_network_agrees_too() {
    let mut bucket = DullBucket::new(7, 60, 2);
    let tallies = dull_tallies(dull_log().into_iter().map(|Dull { path, seconds, .. }| {
        let is_allowed = bucket.allow(&path, 1, seconds);
        (path, is_allowed)
    }));
    assert_agrees(&replayed(&[LOG.as_ref()], &["--limit", "token-bucket 7/1m burst=2", "--key", "path"]), "path", &tallies);

    let mut counts: HashMap<(String, u64), u64> = HashMap::new();
    let tallies = dull_tallies(dull_log().into_iter().map(|Dull { key, seconds, .. }| {
        let network = key.rsplit_once('.').unwrap().0.to_owned() + ".0/24";
        let count = counts.entry((network.clone(), seconds / 20)).or_default();
        *count += 1;
        (network, *count <= 3)
    }));
    assert_agrees(&replayed(&[LOG.as_ref()], &["--limit", "fixed-window 3/20s", "--key", "ip/24"]), "network", &tallies);
}

#[test]
fn replay_counts_bytes() {
    // Among requests of one second and one client the order decides, so the twin keeps the log's.
    let mut bucket = DullBucket::new(1_000_000, 60, 500_000);
    let tallies = dull_tallies(dull_log().into_iter().map(|Dull { key, seconds, bytes, .. }| {
        let is_allowed = bytes == 0 || bucket.allow(&key, bytes, seconds);
        (key, is_allowed)
    }));
    let report = replayed(&[LOG.as_ref()], &["--limit", "token-bucket 1000000/1m burst=500000", "--cost", "bytes"]);
    let refused: u64 = tallies.iter().map(|tally| tally.0).sum();
    assert!(
        report.lines().next().unwrap().contains(&format!("per ip counting bytes would have refused {refused} (")),
        "{report}"
    );
    let above = dull_log().iter().filter(|request| request.bytes > 500_000).count();
    assert!(report.contains(&format!("\n{above} requests cost more than 500000, ")), "{report}");
    let bytes: u64 = dull_log().iter().map(|request| request.bytes).sum();
    assert!(report.contains(&format!("bytes           {bytes}\n")), "{report}");
}

// ---- replay: the same log in other shapes ----

/// The lines in another order: each at most 30 s from where its time puts it.
fn shuffled() -> Vec<u8> {
    let text = fs::read_to_string(LOG).unwrap();
    let mut state = 1_u64;
    let mut dice = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut lines: Vec<(u64, &str)> = text
        .lines()
        .map(|line| {
            let time = &line[line.find('[').unwrap() + 1..];
            let number = |from: usize| time[from..from + 2].parse::<u64>().unwrap();
            let seconds = ((number(0) * 24 + number(12)) * 60 + number(15)) * 60 + number(18);
            (seconds + dice() % 31, line)
        })
        .collect();
    lines.sort_by_key(|&(place, _)| place);
    let shuffled: Vec<&str> = lines.iter().map(|&(_, line)| line).collect();
    assert!(!shuffled.is_sorted_by_key(|line| &line[line.find('[').unwrap()..][..21]));
    (shuffled.join("\n") + "\n").into_bytes()
}

#[test]
fn the_same_log_in_another_shape_gives_the_same_report() {
    let options = ["--limit", "token-bucket 10/1m burst=5"];
    let plain = fs::read(LOG).unwrap();
    let half = plain.len() / 2 + plain[plain.len() / 2..].iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let expected = replayed(&[LOG.as_ref()], &options);

    let packed = write_file("shapes.log.gz", &gzip(&plain));
    assert_eq!(replayed(&[&packed], &options), expected, "gzip");
    let members = write_file("shapes.log", &[gzip(&plain[..half]), gzip(&plain[half..])].concat());
    assert_eq!(replayed(&[&members], &options), expected, "two gzip members under a plain name");

    let piped = run(&["replay", "-", options[0], options[1]], &plain);
    assert_eq!((piped.code, piped.out, piped.err), (Some(0), expected.clone(), String::new()), "standard input");

    let shuffled = write_file("shuffled.log", &shuffled());
    assert_eq!(replayed(&[&shuffled], &options), expected, "lines in another order");

    let (old, new) = (write_file("shapes.log.1", &gzip(&plain[..half])), write_file("shapes.log.0", &plain[half..]));
    assert_eq!(replayed(&[&old, &new], &options), expected, "rotated");
    assert_eq!(replayed(&[&new, &old], &options), expected, "rotated, the newest first");
}

// ---- replay: bad input ----

fn line(host: &str, time: &str) -> String {
    format!("{host} - - [17/May/2015:{time} +0000] \"GET / HTTP/1.1\" 200 5\n")
}

#[test]
fn unreadable_lines_are_counted_and_shown() {
    let mut text = line("198.18.0.1", "10:00:00").into_bytes();
    text.extend_from_slice(b"\n\xff\xfe nonsense\n");
    text.extend(line("198.18.0.1", "10:00:61").into_bytes());
    text.extend(line("198.18.0.1", "10:00:01").into_bytes());
    text.extend_from_slice(&b"x".repeat(100_000));
    text.extend_from_slice(b"\nno\nno\nno\n198.18.0.1 - - [17/May/2015:10:00:02");
    let path = write_file("unreadable.log", &text);
    let name = path.to_str().unwrap();
    let report = replayed(&[&path], &["--limit", "token-bucket 1/1m"]);
    assert!(
        report.starts_with("Of 2 requests by 1 client over 1 s, token-bucket 1/1m per ip would have refused 1 (50.0 %).\n"),
        "{report}"
    );
    let format = "column 1: expected HOST IDENT USER [TIME] and so on, but there is no ` [`";
    let expected = format!(
        "\n7 lines could not be read and are not counted above; the first ones:\n  \
         {name}:3: {format}\n  \
         {name}:4: column 16: expected a time from 1970 to 2115 such as [17/May/2015:10:05:03 +0000]\n  \
         {name}:6: column 65537: expected the end of the line\n  \
         {name}:7: {format}\n  \
         {name}:8: {format}\n\n"
    );
    assert!(report.contains(&expected), "{report}");
}

#[test]
fn nothing_to_read_is_no_error() {
    let empty = write_file("empty.log", b"");
    assert_eq!(replayed(&[&empty], &["--limit", "token-bucket 1/1m"]), "There was no request to judge.\n");
}

#[test]
fn a_file_that_is_no_log_is_an_error() {
    let bad = write_file("bad.log", b"nonsense\n");
    let ended = run(&["replay", bad.to_str().unwrap(), "--limit", "token-bucket 1/1m"], b"");
    let expected = "There was no request to judge.\n\n1 line could not be read and is not counted above:\n";
    assert!(ended.out.starts_with(expected), "{}", ended.out);
    let why = "azud replay: not one line could be read; expected the common or combined format of nginx and Apache\n";
    assert_eq!((ended.code, ended.err.as_str()), (Some(2), why));
}

#[test]
fn a_file_that_breaks_off_is_an_error() {
    let whole = gzip(line("198.18.0.1", "10:00:00").repeat(1000).as_bytes());
    let torn = write_file("torn.log.gz", &whole[..whole.len() - 4]);
    for (file, reason) in [(torn.to_str().unwrap(), "torn.log.gz: line "), ("no/such.log", "no/such.log: ")] {
        let ended = run(&["replay", LOG, file, "--limit", "token-bucket 1/1m"], b"");
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{file}");
        assert!(ended.err.starts_with("azud replay: ") && ended.err.contains(reason), "{}", ended.err);
    }
}

#[test]
fn late_lines_are_judged_at_the_latest_time() {
    let lines = [line("198.18.0.1", "10:00:00"), line("198.18.0.2", "10:30:00"), line("198.18.0.3", "10:40:00")];
    // 10:20 is 20 minutes late: the bucket of 10:00 has been refilled by then, and by 10:40 too.
    let text = lines.concat() + &line("198.18.0.1", "10:20:00") + &line("198.18.0.1", "10:20:00");
    let path = write_file("late.log", text.as_bytes());
    let limit = ["--limit", "token-bucket 1/1m", "--reorder", "60"];
    let report = replayed(&[&path], &limit);
    assert!(report.contains("2 requests came too late to be put into order (by 10 min at most"), "{report}");
    assert!(report.contains("late.log:4)"), "{report}");
    let report = replayed(&[&path], &["--limit", "token-bucket 1/1m", "--reorder", "3600"]);
    assert!(!report.contains("too late"), "{report}");
}

#[test]
fn a_queue_reports_its_waits() {
    let path = write_file("queue.log", line("198.18.0.1", "10:00:00").repeat(5).as_bytes());
    let report = replayed(&[&path], &["--limit", "leaky-bucket 1/1s burst=4 queue"]);
    assert!(
        report.contains("3 of 4 allowed requests would have waited (75.0 %): 3 s at most, 1.5 s in the mean over all.\n"),
        "{report}"
    );
    let report = replayed(&[&path], &["--limit", "leaky-bucket 1/1s burst=4"]);
    assert!(!report.contains("waited"), "{report}");
}
