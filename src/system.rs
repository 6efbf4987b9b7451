//! System calls and messages that the other crates of this workspace and the tests share: not part of the library's interface.
//!
//! Everything here may change or go in any release. What the library's own types rest on (regions, the table of chunks,
//! device rings) is not among it.

pub use crate::sys::heap::one_heap;
#[cfg(feature = "af-packet")]
pub use crate::sys::packet;
pub use crate::sys::region::populating_while;
#[cfg(feature = "xdp")]
pub use crate::sys::{bpf, xdp};
#[cfg(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
pub use crate::sys::{broker, privileges};
pub use crate::sys::{clock, cpu, errno, event, memfd, signal, stderr, stream};
#[cfg(any(feature = "xdp", feature = "af-packet", feature = "tap"))]
pub use crate::sys::{netdev, netns};
#[cfg(feature = "memif")]
pub use crate::{
    port::memif::message as memif,
    sys::seqpacket,
    sys::slow_close::{close_deferred, defer_closing},
    sys::user::own_user,
};
