//! Stage `port`: where frames meet devices.
//!
//! Every device has the same four queues, and every port the same file for each:
//!
//! ```text
//!   fill.rs      empty frames ──►  device        rx.rs        device ──►  received frames
//!   tx.rs        full frames  ──►  device        complete.rs  device ──►  sent frames, to be freed
//! ```
//! and a cold one, `bind.rs`, that sets it up. Ports whose device copies share their four in `copying`. A frame given to
//! [`Port::fill`] or [`Port::tx`] is *posted*: it belongs to the device until [`Port::rx`] or [`Port::complete`] claims it
//! again. There is no other way back.

mod anew;
pub mod copying;
mod counters;
pub mod fault;
mod link;
pub mod mem;
pub mod memif;
pub mod packet;
pub mod pcap;
#[allow(unsafe_code)]
mod posted;
pub mod tap;
#[cfg(test)]
pub(crate) mod tests;
pub mod trace;
pub mod xdp;

use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, Pool};
use crate::sync::Worker;
pub use counters::{PortCounters, WrapCounters};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Why a port is down in a child of the process that opened it.
#[cold]
fn inherited(name: &str) -> String {
    format!("{name} was opened by another process, of which this is a child: open a port after fork(2)")
}

/// Whether a port carries frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortState {
    /// It does.
    Up,
    /// It does not, and why.
    Down(String),
}

/// A device's four queues.
///
/// All calls are bursts: as many frames as fit or are there. None blocks, allocates or fails; a device that can no longer
/// be trusted goes [`PortState::Down`].
///
/// # What is taken
/// Of the frames offered to [`Port::fill`] and [`Port::tx`] exactly those are taken that are not in the batch any more, as
/// many as the call returns. They are the first ones for which there is room, of those that the device can carry; with
/// several queues, of those for each queue. A frame that it can never carry is counted, and either passed over
/// ([`PortCounters::foreign`], [`PortCounters::tx_invalid`]), so that it stays behind the others, or taken and completed
/// (`tx_invalid`). So the frames of one flow are taken in order, and stay in order.
pub trait Port: Send {
    /// Kind and place, as on the command line: `xdp:eth0`, `memif:/run/vpp/memif.sock`, `mem:0`.
    fn name(&self) -> &str;

    /// The kind: `xdp`, `memif`, `mem`.
    fn kind(&self) -> &'static str;

    /// Free places in the fill ring.
    fn fill_room(&mut self) -> usize;

    /// Posts empty frames for reception, of `frames` from the front ([what is taken](Port#what-is-taken)); returns how many.
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Appends received frames to `frames`, as many as are there and have room; returns how many.
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Posts frames for transmission, of `frames` from the front ([what is taken](Port#what-is-taken)); returns how many.
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Appends frames that were sent, for the caller to free in bulk; returns how many.
    ///
    /// Completions do not come by themselves: whoever transmits must ask, also when nothing else happens.
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize;

    /// Wakes the device where it asked for that; once in a poll round, after the other calls.
    fn kick(&mut self);

    /// The worker is about to sleep, after the other calls of a round: from now on the next frame that comes makes
    /// [`Port::descriptor`] readable. True if there is something already, and it had better not sleep.
    ///
    /// By default nothing wakes, and the port is polled when the sleep's time is up.
    fn arm(&mut self) -> bool {
        false
    }

    /// What to sleep on while it is armed; None where nothing would wake.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The worker is awake again.
    fn disarm(&mut self) {}

    /// Frames posted for transmission and not yet completed.
    fn in_flight(&self) -> usize;

    /// Whether a later [`Port::tx`] may take what this one did not: there is no room, and there will be.
    ///
    /// By default where something is in flight, whose completion makes room.
    fn takes_later(&self) -> bool {
        self.in_flight() > 0
    }

    /// Takes those frames out of `frames` that it can never carry; all stay in order. For whoever has offered them and has
    /// some left: they would be left for ever.
    ///
    /// By default none.
    fn unfit(&self, _frames: &mut Batch) -> Batch {
        Batch::new()
    }

    /// Packets that wait to be received; None where the device does not tell without giving them.
    ///
    /// # Cost
    /// A look at the device's index, or a system call: not for every round.
    fn waiting(&mut self) -> Option<usize> {
        None
    }

    /// Whether nothing will ever be received by it any more: all of a file has been.
    ///
    /// By default never: who is at the other end may send at any time.
    fn is_at_end(&self) -> bool {
        false
    }

    /// Whether it carries frames.
    fn state(&self) -> PortState;

    /// What went wrong with it beside its frames, which it carries on: a trace that cannot be written. By default nothing.
    fn complaint(&self) -> Option<String> {
        None
    }

    /// Its counters, to be read from any thread; a port made elsewhere keeps the [`Writer`](crate::stats::Writer) of its own.
    fn counters(&self) -> Arc<PortCounters>;

    /// What it counts besides, and the ports within it, the outermost first. By default nothing.
    fn wrap_counters(&self) -> Vec<Arc<dyn WrapCounters>> {
        Vec::new()
    }

    /// Frames posted for reception and not yet received.
    fn filled(&self) -> usize;

    /// Tops the fill ring up with empty frames of `pool`, in bulk; returns how many.
    ///
    /// A dry pool leaves the ring shorter: the device then drops and counts, and nothing waits.
    fn refill(&mut self, w: &mut Worker, pool: &Pool) -> usize {
        self.refill_to(w, pool, usize::MAX)
    }

    /// As [`Port::refill`], up to `most` frames posted for reception: where several ports receive from one pool,
    /// none can take what another needs.
    fn refill_to(&mut self, w: &mut Worker, pool: &Pool, most: usize) -> usize {
        let mut filled = 0;
        let mut batch = Batch::new();
        loop {
            let want = self.fill_room().min(most.saturating_sub(self.filled())).min(BATCH_MAX);
            if want == 0 || pool.alloc_burst(w, &mut batch, want) == 0 {
                return filled;
            }
            filled += self.fill(w, &mut batch);
            if !batch.is_empty() {
                batch.free(w);
                return filled;
            }
        }
    }
}

/// Takes those frames out of `frames` that `keep` does not keep; all stay in order.
#[cold]
fn set_aside(frames: &mut Batch, keep: impl Fn(&Frame) -> bool) -> Batch {
    let (mut kept, mut aside) = (Batch::new(), Batch::new());
    for frame in frames.drain() {
        let to = if keep(&frame) { &mut kept } else { &mut aside };
        // There is room: each of the two holds as many as `frames`.
        let _ = to.push(frame);
    }
    frames.append(&mut kept);
    aside
}
