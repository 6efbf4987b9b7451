//! Heads: the cache they come from, and the array of ready heads above it.
//!
//! ```text
//!   HeadCache::attach, free ◄─► local.rs    the worker's array             HOT, no atomics
//!                             ▲  │ empty, full, another worker's
//!                             │  ▼
//!                           grow.rs ──► the cache, in bulk             COLD
//!                             │
//!                             └──► inbox.rs   of the worker that took the heads: one lock a batch
//! ```
//! This is [brouer15-bulk]'s two-sided array; its earlier forms are [`HeadCacheMode`]s.

mod config;
mod grow;
mod inbox;
mod local;
mod shared;
mod stats;
#[cfg(test)]
mod tests;

use super::head::Head;
use super::packet::Packet;
use super::packets::Packets;
use crate::page::Memory;
use crate::pool::{Batch, Frame, Pool};
use crate::slab::{Attributes, Object};
use crate::sync::{Steps, Worker};
pub use config::{HeadCacheConfig, HeadCacheError, HeadCacheMode};
use shared::Shared;
pub use stats::HeadCacheStats;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The packet heads of one memory.
///
/// Clone the handle freely. Packets stay valid after the last handle is dropped.
#[derive(Clone)]
pub struct HeadCache {
    shared: Arc<Shared>,
}

/// Prints its mode only. [`HeadCache::stats`] has the heads.
impl fmt::Debug for HeadCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadCache").field("mode", &self.shared.mode).finish_non_exhaustive()
    }
}

impl HeadCache {
    /// Makes heads with the settings of today's Linux: an array of 128 for each worker, refilled and freed by 32.
    ///
    /// # Errors
    /// Returns [`HeadCacheError`].
    #[cold]
    pub fn new(memory: &Memory) -> Result<HeadCache, HeadCacheError> {
        HeadCache::with(memory, &HeadCacheConfig::default())
    }

    /// Makes heads with custom settings.
    ///
    /// # Errors
    /// Returns [`HeadCacheError`]; nothing is left behind then.
    #[cold]
    pub fn with(memory: &Memory, config: &HeadCacheConfig) -> Result<HeadCache, HeadCacheError> {
        Ok(HeadCache { shared: Shared::new(memory, config)? })
    }

    /// Allocates an empty packet: a frame of `pool` with a head. Returns None if the pool has no free frame anywhere,
    /// or there is no memory for a head.
    ///
    /// # Cost
    /// The cost of [`Pool::alloc`] and [`HeadCache::attach`].
    ///
    /// ```
    /// # use netmem::{packet::{HeadCache, Packet}, page::{Memory, MemoryConfig}, pool::{Pool, PoolConfig}, sync::Worker};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// let heads = HeadCache::new(&memory)?;
    /// let mut packet = heads.alloc(&mut w, &pool).ok_or("no frame or no head")?;
    /// packet.put_slice(b"hello")?;
    /// heads.free(&mut w, packet);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn alloc(&self, w: &mut Worker, pool: &Pool) -> Option<Packet> {
        let frame = pool.alloc(w)?;
        self.attach(w, frame).map_err(|frame| frame.free(w)).ok()
    }

    /// Gives a frame a head: it becomes a packet.
    ///
    /// Allocate the frame before this call. In `heads.attach(&mut w, pool.alloc(&mut w)?)`, the worker would be
    /// borrowed a second time while the first borrow is still in use. No signature of `attach` can allow that; use
    /// [`HeadCache::alloc`] instead.
    /// ```compile_fail,E0499
    /// # use netmem::{packet::{HeadCache, Packet}, pool::Pool, sync::Worker};
    /// fn alloc(heads: &HeadCache, pool: &Pool, mut w: Worker) -> Option<Packet> {
    ///     heads.attach(&mut w, pool.alloc(&mut w)?).ok()
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns the frame if there is no memory for a head.
    ///
    /// # Cost
    /// A head from the worker's array: no locked instruction, and the head is not read.
    #[inline]
    pub fn attach(&self, w: &mut Worker, frame: Frame) -> Result<Packet, Frame> {
        match self.head(w) {
            Some(head) => Ok(Packet::new(head, frame)),
            None => Err(frame),
        }
    }

    /// Returns a blank head, from the worker's array if it has one.
    #[inline(always)]
    pub(super) fn head(&self, w: &mut Worker) -> Option<Object<Head>> {
        match self.shared.take_hot(w) {
            None => grow::take(&self.shared, w),
            hit => hit,
        }
    }

    /// Attaches heads to frames from the front of `frames`, and appends the packets to `packets`. It stops when frames,
    /// room or heads run out. Returns the number of packets.
    ///
    /// # Cost
    /// The cost of [`HeadCache::attach`] for each frame, with one look at the worker's array for all.
    #[inline]
    pub fn attach_burst(&self, w: &mut Worker, frames: &mut Batch, packets: &mut Packets) -> usize {
        let n = frames.len().min(packets.room());
        let (mut frames, packets) = (frames.drain(), packets.all_mut());
        let mut got = self.shared.take_hot_bulk(w, n, &mut frames, packets);
        if got < n {
            got += grow::take_bulk(&self.shared, w, n - got, &mut frames, packets);
        }
        got
    }

    /// Removes a packet's head: it becomes a frame again, without a copy.
    ///
    /// # Errors
    /// Returns the packet if its bytes are not one frame that belongs to the packet alone. [`HeadCache::make_sendable`]
    /// makes them one.
    #[inline]
    pub fn detach(&self, w: &mut Worker, mut packet: Packet) -> Result<Frame, Packet> {
        match packet.take_frame() {
            Some(frame) => {
                self.keep(w, packet.into_head());
                Ok(frame)
            }
            None => self.detach_odd(w, packet),
        }
    }

    #[cold]
    #[inline(never)]
    fn detach_odd(&self, w: &mut Worker, mut packet: Packet) -> Result<Frame, Packet> {
        // The others that shared the frame may be gone.
        packet.reclaim();
        let Some(frame) = packet.take_frame() else { return Err(packet) };
        self.keep(w, packet.into_head());
        Ok(frame)
    }

    /// Removes the heads of packets from the front of `packets`, and appends their frames to `frames`. It stops when
    /// there is no room, or when a packet's bytes are not one unshared frame. Returns the number of frames.
    #[inline]
    pub fn detach_burst(&self, w: &mut Worker, packets: &mut Packets, frames: &mut Batch) -> usize {
        self.take_bulk(w, packets, frames)
    }

    /// Takes frames off packets, from the front of `packets` until no packet or no room is left. Keeps the heads.
    #[inline(always)]
    fn take_bulk(&self, w: &mut Worker, packets: &mut Packets, frames: &mut Batch) -> usize {
        let mut taken = 0;
        while let Some(origin) = packets.first().map(Packet::origin) {
            let of_origin = |packet: &mut Packet| {
                let is_next = packet.origin().differs(origin) == 0;
                if is_next { packet.take_frame() } else { None }
            };
            let n = frames.extend(packets.iter_mut().map_while(of_origin));
            if n == 0 {
                break;
            }
            if !self.shared.keep_hot_bulk(w, origin, packets.all_mut(), n) {
                grow::keep_run(&self.shared, w, origin, packets.all_mut(), n);
            }
            taken += n;
        }
        taken
    }

    /// Frees a packet: the bytes go back to their source. The head goes to the worker's array or, if another worker
    /// took it, in a batch to that worker's inbox.
    ///
    /// # Cost
    /// A look at the head's cache line, which names its origin. The lines of the bytes are not touched.
    #[inline]
    pub fn free(&self, w: &mut Worker, mut packet: Packet) {
        let Some(frame) = packet.take_frame() else { return self.free_odd(w, packet) };
        // Nothing here panics. The compiler need not provide for unwinding, so the frame stays in a register.
        let frame = ManuallyDrop::new(frame);
        match self.shared.keep_hot(w, packet.into_head()) {
            Ok(()) => ManuallyDrop::into_inner(frame).free(w),
            Err(head) => self.free_missed(w, head, ManuallyDrop::into_inner(frame)),
        }
    }

    /// The head takes the slow path, on which pages may be freed. Code called there may panic, and the frame is freed
    /// all the same.
    #[cold]
    #[inline(never)]
    fn free_missed(&self, w: &mut Worker, head: Object<Head>, frame: Frame) {
        grow::keep(&self.shared, w, head);
        frame.free(w);
    }

    /// Frees packets as [`HeadCache::free`] does, in bulk: first all heads, then all frames. `packets` is empty
    /// afterwards.
    #[inline]
    pub fn free_bulk(&self, w: &mut Worker, packets: &mut Packets) {
        let mut frames = Batch::new();
        self.take_bulk(w, packets, &mut frames);
        if !packets.is_empty() {
            self.free_rest(w, packets, &mut frames);
        }
        frames.free(w);
    }

    /// The slow path: some packets are more than a head and a frame.
    #[cold]
    #[inline(never)]
    fn free_rest(&self, w: &mut Worker, packets: &mut Packets, frames: &mut Batch) {
        let mut steps = Steps::new();
        while let Some(odd) = packets.pop_first() {
            steps.run(|| self.free_odd(w, odd));
            steps.run(|| _ = self.take_bulk(w, packets, frames));
        }
        steps.end();
    }

    /// Frees a packet that is more than a head and a frame. Giving back memory of others runs their code, which may
    /// panic. All parts are freed all the same.
    #[cold]
    #[inline(never)]
    fn free_odd(&self, w: &mut Worker, packet: Packet) {
        let (mut next, mut steps) = (Some(packet), Steps::new());
        while let Some(mut part) = next {
            next = part.take_next();
            let data = part.take_data();
            steps.run(|| data.free(w));
            steps.run(|| self.keep(w, part.into_head()));
        }
        steps.end();
    }

    /// Ends a poll round: sends heads that wait to be flushed or returned to their workers.
    ///
    /// # Cost
    /// One call, if nothing waits.
    pub fn end_round(&self, w: &mut Worker) {
        grow::end_round(&self.shared, w);
    }

    /// Changes a tunable with immediate effect: `ready_size`, `ready_refill`, `ready_free`, `defer_max`, or a tunable
    /// of the cache. A smaller size also reduces refill and free.
    ///
    /// # Errors
    /// Returns [`HeadCacheError`] if the name is unknown or the value out of range; nothing changes then.
    #[cold]
    pub fn set(&self, name: &str, value: usize) -> Result<(), HeadCacheError> {
        self.shared.set(name, value)
    }

    /// The value of a tunable.
    ///
    /// # Errors
    /// Returns [`HeadCacheError`] if the name is unknown.
    pub fn get(&self, name: &str) -> Result<usize, HeadCacheError> {
        self.shared.get(name)
    }

    /// Gives the free heads that workers keep back to the cache, and the cache's empty slabs to the memory. The heads of
    /// a worker that is in the middle of a call for longer than a thief waits stay with it.
    #[cold]
    pub fn shrink(&self) {
        grow::shrink(&self.shared);
    }

    /// The free heads that a worker keeps above the cache.
    pub fn mode(&self) -> HeadCacheMode {
        self.shared.mode
    }

    /// The counters.
    pub fn stats(&self) -> HeadCacheStats {
        self.shared.stats()
    }

    /// All attributes of the cache below, as SLUB shows them.
    pub fn attributes(&self) -> Attributes {
        self.shared.cache.attributes()
    }

    /// Keeps a blank head.
    #[inline(always)]
    pub(super) fn keep(&self, w: &mut Worker, head: Object<Head>) {
        if let Err(head) = self.shared.keep_hot(w, head) {
            grow::keep(&self.shared, w, head);
        }
    }
}
