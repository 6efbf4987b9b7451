//! The `fault` port wraps another port, and injects network faults into the frames that it receives.
//!
//! ```text
//!   the inner port ─── rx ──► drop ─► corrupt ─► duplicate ─► reorder, delay ─┬─► ready ──► rx
//!                                                                             └─► late ──┘
//! ```
//! The seed and the frame's number alone decide what happens to a frame. The same frames get the same faults in every
//! run, however they are divided into bursts. Faults affect received frames only; a transmitted frame is received by
//! another port.
//!
//! A duplicate is a copy in a frame of the pool. Delayed frames are owned, not posted, and there are at most
//! [`LATE_MAX`]. Beyond that number a frame is not delayed.

mod chance;
mod rx;
#[cfg(test)]
mod tests;

pub use chance::{Chance, ChanceError};

use super::wrap::WrapPort;
use super::{Port, PortCounters, WrapCounters};
use crate::pool::{Batch, Frame, Pool};
use crate::stats::Count;
use crate::sync::Worker;
use rx::Late;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of delayed frames.
pub const LATE_MAX: usize = 1024;

/// The faults to inject. By default there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultConfig {
    /// The seed of all decisions. The same seed gives the same faults.
    pub seed: u64,
    /// Frames that are lost.
    pub drop: Chance,
    /// Frames with one inverted bit.
    pub corrupt: Chance,
    /// Frames that are received twice.
    pub duplicate: Chance,
    /// Frames that are received behind the next three frames, or when no more frames come.
    pub reorder: Chance,
    /// Frames that are received later by `delay_by`.
    pub delay: Chance,
    /// The delay. Default 1 ms.
    pub delay_by: Duration,
}

impl Default for FaultConfig {
    fn default() -> Self {
        let never = Chance::Never;
        let (drop, corrupt, duplicate, reorder, delay) = (never, never, never, never, never);
        FaultConfig { seed: 1, drop, corrupt, duplicate, reorder, delay, delay_by: Duration::from_millis(1) }
    }
}

/// The counters of injected faults, readable from any thread.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FaultCounters {
    /// Frames dropped; the port counts them in [`PortCounters::rx_dropped`] as well.
    pub dropped: Count,
    /// Frames with an inverted bit.
    pub corrupted: Count,
    /// Duplicates made and received.
    pub duplicated: Count,
    /// Duplicates that were not made because the pool had no frame.
    pub no_frame: Count,
    /// Frames put behind later ones.
    pub reordered: Count,
    /// Frames delayed.
    pub delayed: Count,
}

impl WrapCounters for FaultCounters {
    fn counts(&self) -> Vec<(&'static str, u64)> {
        let FaultCounters { dropped, corrupted, duplicated, no_frame, reordered, delayed } = self;
        vec![
            ("fault_dropped", dropped.get()),
            ("fault_corrupted", corrupted.get()),
            ("fault_duplicated", duplicated.get()),
            ("fault_no_frame", no_frame.get()),
            ("fault_reordered", reordered.get()),
            ("fault_delayed", delayed.get()),
        ]
    }
}

/// A port around another port, which injects faults into received frames. See [the module](self).
///
/// Its counters are its own: `rx` counts the frames that its caller received, including duplicates. `rx_dropped` counts
/// those that it dropped.
pub struct FaultPort {
    name: String,
    within: Box<dyn Port>,
    config: FaultConfig,
    /// The pool that duplicates are made from.
    pool: Pool,
    /// Number of received frames. They are numbered from 0, wrapping.
    received: u64,
    /// Frames to be received next, in order.
    ready: VecDeque<Frame>,
    /// Frames to be received later; at most [`LATE_MAX`].
    late: Vec<Late>,
    /// Dropped last, after the last count of `within`.
    tally: Tally,
}

/// The counters of this port and of the inner port.
struct Tally {
    faults: Arc<FaultCounters>,
    counters: Arc<PortCounters>,
    within: Arc<PortCounters>,
    /// What of both is in `counters` already. A port around this one counts there too.
    seen: PortCounters,
}

impl FaultPort {
    /// Wraps `within`. Duplicates use frames of `pool`.
    #[cold]
    pub fn new(within: Box<dyn Port>, pool: Pool, config: FaultConfig) -> FaultPort {
        let tally = Tally {
            faults: Arc::default(),
            counters: Arc::default(),
            within: within.counters(),
            seen: PortCounters::default(),
        };
        FaultPort {
            name: format!("fault/{}", within.name()),
            within,
            config,
            pool,
            received: 0,
            ready: VecDeque::new(),
            late: Vec::new(),
            tally,
        }
    }

    /// The counters of the faults injected so far.
    pub fn faults(&self) -> Arc<FaultCounters> {
        Arc::clone(&self.tally.faults)
    }
}

impl Tally {
    /// Adds the new counts of the inner port. Frames delivered and dropped are counted by this port.
    fn publish(&self) {
        self.counters.follow(&self.within, &self.seen);
        let dropped = self.within.rx_dropped.get() + self.faults.dropped.get();
        self.counters.rx_dropped.follow(dropped, &self.seen.rx_dropped);
    }
}

impl Drop for FaultPort {
    fn drop(&mut self) {
        // Frames that were still delayed are lost. They are freed with the lists.
        self.tally.faults.dropped.add((self.ready.len() + self.late.len()) as u64);
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.publish();
    }
}

impl WrapPort for FaultPort {
    fn within(&self) -> &dyn Port {
        &*self.within
    }

    fn within_mut(&mut self) -> &mut dyn Port {
        &mut *self.within
    }

    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.receive(w, frames)
    }

    /// Some wait here.
    fn rx_pending(&mut self) -> Option<usize> {
        None
    }

    fn rx_finished(&self) -> bool {
        self.ready.is_empty() && self.late.is_empty() && self.within.rx_finished()
    }

    /// A packet that is corrupted or made twice has no open work.
    fn keep_offloads(&mut self, _keep: bool) -> bool {
        self.within.keep_offloads(false)
    }

    fn kick(&mut self) {
        self.within.kick();
        self.tally.publish();
    }

    /// No event wakes the worker for a delayed frame. So while there is one, this reports that frames are ready.
    fn arm(&mut self) -> bool {
        let due = !self.ready.is_empty() || !self.late.is_empty();
        self.within.arm() || due
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "fault"
    }

    fn counters(&self) -> Arc<PortCounters> {
        // Called so that the inner port reads its device's counters.
        drop(self.within.counters());
        self.tally.publish();
        Arc::clone(&self.tally.counters)
    }

    fn wrap_counters(&self) -> Vec<Arc<dyn WrapCounters>> {
        let own: Arc<dyn WrapCounters> = self.faults();
        [vec![own], self.within.wrap_counters()].concat()
    }
}

impl std::fmt::Debug for FaultPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultPort")
            .field("name", &self.name)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
