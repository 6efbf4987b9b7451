//! Ready packets: packets whose head and frame stay together from one use to the next.
//!
//! This is [rizzo02-mbuf]'s pool: a transmitted buffer that is a single mbuf with a private writable cluster is kept as
//! a pair. The receive side takes it instead of allocating both. A pair is reset to its first state when it is put, so
//! taking one is a pop that reads neither head nor frame.
//!
//! ```text
//!   ReadyPackets::get  ◄─► stacks.rs   the worker's pairs, at most `max`     HOT, no atomics
//!   ReadyPackets::free       │  none; not a pair, or too many
//!                     └──► Pool::alloc + HeadCache::attach, HeadCache::free
//! ```
//! The frames count as `ready` in their pool's ledger. The pool asks for them before one of its allocations fails, and
//! takes them all when it closes. So pairs never starve the pool. `ReadyStack` is the form of the source: one stack
//! under the caller's own lock.

#[cfg(feature = "comparisons")]
mod list;
#[cfg(feature = "comparisons")]
mod stack;
mod stacks;
#[cfg(test)]
mod tests;

use super::heads::HeadCache;
use super::packet::Packet;
use super::packets::Packets;
use crate::pool::{Batch, Frame, Pool, Renewal, Shrinker};
use crate::sync::{Leave, Worker};
#[cfg(feature = "comparisons")]
pub use list::{Locking, ReadyList};
#[cfg(feature = "comparisons")]
pub use stack::{ReadyStack, Reset};
use stacks::Stacks;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};

/// The counters of `ReadyPackets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReadyPacketsStats {
    /// Pairs ready now.
    pub now: u64,
    /// Maximum number of pairs: for each worker, or in the stack.
    pub max: u64,
    /// Pairs taken.
    pub taken: u64,
    /// Pairs put.
    pub kept: u64,
    /// Packets that had to be made because there was no pair.
    pub missed: u64,
    /// Packets freed the ordinary way: not a pair, or the maximum of pairs was reached.
    pub passed: u64,
    /// Pairs given back unused: the maximum was lowered, the frames ran out, the worker left, or the pool closed.
    pub released: u64,
}

/// Ready packets of one pool's frames and heads, by worker.
///
/// Clone the handle freely. When the last handle is dropped, the pairs are given back.
#[derive(Clone)]
pub struct ReadyPackets {
    shared: Arc<Shared>,
}

/// Prints its pool and its maximum only. [`ReadyPackets::stats`] has the pairs.
impl fmt::Debug for ReadyPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ready = f.debug_struct("ReadyPackets");
        ready.field("pool", &self.shared.pool).field("max", &self.max()).finish_non_exhaustive()
    }
}

/// Conservation: `kept - taken - released == now`, and each pair holds a frame of `pool` that no other owner has.
#[derive(Debug)]
struct Shared {
    /// Packets in the state of new ones: empty, nothing recorded.
    stacks: Stacks<Packet>,
    pool: Pool,
    heads: HeadCache,
}

impl ReadyPackets {
    /// Default maximum of pairs for each worker: [rizzo02-mbuf]'s `em_pool_max`.
    pub const MAX: usize = 50;

    /// Makes pairs of frames of `pool` and heads of `heads`, at most `max` for each worker. 0 keeps none. A pool with
    /// [`init_on_alloc`](crate::pool::PoolConfig::init_on_alloc) keeps none either, since it clears frames before each
    /// use. While a pool [traces](Pool::trace), no pair is put back, since each use has a call site of its own. None is
    /// put back either while pages are to leave the pool ([`Pool::leaving_pages`]). Pairs that are ready then keep
    /// their pages until they are used and freed. Those of a worker that takes no packets stay until
    /// [`ReadyPackets::drain`] is called, or until the pool runs out of frames. `max` is limited to the maximum number
    /// of frames of the pool ([`Pool::capacity`]).
    #[cold]
    pub fn new(pool: &Pool, heads: &HeadCache, max: usize) -> ReadyPackets {
        let roster = pool.memory().roster();
        let stacks = Stacks::new(roster, max, pool.capacity());
        let shared = Arc::new(Shared { stacks, pool: pool.clone(), heads: heads.clone() });
        roster.on_leave(&shared);
        let shrinker: Weak<Shared> = Arc::downgrade(&shared);
        pool.add_shrinker(shrinker);
        ReadyPackets { shared }
    }

    /// Allocates an empty packet: a ready packet, or a frame of the pool with a head. Returns None if there is no frame
    /// or no memory for a head.
    ///
    /// # Cost
    /// If a pair is ready: a pop from the worker's stack, no locked instruction, and neither head nor frame is read.
    #[inline(always)]
    #[track_caller]
    pub fn get(&self, w: &mut Worker) -> Option<Packet> {
        match self.shared.stacks.get(w) {
            None => self.shared.make(w),
            hit => hit,
        }
    }

    /// Appends up to `n` empty packets to `packets`, as many as exist and fit. Returns their number.
    #[inline]
    #[track_caller]
    pub fn get_burst(&self, w: &mut Worker, packets: &mut Packets, n: usize) -> usize {
        let n = n.min(packets.room());
        let got = self.shared.stacks.get_burst(w, n, packets.all_mut());
        if got < n { got + self.shared.make_bulk(w, packets, n - got) } else { got }
    }

    /// Frees a packet. It stays ready as a pair if it is one part, in a frame of the pool that belongs to it alone, and
    /// there is room. Otherwise it is freed the ordinary way ([`HeadCache::free`]).
    ///
    /// # Cost
    /// A look at the head's line, and at the frame's entry in the table of pools. The data's lines are not read.
    #[inline(always)]
    pub fn free(&self, w: &mut Worker, packet: Packet) {
        let shared = &*self.shared;
        let kept = renewed(shared.pool.renewal(), packet).and_then(|pair| shared.stacks.put(w, pair));
        if let Err(packet) = kept {
            shared.pass(w, packet);
        }
    }

    /// Frees packets as [`ReadyPackets::free`] does. `packets` is empty afterwards.
    #[inline]
    pub fn free_bulk(&self, w: &mut Worker, packets: &mut Packets) {
        let shared = &*self.shared;
        shared.stacks.put_bulk(w, packets.all_mut(), || {
            let renewal = shared.pool.renewal();
            move |packet| renew(renewal, packet)
        });
        if !packets.is_empty() {
            shared.free_mixed(w, packets);
        }
    }

    /// Number of pairs that are ready now, on all workers.
    pub fn now(&self) -> usize {
        self.shared.stacks.now()
    }

    /// Maximum number of pairs for each worker.
    pub fn max(&self) -> usize {
        self.shared.stacks.max()
    }

    /// Changes the maximum of pairs for each worker, with immediate effect. Excess pairs are given back.
    #[cold]
    pub fn set_max(&self, max: usize) {
        drop(self.shared.stacks.set_max(max));
    }

    /// Gives back all pairs of all workers. Returns their number.
    #[cold]
    pub fn drain(&self, w: &mut Worker) -> usize {
        self.shared.relieve(w)
    }

    /// The counters.
    pub fn stats(&self) -> ReadyPacketsStats {
        let Stacks { locals, .. } = &self.shared.stacks;
        // Asked first: this publishes the counts of the hot path.
        let now = self.now() as u64;
        ReadyPacketsStats {
            now,
            max: self.max() as u64,
            taken: locals.sum(|lane| &lane.taken),
            kept: locals.sum(|lane| &lane.kept),
            missed: locals.sum(|lane| &lane.missed),
            passed: locals.sum(|lane| &lane.passed),
            released: locals.sum(|lane| &lane.released),
        }
    }
}

impl Shared {
    /// Makes a packet the ordinary way.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn make(&self, w: &mut Worker) -> Option<Packet> {
        self.stacks.locals.add(w, 1, |lane| &lane.missed);
        self.heads.alloc(w, &self.pool)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn make_bulk(&self, w: &mut Worker, packets: &mut Packets, n: usize) -> usize {
        self.stacks.locals.add(w, n as u64, |lane| &lane.missed);
        make_all((&self.pool, &self.heads), w, packets, n)
    }

    /// Frees a packet the ordinary way.
    #[cold]
    #[inline(never)]
    fn pass(&self, w: &mut Worker, packet: Packet) {
        self.stacks.locals.add(w, 1, |lane| &lane.passed);
        self.heads.free(w, packet);
    }

    /// The slow path: some packets are not pairs, or there is not room for all.
    #[cold]
    #[inline(never)]
    fn free_mixed(&self, w: &mut Worker, packets: &mut Packets) {
        let mut others = Packets::new();
        for packet in packets.drain() {
            let kept = renewed(self.pool.renewal(), packet).and_then(|pair| self.stacks.put(w, pair));
            others.extend(kept.err().into_iter());
        }
        self.stacks.locals.add(w, others.len() as u64, |lane| &lane.passed);
        self.heads.free_bulk(w, &mut others);
    }
}

/// Returns whether the packet is a pair: one head and one frame of the pool that belongs to it alone.
#[inline(always)]
fn is_pair(pool: Renewal, packet: &Packet) -> bool {
    packet.frame().is_some_and(|frame| pool.owns(frame))
}

/// Resets a pair to its first state, as if just made. Returns false if the packet is not a pair.
#[inline(always)]
fn renew(pool: Renewal, packet: &mut Packet) -> bool {
    let is_pair = is_pair(pool, packet);
    if is_pair {
        reset(pool, packet);
    }
    is_pair
}

/// Resets a packet that is known to be a pair.
#[inline(always)]
fn reset(pool: Renewal, packet: &mut Packet) {
    if let Some(frame) = packet.frame_mut() {
        pool.begin_again(frame);
    }
    packet.forget_record();
}

/// As [`renew`], by value, so that the pair stays in registers.
///
/// # Errors
/// Returns the packet if it is not a pair.
#[inline(always)]
fn renewed(pool: Renewal, mut packet: Packet) -> Result<Packet, Packet> {
    if renew(pool, &mut packet) { Ok(packet) } else { Err(packet) }
}

/// Makes `n` packets the ordinary way and appends them. Returns their number.
#[inline(always)]
#[track_caller]
fn make_all((pool, heads): (&Pool, &HeadCache), w: &mut Worker, packets: &mut Packets, n: usize) -> usize {
    let mut frames = Batch::new();
    pool.alloc_burst(w, &mut frames, n);
    let got = heads.attach_burst(w, &mut frames, packets);
    frames.free(w);
    got
}

/// Frees packets through the worker, in bulk.
fn free_all(heads: &HeadCache, w: &mut Worker, packets: Vec<Packet>) -> usize {
    let n = packets.len();
    let mut bulk = Packets::new();
    for packet in packets {
        if let Err(packet) = bulk.push(packet) {
            heads.free_bulk(w, &mut bulk);
            bulk.extend(Some(packet).into_iter());
        }
    }
    heads.free_bulk(w, &mut bulk);
    n
}

impl Shrinker for Shared {
    fn relieve(&self, w: &mut Worker) -> usize {
        free_all(&self.heads, w, self.stacks.empty())
    }

    fn ready(&self) -> u64 {
        self.stacks.now() as u64
    }

    fn each_ready(&self, found: &mut dyn FnMut(NonZeroU32)) {
        let mut frames = Vec::new();
        self.stacks.each(|pair| {
            frames.extend(pair.frame().map(Frame::id));
        });
        frames.into_iter().for_each(found);
    }

    fn close(&self) {
        drop(self.stacks.shut());
    }
}

impl Leave for Shared {
    fn leave(&self, worker: &mut Worker) {
        let pairs = self.stacks.leave(worker);
        free_all(&self.heads, worker, pairs);
    }
}
