//! Heads: where they come from, and the array of ready ones above their cache.
//!
//! ```text
//!   HeadCache::attach, free ◄─► local.rs    the worker's array             HOT, no atomics
//!                             ▲  │ empty, full, another worker's
//!                             │  ▼
//!                           grow.rs ──► the cache, in bulk             COLD
//!                             │
//!                             └──► inbox.rs   of the worker that took the heads: one lock a batch
//! ```
//! [brouer15-bulk]'s two-sided array; its earlier forms are [`HeadCacheMode`]s.

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
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The packet heads of one memory.
///
/// Clone the handle freely. Packets that are out when the last one goes stay good.
#[derive(Debug, Clone)]
pub struct HeadCache {
    shared: Arc<Shared>,
}

impl HeadCache {
    /// Makes them as Linux has them today: an array of 128 for each worker, refilled and freed by 32.
    ///
    /// # Errors
    /// [`HeadCacheError`].
    #[cold]
    pub fn new(memory: &Memory) -> Result<HeadCache, HeadCacheError> {
        HeadCache::with(memory, &HeadCacheConfig::default())
    }

    /// Makes them with settings of one's own.
    ///
    /// # Errors
    /// [`HeadCacheError`]; nothing is left behind then.
    #[cold]
    pub fn with(memory: &Memory, config: &HeadCacheConfig) -> Result<HeadCache, HeadCacheError> {
        Ok(HeadCache { shared: Shared::new(memory, config)? })
    }

    /// An empty packet: a frame of `pool` with a head. None when the pool has no free frame anywhere, or there is no memory for
    /// a head.
    ///
    /// # Cost
    /// That of [`Pool::alloc`] and [`HeadCache::attach`].
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
    /// The frame is there before the call. `heads.attach(&mut w, pool.alloc(&mut w)?)` would borrow the worker a second time
    /// while the first borrow, made before it, is still to be used, which no signature of `attach` can allow; for that
    /// there is [`HeadCache::alloc`].
    /// ```compile_fail,E0499
    /// # use netmem::{packet::{HeadCache, Packet}, pool::Pool, sync::Worker};
    /// fn alloc(heads: &HeadCache, pool: &Pool, mut w: Worker) -> Option<Packet> {
    ///     heads.attach(&mut w, pool.alloc(&mut w)?).ok()
    /// }
    /// ```
    ///
    /// # Errors
    /// The frame, when there is no memory for a head.
    ///
    /// # Cost
    /// A head from the worker's array: no locked instruction, and the head is not looked at.
    #[inline]
    pub fn attach(&self, w: &mut Worker, frame: Frame) -> Result<Packet, Frame> {
        match self.head(w) {
            Some(head) => Ok(Packet::new(head, frame)),
            None => Err(frame),
        }
    }

    /// A blank head, from the worker's array if that has one.
    #[inline(always)]
    pub(super) fn head(&self, w: &mut Worker) -> Option<Object<Head>> {
        match self.shared.take_hot(w) {
            None => grow::take(&self.shared, w),
            hit => hit,
        }
    }

    /// Gives frames from the front of `frames` heads and appends them to `packets`, as far as there are frames, room and
    /// heads; returns how many.
    ///
    /// # Cost
    /// As [`HeadCache::attach`], with one look at the worker's array for all.
    #[inline]
    pub fn attach_bulk(&self, w: &mut Worker, frames: &mut Batch, packets: &mut Packets) -> usize {
        let n = frames.len().min(packets.room());
        let (mut frames, packets) = (frames.drain(), packets.all_mut());
        let mut got = self.shared.take_hot_bulk(w, n, &mut frames, packets);
        if got < n {
            got += grow::take_bulk(&self.shared, w, n - got, &mut frames, packets);
        }
        got
    }

    /// Takes a packet's head off: it becomes a frame again, without a copy.
    ///
    /// # Errors
    /// The packet, when its bytes are not one frame that is its alone; [`HeadCache::make_sendable`] makes them so.
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
        // Those who shared the frame may be gone.
        packet.reclaim();
        let Some(frame) = packet.take_frame() else { return Err(packet) };
        self.keep(w, packet.into_head());
        Ok(frame)
    }

    /// Takes the heads off packets, from the front of `packets`, and appends their frames to `frames`, until there is no
    /// room or a packet's bytes are not one frame that is its alone; returns how many.
    #[inline]
    pub fn detach_bulk(&self, w: &mut Worker, packets: &mut Packets, frames: &mut Batch) -> usize {
        self.take_bulk(w, packets, frames)
    }

    /// Takes frames off packets, from the front of `packets` until there is none or no room, and keeps the heads.
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

    /// Gives a packet back: its bytes to where they are from, its head to the worker's array or, if another worker took
    /// it, in a batch to that one's.
    ///
    /// # Cost
    /// A look at the head's line, which says whose it is; none of the bytes'.
    #[inline]
    pub fn free(&self, w: &mut Worker, mut packet: Packet) {
        let Some(frame) = packet.take_frame() else { return self.free_odd(w, packet) };
        // Nothing here panics; where the compiler need not provide for it, the frame stays in a register.
        let frame = ManuallyDrop::new(frame);
        match self.shared.keep_hot(w, packet.into_head()) {
            Ok(()) => ManuallyDrop::into_inner(frame).free(w),
            Err(head) => self.free_missed(w, head, ManuallyDrop::into_inner(frame)),
        }
    }

    /// The head goes a longer way, on which pages may go home: what is called there may panic, and the frame goes home
    /// all the same.
    #[cold]
    #[inline(never)]
    fn free_missed(&self, w: &mut Worker, head: Object<Head>, frame: Frame) {
        grow::keep(&self.shared, w, head);
        frame.free(w);
    }

    /// Gives packets back as [`HeadCache::free`] does, in bulk: first all the heads, then all the frames. `packets` is empty
    /// then.
    #[inline]
    pub fn free_bulk(&self, w: &mut Worker, packets: &mut Packets) {
        let mut frames = Batch::new();
        self.take_bulk(w, packets, &mut frames);
        if !packets.is_empty() {
            self.free_rest(w, packets, &mut frames);
        }
        frames.free(w);
    }

    /// Among the packets there are some that are more than a head and a frame.
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

    /// Gives back a packet that is more than a head and a frame. What gives memory of others back is their code, and may
    /// panic: all parts go home all the same.
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

    /// Ends a poll round: heads that wait to be flushed or to be sent home go now.
    ///
    /// # Cost
    /// A call, where nothing waits.
    pub fn end_round(&self, w: &mut Worker) {
        grow::end_round(&self.shared, w);
    }

    /// Changes a tunable with effect at once: `ready_size`, `ready_refill`, `ready_free`, `defer_max`, or one of the
    /// cache's. A smaller size takes refill and free down with it.
    ///
    /// # Errors
    /// [`HeadCacheError`]: unknown, or out of range; nothing changes then.
    #[cold]
    pub fn set(&self, name: &str, value: usize) -> Result<(), HeadCacheError> {
        self.shared.set(name, value)
    }

    /// The value of a tunable.
    ///
    /// # Errors
    /// [`HeadCacheError`]: unknown.
    pub fn get(&self, name: &str) -> Result<usize, HeadCacheError> {
        self.shared.get(name)
    }

    /// What a worker keeps above the cache.
    pub fn mode(&self) -> HeadCacheMode {
        self.shared.mode
    }

    /// The counters.
    pub fn stats(&self) -> HeadCacheStats {
        self.shared.stats()
    }

    /// All that is known of the cache below, as SLUB shows it.
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
