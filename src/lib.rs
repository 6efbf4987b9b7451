//! netmem is the memory system of a packet dataplane in user space.
//!
//! It manages pages, objects, DMA-mapped frames and packet buffers. Frames travel between devices and cores, and return
//! to the pool that they came from.
//!
//! ```text
//!  OS memory ─ sys ─► page ─► pool ──────► packet ──► port fill ─► [device] ─► port rx ─► steer ───┐
//!                       └──► slab (heads) ──┘                                                      ▼
//!    free ◄─ pool (owner: its cache · anyone else: the remote free queue) ◄─ port complete ◄─ [device] ◄─ forward ─► port tx
//! ```
//!
//! The modules below are the stages, in the order of that path. A stage uses only the stages above it in this file; a
//! test checks this. In each storage stage, `local.rs` is the hot file (one worker, no shared atomics), `shared.rs` has
//! the state that several cores use, and `grow.rs` allocates from the stage below. In each port, `fill.rs`, `rx.rs`,
//! `tx.rs` and `complete.rs` are the queues of the device.
//!
//! The guide in `docs/guide` of the repository goes from here to a dataplane on several cores. Most chapters have a
//! complete program.
//!
//! # First steps
//! ```
//! use netmem::{Batch, Memory, MemoryConfig, Pool, PoolConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
//! let mut w = memory.worker()?; // `&mut w` proves that no other thread is at this worker's caches
//! let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
//!
//! let mut frame = pool.alloc(&mut w).ok_or("no frame")?;
//! frame.put(5)?;
//! frame.data_mut().copy_from_slice(b"hello");
//! drop(frame); // a frame is freed to its pool wherever it is dropped
//!
//! let mut batch = Batch::new();
//! assert_eq!(pool.alloc_burst(&mut w, &mut batch, 32), 32);
//! batch.free(&mut w); // and faster in bulk
//! assert!(pool.ledger().all_freed());
//! # Ok(())
//! # }
//! ```
//! # Features
//! Each kind of port is a feature: `xdp`, `memif`, `af-packet`, `tap` and `pcap` (with traces). All of them are on by
//! default. `statistics` counts which node pages come from, and is also on by default. `comparisons` and `slab-debug` are
//! for measurements and for finding a misuse.
#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]

#[cfg(test)]
mod rounds;
pub mod limits;
#[allow(unsafe_code)]
mod sys;
pub mod sync;
pub mod stats;
pub mod ring;
pub mod wire;
pub mod page;
pub mod slab;
pub mod pool;
pub mod packet;
pub mod steer;
pub mod port;
pub mod forward;
#[doc(hidden)]
pub mod system;

// The items that a first program needs. All other items are in their stages.
pub use forward::{Decide, Forwarder, Reason, Verdict};
pub use packet::{HeadCache, Packet, Packets};
pub use page::{Memory, MemoryConfig};
pub use pool::{Batch, DmaMap, Frame, Ledger, Pool, PoolConfig, SharedFrame};
#[cfg(feature = "af-packet")]
pub use port::af_packet::AfPacketPort;
pub use port::mem::MemPort;
#[cfg(feature = "memif")]
pub use port::memif::MemifPort;
#[cfg(feature = "pcap")]
pub use port::pcap::PcapPort;
#[cfg(feature = "tap")]
pub use port::tap::TapPort;
#[cfg(feature = "xdp")]
pub use port::xdp::{Umem, XdpPort};
pub use port::{Complete, Fill, Port, PortState, Rx, Tx, Wake};
pub use steer::Mesh;
pub use sync::Worker;

/// Runs the snippets of the README and the guide as tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/guide/README.md")]
    mod guide {}
    #[doc = include_str!("../docs/guide/memory.md")]
    mod memory {}
    #[doc = include_str!("../docs/guide/ledger.md")]
    mod ledger {}
    #[doc = include_str!("../docs/guide/ports.md")]
    mod ports {}
    #[doc = include_str!("../docs/guide/loop.md")]
    mod round {}
    #[doc = include_str!("../docs/guide/endpoint.md")]
    mod endpoint {}
    #[doc = include_str!("../docs/guide/packets.md")]
    mod packets {}
    #[doc = include_str!("../docs/guide/cores.md")]
    mod cores {}
    #[doc = include_str!("../docs/guide/decision.md")]
    mod decision {}
    #[doc = include_str!("../docs/guide/port.md")]
    mod port {}
    #[doc = include_str!("../docs/guide/tuning.md")]
    mod tuning {}
    #[doc = include_str!("../docs/guide/hardening.md")]
    mod hardening {}
    #[doc = include_str!("../docs/guide/moving.md")]
    mod moving {}
    #[doc = include_str!("../docs/guide/reference.md")]
    mod reference {}
}
