//! [rizzo02-mbuf]'s own form in use: one stack of pairs for all, under a lock.

use super::{PairStack, ReadyPacketsStats};
use crate::packet::packet::Packet;
use crate::packet::packets::Packets;
use crate::sync::Worker;
use crate::sync::shim::{Mutex, lock};
use std::sync::Arc;

/// When the lock of a [`PairList`] is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// Once for all pairs of a bulk, as by a caller that holds it for its work on a ring: the source's driver, under
    /// Giant.
    Caller,
    /// For each pair: the pairs have a lock of their own.
    Each,
}

/// A [`PairStack`] that is shared, for comparison with [`ReadyPackets`](super::ReadyPackets), which needs no lock.
///
/// Clone the handle freely. When the last handle is dropped, the pairs are given back.
#[derive(Debug, Clone)]
pub struct PairList {
    stack: Arc<Mutex<PairStack>>,
    locking: Locking,
}

impl PairList {
    /// Wraps the pairs of `stack`. `locking` says when its lock is taken.
    #[cold]
    pub fn new(stack: PairStack, locking: Locking) -> PairList {
        PairList { stack: Arc::new(Mutex::new(stack)), locking }
    }

    /// Appends up to `n` empty packets to `packets`, as many as exist and fit. Returns their number.
    pub fn get_bulk(&self, w: &mut Worker, packets: &mut Packets, n: usize) -> usize {
        let n = n.min(packets.room());
        match self.locking {
            Locking::Caller => {
                let mut stack = lock(&self.stack);
                take(packets, n, || stack.get(w))
            }
            Locking::Each => take(packets, n, || lock(&self.stack).get(w)),
        }
    }

    /// Frees packets as [`PairStack::free`] does. `packets` is empty afterwards.
    pub fn free_bulk(&self, w: &mut Worker, packets: &mut Packets) {
        match self.locking {
            Locking::Caller => {
                let mut stack = lock(&self.stack);
                packets.drain().for_each(|packet| stack.free(w, packet));
            }
            Locking::Each => packets.drain().for_each(|packet| self.free(w, packet)),
        }
    }

    /// Frees one packet.
    pub fn free(&self, w: &mut Worker, packet: Packet) {
        lock(&self.stack).free(w, packet);
    }

    /// The counters.
    pub fn stats(&self) -> ReadyPacketsStats {
        lock(&self.stack).stats()
    }
}

/// Appends at most `n` of the packets that `get` returns, for which there is room.
fn take(packets: &mut Packets, n: usize, mut get: impl FnMut() -> Option<Packet>) -> usize {
    for got in 0..n {
        let Some(packet) = get() else { return got };
        drop(packets.push(packet));
    }
    n
}
