//! The common parts of the workers of every variant: incoming packets, a poll round, and outgoing packets.

use std::sync::atomic::{AtomicU64, Ordering};

use netmem::stats::{Count, Writer};
use netmem::sync::Worker;

/// Bytes of a packet. In the loop its descriptor says up to [`NUMBERS`] more: the padding's length is its number within its
/// flow, so that order can be checked and not one byte need be read or written for it.
pub(super) const PACKET: usize = 512;

/// Flows. In the loop a frame's place in memory says its flow.
pub(super) const FLOWS: usize = 64;

/// A flow's numbers wrap here. At most a fourth as many of its packets are under way.
pub(super) const NUMBERS: u64 = 512;

/// A worker of a variant, with the network at its sides.
pub(super) trait Turn: Send {
    /// A poll round; returns how many packets moved.
    fn poll(&mut self) -> usize;

    /// Lets no packet in any more; returns how many came in.
    fn end(&mut self) -> u64;

    /// Lets the network finish with everything; returns how many packets this worker dropped by itself.
    fn complete(&mut self) -> u64;

    /// What is left of it when nothing is under way.
    fn into_worker(self: Box<Self>) -> Worker;
}

/// Packets that come in, and how many of them may be under way: none is dropped.
#[derive(Debug)]
pub(super) struct Arriving {
    /// Packets that may be under way; the network waits beyond that.
    pub(super) under_way: u64,
    pub(super) received: u64,
    /// Packets that had left when it was looked up last.
    left: u64,
    /// None comes in any more.
    over: bool,
}

impl Arriving {
    pub(super) fn new(under_way: u64) -> Arriving {
        Arriving { under_way, received: 0, left: 0, over: false }
    }

    /// Whether more may come in now.
    pub(super) fn is_open(&mut self, left: &Left) -> bool {
        if self.received - self.left > self.under_way {
            self.left = left.total();
        }
        !self.over && self.received - self.left <= self.under_way
    }

    /// Lets none in any more; how many came in.
    pub(super) fn end(&mut self) -> u64 {
        self.over = true;
        self.received
    }
}

/// On a line of its own: written by one worker at a time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Own<T>(pub(super) T);

/// What has left, by whichever worker.
#[derive(Debug)]
pub(super) struct Left {
    /// The highest number of each flow that has left, plus one.
    next: Vec<Own<AtomicU64>>,
    /// Packets that left by each worker.
    pub(super) done: [Writer<Own<Count>>; 2],
    /// Packets that left behind one of their flow that came later.
    pub(super) late: [Writer<Own<Count>>; 2],
    /// Packets whose bytes did not sum up.
    pub(super) damaged: [Writer<Own<Count>>; 2],
}

impl Left {
    pub(super) fn new() -> Left {
        let next = (0..FLOWS).map(|_| Own::default()).collect();
        Left { next, done: Default::default(), late: Default::default(), damaged: Default::default() }
    }

    /// Notes that the packet of a flow with this number has left; true if it is late.
    pub(super) fn note(&self, flow: usize, number: u64) -> bool {
        // Relaxed: a flow that keeps its order is noted by one worker at a time, and what hands it to the next one orders
        // both; of one that does not, some may be missed.
        let next = &self.next[flow].0;
        let expected = next.load(Ordering::Relaxed);
        let ahead = number.wrapping_sub(expected) % NUMBERS;
        if ahead >= NUMBERS / 2 {
            return true;
        }
        next.store(expected + ahead + 1, Ordering::Relaxed);
        false
    }

    /// Says of each flow that one packet more has left.
    #[cfg(test)]
    pub(super) fn skip(&self) {
        self.next.iter().for_each(|next| _ = next.0.fetch_add(1, Ordering::Relaxed));
    }

    /// Packets that left, by all workers.
    pub(super) fn total(&self) -> u64 {
        self.done.iter().map(|done| done.0.get()).sum()
    }
}
