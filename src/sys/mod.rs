//! The stage `sys` has safe calls over the operating system.
//!
//! It is the only stage that names `libc` or `rustix`. Like the rings and the frame, it is one of the few places that
//! may use `unsafe`.

#[cfg(any(feature = "xdp", feature = "af-packet"))]
pub mod address;
pub mod aligned_array;
#[cfg(feature = "xdp")]
pub mod bpf;
#[cfg(any(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
pub mod broker;
#[cfg(feature = "xdp")]
pub mod capability;
pub mod clock;
pub mod cpu;
pub mod dump;
pub mod errno;
pub mod event;
pub mod fork;
pub mod heap;
pub mod lifo;
pub mod membarrier;
pub mod memfd;
#[cfg(any(feature = "xdp", feature = "af-packet", feature = "tap"))]
pub mod netdev;
#[cfg(any(feature = "xdp", feature = "af-packet", feature = "tap"))]
pub mod netns;
#[cfg(feature = "af-packet")]
pub mod packet;
#[cfg(test)]
pub(crate) mod poor;
#[cfg(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
pub mod privileges;
#[cfg(any(feature = "xdp", feature = "af-packet"))]
pub mod promiscuous;
pub mod random;
pub mod region;
pub mod reopen;
#[cfg(any(feature = "xdp", feature = "memif"))]
pub mod seqpacket;
#[cfg(feature = "memif")]
pub mod shared_event;
pub mod signal;
#[cfg_attr(not(feature = "memif"), allow(dead_code))]
pub(crate) mod slow_close;
pub mod stderr;
pub mod stream;
pub mod table;
#[cfg(feature = "tap")]
pub mod tap;
#[cfg(any(feature = "xdp", feature = "memif"))]
pub mod user;
#[cfg(any(feature = "af-packet", feature = "tap"))]
pub mod virtio;
pub mod words;
#[cfg(feature = "xdp")]
pub mod xdp;
