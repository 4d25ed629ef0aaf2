//! Many keys in a small table that grows, shrinks, forgets idle keys and comes to its ceiling.
//!
//! While no key met another one's debt (at the ceiling a newcomer to a full group does) every answer is
//! that of the exact model, which forgets nothing; from then on no answer is more generous, so that nobody is granted more than its limit.
//! Keys are hashed with a random seed: an input that fails may need a few runs to fail again.

#![no_main]

use arbitrary::Arbitrary;
use azud::{Decision, Limit, Limiter};
use azud_fuzz::model::{Call, Kind, Model, Rule, SECOND};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    limit: u8,
    /// The ceiling, in smallest tables.
    tables: u8,
    expected: u16,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// One call of a key.
    Call {
        key: u8,
        cost: u8,
        later: Later,
    },
    /// As many new keys as the given 16ths of the table's slots.
    Flood {
        share: u8,
        later: Later,
    },
    /// The keys of floods come back: so many, from this one on.
    Return {
        from: u16,
        keys: u8,
        later: Later,
    },
    Peek {
        key: u8,
        later: Later,
    },
    Maintain {
        later: Later,
    },
}

/// How much later than the call before, or how much earlier.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Later {
    Same,
    /// So many 64ths of the period.
    Part(u8),
    Seconds(u8),
    Earlier(u8),
}

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

fuzz_target!(|input: Input| {
    let rule = rule(input.limit);
    let limit: Limit = rule.text().parse().expect("a limit");
    let ceiling = smallest(&limit) * u64::from(input.tables % 8 + 1);
    let builder = Limiter::builder(limit).max_memory(ceiling).expected_keys(u64::from(input.expected) % 512).time_grain(0);
    let mut history = History {
        model: Model::new(rule.clone()),
        rule,
        limiter: builder.build().expect("it holds the smallest table"),
        now: 1_796_000_000 * SECOND,
        ceiling,
        is_crowded: false,
        flooded: 0,
        calls: 0,
    };
    for step in &input.steps {
        history.step(step);
        let statistics = history.limiter.statistics();
        assert!(statistics.memory_bytes <= ceiling && statistics.keys <= statistics.capacity, "{statistics:?}");
        if history.calls > CALLS_MAX {
            return;
        }
    }
});

impl History {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::Call { key, cost, later } => {
                self.go(later);
                self.call(&[key], u64::from(cost) % 8);
            }
            Step::Flood { share, later } => {
                self.go(later);
                let keys = self.limiter.statistics().capacity * (u64::from(share) % 16 + 1) / 16;
                for _ in 0..keys {
                    let key = self.flooded.to_le_bytes();
                    self.flooded += 1;
                    self.call(&key, 1);
                }
            }
            Step::Return { from, keys, later } => {
                self.go(later);
                for i in 0..u64::from(keys) {
                    let key = (u64::from(from) + i) % self.flooded.max(1);
                    self.call(&key.to_le_bytes(), 1 + i % 3);
                }
            }
            Step::Peek { key, later } => {
                self.go(later);
                let got = self.limiter.peek_at([key], 1, self.now);
                self.judge(&[key], 1, true, &got);
            }
            Step::Maintain { later } => {
                self.go(later);
                self.limiter.maintain_at(self.now);
                self.model.pass(self.now);
            }
        }
    }

    fn go(&mut self, later: Later) {
        self.now = match later {
            Later::Same => self.now,
            Later::Part(n) => self.now + self.rule.period() / 64 * u64::from(n),
            Later::Seconds(n) => self.now + u64::from(n) * SECOND,
            Later::Earlier(n) => self.now - u64::from(n) * SECOND / 2,
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
        // counted. To grow, the table needs room for the old one and for one of twice its size.
        let is_at_ceiling = 3 * statistics.memory_bytes > self.ceiling && statistics.keys >= 4;
        if !self.is_crowded && is_at_ceiling && self.model.is_fresh(key, self.now) {
            self.is_crowded = !self.model.agrees(call, got);
        }
        if self.is_crowded { self.model.judge_no_more_generous(call, got) } else { self.model.judge(call, got) }
    }
}
