//! System calls that the other crates of this workspace and the tests share: not part of the library's interface.
//!
//! Everything here may change or go in any release. What the library's own types rest on (regions, the table of chunks,
//! device rings) is not among it.

pub use crate::sys::{bpf, clock, cpu, event, memfd, netdev, netns, seqpacket, xdp};
#[cfg(feature = "comparisons")]
pub use crate::sys::{perf, process};
