//! The stage `pool` makes frames out of pages, with one pool for each receive queue and a remote free queue.
//!
//! ```text
//!   Pool::alloc ◄─ local.rs    the owner's LIFO                                  HOT, no atomics
//!                   ▲  ▲
//!                   │  └─ grow.rs   miss: remote free queue, then the depot, then new pages   COLD
//!   freed by the    │
//!   owner ──────────┘
//!   freed elsewhere ──► remote_free.rs the remote free queue: a ring, and past it a stack    one CAS a batch
//! ```
//! When pages are to leave (a smaller pool, another node, the reserve), every frame takes the cold path, where it is
//! checked. The owner's cache has no room then (`depot.rs`, `watch.rs`).
//!
//! A frame has one holder ([`Frame`]), or several holders that read it ([`SharedFrame`]), or is cut into pieces with a
//! holder each ([`Fragment`]). The last holder frees it.
//!
//! A pool keeps its pages and their device mapping until it is closed and the last frame is freed. One table of the
//! process (`frame_table.rs`) maps each frame to its pool. So a frame can be freed anywhere, on any worker or without
//! one.

#[allow(unsafe_code)]
mod batch;
mod colour;
mod config;
mod desc;
mod dma;
mod dma_sync;
#[allow(unsafe_code)]
mod fragment;
#[allow(unsafe_code)]
mod frame;
mod grow;
mod remote_free;
mod inflight;
mod ledger;
mod local;
#[allow(unsafe_code)]
mod metadata;
mod offload;
#[allow(unsafe_code)]
mod origin;
mod owner;
mod frame_state;
#[allow(clippy::module_inception)]
mod pool;
mod shrinker;
mod put;
mod renewal;
mod run;
#[allow(unsafe_code)]
mod share;
#[allow(unsafe_code)]
mod shared;
mod stats;
mod depot;
#[cfg(test)]
pub(crate) mod tests;
mod timestamp;
mod trace;
#[allow(unsafe_code)]
mod traces;
mod tuning;
mod watch;
#[allow(unsafe_code)]
mod frame_table;

pub use crate::sys::table::TableError;
pub use batch::{Batch, Drain, IntoFrames};
pub(crate) use batch::{HandOver, LINE_MAX, Line};
pub use config::{PoolConfig, PoolError};
#[cfg(feature = "xdp")]
pub(crate) use desc::Desc;
pub(crate) use desc::METADATA_LEN;
pub use desc::NoRoom;
pub use dma::{DmaMap, DmaMapper};
pub use fragment::{Fragment, Fragments};
pub use frame::Frame;
pub use frame_state::FrameState;
pub use ledger::{Holder, Ledger, StillOut};
pub(crate) use origin::Origin;
pub use pool::Pool;
pub(crate) use renewal::Renewal;
pub(crate) use run::RUN;
pub use share::SharedFrame;
pub use shrinker::Shrinker;
pub use stats::{AllocStats, PoolStats, RecycleStats};
