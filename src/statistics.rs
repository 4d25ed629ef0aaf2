//! What a limiter counts about itself.

/// A snapshot of a limiter's counters; together they are not one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Slots that hold a key, idle keys included; while a table is moving, those of the fuller of the two.
    pub keys: u64,
    /// Slots in all; while a table is moving, those of the larger of the two.
    pub capacity: u64,
    /// Bytes of the table, of one that is being drained into it, and of those that are drained and not
    /// freed yet.
    pub memory_bytes: u64,
    /// Tables made so far: 1, and one more for each growth and shrinkage.
    pub generations: u64,
    /// How often the table grew.
    pub growths: u64,
    /// How often the table shrank.
    pub shrinks: u64,
    /// Idle keys whose slot a new key took, at no loss.
    pub takeovers_idle: u64,
    /// Indebted keys whose slot, with its debt, a new key took: the table was full.
    pub takeovers_indebted: u64,
}
