//! Stage `sys`: what the operating system gives, behind safe calls.
//!
//! The only stage that names `libc` or `rustix`, and (with the rings and the frame) one of the few that
//! may say `unsafe`.

pub mod address;
pub mod bpf;
pub mod capability;
pub mod clock;
pub mod cpu;
pub mod event;
pub mod fork;
pub mod membarrier;
pub mod memfd;
pub mod netdev;
pub mod netns;
pub mod packet;
#[cfg(feature = "comparisons")]
pub mod perf;
#[cfg(feature = "comparisons")]
pub mod process;
pub mod region;
pub mod seqpacket;
pub mod shared_event;
mod stranger;
pub mod table;
pub mod tap;
pub mod user;
pub mod xdp;
