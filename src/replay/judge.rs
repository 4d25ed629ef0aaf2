//! A stream of requests before one limiter: decides each and keeps the tallies.

use super::report::{BadLine, BadLines, Delays, Late, Report, Tally, Worst};
use super::stream::{Request, Stream};
use super::{Cost, Key};
use crate::{Decision, Limit, Limiter, Reason};
use std::cmp::Reverse;

/// What is known about one limit at some point of the stream.
pub(super) struct Judge {
    limiter: Limiter,
    tallies: Vec<KeyTally>,
    requests: Tally,
    units: Tally,
    above_limit: u64,
    span_ns: Option<(u64, u64)>,
    delays: DelaySum,
    late: Late,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeyTally {
    requests: Tally,
    first_refusal_ns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct DelaySum {
    delayed: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Judge {
    pub(super) fn new(limiter: Limiter) -> Judge {
        Judge {
            limiter,
            tallies: Vec::new(),
            requests: Tally::default(),
            units: Tally::default(),
            above_limit: 0,
            span_ns: None,
            delays: DelaySum::default(),
            late: Late::default(),
        }
    }

    /// Decides one request. The limiter would take a time that is far back for a clock that was set
    /// back, and shift all later times; in a log it is only a late line, so it is judged at the
    /// latest time seen.
    pub(super) fn judge(&mut self, stream: &Stream, time_ns: u64, request: Request) {
        let (earliest_ns, latest_ns) = self.span_ns.unwrap_or((time_ns, time_ns));
        let now_ns = time_ns.max(latest_ns);
        self.span_ns = Some((earliest_ns.min(time_ns), now_ns));
        if now_ns > time_ns {
            self.note_late(stream, now_ns - time_ns, request);
        }
        let decision = self.limiter.check_at(stream.key(request.key), request.cost, now_ns);
        self.note(request, now_ns, &decision);
    }

    fn note_late(&mut self, stream: &Stream, by_ns: u64, request: Request) {
        self.late.count += 1;
        self.late.max_ns = self.late.max_ns.max(by_ns);
        self.late.first.get_or_insert_with(|| (stream.name(request.place).to_owned(), request.place.line));
    }

    fn note(&mut self, request: Request, now_ns: u64, decision: &Decision) {
        if self.tallies.len() <= request.key {
            self.tallies.resize(request.key + 1, KeyTally::default());
        }
        let tally = &mut self.tallies[request.key];
        let is_allowed = decision.is_allowed();
        if !is_allowed && tally.requests.refused == 0 {
            tally.first_refusal_ns = now_ns;
        }
        tally.requests.add(1, is_allowed);
        self.requests.add(1, is_allowed);
        self.units.add(request.cost, is_allowed);
        self.above_limit += u64::from(decision.reason() == Reason::CostAboveLimit);
        self.delays.delayed += u64::from(decision.delay_ns() > 0);
        self.delays.max_ns = self.delays.max_ns.max(decision.delay_ns());
        self.delays.sum_ns += u128::from(decision.delay_ns());
    }

    pub(super) fn report(self, stream: &Stream, key: Key, cost: Cost, top: usize) -> Report {
        let refused = self.tallies.iter().filter(|tally| tally.requests.refused > 0).count();
        let (count, first) = stream.unreadable();
        let first = first.iter().map(|&(place, why)| BadLine { source: stream.name(place).to_owned(), line: place.line, why });
        Report {
            worst: worst(&self.tallies, stream, &key, top),
            delays: has_queue(self.limiter.limit()).then(|| self.delays.delays(self.requests.allowed())),
            limit: self.limiter.limit().clone(),
            key,
            cost,
            span_ns: self.span_ns,
            requests: self.requests,
            keys: Tally { all: self.tallies.len() as u64, refused: refused as u64 },
            units: self.units,
            above_limit: self.above_limit,
            unreadable: BadLines { count, first: first.collect() },
            late: self.late,
            is_whole_seconds: stream.is_whole_seconds(),
            takeovers_indebted: self.limiter.statistics().takeovers_indebted,
        }
    }
}

impl DelaySum {
    fn delays(self, allowed: u64) -> Delays {
        let mean_ns = self.sum_ns / u128::from(allowed.max(1));
        Delays { delayed: self.delayed, max_ns: self.max_ns, mean_ns: mean_ns as u64 }
    }
}

/// Whether allowed requests are told a wait; the limit's text says so.
fn has_queue(limit: &Limit) -> bool {
    limit.to_string().split(' ').any(|word| word == "queue")
}

/// The keys with the most refusals; among equals the one with more requests, then by key.
fn worst(tallies: &[KeyTally], stream: &Stream, key: &Key, top: usize) -> Vec<Worst> {
    let mut refused: Vec<usize> = (0..tallies.len()).filter(|&number| tallies[number].requests.refused > 0).collect();
    refused.sort_unstable_by_key(|&number| {
        let Tally { all, refused } = tallies[number].requests;
        (Reverse(refused), Reverse(all), stream.key(number))
    });
    let worst = refused.iter().take(top).map(|&number| {
        let KeyTally { requests, first_refusal_ns } = tallies[number];
        Worst { key: key.show(stream.key(number)), requests, first_refusal_ns }
    });
    worst.collect()
}
