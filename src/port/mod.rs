//! The stage `port` is the interface between frames and devices.
//!
//! Every device has the same four queues. Each queue is a trait, and every port implements it in the file of the same
//! name:
//!
//! ```text
//!   Fill  fill.rs   empty frames ──►  device        Rx        rx.rs        device ──►  received frames
//!   Tx    tx.rs     full frames  ──►  device        Complete  complete.rs  device ──►  sent frames, to be freed
//!   Wake  wake.rs   wake-ups of the device and of the worker
//! ```
//! The cold file `bind.rs` sets the port up. Ports whose device copies share their files in `copying`. A frame given to
//! [`Fill::fill`] or [`Tx::tx`] is *posted*: it belongs to the device until [`Rx::rx`] or [`Complete::complete`] claims
//! it again. No other call gives it back.
//!
//! A [`Port`] implements all of these traits. Their methods need no import on a `dyn Port`. On a port's own type they
//! need `use netmem::port::{Complete, Fill, Port, Rx, Tx, Wake};`.

#[cfg(feature = "af-packet")]
pub mod af_packet;
pub mod bounce;
#[cfg(feature = "pcap")]
mod output_file;
pub mod conformance;
pub mod copying;
mod counters;
pub mod fault;
#[cfg(any(feature = "af-packet", feature = "tap"))]
mod link;
pub mod mem;
#[cfg(feature = "memif")]
pub mod memif;
#[cfg(feature = "pcap")]
pub mod pcap;
mod next_hop;
#[allow(unsafe_code)]
mod posted;
pub(crate) mod queues;
#[cfg(feature = "tap")]
pub mod tap;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(feature = "pcap")]
pub mod trace;
#[cfg(any(feature = "af-packet", feature = "tap"))]
mod spread;
#[cfg(any(feature = "xdp", feature = "af-packet", feature = "tap"))]
mod uncut;
#[cfg(any(feature = "af-packet", feature = "tap"))]
mod virtio;
pub mod wrap;
#[cfg(feature = "xdp")]
pub mod xdp;

use crate::pool::{Batch, Frame};
pub use counters::{PortCounters, WrapCounters};
pub use next_hop::{NextHop, NextHops};
pub use posted::{Posted, Posting};
pub use queues::{Complete, Fill, Port, Rx, Tx, Wake};
use std::fmt;

/// The remedy if the polling thread is not in the interface's namespace.
#[cfg(any(feature = "xdp", feature = "af-packet", feature = "tap"))]
const ENTER: &str = "enter its network namespace, where it was opened and this thread is not (CAP_SYS_ADMIN)";

/// The reason why a port is down in a child of the process that opened it.
#[cfg(any(feature = "xdp", feature = "memif"))]
#[cold]
fn inherited(name: &str) -> String {
    format!("{name} was opened by another process, of which this is a child: open a port after fork(2)")
}

/// Whether a port carries frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortState {
    /// The port carries frames.
    Up,
    /// The port carries no frames, with the reason. This may be temporary: if a link, peer or interface comes back, the
    /// port comes up again as long as it is polled. [`Port::is_failed`] and [`Rx::rx_finished`] tell what ends for good.
    Down(String),
}

/// Prints `up`, or `down: ` and the reason.
impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortState::Up => f.write_str("up"),
            PortState::Down(why) => write!(f, "down: {why}"),
        }
    }
}

/// Takes the frames out of `frames` for which `keep` is false. All frames stay in order.
#[cold]
fn set_aside(frames: &mut Batch, keep: impl Fn(&Frame) -> bool) -> Batch {
    frames.extract(|frame| !keep(frame))
}
