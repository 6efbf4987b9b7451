//! How a mesh is set up.

use super::policy::{Policy, PolicyError};
use super::toeplitz::{KEY_LEN, random_key};
use crate::limits::{BATCH_MAX, WORKERS_MAX};
use std::io;
use std::time::Duration;

/// The receive queue that is recorded for a handed-over frame. The transmit queue follows from it
/// ([`tx_queue`](super::tx_queue)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordedQueue {
    /// The queue from which the first worker received the frame.
    #[default]
    Received,
    /// The number of the second worker, which is then its own transmit queue (as with skb_record_rx_queue on the second
    /// CPU). So no two workers transmit by one queue.
    Worker,
}

/// The limit that keeps one flow, or the flows of one port, from filling an inbox (flow limit of receive packet steering), for
/// steered frames.
///
/// All packets without IP addresses are one flow. In the last eighth of an inbox, or in the last `history + BATCH_MAX`
/// frames if they are more, but not in its first half, each frame's flow is recorded among the last `history`. Frames of a
/// flow that makes up more than half of them are dropped, so that there is room for the other flows. The kernel's limit
/// begins at half of a queue, which a single fast flow reaches in every burst.
///
/// In the last sixteenth of an inbox, or in the last `2 * BATCH_MAX` frames if they are more, the same holds for the port that
/// received a frame. A flood from many sources is many flows, and leaves this room to other ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowLimitConfig {
    /// Number of frames remembered, 2 to 65536.
    pub history: u32,
    /// Flows are distinguished by their hash modulo this number, a power of two up to 65536.
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
    /// Maximum number of frames of one sender that wait at or are processed by one receiver, 64 to 2^20. So an inbox
    /// holds at most this number times its senders. Frames that do not fit stay with the sender. Default 1,024.
    pub inbox: u32,
    /// A list with fewer frames than this waits at the end of a round, for at most `linger`; 1 to 64. Default 1.
    pub batch: usize,
    /// Maximum time that a short list waits, as long as its worker polls. 0, the default, sends every list at the end
    /// of each round.
    pub linger: Duration,
    /// Keeps one flow or one port from taking a whole inbox, by dropping steered frames. Frames passed by
    /// [`Outbox::hand_off`](super::Outbox::hand_off) are not subject to it. None, the default, sets no such limit: then
    /// no frame that fits is dropped.
    pub flow_limit: Option<FlowLimitConfig>,
    /// Entries of each worker's flow table, a power of two up to 2^20 (8 bytes each). Default 4,096.
    pub flows: usize,
    /// The key of the hash. Default [`random_key`](super::random_key). With a published key, such as
    /// [`DEFAULT_KEY`](super::DEFAULT_KEY), a flow has the same worker in each run, and senders can choose it.
    pub key: [u8; KEY_LEN],
    /// The receive queue that is recorded for handed-over frames. Default [`RecordedQueue::Received`].
    pub recorded_queue: RecordedQueue,
    /// The initial policy that chooses a frame's worker. Default [`Policy::None`]: frames stay with the worker that
    /// received them.
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
            recorded_queue: RecordedQueue::Received,
            policy: Policy::None,
        }
    }
}

/// The reason why a mesh could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeshError {
    /// A value is outside its range.
    #[error("{what} {value} is out of range: {range}")]
    Range {
        /// The name of the value.
        what: &'static str,
        /// The value.
        value: u64,
        /// The valid range.
        range: &'static str,
    },
    /// The policy names a worker that does not exist, or is empty.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// There is no memory for an inbox.
    #[error(
        "no memory for an inbox of {inbox} frames: give fewer, or allow the process more memory (ulimit -v)"
    )]
    NoMemory {
        /// Frames of one sender that the inbox has room for.
        inbox: u32,
    },
    /// An inbox's bell could not be made.
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
