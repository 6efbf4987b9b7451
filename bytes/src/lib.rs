//! Frames of [netmem] as [`Bytes`](bytes::Bytes), without a copy.
//!
//! A [`Lender`] gives the data of a frame to readers, as `Bytes` that any thread may clone, slice, read and drop. The frame is read where
//! the device wrote it, and goes home to its pool with the last reader, whichever thread that is on and whatever is closed by then: port,
//! pool and memory.
//!
//! # What readers pin
//! Four bytes that are kept pin the whole frame that they lie in, and a pool whose frames are all pinned receives nothing. So a lender has
//! a bound: bytes of frames that all readers together may pin.
//!
//! ```text
//!                        │ below the bound           │ bound reached
//!   Lender::lend         │ the frame itself          │ a copy; the frame is free at once
//!   Lender::part, small  │ shares what it is cut of  │ a copy
//!   Lender::part, others │ shares what it is cut of  │ shares what it is cut of
//! ```
//! A part is small if the frame is more than [`CopyBreak::BOUND`](netmem::packet::CopyBreak::BOUND) times as large as the part: up to 255 bytes of a
//! frame of 2 KiB. That is the rule by which [`CopyBreak`](netmem::packet::CopyBreak) copies packets that are kept.
//!
//! Copies lie in memory of the program's allocator. The pool is safe from readers that keep what they were lent; how much of the program's memory
//! they keep is theirs to bound.
//!
//! # The other direction
//! [`append`] writes a [`Buf`](bytes::Buf) behind a frame's data, with the headroom before it for headers. To send `Bytes` without a copy
//! into a frame of one's own, a packet carries them: `External::new(bytes, drop)` ([`netmem::packet::External`]).
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
//! append(&mut frame, &mut &b"GET /index.html"[..]);
//! let request = lender.lend(&mut w, frame.share());
//! let path = lender.part(&request, 4..);
//! drop(request);
//! let reader = std::thread::spawn(move || assert_eq!(path, "/index.html")); // no worker, no copy
//! reader.join().map_err(|_| "the reader")?;
//! assert!(pool.ledger().all_home());
//! # Ok(())
//! # }
//! ```

mod account;
mod append;
mod lender;

pub use append::append;
pub use lender::Lender;
