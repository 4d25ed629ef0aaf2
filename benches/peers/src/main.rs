//! azud beside other keyed rate limiters, in one run.
//!
//! | name | what it is |
//! |---|---|
//! | azud | a token bucket, `Limiter::allow` |
//! | governor | its keyed limiter over DashMap, with its defaults: SipHash |
//! | governor+ahash | the same with the hash that azud uses |
//! | mutex map | a `Mutex` around the standard `HashMap`, one integer a key (GCRA), `Instant::now` |
//!
//! The crates `ratelimit` and `leaky-bucket` are not here: they have no keys, only one bucket each.
//!
//! Inside the measurement: the verdict for one key of 16 bytes, with the limiter's own reading of its own
//! clock. Outside: making the keys and their order. Rounds are interleaved: in each, every limiter makes
//! the same calls, the first one of the round changing; a ratio is the median over rounds of what the
//! peer took in a round against what azud took in the same. With 2 threads the figure is the wall
//! time for one decision of one thread, while both are at work on the same limiter.
//!
//! `peers` prints Markdown tables. `peers memory NAME` is what it runs to weigh one limiter alone.

use azud_peers::resident;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::process::Command;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

type Key = [u8; 16];
/// Makes a verdict for each key; gives how many were allowed.
type Run = Box<dyn Fn(&[Key]) -> u64 + Sync>;

const NAMES: [&str; 4] = ["azud", "governor", "governor+ahash", "mutex map"];
const MANY: usize = 1_000_000;
/// Calls of a thread in a round.
const CALLS: usize = 400_000;
const ROUNDS: usize = 15;

/// A limit that all of them can keep: a unit every so many ns, and so many at once.
#[derive(Clone, Copy)]
struct Rate {
    every_ns: u64,
    burst: u32,
}

/// Nobody is refused, and whoever was charged owes for over a minute: no key can be forgotten.
const ROOMY: Rate = Rate { every_ns: 86_400_000_000, burst: 1_000_000 };
/// A single key is never over it.
const FAST: Rate = Rate { every_ns: 1, burst: 1_000_000_000 };
/// A single key is always over it.
const SLOW: Rate = Rate { every_ns: 86_400_000_000_000, burst: 1 };

fn limiter(name: &str, rate: Rate) -> Run {
    fn each(keys: &[Key], allow: impl Fn(&Key) -> bool) -> u64 {
        keys.iter().map(|key| u64::from(allow(key))).sum()
    }
    let burst = NonZeroU32::new(rate.burst).expect("at least 1");
    let quota = Quota::with_period(Duration::from_nanos(rate.every_ns)).expect("not zero").allow_burst(burst);
    match name {
        "azud" => {
            let limit = azud::Limit::token_bucket(1, Duration::from_nanos(rate.every_ns)).burst(rate.burst.into()).build();
            let limiter = azud::Limiter::new(limit.expect("it can be kept")).expect("the memory");
            Box::new(move |keys| each(keys, |key| limiter.allow(key, 1)))
        }
        "governor" => {
            let limiter: DefaultKeyedRateLimiter<Key> = RateLimiter::keyed(quota);
            Box::new(move |keys| each(keys, |key| limiter.check_key(key).is_ok()))
        }
        "governor+ahash" => {
            let limiter = RateLimiter::dashmap_with_hasher(quota, ahash::RandomState::new());
            Box::new(move |keys| each(keys, |key| limiter.check_key(key).is_ok()))
        }
        "mutex map" => {
            let map = Mutex::new(HashMap::<Key, u64>::new());
            let start = Instant::now();
            let ahead = rate.every_ns * u64::from(rate.burst);
            let allow = move |key: &Key| {
                let now = start.elapsed().as_nanos() as u64;
                let mut map = map.lock().expect("nobody panicked");
                let full_at = map.entry(*key).or_default();
                let next = (*full_at).max(now) + rate.every_ns;
                let allowed = next <= now + ahead;
                if allowed {
                    *full_at = next;
                }
                allowed
            };
            Box::new(move |keys| each(keys, &allow))
        }
        _ => panic!("there is no {name}, only {NAMES:?}"),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            speed();
            memory();
        }
        ["memory"] => memory(),
        ["memory", name] => println!("{}", weigh(name)),
        _ => panic!("expected nothing, or: memory [NAME]"),
    }
}

// ---- speed

struct Scene {
    name: &'static str,
    rate: Rate,
    keys: usize,
    order: fn(usize) -> Vec<Key>,
}

fn speed() {
    let scenes = [
        Scene { name: "1000 keys, uniform", rate: ROOMY, keys: 1000, order: uniform },
        Scene { name: "1 M keys, uniform", rate: ROOMY, keys: MANY, order: uniform },
        Scene { name: "1 M keys, Zipf", rate: ROOMY, keys: MANY, order: zipf },
        Scene { name: "one key, allowed", rate: FAST, keys: 1, order: uniform },
        Scene { name: "one key, refused", rate: SLOW, keys: 1, order: uniform },
    ];
    println!(
        "ns for one decision (median of {ROUNDS} rounds); in brackets, the peer's time against azud's (median of the rounds' ratios)\n"
    );
    println!("| scene | threads | {} |\n|---|---|{}", NAMES.join(" | "), "---:|".repeat(NAMES.len()));
    for scene in scenes {
        let limiters = NAMES.map(|name| limiter(name, scene.rate));
        let known: Vec<Key> = (0..scene.keys).map(key).collect();
        for run in &limiters {
            assert_eq!(run(&known), known.len() as u64, "{}: a new key was refused", scene.name);
        }
        let order = (scene.order)(scene.keys);
        for threads in [1, 2] {
            let cells = compare(&limiters, &order, threads);
            println!("| {} | {threads} | {} |", scene.name, cells.join(" | "));
        }
    }
    println!();
}

/// Runs the rounds; gives a cell of the table for each limiter.
fn compare(limiters: &[Run; NAMES.len()], order: &[Key], threads: usize) -> Vec<String> {
    let mut times = [(); NAMES.len()].map(|()| Vec::new());
    for round in 0..=ROUNDS {
        for turn in 0..NAMES.len() {
            let which = (turn + round) % NAMES.len();
            let time = one_round(&limiters[which], order, threads, round);
            // The first round warms up.
            if round > 0 {
                times[which].push(time);
            }
        }
    }
    let cell = |which: usize| {
        let ratios: Vec<f64> = times[which].iter().zip(&times[0]).map(|(peer, azud)| peer / azud).collect();
        let ratio = if which == 0 { String::new() } else { format!(" ({:.2})", median(ratios)) };
        format!("{:.1}{ratio}", median(times[which].clone()))
    };
    (0..NAMES.len()).map(cell).collect()
}

/// Nanoseconds for one decision of a thread.
fn one_round(run: &Run, order: &[Key], threads: usize, round: usize) -> f64 {
    let start = Barrier::new(threads);
    let work = |thread: usize| {
        let first = (round * threads + thread) * CALLS % (order.len() - CALLS + 1);
        let calls = &order[first..first + CALLS];
        start.wait();
        let begun = Instant::now();
        std::hint::black_box(run(calls));
        begun.elapsed()
    };
    let longest = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        all.into_iter().map(|thread| thread.join().expect("no panic")).max().expect("a thread")
    });
    longest.as_nanos() as f64 / CALLS as f64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Key `n`, as bytes of an address.
fn key(n: usize) -> Key {
    let mut key = *b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\0";
    key[8..].copy_from_slice(&(n as u64).to_be_bytes());
    key
}

const ORDER: usize = 10 * CALLS;

/// xorshift64*: the same order in every run.
fn random() -> impl FnMut() -> u64 {
    let mut state = 88_172_645_463_325_252u64;
    move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

fn uniform(keys: usize) -> Vec<Key> {
    let mut random = random();
    (0..ORDER).map(|_| key((random() >> 11) as usize % keys)).collect()
}

/// Zipf with exponent 1: key k is drawn in proportion to 1 / (k + 1). By the table of the sums.
fn zipf(keys: usize) -> Vec<Key> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (0..keys)
        .map(|k| {
            sum += 1.0 / (k + 1) as f64;
            sum
        })
        .collect();
    let mut random = random();
    let mut draw = || {
        let share = (random() >> 11) as f64 / (1u64 << 53) as f64;
        sums.partition_point(|s| *s < share * sum).min(keys - 1)
    };
    (0..ORDER).map(|_| key(draw())).collect()
}

// ---- memory

fn memory() {
    println!("memory of {MANY} keys, each charged once, in a process of its own (difference of resident memory)\n");
    println!("| limiter | bytes a key |\n|---|---:|");
    for name in NAMES {
        let this = std::env::current_exe().expect("this program");
        let child = Command::new(this).args(["memory", name]).output().expect("it starts");
        assert!(child.status.success(), "{name}: {}", String::from_utf8_lossy(&child.stderr));
        let bytes: u64 = String::from_utf8_lossy(&child.stdout).trim().parse().expect("a number");
        println!("| {name} | {:.1} |", bytes as f64 / MANY as f64);
    }
}

/// Bytes that a limiter takes for [`MANY`] keys.
fn weigh(name: &str) -> u64 {
    let run = limiter(name, ROOMY);
    let known: Vec<Key> = (0..MANY).map(key).collect();
    let (before, _) = resident();
    assert_eq!(run(&known), MANY as u64, "a new key was refused");
    resident().0 - before
}
