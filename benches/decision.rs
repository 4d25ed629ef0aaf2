//! What one decision costs.
//!
//! Unless a name says `clock`, the call is given its time, so that no clock is read inside. Every figure is
//! for one decision: hashing the key (8 bytes, or the 11 of an address), finding it, judging it, exchanging
//! its word and making the whole `Decision`. The keys are made, and their order is drawn, outside the measurement.
//!
//! Times come from a counter: virtual time moves on by 1 us a call, as under a million calls a second.

#![allow(clippy::cast_precision_loss)] // Shares of a distribution are floats.

use azud::{Limit, Limiter};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The start of virtual time.
const START: u64 = 1_796_000_000_000_000_000;
const MICROSECOND: u64 = 1000;
const MANY: u64 = 1 << 20;
/// Calls in an order drawn ahead: more than the caches hold of it.
const ORDER: usize = 1 << 22;
/// Nobody is refused, and whoever was charged owes for 86 ms at least.
const ROOMY: &str = "token-bucket 1000000000/1000d";

fn limiter(limit: &str) -> Limiter {
    Limiter::new(limit.parse::<Limit>().expect("a limit")).expect("the memory")
}

/// A limiter of [`MANY`] keys that were charged once.
fn limiter_of_many() -> Limiter {
    let limiter = limiter(ROOMY);
    for key in 0..MANY {
        assert!(limiter.check_at(key.to_le_bytes(), 1, START).is_allowed());
    }
    limiter.maintain_at(START);
    limiter
}

/// xorshift64*: the same order in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

fn uniform() -> Vec<u64> {
    let mut random = Random(88_172_645_463_325_252);
    (0..ORDER).map(|_| random.next() % MANY).collect()
}

/// Zipf with exponent 1: key k is drawn in proportion to 1 / (k + 1). By the table of the sums.
fn zipf() -> Vec<u64> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (0..MANY)
        .map(|k| {
            sum += 1.0 / (k + 1) as f64;
            sum
        })
        .collect();
    let mut random = Random(88_172_645_463_325_252);
    let mut draw = || {
        let share = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        sums.partition_point(|s| *s < share * sum) as u64
    };
    (0..ORDER).map(|_| draw().min(MANY - 1)).collect()
}

/// One key, known and allowed: by algorithm, and with the clock.
fn known_key(c: &mut Criterion) {
    let mut group = c.benchmark_group("known key, allowed");
    let limits = [
        ("token-bucket", "token-bucket 1000000000/1s"),
        ("token-bucket, odd rate", "token-bucket 999999937/1s"),
        ("leaky-bucket queue", "leaky-bucket 1000000000/1s queue"),
        ("fixed-window", "fixed-window 1000000000/1s"),
        ("sliding-window", "sliding-window 1023/1ms"),
        ("sliding-log", "sliding-log 1000/100us"),
    ];
    for (name, limit) in limits {
        let limiter = limiter(limit);
        let mut now = START;
        group.bench_function(name, |b| {
            b.iter(|| {
                now += MICROSECOND;
                limiter.check_at(black_box(b"203.0.113.7"), 1, now)
            });
        });
        assert!(limiter.check_at(b"203.0.113.7", 1, now + MICROSECOND).is_allowed(), "{name} was to be allowed");
    }
    let limiter = limiter(limits[0].1);
    group.bench_function("token-bucket, clock", |b| b.iter(|| limiter.check(black_box(b"203.0.113.7"), 1)));
    group.bench_function("token-bucket, clock, verdict alone", |b| b.iter(|| limiter.allow(black_box(b"203.0.113.7"), 1)));
    group.bench_function("the clock alone", |b| b.iter(|| limiter.now()));
    group.finish();
}

/// One key that is over its limit: a word is read and nothing is written.
fn refused(c: &mut Criterion) {
    let mut group = c.benchmark_group("known key, refused");
    for (name, limit) in [
        ("token-bucket", "token-bucket 10/1d"),
        ("fixed-window", "fixed-window 10/1d"),
        ("sliding-window", "sliding-window 10/1d"),
        ("sliding-log", "sliding-log 10/1d"),
    ] {
        let limiter = limiter(limit);
        while limiter.check_at(b"203.0.113.7", 1, START).is_allowed() {}
        let mut now = START;
        group.bench_function(name, |b| {
            b.iter(|| {
                now += 1;
                limiter.check_at(black_box(b"203.0.113.7"), 1, now)
            });
        });
    }
    group.finish();
}

/// 100 000 new keys in a table that starts at its smallest: insertion, all growth and all moving. The
/// limiter is made and dropped outside.
fn new_key(c: &mut Criterion) {
    let mut group = c.benchmark_group("new key");
    group.throughput(Throughput::Elements(100_000));
    for (name, expected) in [("100 000 keys into a growing table", 0), ("100 000 keys into a table made for them", 100_000)] {
        let make = || Limiter::builder(ROOMY.parse().expect("a limit")).expected_keys(expected).build().expect("the memory");
        group.bench_function(name, |b| {
            b.iter_batched(
                make,
                |limiter| {
                    for key in 0..100_000u64 {
                        black_box(limiter.check_at(key.to_le_bytes(), 1, START).is_allowed());
                    }
                    limiter
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// 1 M known keys: singles, and batches of 64 through `check_batch_at`, in two orders.
fn many_keys(c: &mut Criterion) {
    let limiter = limiter_of_many();
    let mut group = c.benchmark_group("1 M known keys, 64 decisions");
    group.throughput(Throughput::Elements(64));
    for (name, order) in [("uniform", uniform()), ("Zipf", zipf())] {
        let calls: Vec<([u8; 8], u64)> = order.into_iter().map(|key| (key.to_le_bytes(), 1)).collect();
        let (mut now, mut at) = (START, 0);
        let mut next = move || {
            now += 64 * MICROSECOND;
            at = (at + 64) % ORDER;
            (at, now)
        };
        group.bench_function(format!("{name}, singles"), |b| {
            b.iter(|| {
                let (at, now) = next();
                for (key, cost) in &calls[at..at + 64] {
                    black_box(limiter.check_at(key, *cost, now).is_allowed());
                }
            });
        });
        let mut out = Vec::with_capacity(64);
        group.bench_function(format!("{name}, a batch"), |b| {
            b.iter(|| {
                let (at, now) = next();
                limiter.check_batch_at(&calls[at..at + 64], now, &mut out);
                black_box(out.len());
            });
        });
    }
    group.finish();
}

/// One hot key with 1 and 2 threads, each reading the clock. The time is that of one decision of one
/// thread, all threads at work; threads are started outside.
fn hot_key(c: &mut Criterion) {
    let mut group = c.benchmark_group("hot key, clock");
    for (name, limit) in [("allowed", "token-bucket 1000000000/1s"), ("refused", "token-bucket 1/1d")] {
        for threads in [1, 2] {
            let limiter = limiter(limit);
            let _ = limiter.check(b"203.0.113.7", 1);
            group.bench_function(format!("{name}, threads: {threads}"), |b| {
                b.iter_custom(|calls| {
                    together(threads, || (0..calls).for_each(|_| _ = black_box(limiter.allow(b"203.0.113.7", 1))))
                });
            });
        }
    }
    group.finish();
}

/// The time that the slowest of some threads takes.
fn together(threads: usize, work: impl Fn() + Sync) -> Duration {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let run = || {
            start.wait();
            let begun = Instant::now();
            work();
            begun.elapsed()
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        all.into_iter().map(|thread| thread.join().expect("no panic")).max().expect("a thread")
    })
}

/// A flood of new keys at a full table of 4 MiB, each of which takes the slot of a key in debt.
fn flood(c: &mut Criterion) {
    let mut group = c.benchmark_group("full table");
    let limiter = Limiter::builder(ROOMY.parse().expect("a limit")).max_memory(4 << 20).build().expect("the memory");
    let mut key = 0u64;
    while limiter.statistics().takeovers_indebted < 4 * limiter.statistics().capacity {
        key += 1;
        let _ = limiter.check_at(key.to_le_bytes(), 1, START + key);
    }
    group.bench_function("takeover from a key in debt", |b| {
        b.iter(|| {
            key += 1;
            limiter.check_at(black_box(key.to_le_bytes()), 1, START + key)
        });
    });
    group.finish();
}

/// Short: what matters is the ratio of figures of one run, and a machine's noise is larger than what a
/// longer run would win.
fn quick() -> Criterion {
    Criterion::default().sample_size(30).warm_up_time(Duration::from_millis(400)).measurement_time(Duration::from_millis(1500))
}

criterion_group! { name = all; config = quick(); targets = known_key, refused, new_key, many_keys, hot_key, flood }
criterion_main!(all);
