//! The `bounce` port wraps another port, whose device then sees only frames of a pool of its own.
//!
//! ```text
//!   rx  ◄─ frames of the own pool ◄─ the inner port      not copied: the receiver frees it to that pool
//!   tx  ─► copied into frames of the own pool ─► the inner port;   complete gives back the original frames
//! ```
//! A device that reads frames in place can read all memory that it was given. If that memory is its own, it sees only
//! its own packets: those that it sent and those that were sent to it. So frames can be lent to a peer of another user
//! ([`memif`](super::memif)), and it does not see other ports' packets. The kernel calls such a pool bounce buffers
//! (Documentation/core-api/swiotlb.rst).

mod fill;
mod originals;
#[cfg(test)]
mod tests;
mod tx;

use super::wrap::WrapPort;
use super::{Port, PortCounters, PortState};
use crate::pool::{Batch, Frame, Pool};
use crate::sync::Worker;
use crate::sys::fork::Birthplace;
use originals::Originals;
use std::fmt;
use std::sync::Arc;

/// A port around another port, whose device sees only frames of one pool. See [the module](self).
///
/// Its name and its counters are those of the inner port. `copied` includes the copies that are made here.
///
/// # Cost
/// A transmitted frame is copied once. If a worker of another memory frees a received frame, that costs as much as from another core.
///
/// ```
/// use netmem::port::bounce::BouncePort;
/// use netmem::port::mem::{MemConfig, MemPort};
/// use netmem::{Batch, Complete, Fill, Memory, MemoryConfig, Pool, PoolConfig, Tx};
///
/// let config = MemoryConfig { bytes: 2 << 20, ..Default::default() };
/// let memory = Memory::new(&config)?;
/// let mut w = memory.worker()?;
/// let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
///
/// let own = Memory::new(&config)?; // what the device may see
/// let mut worker = own.worker()?;
/// let own_pool = Pool::new(&own, &mut worker, &PoolConfig { frames: 256, ..Default::default() })?;
/// let (within, mut device) = MemPort::pair("0", &MemConfig { coalesce: 1, ..Default::default() })?;
/// let mut port = BouncePort::new(Box::new(within), worker, own_pool.clone());
///
/// port.refill(&mut w, &pool);
/// assert_eq!((own_pool.ledger().posted, pool.ledger().posted), (128, 0), "the other half is for what is sent");
///
/// let mut frames = Batch::new();
/// let mut frame = pool.alloc(&mut w).ok_or("no frame is free")?;
/// frame.put_slice(b"hello")?;
/// frames.extend([frame]);
/// assert_eq!(port.tx(&mut w, &mut frames), 1);
/// device.collect(1, |sent| assert_eq!(sent, b"hello"));
/// assert_eq!(port.complete(&mut w, &mut frames), 1);
/// frames.free(&mut w);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BouncePort {
    within: Box<dyn Port>,
    /// A worker of the pool's memory, which makes all calls of the inner port.
    worker: Worker,
    pool: Pool,
    /// The frames whose copies the device has. Each frame is posted in the ledger of its own pool.
    originals: Originals,
    /// The inner port had no room for all offered frames, and has completed nothing since.
    is_full: bool,
    /// The pool had no frame for all offered frames.
    is_dry: bool,
    /// A copy of the port in a child process copies no frames: the memory may be mapped by a peer.
    birthplace: Birthplace,
    counters: Arc<PortCounters>,
}

impl BouncePort {
    /// Wraps `within`. From now on its device sees the frames of `pool` and no others. `worker` owns the pool and
    /// belongs to the same memory. At most half of the pool is posted for reception; the rest is for transmission. A
    /// frame that is longer than the pool's frames is never sent. A frame that `within` cannot carry for another reason
    /// is offered to it again and again.
    #[cold]
    pub fn new(within: Box<dyn Port>, worker: Worker, pool: Pool) -> BouncePort {
        let (originals, counters, birthplace) =
            (Originals::new(&pool), within.counters(), Birthplace::here());
        BouncePort { within, worker, pool, originals, is_full: false, is_dry: false, birthplace, counters }
    }
}

impl WrapPort for BouncePort {
    fn within(&self) -> &dyn Port {
        &*self.within
    }

    fn within_mut(&mut self) -> &mut dyn Port {
        &mut *self.within
    }

    fn fill(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        self.refuse(frames);
        0
    }

    /// Fills frames of the port's own pool, whichever pool is given.
    #[inline]
    fn refill_to(&mut self, _w: &mut Worker, _pool: &Pool, most: usize) -> usize {
        self.refill_own(most)
    }

    fn lacks_frames(&mut self, most: usize) -> bool {
        self.lacks_own(most)
    }

    fn own_pool(&self) -> Option<&Pool> {
        Some(&self.pool)
    }

    /// They are not received into.
    fn takes_frames_of(&self, _pool: &Pool) -> bool {
        true
    }

    #[inline]
    fn rx(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        self.within.rx(&mut self.worker, frames)
    }

    #[inline]
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.send(w, frames)
    }

    /// True also if the pool is dry, since frames return to it.
    fn can_retry_tx(&self) -> bool {
        self.within.can_retry_tx() || self.is_dry && self.within.state() == PortState::Up
    }

    /// A copy does not carry it.
    fn carries_offloads(&self) -> bool {
        false
    }

    fn take_unsendable(&self, frames: &mut Batch) -> Batch {
        self.set_unsendable_aside(frames)
    }

    fn is_too_long(&self, frame: &Frame) -> bool {
        frame.len() > self.pool.frame_size()
    }

    #[inline]
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.take_sent(w, frames)
    }
}

impl fmt::Debug for BouncePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BouncePort")
            .field("name", &self.within.name())
            .field("pool", &self.pool.name())
            .finish_non_exhaustive()
    }
}
