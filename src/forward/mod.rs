//! Stage `forward`: the poll loop, and what becomes of a frame in it.
//!
//! [`poll`](Forwarder::poll) is the loop, on one screen; [`ip`] decides; [`route`] finds the next hop;
//! [`verdict`] names every reason for which a frame is dropped; [`filter`] holds the rules of the full path; [`holder`] is where passed frames go; [`traffic`] is
//! the built-in generator's.

pub mod filter;
mod full;
pub mod holder;
pub mod ip;
mod lane;
mod meters;
mod mode;
mod poll;
pub mod route;
#[cfg(test)]
mod tests;
pub mod traffic;
pub mod verdict;

pub use full::{FullPath, Protocols};
pub use meters::Meters;
pub use mode::{ForwardError, Free, Mode};
pub use poll::Forwarder;
