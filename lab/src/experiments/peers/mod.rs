//! The two ends of a path, and windows of what is between them: a process that forwards.
//!
//! ```text
//!   sender ─► port ─► the device under test, a process on a core of its own ─► port ─► receiver
//!   1. the device stands still while the sender fills its ring with a backlog
//!   2. it goes on, and the receiver, which has nothing else to do, reads the clock as packets come
//! ```
//! A window lies within the backlog: it begins when the first of it have come, and ends while more than a full burst is
//! still waiting, so the device never finds less. Both ends are on the caller's core, one after the other: two cores are
//! enough, and no generator can be too slow. Every packet is judged by the product's own sink, outside of windows.

mod backlog;
mod ends;
pub(super) mod middle;
#[cfg(test)]
mod tests;

pub(super) use backlog::{Backlog, Borrowed, Costs};
pub(super) use ends::{Ends, Tools};
pub(super) use middle::Middle;

/// Bytes of the packets: the smallest frame.
pub(super) const PACKET_BYTES: usize = 64;
