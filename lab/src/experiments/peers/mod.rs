//! The two ends of a path, and windows of the part between them: a forwarding process, or the kernel. All windows
//! are seen at the sink.
//!
//! ```text
//!   sender ─► port ─► the device under test, a process on a core of its own ─► port ─► receiver
//! ```
//! | | the sender | a window |
//! |---|---|---|
//! | [`Backlog`] | costs nothing that belongs to the path: it writes into memory, before the device goes on | the device's alone |
//! | [`Flow`] | carries packets to the device by system calls | of all cores, while packets flow |
//!
//! The device always finds at least a full burst: it is stopped while its ring is filled. Both ends are on the
//! caller's core, one after the other, so two cores are enough. The product's own sink judges every packet, outside
//! of windows.

mod backlog;
mod ends;
mod flow;
mod ksoftirqd;
#[allow(unsafe_code)]
pub(super) mod lending;
pub(super) mod middle;
mod path;
#[cfg(test)]
mod tests;

pub(super) use backlog::Backlog;
pub(super) use ends::{Ends, Tools};
pub(super) use flow::Flow;
pub(super) use ksoftirqd::Ksoftirqd;
pub(super) use middle::Middle;
pub(super) use path::{Borrowed, Path};

/// Bytes of the packets: the smallest frame.
pub(super) const PACKET_BYTES: usize = 64;
