//! ICMP errors: what the router says about a packet that it does not forward. COLD.
//!
//! ```text
//!   drop, for a reason that is told ─► IcmpError::about ─► Limiter::take ─► IcmpError::write ─► forward, as if it came in here,
//!                                        └ no: Silence       └ no: Silence                       or straight back to a link-local sender
//! ```
//! The dropped frame itself becomes the error: it is nobody else's, it has room, and it comes back sent as any other, so
//! that an error needs no memory and none is lost where there is none left. It then goes the way of a frame that was let in
//! where the dropped one came, with the worker that dropped it: routed afresh (RFC 1812 §4.3.2.4), waiting for its neighbour,
//! transmitted or dropped and counted. The drop is counted as such, the error as *originated*. (ADR 0027)

mod counters;
mod error;
mod limit;
mod message;

pub use counters::{IcmpCounters, Silence};
pub use error::IcmpError;
pub use limit::{IcmpControl, IcmpLimit};
pub use message::Message;

pub(crate) use limit::Limiter;
