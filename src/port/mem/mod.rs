//! The `mem` port: a wire inside the process, behind rings like a network card's.
//!
//! ```text
//!    MemPort (the dataplane's side)          MemDevice (the wire's side)
//!       fill     ── empty frames ──►            deliver: writes into a posted frame, as DMA does
//!       rx       ◄─ filled frames ──
//!       tx       ── full frames ──►             collect: reads what is sent
//!       complete ◄─ sent frames ──              … and gives it back later, a batch at a time
//! ```
//! No copy and no system call: the device's side writes into the very frames that were posted and reads those
//! that are sent. As on a card, the four queues are the two ends of two descriptor rings, receive and transmit;
//! nothing is received without a posted frame; completions come later, in batches, and only to those who ask; and
//! who does not ask cannot transmit any more.

mod bind;
mod complete;
mod device;
mod fill;
mod rx;
mod tx;

pub use bind::{MemConfig, MemError, wire};
pub use device::MemDevice;

use super::posted::Descriptors;
use super::{Port, PortCounters, PortState};
use crate::pool::Batch;
use crate::sync::{Doorbell, Worker};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Frames of the next burst whose first lines are asked for at the end of a round.
const NEXT: usize = 24;

/// The dataplane's side of the wire.
#[derive(Debug)]
pub struct MemPort {
    name: String,
    /// Receive descriptors: posted empty by `fill`, claimed filled by `rx`.
    rx: Descriptors,
    /// Transmit descriptors: posted full by `tx`, claimed sent by `complete`.
    tx: Descriptors,
    /// Rung by the device where the worker sleeps.
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

    fn fill_room(&mut self) -> usize {
        self.rx.room(usize::MAX)
    }

    #[inline]
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.fill_burst(w, frames)
    }

    #[inline]
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.rx_burst(w, frames)
    }

    #[inline]
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.tx_burst(w, frames)
    }

    #[inline]
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.complete_burst(w, frames)
    }

    /// The wire needs no wake-up: its other side polls. What the next round will receive first begins to travel.
    fn kick(&mut self) {
        self.rx.prefetch_frames(NEXT);
    }

    fn arm(&mut self) -> bool {
        self.bell.arm();
        self.rx.has_returned() || self.tx.has_returned()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn disarm(&mut self) {
        self.bell.disarm();
    }

    fn filled(&self) -> usize {
        self.rx.inside()
    }

    fn in_flight(&self) -> usize {
        self.tx.inside()
    }

    fn state(&self) -> PortState {
        PortState::Up
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}
