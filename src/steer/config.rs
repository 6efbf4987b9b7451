//! How a mesh is set up.

use super::policy::{Policy, PolicyError};
use super::toeplitz::{KEY_LEN, random_key};
use crate::limits::{BATCH_MAX, WORKERS_MAX};
use std::io;
use std::time::Duration;

/// Which worker's receive queue is recorded for a handed-over frame; the transmit queue follows from it
/// ([`tx_queue`](super::tx_queue)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Record {
    /// The queue that the first worker received them from.
    #[default]
    First,
    /// The number of the second worker, which is then its own transmit queue (as with skb_record_rx_queue on the
    /// second CPU): no two workers transmit by one queue.
    Second,
}

/// The limit that keeps one flow from filling an inbox (flow limit of receive packet steering), for steered frames.
///
/// All packets that have no addresses of IP are one flow. Beyond half of an inbox each frame's flow is noted among the last `history`; a flow that makes more than half of them
/// is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowLimitConfig {
    /// Frames remembered, 2 to 65536.
    pub history: u32,
    /// Flows are told apart by their hash modulo this, a power of two up to 65536.
    pub buckets: u32,
}

impl Default for FlowLimitConfig {
    fn default() -> Self {
        FlowLimitConfig { history: 256, buckets: 4096 }
    }
}

/// The settings of a mesh: its workers and the queues between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshConfig {
    /// Workers, 1 to 64. Default 2.
    pub workers: usize,
    /// Frames of one sender that one receiver has waiting or in work at most, 64 to 2^20: an inbox is bounded by this
    /// times its senders. What does not fit stays with the sender. Default 1,024.
    pub inbox: u32,
    /// A list with fewer frames than this waits at the end of a round, for as long as `linger` says; 1 to 64. Default 1.
    pub batch: usize,
    /// How long a short list waits at most, as long as its worker polls; 0, the default, sends every list at the end of each round.
    pub linger: Duration,
    /// Keeps one flow from taking a whole inbox, by dropping what is steered; frames that are handed off by
    /// [`Outbox::hand_off`](super::Outbox::hand_off) are not under it. None, as usual, for no such limit: then nothing is
    /// dropped that fits.
    pub flow_limit: Option<FlowLimitConfig>,
    /// Entries of each worker's flow table, a power of two up to 2^20 (8 bytes each). Default 4,096.
    pub flows: usize,
    /// The key of the hash. Default [`random_key`](super::random_key): with a key that is published, as [`DEFAULT_KEY`](super::DEFAULT_KEY),
    /// a flow has the same worker in each run, and senders can choose it.
    pub key: [u8; KEY_LEN],
    /// Whose receive queue is recorded. Default [`Record::First`].
    pub record: Record,
    /// Which worker gets a frame, at first. Default [`Policy::None`]: frames stay where they were received.
    pub policy: Policy,
}

impl Default for MeshConfig {
    fn default() -> Self {
        MeshConfig {
            workers: 2,
            inbox: 1024,
            batch: 1,
            linger: Duration::ZERO,
            flow_limit: None,
            flows: 4096,
            key: random_key(),
            record: Record::First,
            policy: Policy::None,
        }
    }
}

/// Why a mesh could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeshError {
    /// A value is outside its range.
    #[error("{what} {value} is out of range: {range}")]
    Range {
        /// Which value.
        what: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        range: &'static str,
    },
    /// The policy names a worker that is not there, or says nothing.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// An inbox has no bell.
    #[error("making the event that wakes a worker: {0}; raise the limit of open files (ulimit -n)")]
    Bell(#[from] io::Error),
}

impl MeshConfig {
    /// Checks every value.
    pub(super) fn check(&self) -> Result<(), MeshError> {
        let power = |value: u64, most: u64| value.is_power_of_two() && value <= most;
        let limit = self.flow_limit.unwrap_or_default();
        let checks = [
            ("workers", self.workers as u64, (1..=WORKERS_MAX).contains(&self.workers), "1 to 64"),
            ("inbox", self.inbox.into(), (64..=1 << 20).contains(&self.inbox), "64 to 1048576"),
            ("batch", self.batch as u64, (1..=BATCH_MAX).contains(&self.batch), "1 to 64"),
            ("flows", self.flows as u64, power(self.flows as u64, 1 << 20), "a power of two up to 1048576"),
            ("flow history", limit.history.into(), (2..=1 << 16).contains(&limit.history), "2 to 65536"),
            (
                "flow buckets",
                limit.buckets.into(),
                power(limit.buckets.into(), 1 << 16),
                "a power of two up to 65536",
            ),
        ];
        match checks.into_iter().find(|&(_, _, ok, _)| !ok) {
            Some((what, value, _, range)) => Err(MeshError::Range { what, value, range }),
            None => Ok(self.policy.check(self.workers)?),
        }
    }
}
