//! Any limit and any history of a few keys: every answer is the model's.
//!
//! A limit must be accepted exactly when the model says that it can be kept.

#![no_main]

use azud::{Limit, Limiter};
use azud_fuzz::input::{Source, Walk};
use azud_fuzz::model::{Call, Model, Rule, TIME_MAX};
use libfuzzer_sys::fuzz_target;

const KEYS: u8 = 5;

fuzz_target!(|data: &[u8]| {
    let mut source = Source(data);
    let rule = source.rule();
    let limit = match rule.text().parse::<Limit>() {
        Ok(limit) => limit,
        Err(error) => {
            assert!(!rule.can_be_kept(), "{}: {error}", rule.text());
            return;
        }
    };
    assert!(rule.can_be_kept(), "{limit} is accepted");
    if matches!(rule, Rule::Log { limit, .. } if limit > 300) {
        // Its rings take 16 bytes a unit for each of 128 slots.
        return;
    }
    let limiter = Limiter::builder(limit).max_memory(2 << 20).time_grain(0).build().expect("it fits");
    follow(&rule, &limiter, source);
});

fn follow(rule: &Rule, limiter: &Limiter, mut source: Source<'_>) {
    let mut model = Model::new(rule.clone());
    let mut walk = Walk::new(source.start());
    // After a rest longer than a word's memory a key may be read as used up, once: it is left alone, and
    // another one takes its place.
    let mut ages = [0u8; KEYS as usize];
    while !source.is_empty() {
        let (slot, act) = (source.byte() % KEYS, source.byte());
        let (time, cost) = (source.time(), source.cost());
        let now = walk.time(time, rule.period());
        if model.time(now) > TIME_MAX.into() {
            // The clock was set back after the end of time: what is later is past the calendar's end.
            continue;
        }
        let age = &mut ages[usize::from(slot)];
        if model.rest(&[slot, *age], now) >= rule.memory() {
            *age = age.wrapping_add(1);
        }
        let key: &[u8] = &[slot, *age];
        let cost = cost.of(rule, model.remaining(key, now));
        let call = Call { key, cost, now, is_peek: false };
        match act % 8 {
            0..=2 => {
                let got = limiter.check_at(key, cost, now);
                model.judge(call, &got);
                walk.went(now, &got);
            }
            3 | 4 => {
                let got = limiter.peek_at(key, cost, now);
                model.judge(Call { is_peek: true, ..call }, &got);
                walk.went(now, &got);
            }
            5 => model.judge_verdict(call, limiter.allow_at(key, cost, now)),
            6 => {
                // The key many times, and another one in between.
                let call_of = |i| if i % 3 == 2 { (&b"other"[..], 1) } else { (key, cost) };
                let calls: Vec<(&[u8], u64)> = (0..=act / 8).map(call_of).collect();
                if model.rest(b"other", now) >= rule.memory() {
                    continue;
                }
                let mut all = Vec::new();
                limiter.check_batch_at(&calls, now, &mut all);
                assert_eq!(all.len(), calls.len());
                for ((key, cost), got) in calls.into_iter().zip(&all) {
                    model.judge(Call { key, cost, ..call }, got);
                }
            }
            _ => {
                limiter.maintain_at(now);
                model.pass(now);
            }
        }
    }
}
