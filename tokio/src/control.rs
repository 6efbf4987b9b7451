//! What tasks know of a shared port, and what they may ask of its driver.

use netmem::port::PortCounters;
use netmem::stats::Count;
use netmem::{Port, PortState};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// What the driver saw of its port last.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub state: PortState,
    /// It is down for good.
    pub is_failed: bool,
    /// What is wrong with it while it carries frames.
    pub complaint: Option<String>,
    /// The port is down, and the driver has no room for another frame. So a full queue stays full until the port is up.
    pub refuses: bool,
}

/// Frames that a driver freed. What the port itself frees is in the counters of the port.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct DriverCounters {
    /// Received frames that came into no reader's queue: [`Incoming`](crate::Incoming) was dropped, or its queue was full
    /// at the end of the driver. Frames that are in the queue belong to the reader and are not counted, except perhaps
    /// those that the driver sees in the queue while `Incoming` is being dropped.
    pub unread: Count,
    /// Frames of tasks that the port did not take: it was down at the end of the driver, or can never carry them and does
    /// not count them itself.
    pub unsent: Count,
}

/// The state and the counters of a shared port, and the request to finish; a clone for each task. It keeps neither the
/// driver nor the port.
#[derive(Clone)]
pub struct DriverControl {
    seen: watch::Receiver<Seen>,
    counters: Arc<PortCounters>,
    freed: Arc<DriverCounters>,
    finish: watch::Sender<()>,
}

impl DriverControl {
    pub(crate) fn new(
        seen: watch::Receiver<Seen>,
        port: &dyn Port,
        freed: Arc<DriverCounters>,
        finish: watch::Sender<()>,
    ) -> Self {
        DriverControl { seen, counters: port.counters(), freed, finish }
    }

    /// The state of the port when the driver looked last, which it does at least once a second. After the end of the
    /// driver, the port is down.
    pub fn state(&self) -> PortState {
        let seen = self.seen.borrow();
        if self.has_ended() && !seen.is_failed {
            return PortState::Down("its driver has ended".into());
        }
        seen.state.clone()
    }

    /// Returns whether the port is down for good ([`Port::is_failed`]). Its driver then ends, and returns the port. If the
    /// port still sends, the driver ends after the last [`Outgoing`](crate::Outgoing) is dropped
    /// ([`Driver::run`](crate::Driver::run)).
    pub fn is_failed(&self) -> bool {
        self.seen.borrow().is_failed
    }

    /// The reason for a failure of the port that does not stop its frames ([`Port::complaint`]), when the driver looked
    /// last. It does not change the state, so ask for it now and then.
    pub fn complaint(&self) -> Option<String> {
        self.seen.borrow().complaint.clone()
    }

    /// Waits until the state is another one than `known`, and returns it. Returns None if it will not change any more,
    /// since the driver has ended.
    ///
    /// ```
    /// # use netmem_tokio::DriverControl;
    /// async fn log(control: DriverControl) {
    ///     let mut state = control.state();
    ///     while let Some(now) = control.changed(&state).await {
    ///         println!("the port is {now}");
    ///         state = now;
    ///     }
    /// }
    /// ```
    ///
    /// # Cancelling
    /// Nothing is lost.
    pub async fn changed(&self, known: &PortState) -> Option<PortState> {
        let mut seen = self.seen.clone();
        loop {
            let has_ended = seen.wait_for(|seen| seen.state != *known).await.is_err() || self.has_ended();
            let now = self.state();
            if now != *known {
                return Some(now);
            }
            if has_ended {
                return None;
            }
        }
    }

    /// Waits until the port is [up](PortState::Up). Returns true at once if it is, and false if the driver has ended or
    /// the port is down for good.
    ///
    /// # Cancelling
    /// Nothing is lost.
    #[must_use = "false: the driver has ended, or the port is down for good"]
    pub async fn up(&self) -> bool {
        let mut seen = self.seen.clone();
        let is_known = seen.wait_for(|seen| seen.state == PortState::Up || seen.is_failed).await.is_ok();
        is_known && !self.is_failed() && !self.has_ended()
    }

    /// The counters of the port. Those that a device keeps itself ([`Port::counters`]) are read once a second.
    pub fn counters(&self) -> &PortCounters {
        &self.counters
    }

    /// The counts of frames that the driver freed.
    pub fn driver_counters(&self) -> &DriverCounters {
        &self.freed
    }

    /// Asks the driver to finish: its queue takes no more frames, it sends those that were queued, and
    /// [`Driver::run`](crate::Driver::run) returns the port. The driver waits for tasks that have
    /// [room](crate::Outgoing::room) until they have used or dropped it, and for a device that is up and takes nothing
    /// (a peer that stands still) as long as that does: bound the wait for `run` by `tokio::time::timeout`, and abort its
    /// task then. The call itself does not wait. It does nothing if the driver has ended.
    pub fn finish(&self) {
        self.finish.send_replace(());
    }

    fn has_ended(&self) -> bool {
        has_ended(&self.seen)
    }
}

/// Returns whether the driver that saw this has ended.
pub(crate) fn has_ended(seen: &watch::Receiver<Seen>) -> bool {
    seen.has_changed().is_err()
}

impl fmt::Debug for DriverControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverControl").field("state", &self.state()).finish_non_exhaustive()
    }
}
