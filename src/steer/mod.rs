//! Stage `steer`: lists of frames travel to other workers.
//!
//! ```text
//!   port rx ─► Outbox::steer ─► list ─► Outbox::flush ─► lane ─► Inbox::take ─► forward, on the other worker
//!                  │                    (round's end)     │
//!                  └─ own frames stay                     └─ full: dropped and counted here, freed in bulk
//! ```
//! Between any two workers lies a lane of its own: a bounded ring of lines, each one cache line with up to six frames. So
//! senders never wait for each other, whatever one of them does, and none takes a locked instruction. What lies in a lane
//! counts as queued in the ledger of its frames' pool.
//!
//! **Order.** Frames of a flow that one worker received are forwarded in that order under every [`Policy`] but the round
//! robin, whoever forwards them and also while the policy changes: a flow goes to another worker only when its old one is
//! done with it (the flow table), or behind a barrier that waits for that (a change of the policy). *Done* is what the
//! reader says by coming back for more ([`Inbox::take`], [`Inbox::finish`]).
//!
//! ```
//! use netmem::page::{Memory, MemoryConfig};
//! use netmem::pool::{Batch, Pool, PoolConfig};
//! use netmem::steer::{Mesh, MeshConfig, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 2, ..Default::default() })?;
//! let (mut first, mut second) = (memory.worker()?, memory.worker()?);
//! let pool = Pool::new(&memory, &mut first, &PoolConfig { frames: 256, ..Default::default() })?;
//! let (mesh, mut ends) = Mesh::new(&MeshConfig { policy: "map=rx0:1".parse()?, ..Default::default() })?;
//! let (_, mut inbox) = ends.pop().ok_or("a second worker")?; // each pair may go to a thread of its own
//! let (mut outbox, _) = ends.pop().ok_or("a first worker")?;
//!
//! let (mut batch, from) = (Batch::new(), Source { port: 0, queue: 0 });
//! pool.alloc_burst(&mut first, &mut batch, 32);
//! outbox.steer(&mut first, from, &mut batch);
//! assert!(batch.is_empty(), "all are for the second worker");
//! outbox.flush(&mut first);
//! assert_eq!(pool.ledger().queued, 32);
//!
//! assert_eq!(inbox.take(&mut second, &mut batch), Some(from));
//! batch.free(&mut second); // home, to the first worker's pool
//! inbox.finish();
//! assert_eq!(mesh.stats()[1].received, 32);
//! # Ok(())
//! # }
//! ```

mod config;
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

pub use config::{FlowLimitConfig, MeshConfig, MeshError, Record};
pub use counters::{Drops, WorkerStats};
pub use flow::FlowKey;
pub use inbox::Inbox;
pub use label::Source;
pub use mesh::{Ends, Mesh};
pub use order::{OrderChecker, OrderCounts, OrderError};
pub use outbox::Outbox;
pub use policy::{Policy, PolicyError, QueueMap, Targets};
pub use queue::tx_queue;
pub use toeplitz::{DEFAULT_KEY, KEY_LEN, SYMMETRIC_KEY, Toeplitz};

#[cfg(test)]
mod tests;
