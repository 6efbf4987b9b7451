//! The `mem` port is a link inside the process, behind rings like a network card's.
//!
//! ```text
//!    MemPort (the dataplane's side)          MemDevice (the far side)
//!       fill     ── empty frames ──►            deliver: writes into a posted frame, as DMA does
//!       rx       ◄─ filled frames ──
//!       tx       ── full frames ──►             collect: reads what is sent
//!       complete ◄─ sent frames ──              … and gives it back later, a batch at a time
//! ```
//! There is no copy and no system call. The device's side writes directly into the posted frames and reads the frames
//! that are sent. As on a card, the four queues are the two ends of two descriptor rings, receive and transmit. Nothing
//! is received without a posted frame. Completions come later, in batches, and only if the caller asks for them. A
//! caller that does not ask cannot transmit any more.
//!
//! When the device is dropped, the port is down for good: it takes no more frames. It still receives what was delivered,
//! and completes all frames that it transmitted. Those that the device had not sent count in
//! [`tx_lost`](super::PortCounters::tx_lost). Frames posted for reception stay posted until the port is dropped. If the port
//! is dropped first, the device still sends the frames that it has, and the last end frees all frames to their pools.

mod bind;
mod complete;
mod device;
mod end;
mod fill;
mod rx;
#[cfg(test)]
mod tests;
mod tx;
mod wake;

pub use bind::{MemConfig, MemError};
pub use device::MemDevice;

use self::end::LinkEnd;
use super::posted::{Descriptors, Posted};
use super::{Port, PortCounters, PortState};
use crate::sync::Doorbell;
use std::sync::Arc;

/// The dataplane's side of a link inside the process. [`MemPort::pair`] makes it and its other end.
#[derive(Debug)]
pub struct MemPort {
    name: String,
    /// Receive descriptors: posted empty by `fill`, claimed filled by `rx`.
    rx: Descriptors,
    /// Transmit descriptors: posted full by `tx`, claimed sent by `complete`.
    tx: Descriptors,
    /// Rung by the device while the worker sleeps.
    bell: Arc<Doorbell>,
    counters: Arc<PortCounters>,
    /// Where the device leaves its end of the transmit ring when it is dropped.
    end: Arc<LinkEnd<Posted>>,
    /// `arm` has reported that the device is gone.
    is_end_reported: bool,
}

impl Port for MemPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "mem"
    }

    fn state(&self) -> PortState {
        match self.is_failed() {
            true => {
                PortState::Down("the device at its other end is gone: make both again (MemPort::pair)".into())
            }
            false => PortState::Up,
        }
    }

    fn is_failed(&self) -> bool {
        self.end.is_device_gone()
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}
