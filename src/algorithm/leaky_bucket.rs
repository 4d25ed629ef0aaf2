//! Leaky bucket: the token bucket seen from below.
//!
//! What a token bucket has spent is what a leaky bucket holds, so both are one word and one step
//! (`token_bucket`), and `burst` is the capacity of both.
//!
//! - As a **meter** (policing) it is the token bucket by another name.
//! - As a **queue** (shaping) the verdict is the meter's, and an allowed call also learns its delay:
//!   the time until all units ahead of it have left. The first leaves at once, so `burst=B queue`
//!   holds B-1 waiting; nginx's `burst=n` is `burst=n+1` here. Departures are at least an emission
//!   interval apart, to the nanosecond.
//!
//! Source: Turner, *New directions in communications* (1986), for the queue; ITU-T I.371 for the meter.

pub(crate) use super::token_bucket::Call;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Answer, Ask};
    use crate::guard::Moment;
    use crate::plan::BucketPlan;
    use crate::rule::{Ring, Rule, Step};
    use crate::word::Word;

    /// Departure times of a queue are k emission intervals, rounded up, whatever the rate.
    #[test]
    fn departures_are_spaced_by_the_rate() {
        for (count, period) in [(7u64, 1_000_000_000u64), (3000, 1_000_000_000), (999_983, 1_000_000_000), (1, 7)] {
            let plan = BucketPlan::new(count, period, 1000, true).unwrap();
            let mut word = Word::FRESH;
            for k in 0..1000u128 {
                let call = Call::new(&plan, Moment::at(0), Ask { cost: 1, peek: false });
                let Step::Write(next, outcome) = call.step(word, Ring::NONE) else { panic!("refused") };
                let exact = (k * u128::from(period)).div_ceil(u128::from(count)) as u64;
                assert_eq!(call.decide(&outcome).delay_ns(), exact, "{count}/{period} {k}");
                word = next;
            }
        }
    }
}
