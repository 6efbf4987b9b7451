//! `netmem forward`: how many workers there are and what each does.

use super::number::whole;
use clap::Args;
use netmem::limits::WORKERS_MAX;

/// Workers that can be asked for: one more may be needed, for who holds frames.
const WORKERS: std::ops::RangeInclusive<usize> = 1..=WORKERS_MAX - 1;

/// Flags about workers.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Workers: threads that forward, each pinned to a core, with a pool and ports of its own: 1 to 63.
    ///
    /// Every worker takes its packets from reception to transmission, and shares nothing with the others meanwhile. Of
    /// each --port worker number I binds queue I (counted from the queue that the port names), so the interface needs as
    /// many queues; without --port each has two mem ports and a generator of its own. With more workers than cores some
    /// share a core.
    #[arg(long, value_name = "N", value_parser = whole(WORKERS), default_value = "1", allow_negative_numbers = true)]
    pub workers: usize,
}
