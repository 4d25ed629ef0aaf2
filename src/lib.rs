//! An exact, lock-free, bounded rate limiter.
#![warn(missing_docs)]
mod decision;
mod limit;
mod limiter;
mod plan;
mod statistics;
mod ticks;
mod word;
pub use decision::{Decision, NEVER, Reason};
#[cfg(feature = "quota")]
pub use limit::Unit;
pub use limit::{Algorithm, Limit, LimitBuilder, LimitError};
pub use limiter::{BuildError, Limiter, LimiterBuilder};
pub use statistics::Statistics;
#[cfg(feature = "replay")]
pub mod replay;
#[cfg(feature = "capi")]
mod ffi;
