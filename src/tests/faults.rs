//! The faults of other limiters as cases, each under its name in the list of cases. What a line of
//! `bindings/vectors/vectors.tsv` says whole has no second test here; `bindings/vectors/COVERAGE.md`
//! says where each case is covered, and the last test here that it says the truth.

use super::laws::{DAY, Grant, THREADS, TODAY, bounded, limiter, maintain_until, small, together};
use super::model::{Rule, SECOND};
use super::{allocations, in_a_fork};
use crate::{Limit, Limiter, NEVER, Reason};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const HOUR: u64 = 3600 * SECOND;
const YEAR: u64 = 365 * DAY;

/// A rule of each algorithm that admits `n` at once, and the longest time that it remembers them.
fn of_each_kind(n: u64) -> Vec<(Rule, u64)> {
    vec![
        (Rule::token(n, 60 * SECOND, n), 60 * SECOND),
        (Rule::token(7, 11 * SECOND, n), 11 * SECOND * n),
        (Rule::Fixed { limit: n, period: 60 * SECOND }, 60 * SECOND),
        (Rule::Sliding { limit: n, period: 60 * SECOND, strict: false }, 120 * SECOND),
        (Rule::Sliding { limit: n, period: 60 * SECOND, strict: true }, 120 * SECOND),
        (Rule::Log { limit: n, period: 60 * SECOND }, 60 * SECOND),
        #[cfg(feature = "quota")]
        (Rule::Quota { limit: n, unit: super::model::calendar::Unit::Hour, zone: "UTC", anchor: None }, HOUR),
    ]
}

// ---- arithmetic ----

#[test]
fn ari_03_a_bucket_that_never_refills_is_spent_once() {
    let limiter = limiter(&Rule::Once { burst: 1 });
    let verdicts: Vec<_> = (0..1000).map(|_| limiter.check_at("k", 1, TODAY)).collect();
    assert!(verdicts[0].is_allowed());
    for refused in &verdicts[1..] {
        assert_eq!((refused.reason(), refused.retry_after_ns(), refused.retry_after()), (Reason::NeverRefills, NEVER, None));
    }
    assert_eq!(limiter.check_at("k", 1, TODAY + 10 * YEAR).reason(), Reason::NeverRefills);
}

/// Not only after the 12 hours of the vector: each doubling of the time, up to a year.
#[test]
fn ari_09_long_idle_does_not_wrap() {
    let rule = Rule::token(250_000, 60 * SECOND, 250_000);
    for shift in 36..55 {
        for idle in [(1 << shift) - 1, 1 << shift, (1 << shift) + 1] {
            let limiter = limiter(&rule);
            assert!(limiter.allow_at("k", 250_000, TODAY));
            let got = limiter.check_at("k", 1, TODAY + idle);
            assert_eq!((got.is_allowed(), got.remaining()), (true, 249_999), "idle for {idle} ns");
        }
    }
}

#[test]
fn ari_29_a_negative_cost_is_refused_and_changes_nothing() {
    for (rule, _) in of_each_kind(10) {
        let limiter = limiter(&rule);
        // What is left of -1 once it is an unsigned number.
        for cost in [(-1i64).cast_unsigned(), u64::from((-1i32).cast_unsigned()), i64::MIN.cast_unsigned()] {
            let refused = limiter.check_at("k", cost, TODAY);
            assert_eq!(
                (refused.reason(), refused.retry_after_ns(), refused.remaining()),
                (Reason::CostAboveLimit, NEVER, 10),
                "{rule:?}"
            );
        }
        assert_eq!(limiter.check_at("k", 1, TODAY).remaining(), 9, "{rule:?}");
    }
}

// ---- time ----

/// The clock is read in each call: no thread has to keep a cached one going.
#[test]
fn tim_10_time_passes_without_an_updater() {
    let limiter = Limiter::new(Limit::token_bucket(1000, std::time::Duration::from_secs(1)).burst(1).build().expect("a limit"))
        .expect("a table");
    let before = limiter.now();
    assert!(limiter.allow("k", 1));
    while limiter.now() < before + 5_000_000 {
        std::hint::spin_loop();
    }
    assert!(limiter.allow("k", 1), "refused after 5 ms of a limit of one a millisecond");
}

// ---- concurrency ----

/// The other half of CON-02: a word whose instant is 0 modulo its width is not a word that was never used.
#[test]
fn con_02_a_word_that_comes_back_to_zero_is_no_fresh_key() {
    let wrap = 1 << 58;
    let limiter = limiter(&Rule::token(1, SECOND, 1));
    assert!(limiter.allow_at("k", 1, wrap - SECOND));
    assert_eq!(limiter.check_at("k", 1, wrap - SECOND).retry_after_ns(), SECOND);
    assert_eq!(limiter.check_at("k", 1, wrap - 1).retry_after_ns(), 1);
    assert!(limiter.allow_at("k", 1, wrap));
    assert_eq!(limiter.check_at("k", 1, wrap).retry_after_ns(), SECOND);
}

#[test]
fn con_04_one_of_many_threads_passes_a_pacer() {
    let limiter = limiter(&Rule::token(1, SECOND, 1));
    assert!(limiter.allow_at("k", 1, TODAY));
    for round in 1..20 {
        let now = TODAY + round * 10 * SECOND;
        assert_eq!(together(64, |_| u64::from(limiter.allow_at("k", 1, now))), 1, "round {round}");
    }
}

#[test]
fn con_06_the_last_unit_goes_to_one_of_two() {
    for (rule, memory) in of_each_kind(50) {
        let limiter = limiter(&rule);
        for round in 0..50 {
            // Each round begins with a key that is fresh again and has one unit left.
            let now = (TODAY + round * (memory + DAY)).next_multiple_of(DAY);
            assert!(limiter.allow_at("k", 49, now), "{rule:?}");
            assert_eq!(together(2, |_| u64::from(limiter.allow_at("k", 1, now))), 1, "{rule:?}");
            assert_eq!(limiter.peek_at("k", 0, now).remaining(), 0);
        }
    }
}

/// There is no pair of check and record: the call that answers is the call that charges.
#[test]
fn con_08_check_and_charge_are_one_call() {
    for (rule, _) in of_each_kind(1) {
        for key in 0..30u8 {
            let limiter = limiter(&rule);
            assert_eq!(
                together(16, |_| u64::from(limiter.peek_at([key], 1, TODAY).is_allowed() && limiter.allow_at([key], 1, TODAY))),
                1,
                "{rule:?}"
            );
        }
    }
}

/// The cleaner runs all the time, and other keys come and go under it.
#[test]
fn con_12_a_cleaner_beside_the_checks_loses_nothing() {
    for rule in
        [Rule::Log { limit: 100, period: SECOND }, Rule::Fixed { limit: 100, period: SECOND }, Rule::token(100, SECOND, 100)]
    {
        let limiter =
            Limiter::builder(rule.limit().expect("a limit")).time_grain(0).build().expect("the default memory is enough");
        let (done, now) = (AtomicBool::new(false), AtomicU64::new(TODAY));
        let mut grants: Vec<Grant> = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    limiter.maintain_at(now.load(Ordering::Relaxed));
                }
            });
            for round in 0..60u64 {
                let at = TODAY + round * SECOND / 10;
                now.store(at, Ordering::Relaxed);
                let passed = together(THREADS, |thread| {
                    (0..40u64)
                        .filter(|k| {
                            let _ = limiter.allow_at([thread as u8, *k as u8, round as u8], 1, at);
                            limiter.allow_at("k", 1, at)
                        })
                        .count() as u64
                });
                grants.push((at.into(), passed));
            }
            done.store(true, Ordering::Relaxed);
        });
        bounded(&rule, &grants).unwrap_or_else(|e| panic!("{e}"));
        assert!(grants.iter().map(|(_, n)| n).sum::<u64>() >= 100, "{rule:?}");
    }
}

#[cfg(feature = "quota")]
#[test]
fn con_14_a_new_period_begins_once_for_all_threads() {
    let rule = Rule::Quota { limit: 100, unit: super::model::calendar::Unit::Hour, zone: "UTC", anchor: None };
    let limiter = limiter(&rule);
    for hour in 0..20 {
        let now = TODAY + hour * HOUR;
        assert_eq!(together(64, |_| u64::from(limiter.allow_at("k", 1, now))), 64);
        assert_eq!(limiter.peek_at("k", 0, now).remaining(), 36);
        assert!(limiter.allow_at("k", 36, now));
        assert!(!limiter.allow_at("k", 1, now + HOUR - 1));
    }
}

#[test]
fn con_16_every_call_on_a_hot_key_gets_its_verdict() {
    let (threads, calls) = (64, 500);
    for rule in [
        Rule::token(1, HOUR, threads * calls + 7),
        Rule::Fixed { limit: threads * calls + 7, period: HOUR },
        Rule::Log { limit: threads * calls + 7, period: HOUR },
    ] {
        let limiter = limiter(&rule);
        // Inside the limit contention refuses nobody, and outside it lets nobody in.
        assert_eq!(
            together(threads, |_| (0..calls).filter(|_| limiter.allow_at("k", 1, TODAY)).count() as u64),
            threads * calls,
            "{rule:?}"
        );
        assert_eq!(limiter.peek_at("k", 0, TODAY).remaining(), 7);
        assert_eq!(together(threads, |_| (0..calls).filter(|_| limiter.allow_at("k", 1, TODAY)).count() as u64), 7);
    }
}

/// Read in the sources: what every check goes through names no lock and nothing that waits.
#[test]
fn con_18_no_lock_on_the_path_of_a_check() {
    let mut files = 0;
    for file in sources(&root().join("src")) {
        let name = file.strip_prefix(root()).expect("a source of this package").display().to_string();
        if ["src/tests", "src/bin", "src/replay", "src/ffi"].iter().any(|other| name.starts_with(other)) {
            continue;
        }
        files += 1;
        let text = fs::read_to_string(&file).expect("a source");
        let shipped = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (line, code) in shipped.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            for word in ["Mutex", "RwLock", "Condvar", "Barrier", "park", "yield_now", "mpsc"] {
                assert!(!code.contains(word), "{name}:{}: {word}", line + 1);
            }
        }
    }
    assert!(files > 15, "only {files} files were read");
}

// ---- memory ----

#[test]
fn mem_01_distinct_keys_stay_under_the_ceiling() {
    // As in the case: as many bytes as 100 000 slots take, and ten times as many keys in 10 s.
    let (slots, keys) = (100_000, 1_000_000u64);
    for text in ["token-bucket 1/100ms", "fixed-window 1/100ms", "sliding-window 1/100ms"] {
        let memory = slots * 20;
        let limiter = Limiter::builder(text.parse().expect("a limit")).time_grain(0).max_memory(memory).build().expect("memory");
        for key in 0..keys {
            let _ = limiter.allow_at(key.to_le_bytes(), 1, TODAY + key * 10 * SECOND / keys);
            if key % 1000 == 0 {
                let now = limiter.statistics();
                assert!(now.memory_bytes <= memory && now.keys <= now.capacity && now.capacity <= slots, "{text}: {now:?}");
            }
        }
        let end = limiter.statistics();
        assert!(end.growths > 5, "{text}: the table did not grow to its ceiling: {end:?}");
        assert!(end.takeovers_idle > keys / 4, "{text}: idle keys were not replaced: {end:?}");
        // Without a call of the cleaner, and whatever came by: a new key is served once others are idle.
        assert!(limiter.allow_at("another", 1, TODAY + 20 * SECOND));
    }
}

#[test]
fn mem_03_a_known_key_costs_no_allocation() {
    for (rule, _) in of_each_kind(100) {
        let limiter = limiter(&rule);
        let _ = (limiter.allow_at("k", 1, TODAY), limiter.peek_at("k", 1, TODAY), limiter.allow("k", 0));
        let n = allocations(|| {
            for k in 0..50_000 {
                let now = TODAY + k * SECOND / 50;
                let _ = (limiter.allow_at("k", k % 4, now), limiter.check_at("k", 1, now), limiter.peek_at("k", 3, now));
            }
            let _ = (limiter.allow("k", 1), limiter.check("k", 1), limiter.peek("k", 1), limiter.statistics());
        });
        assert_eq!(n, 0, "{rule:?}");
    }
}

/// A batch into a vector that has room asks for none either.
#[test]
fn mem_03_a_batch_into_room_costs_no_allocation() {
    let limiter = limiter(&Rule::token(100, SECOND, 100));
    let calls: Vec<([u8; 1], u64)> = (0..100).map(|k| ([k % 7], u64::from(k % 3))).collect();
    let mut out = Vec::new();
    limiter.check_batch_at(&calls, TODAY, &mut out);
    assert_eq!(allocations(|| limiter.check_batch_at(&calls, TODAY + 1, &mut out)), 0);
    assert_eq!(out.len(), 100);
}

#[test]
fn mem_05_the_cleaner_takes_the_full_bucket_and_no_other() {
    let limiter = small(Rule::token(1, SECOND, 10).limit().expect("a limit"), 40);
    // Enough others, soon full again, for the cleaner to have reason to make the table smaller.
    for other in 0..100u64 {
        let _ = limiter.allow_at(other.to_le_bytes(), 1, TODAY - 20 * SECOND);
    }
    let before = limiter.statistics();
    assert!(limiter.allow_at("C", 1, TODAY - 5 * SECOND) && limiter.allow_at("A", 10, TODAY) && limiter.allow_at("B", 5, TODAY));
    maintain_until(&limiter, TODAY, |after| after.shrinks > before.shrinks && after.keys < before.keys);
    assert_eq!(limiter.check_at("A", 1, TODAY).retry_after_ns(), SECOND);
    assert_eq!(limiter.peek_at("B", 0, TODAY).remaining(), 5);
    assert_eq!(limiter.peek_at("C", 0, TODAY).remaining(), 10);
}

/// Expiry follows what is owed, whatever the cleaner and the other keys do.
#[test]
fn mem_07_a_key_in_debt_is_not_reborn() {
    for k in 0..20u64 {
        let limiter = small(Rule::token(1, 10 * SECOND, 10).limit().expect("a limit"), 1 + k);
        assert!(limiter.allow_at("k", 10, TODAY));
        limiter.maintain_at(TODAY + 10 * SECOND);
        for other in 0..50 * k {
            let _ = limiter.allow_at(other.to_le_bytes(), 1, TODAY + 10 * SECOND);
        }
        limiter.maintain_at(TODAY + 11 * SECOND);
        let got = limiter.check_at("k", 5, TODAY + 11 * SECOND);
        assert!(!got.is_allowed() && got.remaining() <= 1, "{got:?}");
        assert!(got.retry_after_ns() >= 39 * SECOND, "{got:?}");
    }
}

#[test]
fn mem_09_two_limits_on_one_key_leave_nothing_behind() {
    let limiters = ["token-bucket 10/1s", "fixed-window 30/1m"].map(|text| {
        Limiter::builder(text.parse().expect("a limit")).time_grain(0).build().expect("the default memory is enough")
    });
    let fresh = limiters.each_ref().map(Limiter::statistics);
    for k in 0..1000u64 {
        for limiter in &limiters {
            let _ = limiter.allow_at((k % 200).to_le_bytes(), 1, TODAY + k);
        }
    }
    for (limiter, fresh) in limiters.iter().zip(fresh) {
        assert!(limiter.statistics().keys > fresh.keys);
        limiter.maintain_at(TODAY + 2 * HOUR);
        // What is given back is freed when calls under way elsewhere, in other tests too, have ended.
        for _ in 0..1_000_000 {
            if limiter.statistics().memory_bytes == fresh.memory_bytes {
                break;
            }
            limiter.maintain_at(TODAY + 2 * HOUR);
            std::thread::yield_now();
        }
        let after = limiter.statistics();
        assert_eq!((after.keys, after.memory_bytes), (0, fresh.memory_bytes), "{after:?}");
    }
}

#[test]
fn mem_11_a_flood_does_not_free_an_exhausted_key() {
    for (rule, memory) in of_each_kind(5) {
        let limiter = small(rule.limit().expect("a limit"), 16);
        assert!(limiter.allow_at("V", 5, TODAY), "{rule:?}");
        for attacker in 0..10_000u64 {
            let _ = limiter.allow_at(attacker.to_le_bytes(), 1 + attacker % 5, TODAY + attacker);
            if attacker % 100 == 0 {
                assert!(!limiter.allow_at("V", 5, TODAY + attacker), "{rule:?}: after {attacker} keys");
            }
        }
        let counts = limiter.statistics();
        assert!(counts.takeovers_indebted > 0 || matches!(rule, Rule::Log { .. }), "{rule:?}: no flood at all: {counts:?}");
        // And nobody is locked out: once all is paid the victim is as good as new.
        let later = TODAY + (memory + HOUR).next_multiple_of(HOUR);
        assert_eq!(limiter.check_at("V", 5, later).remaining(), 0, "{rule:?}");
    }
}

/// The kind behind MEM-11: nobody at all gains by the flood, neither the attackers nor who came before.
#[test]
fn mem_11_no_key_of_a_flood_gets_more_than_its_limit() {
    for (rule, _) in of_each_kind(5) {
        for (times, step) in [(1, 7), (3, SECOND / 100), (16, SECOND / 10), (16, 0)] {
            let limiter = small(rule.limit().expect("a limit"), times);
            let mut grants: BTreeMap<u64, Vec<Grant>> = BTreeMap::new();
            for k in 0..4000u64 {
                // Fresh keys all the time; every third call is of one that came before.
                let key = if k % 3 == 0 { k * k % (k + 1) % 40 } else { k };
                let (now, cost) = (TODAY + k * step, 1 + k % 3);
                if limiter.allow_at(key.to_le_bytes(), cost, now) {
                    grants.entry(key).or_default().push((now.into(), cost));
                }
            }
            for (key, grants) in &grants {
                bounded(&rule, grants).unwrap_or_else(|e| panic!("key {key}: {e}"));
            }
        }
    }
}

#[test]
fn mem_11_no_key_of_a_flood_by_threads_gets_more_than_its_limit() {
    for (rule, _) in of_each_kind(5) {
        for times in [1, 2, 5] {
            let limiter = small(rule.limit().expect("a limit"), times);
            let grants: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
            together(THREADS, |thread| {
                let mut random = thread + 1;
                for _ in 0..6000 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let (key, cost) = (random >> 58, 1 + (random >> 40) % 2);
                    if limiter.allow_at(key.to_le_bytes(), cost, TODAY) {
                        grants[key as usize].fetch_add(cost, Ordering::Relaxed);
                    }
                }
                0
            });
            let over: Vec<_> = grants.iter().map(|n| n.load(Ordering::Relaxed)).enumerate().filter(|(_, n)| *n > 5).collect();
            assert!(over.is_empty(), "{rule:?} in {times} groups: {over:?}");
        }
    }
}

#[test]
fn mem_13_one_key_too_many_frees_no_other() {
    for (rule, _) in of_each_kind(1) {
        let limiter = small(rule.limit().expect("a limit"), 256);
        let keys = 4096u64;
        let passed: Vec<bool> = (0..keys).map(|key| limiter.allow_at(key.to_le_bytes(), 1, TODAY)).collect();
        let full = limiter.statistics();
        assert!(full.keys > full.capacity * 3 / 4, "{rule:?}: {full:?}");
        let _ = limiter.allow_at("one too many", 1, TODAY);
        let after = limiter.statistics();
        let took = |s: &crate::Statistics| s.takeovers_idle + s.takeovers_indebted;
        assert!(took(&after) <= took(&full) + 1, "{rule:?}: one newcomer took more than one slot: {full:?} {after:?}");
        for (key, passed) in (0..keys).zip(passed) {
            assert!(!passed || !limiter.allow_at(key.to_le_bytes(), 1, TODAY), "{rule:?}: key {key} was freed");
        }
    }
}

#[test]
fn mem_15_a_limiter_that_cannot_remember_is_not_made() {
    for (rule, _) in of_each_kind(3) {
        let make = |bytes| Limiter::builder(rule.limit().expect("a limit")).max_memory(bytes).build();
        for bytes in [0, 1, 16, 63] {
            let error = make(bytes).expect_err("no room for a group").to_string();
            assert!(error.contains(&format!("max_memory is {bytes} bytes")), "{error}");
        }
        // Whatever is made remembers, the smallest too.
        let least = (0..1 << 20).find(|bytes| make(*bytes).is_ok()).expect("a table of a megabyte");
        let smallest = make(least).expect("found");
        assert!(smallest.statistics().memory_bytes <= least);
        assert!(smallest.allow_at("k", 3, TODAY) && !smallest.allow_at("k", 1, TODAY), "{rule:?}");
    }
}

// ---- identity ----

/// Keys that share a group, in tables of one group: several rounds, with others coming between.
#[test]
fn idn_14_keys_of_one_group_are_told_apart() {
    for (rule, memory) in of_each_kind(1) {
        let limiter = small(rule.limit().expect("a limit"), 1);
        for round in 0..20 {
            let now = (TODAY + round * (memory + DAY)).next_multiple_of(DAY);
            // Before each round others have taken all slots, and are idle again.
            for other in 0..10 * round {
                let _ = limiter.allow_at(format!("{round} {other}"), 1, now - DAY);
            }
            for key in ["k1", "k2", "k3"] {
                assert!(limiter.allow_at(key, 1, now), "{rule:?}: {key} in round {round}");
            }
            for key in ["k3", "k1", "k2", "k2", "k3"] {
                assert!(!limiter.allow_at(key, 1, now), "{rule:?}: {key} in round {round}");
            }
        }
        assert!(limiter.statistics().keys >= 3);
    }
}

#[test]
fn idn_18_an_empty_key_is_a_key_like_any_other() {
    for (rule, _) in of_each_kind(1) {
        let limiter = limiter(&rule);
        for key in [&b""[..], b"\0", b"\0\0", b" "] {
            assert!(limiter.allow_at(key, 1, TODAY), "{rule:?}: {key:?}");
            assert!(!limiter.allow_at(key, 1, TODAY), "{rule:?}: {key:?}");
        }
    }
}

// ---- embedding ----

#[test]
fn emb_05_a_new_key_in_a_full_table_costs_no_allocation() {
    for (rule, _) in of_each_kind(3) {
        let limiter = small(rule.limit().expect("a limit"), 4);
        for key in 0..1000u64 {
            let _ = limiter.allow_at(key.to_le_bytes(), 3, TODAY);
        }
        let (mut key, mut answers) = (1000u64, 0);
        let n = allocations(|| {
            for _ in 0..500 {
                key += 1;
                let got = limiter.check_at(key.to_le_bytes(), 1, TODAY);
                answers += u64::from(got.is_allowed() || got.retry_after_ns() > 0);
            }
        });
        assert_eq!((n, answers), (0, 2000), "{rule:?}");
    }
}

#[cfg(unix)]
#[test]
fn emb_07_a_forked_child_goes_on() {
    let limiter = limiter(&Rule::token(1, HOUR, 500));
    assert!(limiter.allow_at("k", 100, TODAY));
    // While another thread is in the middle of calls.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = limiter.allow_at("other", 1, TODAY);
            }
        });
        for _ in 0..20 {
            let ok = in_a_fork(|| (0..1000).filter(|_| limiter.allow_at("k", 1, TODAY)).count() == 400);
            assert!(ok, "the child did not make its 1000 calls");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(limiter.peek_at("k", 0, TODAY).remaining(), 400, "a child of fork has a copy");
}

// ---- the table of cases ----

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust sources under `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect()
}

fn has_files(folder: &str) -> bool {
    fs::read_dir(root().join(folder)).is_ok_and(|mut entries| entries.next().is_some())
}

/// What a case may wait for.
const LATER: [&str; 10] = [
    "tiers and live change",
    "reserve and refund",
    "all-or-nothing",
    "waiting",
    "keys and inspection",
    "HTTP answers and rules",
    "shared memory",
    "Redis",
    "nginx",
    "Python",
];

/// Every case once, and what is said to cover it exists.
#[test]
fn the_table_of_cases_is_true() {
    let table = include_str!("../../bindings/vectors/COVERAGE.md");
    let vectors = include_str!("../../bindings/vectors/vectors.tsv");
    let tests: String = sources(&root().join("src")).iter().map(|path| fs::read_to_string(path).expect("a source")).collect();
    let is_test = |name: &str| tests.contains(&format!("fn {name}("));
    let is_vector = |id: &str| {
        vectors.lines().any(|line| {
            line.strip_prefix("# ").or(line.strip_prefix("! ")).is_some_and(|rest| rest.split('\t').next() == Some(id))
        })
    };
    let mut cases = Vec::new();
    for row in table.lines().filter_map(|line| line.strip_prefix("| ")).skip(1) {
        let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
        let [case, covered, waits] = cells[..] else { panic!("not three cells: {row}") };
        cases.push(case);
        for name in covered.split('`').skip(1).step_by(2) {
            let exists = match name {
                // The package is without it.
                "bindings/c/test.c" => root().join(name).exists() || !has_files("bindings/c"),
                name if name.contains('_') => is_test(name),
                name => is_vector(name) && name.starts_with(case),
            };
            assert!(exists, "{case}: {name} does not exist");
        }
        assert!(covered.contains('`') || covered.is_empty(), "{case}: {covered}");
        let waits: Vec<&str> = waits.split("; ").filter(|part| !part.is_empty()).collect();
        assert!(waits.iter().all(|part| LATER.contains(part)), "{case}: {waits:?}");
        assert!(!covered.is_empty() || !waits.is_empty(), "{case}: neither covered nor waiting");
        // A test that bears a case's name is in its row.
        let stem = format!("fn {}_", case.to_lowercase().replace('-', "_"));
        for (at, _) in tests.match_indices(&stem) {
            let name = tests[at + 3..].split('(').next().unwrap_or_default();
            assert!(covered.contains(&format!("`{name}`")), "{case}: {name} is missing");
        }
    }
    // Every vector that bears a case's name is in its row.
    let named = vectors
        .lines()
        .filter_map(|line| line.strip_prefix("# ").or(line.strip_prefix("! ")))
        .filter_map(|rest| rest.split('\t').next());
    for id in named.filter(|id| {
        cases.iter().any(|case| id.strip_prefix(case).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())))
    }) {
        assert!(table.contains(&format!("`{id}`")), "vector {id} is missing");
    }
    let mut distinct = cases.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!((cases.len(), distinct.len()), (118, 118));
}
