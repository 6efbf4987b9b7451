//! The common parts of the workers of every variant: incoming packets, a poll round, and outgoing packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use netmem::stats::{Count, Writer};
use netmem::sync::Worker;

/// Bytes of a packet. In the loop its descriptor gives up to [`NUMBERS`] more: the length of the padding is its
/// number within its flow. So order can be checked without reading or writing a byte.
pub(super) const PACKET: usize = 512;

/// Number of flows. In the loop a frame's position in memory gives its flow.
pub(super) const FLOWS: usize = 64;

/// A flow's numbers wrap here. At most a fourth as many of its packets are in flight.
pub(super) const NUMBERS: u64 = 512;

/// A worker of a variant, with the network at its sides.
pub(super) trait Turn: Send {
    /// Runs a poll round. Returns the number of moved packets.
    fn poll(&mut self) -> usize;

    /// Lets no more packets in. Returns the number that came in.
    fn end(&mut self) -> u64;

    /// Returns the share of the worker's time, in percent, in which it does what a card would do for reception. None if it
    /// receives nothing, or writes no packet.
    fn generating(&self) -> Option<f64> {
        None
    }

    /// Lets the network finish all frames. Returns the number of packets that this worker itself dropped.
    fn complete(&mut self) -> u64;

    /// Returns the worker when nothing is in flight.
    fn into_worker(self: Box<Self>) -> Worker;
}

/// A worker whose queue gets fewer packets than that of another worker, as with badly bound queues.
#[derive(Debug)]
pub(super) struct Fewer {
    /// The packets of the other worker.
    than: Arc<Left>,
    /// Percent of all packets that come to this worker.
    percent: u64,
    /// Packets that may come in before the other worker's count is read again.
    allowed: u64,
    looks: u32,
}

/// Closed looks between two reads of the other worker's count. Each takes a line from the core that writes it.
const LOOKS_BETWEEN: u32 = 64;

impl Fewer {
    pub(super) fn new(than: Arc<Left>, percent: u64) -> Fewer {
        Fewer { than, percent, allowed: 0, looks: 0 }
    }

    /// Returns true if one more burst may come in after `received` packets.
    fn is_open(&mut self, received: u64) -> bool {
        if received < self.allowed {
            return true;
        }
        self.looks += 1;
        if self.looks >= LOOKS_BETWEEN {
            self.looks = 0;
            self.allowed = self.than.total() * self.percent / (100 - self.percent);
        }
        received < self.allowed
    }
}

/// The incoming packets, and the limit of packets in flight: none is dropped.
#[derive(Debug)]
pub(super) struct Arriving {
    /// Maximum number of packets in flight. Beyond that the network waits.
    pub(super) under_way: u64,
    pub(super) received: u64,
    /// Number of packets that had left at the last check.
    left: u64,
    /// No more packets come in.
    over: bool,
    /// None if as many come in as this worker takes.
    fewer: Option<Fewer>,
}

impl Arriving {
    pub(super) fn new(under_way: u64, fewer: Option<Fewer>) -> Arriving {
        Arriving { under_way, received: 0, left: 0, over: false, fewer }
    }

    /// Returns true if more may come in now.
    pub(super) fn is_open(&mut self, left: &Left) -> bool {
        if self.received - self.left > self.under_way {
            self.left = left.total();
        }
        let has_its_share = |fewer: &mut Fewer| !fewer.is_open(self.received);
        if self.fewer.as_mut().is_some_and(has_its_share) {
            return false;
        }
        !self.over && self.received - self.left <= self.under_way
    }

    /// Lets no more in. Returns the number that came in.
    pub(super) fn end(&mut self) -> u64 {
        self.over = true;
        self.received
    }
}

/// On a cache line of its own: written by one worker at a time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Own<T>(pub(super) T);

/// The packets that have left, by any worker.
#[derive(Debug)]
pub(super) struct Left {
    /// The highest number of each flow that has left, plus one.
    next: Vec<Own<AtomicU64>>,
    /// Packets that left by each worker.
    pub(super) done: [Writer<Own<Count>>; 2],
    /// Packets that left after a later packet of their flow.
    pub(super) late: [Writer<Own<Count>>; 2],
    /// Packets whose bytes had a wrong sum.
    pub(super) damaged: [Writer<Own<Count>>; 2],
}

impl Left {
    pub(super) fn new() -> Left {
        let next = (0..FLOWS).map(|_| Own::default()).collect();
        Left { next, done: Default::default(), late: Default::default(), damaged: Default::default() }
    }

    /// Records that the packet of a flow with this number has left. Returns true if it is late.
    pub(super) fn note(&self, flow: usize, number: u64) -> bool {
        // Relaxed: a flow that keeps its order is recorded by one worker at a time, and the hand-over to the next
        // worker orders both. For a flow that does not, some may be missed.
        let next = &self.next[flow].0;
        let expected = next.load(Ordering::Relaxed);
        let ahead = number.wrapping_sub(expected) % NUMBERS;
        if ahead >= NUMBERS / 2 {
            return true;
        }
        next.store(expected + ahead + 1, Ordering::Relaxed);
        false
    }

    /// Records for each flow that one more packet has left.
    #[cfg(test)]
    pub(super) fn skip(&self) {
        self.next.iter().for_each(|next| _ = next.0.fetch_add(1, Ordering::Relaxed));
    }

    /// Returns the number of packets that left, by all workers.
    pub(super) fn total(&self) -> u64 {
        self.done.iter().map(|done| done.0.get()).sum()
    }
}
