//! The stage `steer` hands lists of frames to other workers.
//!
//! ```text
//!   port rx ─► Outbox::steer ─► list ─► Outbox::flush ─► lane ─► Inbox::take ─► forward, on the other worker
//!                  │                    (round's end)
//!                  ├─ own frames: forwarded here
//!                  └─ no room in the inbox: they stay in the batch
//! ```
//! Each ordered pair of workers has a lane of its own: a bounded ring of lines. Each line is one cache line with up to
//! seven frames. So senders never wait for each other, whatever one of them does, and no sender executes a locked
//! instruction. The ledger of the frames' pool counts frames in a lane as queued.
//!
//! **No frame is lost** unless the caller asks for it. Frames for which an inbox has no room stay in the caller's
//! batch, in order, and are offered again in the next round. The worker then receives only as many further frames as
//! there is room for. [`Outbox::room`] returns beforehand how many fit.
//! ```
//! use netmem::page::{Memory, MemoryConfig};
//! use netmem::pool::{Batch, Pool, PoolConfig};
//! use netmem::steer::{Mesh, MeshConfig, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # const FRAMES: u64 = 5_000;
//! let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 2, ..Default::default() })?;
//! let (mut first, mut second) = (memory.worker()?, memory.worker()?);
//! let pool = Pool::new(&memory, &mut first, &PoolConfig { frames: 2048, ..Default::default() })?;
//! let (mesh, mut ends) = Mesh::new(&MeshConfig::default())?; // two workers; an outbox and an inbox for each
//! let (_, mut inbox) = ends.pop().ok_or("a second worker")?;
//! let (mut outbox, _) = ends.pop().ok_or("a first worker")?;
//! std::thread::scope(|scope| {
//!     scope.spawn(move || {
//!         let (mut batch, mut sent) = (Batch::new(), 0);
//!         while sent < FRAMES {
//!             let missing = batch.room().min((FRAMES - sent) as usize - batch.len());
//!             pool.alloc_burst(&mut first, &mut batch, missing); // received, in a real one: behind what stayed
//!             sent += outbox.hand_off(&mut first, 1, Source::default(), &mut batch) as u64;
//!             outbox.flush(&mut first);
//!             std::thread::yield_now();
//!         }
//!     });
//!     scope.spawn(move || {
//!         let (mut batch, mut received) = (Batch::new(), 0);
//!         while received < FRAMES {
//!             inbox.take(&mut second, &mut batch); // done with what was taken before
//!             received += batch.len() as u64;
//!             batch.free(&mut second); // freed to the first worker's pool
//!             std::thread::yield_now();
//!         }
//!     });
//! });
//! let second = mesh.stats()[1];
//! assert_eq!((second.dequeued, second.drops.total()), (FRAMES, 0));
//! # Ok(())
//! # }
//! ```
//! Frames are lost in three ways, each counted ([`InboxStats`]):
//! - [`Outbox::steer_or_drop`] and [`Outbox::hand_off_or_drop`] drop frames that do not fit.
//! - A [flow limit](MeshConfig::flow_limit), if one is set, drops steered frames of flows and ports that fill an inbox.
//! - An inbox or an outbox is dropped with frames inside; [`Inbox::hand_over`] and [`Outbox::flush_all`] would have
//!   passed them on.
//!
//! **Order.** Frames of a flow that one worker received are forwarded in that order under every [`Policy`] except round
//! robin. This holds whichever worker forwards them, and also while the policy changes. A flow goes to another worker
//! only when its old one is done with it (the flow table), or behind a barrier that waits for that (a change of the
//! policy). The reader marks frames as *done* by asking for more ([`Inbox::take`], [`Inbox::finish`]).
//!
//! ```
//! use netmem::page::{Memory, MemoryConfig};
//! use netmem::pool::{Batch, Pool, PoolConfig};
//! use netmem::steer::{Mesh, MeshConfig, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 2, ..Default::default() })?;
//! # let (mut first, mut second) = (memory.worker()?, memory.worker()?);
//! # let pool = Pool::new(&memory, &mut first, &PoolConfig { frames: 256, ..Default::default() })?;
//! // What is received in queue 0 is the second worker's; other frames stay with the worker
//! // that received them.
//! let (mesh, mut ends) = Mesh::new(&MeshConfig { policy: "map=rx0:1".parse()?, ..Default::default() })?;
//! # let (_, mut inbox) = ends.pop().ok_or("a second worker")?;
//! # let (mut outbox, _) = ends.pop().ok_or("a first worker")?;
//! let (mut batch, mut own) = (Batch::new(), Batch::new());
//! let from = Source { port: 0, queue: 0 };
//! pool.alloc_burst(&mut first, &mut batch, 32);
//! assert_eq!(outbox.steer(&mut first, from, &mut batch, &mut own), 32);
//! assert!(own.is_empty(), "all are for the second worker");
//! outbox.flush(&mut first);
//! assert_eq!(pool.ledger().queued, 32);
//!
//! assert_eq!(inbox.take(&mut second, &mut batch), Some(from));
//! batch.free(&mut second);
//! inbox.finish();
//! assert_eq!(mesh.stats()[1].dequeued, 32);
//! # Ok(())
//! # }
//! ```

mod config;
mod consumers;
mod counters;
mod flow;
mod flows;
mod inbox;
mod label;
mod lane;
mod limit;
mod mesh;
mod order;
mod outbox;
mod outgoing;
mod policy;
mod queue;
mod toeplitz;

pub use config::{FlowLimitConfig, MeshConfig, MeshError, RecordedQueue};
pub use consumers::FlowConsumers;
pub use counters::{HandOffDrops, InboxStats};
pub use flow::FlowKey;
pub use inbox::Inbox;
pub use label::Source;
pub use mesh::{Ends, Mesh};
pub use order::{OrderChecker, OrderError, OrderStats};
pub use outbox::Outbox;
pub use policy::{Policy, PolicyError, QueueMap, Targets};
pub use queue::tx_queue;
pub use toeplitz::{DEFAULT_KEY, KEY_LEN, SYMMETRIC_KEY, Toeplitz, random_key};

#[cfg(test)]
mod tests;
