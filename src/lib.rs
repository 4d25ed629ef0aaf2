//! An exact, lock-free, bounded rate limiter, for Rust and, through a C ABI, for everything else.
//!
//! An *azud* is a low weir across a river: it lets a set flow through and holds back the rest.
//!
//! ```text
//! key bytes -> hash -> group -> slot {tag, word} -> step(word, plan, now, cost) -> (new word, decision)
//!                                ^________ one compare-and-swap loop around a pure function ________|
//!
//! Limit (what people say: "100/1m burst=20") -> plan (integers, checked once)    clock -> now, read once
//! ```
//!
//! A **limit** is what a person writes; its **plan** is the integers; a **key** is who is limited; a call
//! has a **cost**; a **word** is the `u64` of one key; a **decision** is the answer. To read the engine,
//! take `limiter`, `algorithm/mod`, `algorithm/token_bucket`, `table/mod`, `table/slot`, `ffi/mod`.
//!
//! ```
//! use azud::{Limit, Limiter};
//! let limiter = Limiter::new("token-bucket 100/1m burst=20".parse()?)?;
//! let decision = limiter.check("203.0.113.7", 1);
//! if !decision.is_allowed() {
//!     println!("429, retry after {:?}", decision.retry_after());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Features, none of them on by default: `quota` (calendar quotas; brings jiff), `replay` (access logs),
//! `capi` (the C ABI of `include/azud.h`), `cli` (the program `azud`).

mod algorithm;
mod clock;
mod decision;
#[cfg(feature = "capi")]
mod ffi;
mod guard;
mod hash;
mod limit;
mod limiter;
mod plan;
mod reclaim;
#[cfg(feature = "replay")]
pub mod replay;
mod rule;
mod statistics;
mod sync;
mod table;
mod ticks;
mod word;

#[cfg(test)]
mod tests;

pub use decision::{Decision, NEVER, Reason};
#[cfg(feature = "quota")]
pub use limit::Unit;
pub use limit::{Algorithm, Limit, LimitBuilder, LimitError};
pub use limiter::{BuildError, Limiter, LimiterBuilder};
pub use statistics::Statistics;

/// The examples of the README are compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
