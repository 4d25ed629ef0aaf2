//! The structs that begin with their size, so that they can grow without a new ABI.

use super::boundary::{SizedStruct, read_sized};
use super::status::azud_status::{self, AZUD_ERR_OPTION};
use crate::{LimiterBuilder, Statistics};
use std::mem::offset_of;

/// A `time_grain_ns` that publishes every reading of the clock.
pub const AZUD_TIME_GRAIN_EXACT: u64 = u64::MAX;

/// Settings of a limiter. Start from AZUD_OPTIONS_INIT and set what is to differ; 0 is the default
/// everywhere. A program built with an older or a newer header is understood: what it lacks takes
/// the default, and what this library does not know must be 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct azud_options {
    /// sizeof(azud_options), set by AZUD_OPTIONS_INIT.
    pub struct_size: u32,
    /// Must be 0; none is defined yet.
    pub flags: u32,
    /// The ceiling on the memory of the table, in bytes; 0 is the default of 516 MiB. A slot takes 16.125
    /// bytes, and the table doubles for as long as twice the next size is under the ceiling, so that
    /// the sizes before it fit beside it while they are moved. At the ceiling a new key takes the slot of
    /// the least indebted key near it, with its debt: nobody gains by being forgotten. A host that
    /// computes this treats a result of 0 as an error of its own: here 0 is the default.
    pub max_memory_bytes: u64,
    /// How many keys to make room for at the start; more come in by growth, up to the ceiling.
    pub expected_keys: u64,
    /// How far one thread's clock may run ahead of what the other threads know, in nanoseconds; 0 is
    /// the default of 1000000 (1 ms), 1000000000 (1 s) is the most. A call is judged at the latest time
    /// known, so a smaller grain orders the threads more finely and writes a shared word more often.
    /// AZUD_TIME_GRAIN_EXACT: no slack at all, every later time is known to all at once.
    pub time_grain_ns: u64,
    /// Must be 0.
    pub reserved: [u64; 4],
}

const _: () = {
    assert!(size_of::<azud_options>() == 64);
    assert!(offset_of!(azud_options, flags) == 4);
    assert!(offset_of!(azud_options, max_memory_bytes) == 8);
    assert!(offset_of!(azud_options, expected_keys) == 16);
    assert!(offset_of!(azud_options, time_grain_ns) == 24);
    assert!(offset_of!(azud_options, reserved) == 32);
};

// SAFETY: the asserts above leave no room for padding, and the fields are integers.
unsafe impl SizedStruct for azud_options {
    const FIRST_SIZE: usize = 64;
}

impl azud_options {
    /// The caller's options, or the defaults for NULL.
    ///
    /// # Safety
    /// `options` is NULL, or leads to as many initialised bytes as its first field says.
    pub(super) unsafe fn read(options: *const azud_options) -> Result<azud_options, azud_status> {
        if options.is_null() {
            let size = size_of::<azud_options>() as u32;
            let (max_memory_bytes, expected_keys, time_grain_ns) = (0, 0, 0);
            return Ok(azud_options {
                struct_size: size,
                flags: 0,
                max_memory_bytes,
                expected_keys,
                time_grain_ns,
                reserved: [0; 4],
            });
        }
        // SAFETY: the caller's promise.
        let options = unsafe { read_sized(options) }?;
        if options.flags != 0 || options.reserved != [0; 4] {
            return Err(AZUD_ERR_OPTION);
        }
        Ok(options)
    }

    /// The builder, with what is not left at its default.
    pub(super) fn apply(&self, mut builder: LimiterBuilder) -> LimiterBuilder {
        if self.max_memory_bytes != 0 {
            builder = builder.max_memory(self.max_memory_bytes);
        }
        if self.expected_keys != 0 {
            builder = builder.expected_keys(self.expected_keys);
        }
        match self.time_grain_ns {
            0 => builder,
            AZUD_TIME_GRAIN_EXACT => builder.time_grain(0),
            grain => builder.time_grain(grain),
        }
    }
}

/// What a limiter counts about itself. Every event is counted once; together the numbers are not one
/// instant. Start from AZUD_STATS_INIT.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct azud_stats {
    /// sizeof(azud_stats), set by AZUD_STATS_INIT and left as it is.
    pub struct_size: u32,
    /// Written as 0.
    pub reserved_head: u32,
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
    /// Indebted keys whose slot, with its debt, a new key took: the table was full. If it rises, give
    /// the limiter more memory.
    pub takeovers_indebted: u64,
    /// Written as 0.
    pub reserved: [u64; 7],
}

const _: () = {
    assert!(size_of::<azud_stats>() == 128);
    assert!(offset_of!(azud_stats, reserved_head) == 4);
    assert!(offset_of!(azud_stats, keys) == 8);
    assert!(offset_of!(azud_stats, capacity) == 16);
    assert!(offset_of!(azud_stats, memory_bytes) == 24);
    assert!(offset_of!(azud_stats, generations) == 32);
    assert!(offset_of!(azud_stats, growths) == 40);
    assert!(offset_of!(azud_stats, shrinks) == 48);
    assert!(offset_of!(azud_stats, takeovers_idle) == 56);
    assert!(offset_of!(azud_stats, takeovers_indebted) == 64);
    assert!(offset_of!(azud_stats, reserved) == 72);
};

// SAFETY: the asserts above leave no room for padding, and the fields are integers.
unsafe impl SizedStruct for azud_stats {
    const FIRST_SIZE: usize = 128;
}

impl From<Statistics> for azud_stats {
    fn from(counters: Statistics) -> azud_stats {
        azud_stats {
            struct_size: 0, // the caller's own is kept
            reserved_head: 0,
            keys: counters.keys,
            capacity: counters.capacity,
            memory_bytes: counters.memory_bytes,
            generations: counters.generations,
            growths: counters.growths,
            shrinks: counters.shrinks,
            takeovers_idle: counters.takeovers_idle,
            takeovers_indebted: counters.takeovers_indebted,
            reserved: [0; 7],
        }
    }
}
