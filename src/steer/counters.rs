//! The counters of frames between workers.

use crate::stats::Count;

/// Counters of one lane, kept by its sender; all wrap.
///
/// Conservation, once nothing moves: `sent == received + waiting in the lane`, unless its reader is gone.
#[derive(Debug, Default)]
pub(super) struct LaneCounts {
    /// Frames sent.
    pub(super) sent: Count,
    /// Frames dropped because the inbox was full and the caller asked for drops.
    pub(super) full: Count,
    /// Frames dropped because their flow had more than its share of the inbox.
    pub(super) flow_limit: Count,
    /// Frames dropped because no worker reads the inbox any more.
    pub(super) gone: Count,
    /// Times the reader slept and was woken.
    pub(super) wakeups: Count,
}

/// Counters of one worker that steers; all wrap.
#[derive(Debug, Default)]
pub(super) struct SteerCounts {
    /// Frames that stayed with the worker that received them.
    pub(super) kept: Count,
    /// Flows that went to another worker (policy flow).
    pub(super) flow_moves: Count,
    /// Changes of the policy that this worker has adopted.
    pub(super) adopted: Count,
    /// Rounds in which a change of the policy waited, because a worker that loses flows made no progress or a lane was
    /// full.
    pub(super) postponed: Count,
}

/// Frames that were dropped between workers, by cause. Frames that stayed with the sender do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HandOffDrops {
    /// Its inbox was full ([`Outbox::steer_or_drop`](super::Outbox::steer_or_drop), `hand_off_or_drop`).
    pub inbox_full: u64,
    /// Their flow had more than its share of the inbox.
    pub flow_limit: u64,
    /// No worker reads its inbox any more: frames that were listed at that time, and frames that may be dropped.
    pub inbox_gone: u64,
}

impl HandOffDrops {
    /// The sum of all causes.
    pub fn total(&self) -> u64 {
        self.inbox_full.wrapping_add(self.flow_limit).wrapping_add(self.inbox_gone)
    }
}

/// The counters of one worker's inbox and steering, like a row of the kernel's `/proc/net/softnet_stat`.
///
/// Conservation over all workers, once nothing moves: frames that an outbox took = `kept` + `enqueued` + `drops`, and
/// `enqueued = dequeued + waiting + lost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct InboxStats {
    /// Frames that it received from its ports and kept.
    pub kept: u64,
    /// Frames that other workers put into its inbox.
    pub enqueued: u64,
    /// Frames that were taken out of its inbox, by the worker or by the one that took the inbox over.
    pub dequeued: u64,
    /// Frames meant for it that were dropped.
    pub drops: HandOffDrops,
    /// Approximate number of frames in its inbox, without those that it is processing.
    pub waiting: u64,
    /// Frames that were freed with its inbox after its last reader was gone.
    pub lost: u64,
    /// Times that it slept and was woken.
    pub wakeups: u64,
    /// Flows that it gave to another worker (policy flow).
    pub flow_moves: u64,
    /// Changes of the policy that it has adopted for the frames it steers.
    pub adopted: u64,
    /// Rounds in which a change of the policy waited for a worker that loses flows and made no progress, or for a lane
    /// that was full.
    pub postponed: u64,
}
