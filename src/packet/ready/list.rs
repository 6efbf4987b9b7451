//! [rizzo02-mbuf]'s own form in use: one stack of pairs for all, under a lock.
//!
//! Packets are made and freed without the lock, since that may run code of the caller: the `on_release` of an
//! [`External`](crate::packet::External), shrinkers, callbacks of pages. That code may use the list.

use super::{ReadyPacketsStats, ReadyStack, free_all, make_all};
use crate::packet::heads::HeadCache;
use crate::packet::packet::Packet;
use crate::packet::packets::Packets;
use crate::pool::Pool;
use crate::sync::shim::{Mutex, lock};
use crate::sync::{Steps, Worker};
use std::sync::Arc;

/// When the lock of a [`ReadyList`] is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// Once for all pairs of a bulk, as by a caller that holds it for its work on a ring: the source's driver, under
    /// Giant.
    Caller,
    /// For each pair: the pairs have a lock of their own.
    Each,
}

/// A [`ReadyStack`] that is shared, for comparison with [`ReadyPackets`](super::ReadyPackets), which needs no lock.
///
/// Clone the handle freely. When the last handle is dropped, the pairs are given back.
#[derive(Debug, Clone)]
pub struct ReadyList {
    stack: Arc<Mutex<ReadyStack>>,
    locking: Locking,
    /// The pool and the heads of the stack, at hand without its lock.
    pool: Pool,
    heads: HeadCache,
}

impl ReadyList {
    /// Wraps the pairs of `stack`. `locking` says when its lock is taken.
    #[cold]
    pub fn new(stack: ReadyStack, locking: Locking) -> ReadyList {
        let (pool, heads) = (stack.pool.clone(), stack.heads.clone());
        ReadyList { stack: Arc::new(Mutex::new(stack)), locking, pool, heads }
    }

    /// Appends up to `n` empty packets to `packets`, as many as exist and fit. Returns their number.
    pub fn get_burst(&self, w: &mut Worker, packets: &mut Packets, n: usize) -> usize {
        let before = packets.len();
        let n = n.min(packets.room());
        match self.locking {
            Locking::Caller => self.get_all(w, packets, n),
            Locking::Each => _ = packets.extend((0..n).map_while(|_| self.get(w))),
        }
        packets.len() - before
    }

    /// Takes up to `n` pairs under the lock, then makes the missing packets in bulk, as
    /// [`ReadyPackets`](super::ReadyPackets) does.
    fn get_all(&self, w: &mut Worker, packets: &mut Packets, n: usize) {
        let before = packets.len();
        let mut stack = lock(&self.stack);
        let wanted = stack.wanted();
        packets.extend((0..n).filter_map(|_| stack.pop()));
        drop(stack);
        self.give_back(w, wanted);
        let missing = n - (packets.len() - before);
        if missing > 0 {
            make_all((&self.pool, &self.heads), w, packets, missing);
        }
    }

    /// Allocates an empty packet.
    fn get(&self, w: &mut Worker) -> Option<Packet> {
        let mut stack = lock(&self.stack);
        let (wanted, pair) = (stack.wanted(), stack.pop());
        drop(stack);
        self.give_back(w, wanted);
        pair.or_else(|| self.heads.alloc(w, &self.pool))
    }

    /// Frees packets as [`ReadyStack::free`] does. `packets` is empty afterwards.
    pub fn free_bulk(&self, w: &mut Worker, packets: &mut Packets) {
        let (mut wanted, mut refused) = (Vec::new(), Vec::new());
        match self.locking {
            Locking::Caller => {
                let mut stack = lock(&self.stack);
                wanted.extend(stack.wanted());
                refused.extend(packets.drain().filter_map(|packet| stack.keep(packet).err()));
            }
            Locking::Each => packets.drain().for_each(|packet| {
                let mut stack = lock(&self.stack);
                wanted.extend(stack.wanted());
                refused.extend(stack.keep(packet).err());
            }),
        }
        if refused.is_empty() {
            return self.give_back(w, wanted);
        }
        // They came out of this array, so there is room for all of them.
        packets.extend(refused.into_iter());
        let mut steps = Steps::new();
        steps.run(|| self.give_back(w, wanted));
        steps.run(|| self.heads.free_bulk(w, packets));
        steps.end();
    }

    /// Frees one packet.
    pub fn free(&self, w: &mut Worker, packet: Packet) {
        let mut stack = lock(&self.stack);
        let (wanted, kept) = (stack.wanted(), stack.keep(packet));
        drop(stack);
        let Err(packet) = kept else { return self.give_back(w, wanted) };
        let mut steps = Steps::new();
        steps.run(|| self.give_back(w, wanted));
        steps.run(|| self.heads.free(w, packet));
        steps.end();
    }

    /// Frees pairs that the pool wanted back.
    #[inline]
    fn give_back(&self, w: &mut Worker, wanted: Vec<Packet>) {
        if !wanted.is_empty() {
            free_all(&self.heads, w, wanted);
        }
    }

    /// The counters.
    pub fn stats(&self) -> ReadyPacketsStats {
        lock(&self.stack).stats()
    }
}
