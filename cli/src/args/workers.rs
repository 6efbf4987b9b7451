//! `netmem forward`: how many workers there are and what each does.

use super::number::whole;
use clap::{Args, ValueEnum};
use netmem::forward::Idle;
use netmem::limits::WORKERS_MAX;
use netmem::steer::{Policy, PolicyError, Record};

/// Workers that can be asked for: one more may be needed, for who holds frames.
const WORKERS: std::ops::RangeInclusive<usize> = 1..=WORKERS_MAX - 1;

/// Frames of an inbox.
const INBOX: std::ops::RangeInclusive<u32> = 64..=1 << 20;

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

    /// What a worker does when there is nothing to do.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = IdleArg::Spin)]
    pub idle: IdleArg,

    /// Which worker forwards a packet: none, map=rx0:1,rx1:2,3, round-robin, hash or flow; needs --workers 2 or more.
    ///
    /// Without it, and with none, the worker that received it. rx0 is what worker 0 receives, and so on: a queue that is
    /// not in the map stays with its worker, and one with several workers spreads its flows over them. round-robin, hash
    /// and flow may name the workers to choose from, as in hash=1,2. hash goes by addresses and ports; flow too, but a flow
    /// moves to an idler worker when all its packets so far are done. All but round-robin keep the order within a flow.
    #[arg(long, value_name = "POLICY", value_parser = policy)]
    pub steer: Option<Policy>,

    /// By which worker's queue a steered packet is transmitted; needs --steer [default: first]
    #[arg(long, value_name = "WHICH", value_enum, requires = "steer")]
    pub tx_queue: Option<TxQueueArg>,

    /// Frames of one worker that another has waiting at most, 64 to 1048576; more are dropped by count, and beyond half
    /// of it those of a flow that makes most of them; needs --steer [default: 1024, or more than twice what the generators
    /// have under way]
    #[arg(long, value_name = "N", value_parser = whole(INBOX), requires = "steer", allow_negative_numbers = true)]
    pub inbox: Option<u32>,

    /// Workers whose mem ports have a generator, the first N; the others get packets by --steer only; not with --port
    /// [default: all]
    #[arg(long, value_name = "N", value_parser = whole(WORKERS), allow_negative_numbers = true)]
    pub generators: Option<usize>,
}

/// Values of `--tx-queue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TxQueueArg {
    /// That of the worker that received it: a flow keeps its queue, and its packets go back to be transmitted.
    First,
    /// That of the worker that forwarded it: one way less, but a flow that moves leaves by another queue.
    Second,
}

impl From<TxQueueArg> for Record {
    fn from(queue: TxQueueArg) -> Record {
        match queue {
            TxQueueArg::First => Record::First,
            TxQueueArg::Second => Record::Second,
        }
    }
}

fn policy(text: &str) -> Result<Policy, PolicyError> {
    text.parse()
}

/// Values of `--idle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IdleArg {
    /// Looks again and again: no packet waits, and its core is busy.
    Spin,
    /// Sleeps after 64 rounds without work until a packet comes, 50 ms at most: its core is free, and the first packet
    /// waits for a wake-up.
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
