//! This crate turns frames of [netmem] into [`Bytes`](bytes::Bytes), without a copy.
//!
//! A [`Lender`] gives readers the data of a frame as `Bytes`, which any thread may clone, slice, read and drop. Readers
//! read the frame in place, where the device wrote it. It is freed to its pool with the last reader, on any thread,
//! even if port, pool and memory are already closed.
//!
//! # Memory that readers pin
//! A reader that keeps four bytes pins the whole frame. A pool whose frames are all pinned receives nothing. So a
//! lender has a bound: the maximum number of bytes of frames that all readers together may pin.
//!
//! ```text
//!                        │ below the bound           │ bound reached
//!   Lender::lend         │ the frame itself          │ a copy; the frame is free at once
//!   Lender::part, small  │ shared with the whole     │ a copy
//!   Lender::part, others │ shared with the whole     │ shared with the whole
//! ```
//! A part is small if the frame is more than [`CopyBreak::BOUND`](netmem::packet::CopyBreak::BOUND) times as large as
//! the part: up to 255 bytes of a frame of 2 KiB. [`CopyBreak`](netmem::packet::CopyBreak) copies kept packets by the
//! same rule.
//!
//! Copies lie in memory of the program's allocator. Readers that keep lent bytes cannot exhaust the pool. The program
//! itself must bound how much of its own memory they keep.
//!
//! # The other direction
//! [`append`] writes a [`Buf`](bytes::Buf) behind a frame's data, with headroom before it for headers. To send `Bytes`
//! without copying them into a frame, let a packet carry them: `External::new(bytes, drop)`
//! ([`netmem::packet::External`]).
//!
//! ```
//! use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
//! use netmem_bytes::{Lender, append};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
//! let mut w = memory.worker()?;
//! let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..Default::default() })?;
//! let lender = Lender::new(&pool, 32 * pool.frame_size()); // half of the pool, at most
//!
//! let mut frame = pool.alloc(&mut w).ok_or("no frame")?; // or one that a port received
//! assert_eq!(append(&mut frame, &mut &b"GET /index.html"[..]), 15);
//! let request = lender.lend(&mut w, frame.share());
//! let path = lender.part(&request, 4..);
//! drop(request);
//! let reader = std::thread::spawn(move || assert_eq!(path, "/index.html")); // no worker, no copy
//! reader.join().map_err(|_| "the reader")?;
//! assert!(pool.ledger().all_freed());
//! # Ok(())
//! # }
//! ```

mod account;
mod append;
mod lender;

pub use append::append;
pub use lender::Lender;
