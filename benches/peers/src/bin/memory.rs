//! How much memory 10 million keys take that all owe something: `memory [KEYS]`.
//!
//! Each key (8 bytes) is charged once at one instant, so that none is idle; default settings.

use azud::{Limit, Limiter};
use azud_peers::resident;

const MEGABYTE: u64 = 1_000_000;
const NOW: u64 = 1_796_000_000_000_000_000;

fn main() {
    let keys: u64 = std::env::args().nth(1).map_or(10_000_000, |n| n.parse().expect("a number of keys"));
    let limit: Limit = "token-bucket 100/1m".parse().expect("a limit");
    let limiter = Limiter::new(limit).expect("the memory");
    let (before, _) = resident();
    let allowed = (0..keys).filter(|key| limiter.check_at(key.to_le_bytes(), 1, NOW).is_allowed()).count();
    let (after, most) = resident();
    println!("{keys} keys, {allowed} allowed");
    println!("as they came    {:>5} MB resident, {:>5} MB at most", (after - before) / MEGABYTE, (most - before) / MEGABYTE);
    println!("                {:?}", limiter.statistics());
    limiter.maintain_at(NOW);
    let (kept, _) = resident();
    println!(
        "after maintain  {:>5} MB resident, {:.1} bytes a key",
        (kept - before) / MEGABYTE,
        (kept - before) as f64 / keys as f64
    );
    println!("                {:?}", limiter.statistics());
}
