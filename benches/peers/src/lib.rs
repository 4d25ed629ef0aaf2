//! What the programs of this crate share: how much memory the process has.

/// Bytes of the process that are in memory now, and the most that ever were.
///
/// # Panics
/// Where there is no `/proc/self/status`.
#[must_use]
pub fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of every Linux");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    };
    (bytes("VmRSS:"), bytes("VmHWM:"))
}
