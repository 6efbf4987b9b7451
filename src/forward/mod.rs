//! Stage `forward`: the poll loop, and what becomes of a frame in it.
//!
//! [`poll`](Forwarder::poll) is the loop, on one screen; a [`Decide`] says what becomes of each frame, one of one's own or
//! [`CrossConnect`], [`Reflect`], [`DropAll`], [`PassAll`] (the crate `netmem-router` has a router); [`Reason`] names every reason for
//! which a frame is dropped; [`filter`] holds the rules of the full path; [`local_queue`] is where passed frames go, a [`tap`] sees what was
//! sent, a [`recorder`] what came and what became of it; [`idle`](Idle) is what a worker does without work, [`steered`](Steering) how workers share theirs.

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
pub mod tap;
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
