//! [rizzo02-mbuf]'s own form: one stack of pairs, under a lock that the caller already holds.

use super::{ReadyPacketsStats, free_all, is_pair, renew, reset};
use crate::packet::heads::HeadCache;
use crate::packet::packet::Packet;
use crate::pool::{Pool, Shrinker};
use crate::sync::Worker;
use crate::sync::shim::{AtomicBool, AtomicU32, AtomicU64, Mutex, lock};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Weak};

/// When a pair is reset to its first state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reset {
    /// When it is put, as in the source's sketch of June: its lines are in the cache then.
    #[default]
    AtPut,
    /// When it is taken, as drivers do with the buffers they receive into.
    AtGet,
}

/// The information that the pool has about a stack that it cannot reach.
#[derive(Debug)]
struct Gauge {
    now: AtomicU64,
    /// Numbers of frames. The first `now` of them are the frames of the pairs.
    frames: Mutex<Arc<[AtomicU32]>>,
    /// The pool's frames ran out: the stack must be emptied.
    wanted: AtomicBool,
    /// The pool closed: the stack must stay empty.
    closed: AtomicBool,
}

impl Gauge {
    fn new(frames: &Arc<[AtomicU32]>) -> Gauge {
        let frames = Mutex::new(Arc::clone(frames));
        Gauge {
            now: AtomicU64::new(0),
            frames,
            wanted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Returns whether the pool wants the pairs back, and if so, whether for good. The answer is given once.
    #[inline]
    fn asked(&self) -> Option<bool> {
        self.wanted.load(Relaxed).then(|| {
            // Acquire: pairs with the Release in `close`.
            self.wanted.swap(false, Acquire);
            self.closed.load(Relaxed)
        })
    }
}

/// Allocates room for the numbers of `room` frames.
fn numbers(room: usize) -> Arc<[AtomicU32]> {
    (0..room).map(|_| AtomicU32::new(0)).collect()
}

impl Shrinker for Gauge {
    /// No pair can be reached without the caller's lock. The next caller that holds it gives the pairs back.
    fn relieve(&self, _: &mut Worker) -> usize {
        self.wanted.store(true, Relaxed);
        0
    }

    fn ready(&self) -> u64 {
        self.now.load(Relaxed)
    }

    fn each_ready(&self, found: &mut dyn FnMut(NonZeroU32)) {
        let frames = Arc::clone(&lock(&self.frames));
        let now = self.now.load(Relaxed) as usize;
        frames.iter().take(now).filter_map(|id| NonZeroU32::new(id.load(Relaxed))).for_each(found);
    }

    fn close(&self) {
        self.closed.store(true, Relaxed);
        // Release: pairs with the Acquire in `asked`, so that `closed` is seen with it.
        self.wanted.store(true, Release);
    }
}

/// One stack of ready packets, for callers that share a lock of their own. [`ReadyPackets`](super::ReadyPackets) keeps
/// pairs by worker.
///
/// Nobody can take the pairs without the lock. So when the pool's frames run out, at most `max` pairs stay here until
/// the lock is next taken, by [`ReadyStack::get`], [`ReadyStack::free`] or [`ReadyStack::drain`].
#[derive(Debug)]
pub struct ReadyStack {
    /// Newest last, at most `max`.
    pairs: Vec<Packet>,
    max: usize,
    /// The pool closed: nothing is kept, whatever `max` is, since another pool may have its number.
    closed: bool,
    reset: Reset,
    stats: ReadyPacketsStats,
    gauge: Arc<Gauge>,
    /// The numbers of the gauge, at hand.
    frames: Arc<[AtomicU32]>,
    pub(super) pool: Pool,
    pub(super) heads: HeadCache,
}

impl ReadyStack {
    /// Makes a stack for pairs of frames of `pool` and heads of `heads`, at most `max`; 0 keeps none. Room is made for
    /// at most the maximum number of frames of the pool.
    #[cold]
    pub fn new(pool: &Pool, heads: &HeadCache, max: usize, reset: Reset) -> ReadyStack {
        let room = max.min(pool.capacity());
        let frames = numbers(room);
        let gauge = Arc::new(Gauge::new(&frames));
        let shrinker: Weak<Gauge> = Arc::downgrade(&gauge);
        pool.add_shrinker(shrinker);
        let (pool, heads) = (pool.clone(), heads.clone());
        ReadyStack {
            pairs: Vec::with_capacity(room),
            max,
            closed: false,
            reset,
            stats: ReadyPacketsStats::default(),
            gauge,
            frames,
            pool,
            heads,
        }
    }

    /// Allocates an empty packet: a ready packet, or a frame of the pool with a head. Returns None if there is no frame
    /// or no memory for a head.
    pub fn get(&mut self, w: &mut Worker) -> Option<Packet> {
        self.give_what_is_wanted(w);
        match self.pop() {
            None => self.heads.alloc(w, &self.pool),
            ready => ready,
        }
    }

    /// Frees a packet. It stays ready as a pair if it is one part, in a frame of the pool that belongs to it alone, and
    /// there is room. Otherwise it is freed the ordinary way ([`HeadCache::free`]).
    pub fn free(&mut self, w: &mut Worker, packet: Packet) {
        self.give_what_is_wanted(w);
        if let Err(packet) = self.keep(packet) {
            self.heads.free(w, packet);
        }
    }

    /// Number of pairs that are ready now.
    pub fn now(&self) -> usize {
        self.pairs.len()
    }

    /// Maximum number of pairs: 0 after the stack saw that the pool is closed.
    pub fn max(&self) -> usize {
        if self.closed { 0 } else { self.max }
    }

    /// Changes the maximum number of pairs. Excess pairs are given back, coldest first.
    pub fn set_max(&mut self, w: &mut Worker, max: usize) {
        self.max = max;
        let room = max.min(self.pool.capacity());
        if room > self.frames.len() {
            self.frames = numbers(room);
            *lock(&self.gauge.frames) = Arc::clone(&self.frames);
        }
        let surplus = self.release(self.pairs.len().saturating_sub(max));
        free_all(&self.heads, w, surplus);
    }

    /// Gives all pairs back. Returns their number.
    pub fn drain(&mut self, w: &mut Worker) -> usize {
        let all = self.release(self.pairs.len());
        free_all(&self.heads, w, all)
    }

    /// The counters.
    pub fn stats(&self) -> ReadyPacketsStats {
        ReadyPacketsStats { now: self.now() as u64, max: self.max() as u64, ..self.stats }
    }

    /// Takes the `n` coldest pairs out. The caller frees them.
    fn release(&mut self, n: usize) -> Vec<Packet> {
        // A copy, so that the stack keeps its capacity.
        let pairs: Vec<Packet> = self.pairs.drain(..n).collect();
        self.note_from(0);
        self.stats.released += pairs.len() as u64;
        pairs
    }

    /// Takes all pairs out, because the pool wants them back.
    #[cold]
    fn give_up(&mut self, for_good: bool) -> Vec<Packet> {
        self.closed |= for_good;
        self.release(self.pairs.len())
    }

    #[inline]
    fn give_what_is_wanted(&mut self, w: &mut Worker) {
        let pairs = self.wanted();
        if !pairs.is_empty() {
            free_all(&self.heads, w, pairs);
        }
    }

    /// Writes down which frames are here. Those below `first` have not changed.
    fn note_from(&self, first: usize) {
        for (id, pair) in self.frames.iter().zip(&self.pairs).skip(first) {
            id.store(pair.frame().map_or(0, |frame| frame.id().get()), Relaxed);
        }
        self.gauge.now.store(self.pairs.len() as u64, Relaxed);
    }
}

// The steps of `get` and `free` that run no code of the caller, for use under a lock of this library. The packets that
// come out are freed after the lock, and missing ones are made after it.
impl ReadyStack {
    /// Takes out the pairs that the pool wants back. This comes before the other steps.
    #[inline]
    pub(super) fn wanted(&mut self) -> Vec<Packet> {
        match self.gauge.asked() {
            Some(for_good) => self.give_up(for_good),
            None => Vec::new(),
        }
    }

    /// Takes a ready packet. If there is none, the caller makes a packet.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Packet> {
        let Some(mut packet) = self.pairs.pop() else {
            self.stats.missed += 1;
            return None;
        };
        self.stats.taken += 1;
        self.note_from(self.pairs.len());
        if self.reset == Reset::AtGet {
            reset(self.pool.renewal(), &mut packet);
        }
        Some(packet)
    }

    /// Keeps a packet that is a pair.
    ///
    /// # Errors
    /// Returns the packet if it is not a pair or there is no room: the caller frees it.
    #[inline]
    pub(super) fn keep(&mut self, mut packet: Packet) -> Result<(), Packet> {
        let ready = !self.closed
            && self.pairs.len() < self.max
            && match self.reset {
                Reset::AtPut => renew(self.pool.renewal(), &mut packet),
                Reset::AtGet => is_pair(self.pool.renewal(), &packet),
            };
        if !ready {
            self.stats.passed += 1;
            return Err(packet);
        }
        self.pairs.push(packet);
        self.stats.kept += 1;
        self.note_from(self.pairs.len() - 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Gauge, Shrinker};
    use crate::ring::tests::{model, thread};
    use std::sync::Arc;

    #[test]
    fn a_stack_that_is_used_while_its_pool_closes_learns_that_it_is_for_good() {
        model(|| {
            let gauge = Arc::new(Gauge::new(&Arc::default()));
            let closing = {
                let gauge = Arc::clone(&gauge);
                thread::spawn(move || gauge.close())
            };
            let told = gauge.asked();
            assert!(told != Some(false), "it would keep pairs of a closed pool from now on");
            closing.join().unwrap();
            assert_eq!(told.or_else(|| gauge.asked()), Some(true));
        });
    }
}
