//! Stage `packet`: what a packet is beyond its bytes.
//!
//! Two levels. A [`Frame`](crate::pool::Frame) is enough to drop, send on or redirect. A [`Packet`] has a head as
//! well, an object of its own with what the path learns about it: where it came from, its flow's hash. A frame
//! becomes a packet and a packet a frame without a copy.

mod data;
mod head;
mod heads;
#[allow(clippy::module_inception)]
mod packet;
mod packets;
#[cfg(test)]
mod tests;

pub use heads::{Form, Heads, HeadsConfig, HeadsError, HeadsStats};
pub use packet::Packet;
pub use packets::Packets;
