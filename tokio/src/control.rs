//! What tasks know of a shared port, and what they may ask of its driver.

use netmem::port::PortCounters;
use netmem::{Port, PortState};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// What the driver saw of its port last.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub state: PortState,
    /// The port is down, and the driver has no room for another frame. So a full queue stays full until the port is up.
    pub refuses: bool,
}

/// The state and the counters of a shared port, and the request to finish; a clone for each task. It keeps neither the
/// driver nor the port.
#[derive(Clone)]
pub struct DriverControl {
    seen: watch::Receiver<Seen>,
    counters: Arc<PortCounters>,
    finish: watch::Sender<()>,
}

impl DriverControl {
    pub(crate) fn new(seen: watch::Receiver<Seen>, port: &dyn Port, finish: watch::Sender<()>) -> Self {
        DriverControl { seen, counters: port.counters(), finish }
    }

    /// The state of the port when the driver looked last, which it does at least once a second. After the end of the
    /// driver, the port is down.
    pub fn state(&self) -> PortState {
        if self.has_ended() {
            return PortState::Down("its driver has ended".into());
        }
        self.seen.borrow().state.clone()
    }

    /// Waits until the port is [up](PortState::Up). Returns true at once if it is, and false if the driver has ended.
    /// Some ports are down for good: bound the call by `tokio::time::timeout`.
    ///
    /// # Cancelling
    /// Nothing is lost.
    #[must_use = "false: the driver has ended"]
    pub async fn up(&self) -> bool {
        let mut seen = self.seen.clone();
        seen.wait_for(|seen| seen.state == PortState::Up).await.is_ok() && !self.has_ended()
    }

    /// The counters of the port. Those that a device keeps itself ([`Port::counters`]) are read once a second.
    pub fn counters(&self) -> &PortCounters {
        &self.counters
    }

    /// Asks the driver to finish: its queue takes no more frames, it sends those that were queued, and
    /// [`Driver::run`](crate::Driver::run) returns the port. The driver waits for tasks that have
    /// [room](crate::Outgoing::room) until they have used or dropped it. The call itself does not wait. It does nothing
    /// if the driver has ended.
    pub fn finish(&self) {
        self.finish.send_replace(());
    }

    fn has_ended(&self) -> bool {
        self.seen.has_changed().is_err()
    }
}

impl fmt::Debug for DriverControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverControl").field("state", &self.state()).finish_non_exhaustive()
    }
}
