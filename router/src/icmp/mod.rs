//! ICMP errors about packets that the router does not forward. COLD.
//!
//! ```text
//!   drop, for a reason with a Message ─► IcmpError::about_if ─► Limiter::take ─► IcmpError::write ─► forward like a received frame,
//!                                          └ no: Suppression      └ no: Suppression                   or straight to a link-local sender
//! ```
//! The dropped frame itself becomes the error. The router alone owns the frame, and the frame has room for the
//! error. So an error needs no memory, and none is lost when memory runs out. The frame is freed like any other
//! after it is sent.
//!
//! The worker that dropped the packet then handles the error like a frame received on the port of the packet. The
//! error is routed afresh (RFC 1812 §4.3.2.4), may wait for its neighbour, and is transmitted, or dropped and
//! counted. The drop of the packet is counted as a drop, and the error as *originated*. (ADR 0027)

mod counters;
mod error;
mod limit;
mod message;

pub use counters::{IcmpCounters, Suppression};
pub use error::IcmpError;
pub use limit::{IcmpControl, IcmpLimit};
pub use message::Message;

pub(crate) use limit::Limiter;
