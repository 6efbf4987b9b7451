//! Stage `forward`: the poll loop, and what becomes of a frame in it.
//!
//! [`poll`](Forwarder::poll) is the loop, on one screen; [`ip`] decides; [`route`] finds the next hop;
//! [`verdict`] names every reason for which a frame is dropped, and [`icmp`] tells its sender; [`filter`] holds the rules of the full path; [`holder`]
//! is where passed frames go, a [`tap`] sees what was sent; frames [wait](Waiting) for who knows their next hop's address; [`idle`](Idle) is what a worker does without work,
//! [`steered`](Steering) how workers share theirs; [`traffic`] is the built-in generator's.

pub mod filter;
pub mod holder;
pub mod icmp;
mod idle;
pub mod ip;
mod lane;
mod latency;
mod meters;
mod mode;
mod packets;
mod poll;
mod position;
pub mod route;
mod steered;
pub mod tap;
#[cfg(test)]
mod tests;
pub mod traffic;
pub mod verdict;
mod waiting;

pub use idle::{Idle, IdleControl};
pub use latency::{Latency, LatencyQuantiles};
pub use meters::Meters;
pub use mode::{ForwardError, Free, Mode};
pub use packets::{PacketPath, Protocols};
pub use poll::Forwarder;
pub use position::{Call, Position};
pub use steered::{Steering, SteeringControl};
pub use waiting::{Waiting, Wanted, waiting};
