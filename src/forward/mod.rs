//! The stage `forward` has the poll loop and the decisions about frames.
//!
//! - [`poll`](Forwarder::poll) is the loop, on one screen.
//! - A [`Decide`] decides about each frame: a custom one, or [`CrossConnect`], [`Reflect`], [`DropAll`], [`PassAll`].
//!   The crate `netmem-router` contains a router.
//! - [`Reason`] names every reason for which a frame is dropped.
//! - [`filter`] holds the rules of the full path.
//! - [`local_queue`] receives passed frames.
//! - A [`mirror`] gets sent frames. A [`recorder`] keeps received packets and their verdicts.
//! - [`Idle`] is the mode of a worker without work.
//! - [`Steering`] shares packets between workers.

mod again;
mod decide;
mod decisions;
mod error;
pub mod filter;
mod free;
pub mod local_queue;
mod idle;
mod egress;
mod latency;
mod lose;
mod meters;
mod offload;
mod packets;
mod path;
mod poll;
mod position;
pub mod recorder;
mod round_clock;
mod steered;
pub mod mirror;
mod verdict;

pub use decide::{Decide, Pieces, Replies, Verdicts};
pub use decisions::{CrossConnect, DropAll, PassAll, Reflect, Unpaired};
pub use error::ForwardError;
pub use free::Free;
pub use idle::{Idle, IdleControl};
pub use latency::{Latency, LatencyQuantiles};
pub use meters::Meters;
pub use packets::{PacketPath, Protocols};
pub use poll::Forwarder;
pub use position::{Call, Position};
pub use steered::{Steering, SteeringControl};
pub use verdict::{Drops, Reason, Verdict};
