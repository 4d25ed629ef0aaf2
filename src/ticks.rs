//! Ticks: the unit in which buckets count, chosen so that a token is a whole number of them.
//!
//! A rate of N tokens in D nanoseconds (lowest terms) gets a tick of D/(N*m) nanoseconds, so that a
//! token is exactly m ticks and a nanosecond is A/B = N*m/D ticks. Whatever the rate, nothing is
//! lost: the only rounding is the floor in [`TickRate::tick`], once a call, and it never adds up,
//! because floor(x + k) = floor(x) + k for whole k.

/// Ticks a nanosecond, as the fraction `num/den` in lowest terms. `num` 0: time stands still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TickRate {
    num: u128,
    den: u128,
    /// floor(num/den).
    whole: u64,
    /// The fraction (num mod den)/den in 2^-128, rounded up.
    frac: u128,
}

impl TickRate {
    /// `num/den` ticks a nanosecond. `den` must be 1 to 2^63 and `num/den` at most 4.
    pub(crate) fn new(num: u128, den: u128) -> TickRate {
        let g = gcd(num, den);
        let (num, den) = (num / g, den / g);
        debug_assert!(den <= 1 << 63 && num <= 4 * den);
        let rest = num % den;
        // floor(rest * 2^128 / den) in two halves of 64 bits, since rest < den < 2^64.
        let high = (rest << 64) / den;
        let low = (((rest << 64) % den) << 64) / den;
        let exact = rest == 0;
        TickRate { num, den, whole: (num / den) as u64, frac: (high << 64 | low) + u128::from(!exact) }
    }

    /// Time that does not pass.
    pub(crate) fn stopped() -> TickRate {
        TickRate { num: 0, den: 1, whole: 0, frac: 0 }
    }

    #[inline(always)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.num == 0
    }

    /// Whether a tick is a nanosecond.
    #[inline(always)]
    pub(crate) fn is_one(&self) -> bool {
        self.num == self.den
    }

    /// floor(now * num/den) modulo 2^64, exactly: `frac` is too large by less than 2^-128, so the
    /// sum by less than now * 2^-128, and `den < 2^128 / now` keeps that below the next whole tick.
    #[inline(always)]
    pub(crate) fn tick(&self, now: u64) -> u64 {
        if self.frac == 0 {
            return self.whole.wrapping_mul(now);
        }
        let high = u128::from(now) * (self.frac >> 64);
        let low = (u128::from(now) * u128::from(self.frac as u64)) >> 64;
        self.whole.wrapping_mul(now).wrapping_add(((high + low) >> 64) as u64)
    }

    /// The same without the wrap; for reports. `now` is at most 2^62.
    pub(crate) fn tick_exact(&self, now: u64) -> u128 {
        u128::from(now) * self.num / self.den
    }

    /// The least time in nanoseconds whose tick is at least `tick` (below 2^65).
    pub(crate) fn at_least(&self, tick: u128) -> u128 {
        (tick * self.den).div_ceil(self.num)
    }

    /// `ticks` as nanoseconds, rounded up. Time must not stand still.
    pub(crate) fn span(&self, ticks: u64) -> u64 {
        if self.is_one() {
            return ticks;
        }
        saturate(self.at_least(u128::from(ticks)))
    }
}

/// A wait as it is reported: what does not fit is one below "never".
pub(crate) fn saturate(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX).min(u64::MAX - 1)
}

/// The greatest common divisor; `gcd(0, b)` is `b`.
pub(crate) const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while a != 0 {
        (a, b) = (b % a, a);
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tick_is_the_exact_floor(now in any::<u64>(), den in 1u128..=1 << 63, q in 0u128..=4, r in any::<u64>()) {
            let num = if q == 4 { 4 * den } else { q * den + u128::from(r) % den };
            prop_assume!(num > 0);
            let exact: BigUint = BigUint::from(now) * num / den;
            let wrapped = exact % (BigUint::from(1u8) << 64);
            prop_assert_eq!(BigUint::from(TickRate::new(num, den).tick(now)), wrapped);
        }

        #[test]
        fn at_least_is_the_first_time_with_that_tick(now in 1u64..1 << 62, den in 1u128..=1 << 63, r in any::<u64>()) {
            let rate = TickRate::new((u128::from(r) % (2 * den)).max(1), den);
            let tick = rate.tick_exact(now);
            let first = rate.at_least(tick);
            prop_assert!(first <= u128::from(now));
            if tick > 0 && first > 0 {
                prop_assert!(rate.tick_exact((first - 1) as u64) < tick);
            }
            prop_assert_eq!(tick as u64, rate.tick(now));
        }
    }
}
