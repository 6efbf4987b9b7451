//! The `mem` port: a link inside the process, behind rings like a network card's.
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

mod bind;
mod complete;
mod device;
mod fill;
mod rx;
mod tx;
mod wake;

pub use bind::{MemConfig, MemError};
pub use device::MemDevice;

use super::posted::Descriptors;
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
}

impl Port for MemPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "mem"
    }

    fn state(&self) -> PortState {
        PortState::Up
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}
