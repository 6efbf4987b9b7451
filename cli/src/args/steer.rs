//! `netmem forward`: how workers share what they receive.

use super::number::{power_of_two, whole};
use super::switch::Switch;
use clap::{Args, ValueEnum};
use netmem::limits::BATCH_MAX;
use netmem::steer::{DEFAULT_KEY, KEY_LEN, Policy, PolicyError, Record, SYMMETRIC_KEY};

/// Frames of an inbox.
const INBOX: std::ops::RangeInclusive<u32> = 64..=1 << 20;

/// Microseconds that a short list may wait.
const LINGER: std::ops::RangeInclusive<u64> = 0..=1_000_000;

/// Flags about lanes between workers.
#[derive(Debug, Args)]
pub struct SteerArgs {
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

    /// Frames that a list for another worker should have: a shorter one waits at the end of a poll round for as long as
    /// --linger says; 1 to 64; needs --steer [default: 1]
    #[arg(long, value_name = "N", value_parser = whole(1..=BATCH_MAX), requires = "steer", allow_negative_numbers = true)]
    pub list: Option<usize>,

    /// Microseconds that a list shorter than --list waits at most, up to a second; 0 sends every list at the end of each
    /// round; needs --steer [default: 0]
    #[arg(long, value_name = "US", value_parser = whole(LINGER), requires = "steer", allow_negative_numbers = true)]
    pub linger: Option<u64>,

    /// Whether a flow that makes most of an inbox that is more than half full is dropped by count, so that it cannot keep
    /// the others out; off, only what a full inbox has no room for is dropped; needs --steer [default: on]
    #[arg(long, value_name = "SWITCH", value_enum, requires = "steer")]
    pub flow_limit: Option<Switch>,

    /// Entries of each worker's table of flows, a power of two up to 1048576, for --steer flow [default: 4096]
    #[arg(long, value_name = "N", value_parser = power_of_two(1..=1 << 20), requires = "steer", allow_negative_numbers = true)]
    pub flow_table: Option<u32>,

    /// The key of the hash; needs --steer [default: rss]
    #[arg(long, value_name = "KEY", value_enum, requires = "steer")]
    pub hash_key: Option<HashKeyArg>,
}

/// Values of `--hash-key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HashKeyArg {
    /// The one of the published vectors of receive side scaling, which most network cards begin with.
    Rss,
    /// One that takes both directions of a connection to the same worker.
    Symmetric,
}

impl From<HashKeyArg> for [u8; KEY_LEN] {
    fn from(key: HashKeyArg) -> [u8; KEY_LEN] {
        match key {
            HashKeyArg::Rss => DEFAULT_KEY,
            HashKeyArg::Symmetric => SYMMETRIC_KEY,
        }
    }
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
