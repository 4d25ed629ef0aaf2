//! The one entry type (interface fixed; bodies under construction).
use crate::{Decision, Limit, Statistics};
use std::fmt;

/// A limiter: one limit over any number of keys.
pub struct Limiter { limit: Limit }

/// Settings of a limiter.
#[must_use = "a builder does nothing until it is built"]
pub struct LimiterBuilder { limit: Limit }

/// Why a limiter cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError { pub(crate) what: String }
impl fmt::Display for BuildError { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.what) } }
impl std::error::Error for BuildError {}

impl LimiterBuilder {
    /// The ceiling on the memory of the table, in bytes.
    pub fn max_memory(self, _bytes: u64) -> Self { self }
    /// How many keys to make room for at the start.
    pub fn expected_keys(self, _keys: u64) -> Self { self }
    /// How far apart two threads' readings of the clock may be before the later one is published to
    /// the other threads, in ns. Default 1 ms; 0: every call.
    pub fn time_grain(self, _ns: u64) -> Self { self }
    /// The limiter.
    ///
    /// # Errors
    /// When the memory does not hold one group of keys.
    pub fn build(self) -> Result<Limiter, BuildError> { Ok(Limiter { limit: self.limit }) }
}
#[allow(unused_variables, clippy::unused_self)]
impl Limiter {
    /// With default settings.
    ///
    /// # Errors
    /// See `LimiterBuilder::build`.
    pub fn new(limit: Limit) -> Result<Limiter, BuildError> { Self::builder(limit).build() }
    /// Settings.
    pub fn builder(limit: Limit) -> LimiterBuilder { LimiterBuilder { limit } }
    /// The limit.
    pub fn limit(&self) -> &Limit { &self.limit }
    /// The clock that `check` reads: ns since the Unix epoch.
    pub fn now(&self) -> u64 { unimplemented!() }
    /// Verdict alone.
    pub fn allow(&self, key: impl AsRef<[u8]>, cost: u64) -> bool { unimplemented!() }
    /// Verdict alone, at `now_ns`.
    pub fn allow_at(&self, key: impl AsRef<[u8]>, cost: u64, now_ns: u64) -> bool { unimplemented!() }
    /// Charges.
    pub fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision { unimplemented!() }
    /// Charges at `now_ns`.
    pub fn check_at(&self, key: impl AsRef<[u8]>, cost: u64, now_ns: u64) -> Decision { unimplemented!() }
    /// What `check` would answer, without charging.
    pub fn peek(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision { unimplemented!() }
    /// What `check_at` would answer, without charging.
    pub fn peek_at(&self, key: impl AsRef<[u8]>, cost: u64, now_ns: u64) -> Decision { unimplemented!() }
    /// Many calls, in order, with one reading of the clock; `out` gets one decision for each.
    pub fn check_batch<K: AsRef<[u8]>>(&self, calls: &[(K, u64)], out: &mut Vec<Decision>) { unimplemented!() }
    /// Many calls at `now_ns`.
    pub fn check_batch_at<K: AsRef<[u8]>>(&self, calls: &[(K, u64)], now_ns: u64, out: &mut Vec<Decision>) { unimplemented!() }
    /// Counters.
    pub fn statistics(&self) -> Statistics { unimplemented!() }
    /// Gives back memory of idle keys; for a process without traffic.
    pub fn maintain(&self) { unimplemented!() }
    /// The same at `now_ns`.
    pub fn maintain_at(&self, now_ns: u64) { unimplemented!() }
}
