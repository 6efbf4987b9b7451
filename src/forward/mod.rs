//! Stage `forward`: the poll loop, and what becomes of a frame in it.
//!
//! [`poll`](Forwarder::poll) is the loop, on one screen; [`ip`] decides; [`route`] finds the next hop;
//! [`verdict`] names every reason for which a frame is dropped; [`traffic`] is the built-in generator's.

pub mod ip;
mod meters;
mod poll;
pub mod route;
#[cfg(test)]
mod tests;
pub mod traffic;
pub mod verdict;

pub use meters::Meters;
pub use poll::{ForwardError, Forwarder, Free, Mode};
