//! `netmem forward`: the number of workers and the set-up of each.

use super::number::{patience, whole};
use super::steer::SteerArgs;
use clap::{Args, ValueEnum};
use netmem::forward::Idle;
use netmem::limits::WORKERS_MAX;
use std::time::Duration;

/// Workers that can be asked for. One more may be needed, for the thread that keeps passed and mirrored frames.
const WORKERS: std::ops::RangeInclusive<usize> = 1..=WORKERS_MAX - 1;

/// Flags about workers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workers and steering")]
pub struct WorkerArgs {
    /// Threads that forward, each pinned to a core, with a pool and ports of its own: 1 to 63.
    ///
    /// Each worker takes its packets from reception to transmission, and shares nothing with the other workers. Of an xdp port,
    /// worker number I binds queue I, counted from the queue that the port names. Its interface therefore needs as many queues as
    /// there are workers. With queues=N, worker I also binds queues I + workers, I + 2 workers, and so on. The interfaces of packet
    /// and tap ports need no further queues: the kernel spreads the flows over the workers. A memif client connects an
    /// interface for each worker. A memif server and a pcap port are for one worker. Without --port, each worker has two mem ports
    /// and a generator of its own. With more workers than cores, some workers share a core.
    #[arg(long, value_name = "N", value_parser = whole(WORKERS), default_value = "1", allow_negative_numbers = true)]
    pub workers: usize,

    /// What a worker does while it has no work.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = IdleArg::Spin)]
    pub idle: IdleArg,

    /// Only the first N workers have a generator on their mem ports; the other workers get packets only by --steer; not with --port
    /// [default: all]
    #[arg(long, value_name = "N", value_parser = whole(WORKERS), allow_negative_numbers = true, hide_short_help = true)]
    pub generators: Option<usize>,

    /// Report a worker that has not finished a poll round for S seconds, and the step it is in; 0 for never.
    ///
    /// One line on standard error reports the worker, and the counter stalls counts it. Another line reports when the worker goes on.
    /// Seconds in which the whole machine stood still do not count. The keep-alive messages to systemd depend on WatchdogSec only.
    #[arg(long, hide_short_help = true, value_name = "S", value_parser = patience, default_value = "3", allow_negative_numbers = true)]
    pub watchdog: f64,

    #[command(flatten)]
    pub share: SteerArgs,
}

impl WorkerArgs {
    /// Returns the time after which a worker is reported as stalled, or None for never.
    pub fn watchdog(&self) -> Option<Duration> {
        Some(self.watchdog).filter(|seconds| *seconds > 0.0).map(Duration::from_secs_f64)
    }
}

/// Values of `--idle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IdleArg {
    /// Polls all the time. No packet waits, and the worker's core is busy.
    Spin,
    /// Sleeps after 64 rounds without work until a packet comes, 50 ms at most. The core is free, and the first packet waits for a
    /// wake-up.
    Sleep,
}

impl From<IdleArg> for Idle {
    fn from(idle: IdleArg) -> Idle {
        match idle {
            IdleArg::Spin => Idle::Spin,
            IdleArg::Sleep => Idle::Sleep,
        }
    }
}
