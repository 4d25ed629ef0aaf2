//! Many keys in a small table that grows, shrinks, forgets idle keys and comes to its ceiling.
//!
//! While no key met another one's debt (at the ceiling a newcomer to a full group does) every answer is
//! that of the exact model, which forgets nothing; from then on no answer is more generous, so that nobody is granted more than its limit.
//! Keys are hashed with a random seed: an input that fails may need a few runs to fail again.

#![no_main]

use azud::{Decision, Limit, Limiter};
use azud_fuzz::input::{Source, TODAY};
use azud_fuzz::model::{Call, Kind, Model, Rule, SECOND};
use libfuzzer_sys::fuzz_target;

/// Calls of one history: enough to fill the table several times, few enough to be quick.
const CALLS_MAX: u64 = 60_000;

fn rule(choice: u8) -> Rule {
    let (minute, hour) = (60 * SECOND, 3600 * SECOND);
    let bucket = |kind, count, period, burst| Rule::Bucket { kind, count, period, burst };
    let rules = [
        bucket(Kind::Token, 3, minute, 3),
        bucket(Kind::Token, 7, SECOND, 20),
        bucket(Kind::Token, 1, hour, 200),
        bucket(Kind::Meter, 10, SECOND, 1),
        bucket(Kind::Queue, 2, 3 * SECOND, 5),
        Rule::Fixed { limit: 2, period: 10 * SECOND },
        Rule::Fixed { limit: 100, period: minute },
        Rule::Sliding { limit: 3, period: minute, strict: false },
        Rule::Sliding { limit: 50, period: SECOND, strict: true },
        Rule::Log { limit: 4, period: 10 * SECOND },
        Rule::Quota { limit: 5, daily: false },
        Rule::Quota { limit: 30, daily: true },
    ];
    rules[usize::from(choice) % rules.len()].clone()
}

/// The least power of two that holds the smallest table.
fn smallest(limit: &Limit) -> u64 {
    let fits = |bytes: &u64| Limiter::builder(limit.clone()).max_memory(*bytes).build().is_ok();
    (6..40).map(|bits| 1 << bits).find(fits).expect("a table of at most 1 TB")
}

struct History {
    rule: Rule,
    limiter: Limiter,
    model: Model,
    now: u64,
    ceiling: u64,
    /// Whether a key may have met another one's debt.
    is_crowded: bool,
    /// Keys that came with floods.
    flooded: u64,
    calls: u64,
}

fuzz_target!(|data: &[u8]| {
    let mut source = Source(data);
    let rule = rule(source.byte());
    let limit: Limit = rule.text().parse().expect("a limit");
    // The ceiling, in smallest tables.
    let ceiling = smallest(&limit) * u64::from(source.byte() % 8 + 1);
    let expected = u64::from(source.byte()) * 2;
    let builder = Limiter::builder(limit).max_memory(ceiling).expected_keys(expected).time_grain(0);
    let mut history = History {
        model: Model::new(rule.clone()),
        rule,
        limiter: builder.build().expect("it holds the smallest table"),
        now: TODAY,
        ceiling,
        is_crowded: false,
        flooded: 0,
        calls: 0,
    };
    while !source.is_empty() {
        history.step(&mut source);
        let statistics = history.limiter.statistics();
        assert!(statistics.memory_bytes <= ceiling && statistics.keys <= statistics.capacity, "{statistics:?}");
        if history.calls > CALLS_MAX {
            return;
        }
    }
});

impl History {
    fn step(&mut self, source: &mut Source<'_>) {
        let kind = source.byte();
        self.go(source);
        match kind % 8 {
            0 | 1 => {
                let (key, cost) = (source.byte(), source.byte() % 8);
                self.call(&[key], cost.into());
            }
            // As many new keys as so many 16ths of the table's slots.
            2 | 3 => {
                let share = u64::from(source.byte()) % 16 + 1;
                for _ in 0..self.limiter.statistics().capacity * share / 16 {
                    let key = self.flooded.to_le_bytes();
                    self.flooded += 1;
                    self.call(&key, 1);
                }
            }
            // Keys of floods come back.
            4 | 5 => {
                let (from, keys) = (source.number(), source.byte());
                for i in 0..u64::from(keys) {
                    let key = from.wrapping_add(i) % self.flooded.max(1);
                    self.call(&key.to_le_bytes(), 1 + i % 3);
                }
            }
            6 => {
                let key = [source.byte()];
                let got = self.limiter.peek_at(key, 1, self.now);
                self.judge(&key, 1, true, &got);
            }
            _ => {
                self.limiter.maintain_at(self.now);
                self.model.pass(self.now);
            }
        }
    }

    /// How much later than the call before, or how much earlier.
    fn go(&mut self, source: &mut Source<'_>) {
        self.now = match source.byte() % 8 {
            0..=3 => self.now,
            4 | 5 => self.now + self.rule.period() / 64 * u64::from(source.byte()),
            6 => self.now + u64::from(source.byte()) * SECOND,
            _ => self.now - u64::from(source.byte()) * SECOND / 2,
        };
    }

    fn call(&mut self, key: &[u8], cost: u64) {
        self.calls += 1;
        let got = self.limiter.check_at(key, cost, self.now);
        self.judge(key, cost, false, &got);
    }

    fn judge(&mut self, key: &[u8], cost: u64, is_peek: bool, got: &Decision) {
        let call = Call { key, cost, now: self.now, is_peek };
        let statistics = self.limiter.statistics();
        self.is_crowded |= statistics.takeovers_indebted > 0;
        // A newcomer to a full group may be refused for the debt that it would inherit, and is then not
        // counted. To grow, the table needs room for twice the next size.
        let is_at_ceiling = 4 * statistics.memory_bytes > self.ceiling && statistics.keys >= 4;
        if !self.is_crowded && is_at_ceiling && self.model.is_fresh(key, self.now) {
            self.is_crowded = !self.model.agrees(call, got);
        }
        if self.is_crowded { self.model.judge_no_more_generous(call, got) } else { self.model.judge(call, got) }
    }
}
