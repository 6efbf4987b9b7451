//! The memory system of a packet dataplane in user space.
#![deny(unsafe_code)]

pub mod limits;
#[allow(unsafe_code)]
pub mod sys;
pub mod sync;
pub mod stats;
pub mod ring;
pub mod page;
pub mod slab;
pub mod pool;
pub mod packet;
pub mod wire;
pub mod port;
pub mod forward;
