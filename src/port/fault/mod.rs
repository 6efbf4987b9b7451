//! The `fault` port: another port, with what goes wrong on networks done to the frames that it receives.
//!
//! ```text
//!   the port within ── rx ──► drop ─► corrupt ─► duplicate ─► reorder, delay ─┬─► ready ──► rx
//!                                                                             └─► late ──┘
//! ```
//! What happens to a frame follows from the seed and the frame's number alone: the same frames suffer the same in every
//! run, however they come in bursts. Faults are done to what is received; what is transmitted is received somewhere.
//!
//! A duplicate is a copy in a frame of the pool. Frames that are late are owned, not posted, and at most [`LATE_MAX`];
//! beyond that a frame is on time.

mod chance;
mod rx;
#[cfg(test)]
mod tests;

pub use chance::{Chance, ChanceError};

use super::queues::delegate;
use super::{Complete, Fill, Port, PortCounters, PortState, Tx, Wake, WrapCounters};
use crate::pool::{Batch, Frame, Pool};
use crate::stats::Count;
use crate::sync::Worker;
use rx::Late;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// The maximum number of delayed frames.
pub const LATE_MAX: usize = 1024;

/// The faults to inject. By default nothing does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultConfig {
    /// What decides; the same seed, the same faults.
    pub seed: u64,
    /// Frames that are lost.
    pub drop: Chance,
    /// Frames of which one bit is the other way round.
    pub corrupt: Chance,
    /// Frames that come twice.
    pub duplicate: Chance,
    /// Frames that come behind the three after them, or when none comes any more.
    pub reorder: Chance,
    /// Frames that come later by `delay_by`.
    pub delay: Chance,
    /// By how much. Default 1 ms.
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
    /// Frames of which a bit was turned.
    pub corrupted: Count,
    /// Copies made and received.
    pub duplicated: Count,
    /// Copies not made because the pool had no frame.
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
/// Its counters are its own: `rx` is what its caller received, duplicates too; what it dropped is in `rx_dropped`.
pub struct FaultPort {
    name: String,
    within: Box<dyn Port>,
    config: FaultConfig,
    /// Where duplicates come from.
    pool: Pool,
    /// Frames that were received, numbered from 0, wrapping.
    received: u64,
    /// To be received next, in order.
    ready: VecDeque<Frame>,
    /// To be received later; at most [`LATE_MAX`].
    late: Vec<Late>,
    /// Dropped last, when `within` counts no more.
    tally: Tally,
}

/// What is counted here and within.
struct Tally {
    faults: Arc<FaultCounters>,
    counters: Arc<PortCounters>,
    within: Arc<PortCounters>,
}

impl FaultPort {
    /// Wraps `within`; duplicates are made of `pool`'s frames.
    #[cold]
    pub fn new(within: Box<dyn Port>, pool: Pool, config: FaultConfig) -> FaultPort {
        let tally = Tally { faults: Arc::default(), counters: Arc::default(), within: within.counters() };
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

    /// What was done so far.
    pub fn faults(&self) -> Arc<FaultCounters> {
        Arc::clone(&self.tally.faults)
    }
}

impl Tally {
    /// Copies what the port within counts; what this one delivers and drops is its own.
    fn publish(&self) {
        self.counters.follow(&self.within);
        self.counters.rx_dropped.set(self.within.rx_dropped.get() + self.faults.dropped.get());
    }
}

impl Drop for FaultPort {
    fn drop(&mut self) {
        // What never was on time is lost, and goes home with the lists.
        self.tally.faults.dropped.add((self.ready.len() + self.late.len()) as u64);
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.publish();
    }
}

impl Fill for FaultPort {
    delegate!(within
        fn fill_room(&mut self) -> usize;
        fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;
        fn rx_posted(&self) -> usize;
        fn refill_to(&mut self, w: &mut Worker, pool: &Pool, most: usize) -> usize;
        fn own_pool(&self) -> Option<&Pool>;
    );
}

impl Tx for FaultPort {
    delegate!(within
        fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;
        fn tx_posted(&self) -> usize;
        fn tx_unread(&mut self) -> usize;
        fn can_retry_tx(&self) -> bool;
        fn carries_offloads(&self) -> bool;
        fn take_unsendable(&self, frames: &mut Batch) -> Batch;
        fn is_too_long(&self, frame: &Frame) -> bool;
    );
}

impl Complete for FaultPort {
    delegate!(within fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;);
}

impl Wake for FaultPort {
    fn kick(&mut self) {
        self.within.kick();
        self.tally.publish();
    }

    /// Nothing wakes for a frame that is late: while there is one, there is something already.
    fn arm(&mut self) -> bool {
        let due = !self.ready.is_empty() || !self.late.is_empty();
        self.within.arm() || due
    }

    delegate!(within
        fn wakeup_fd(&self) -> Option<BorrowedFd<'_>>;
        fn disarm(&mut self);
    );
}

impl Port for FaultPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "fault"
    }

    delegate!(within
        fn state(&self) -> PortState;
        fn complaint(&self) -> Option<String>;
    );

    fn counters(&self) -> Arc<PortCounters> {
        // Asked for so that the port within looks at what its device counts.
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
