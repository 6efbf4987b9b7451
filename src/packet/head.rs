//! The packet's head: what is known of a packet apart from its bytes.

use super::data::Data;
use super::packet::Packet;
use crate::sync::Steps;

/// The array that a head goes back to: the number of its [`HeadCache`](super::HeadCache) in the upper bits, the
/// worker's slot below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin(u64);

impl Origin {
    const SLOT_BITS: u32 = 8;
    /// The slot of a caller that has no slot.
    const NO_SLOT: u64 = 0xff;

    /// Returns the origin for the worker of `slot`, or for a caller that is not a worker of the heads' memory.
    pub(super) fn new(heads: u64, slot: Option<usize>) -> Origin {
        Origin(heads << Self::SLOT_BITS | slot.map_or(Self::NO_SLOT, |slot| slot as u64))
    }

    /// The number of the head cache.
    pub(super) fn heads(self) -> u64 {
        self.0 >> Self::SLOT_BITS
    }

    /// The worker's slot; out of range for a caller without a slot.
    pub(super) fn slot(self) -> usize {
        (self.0 & Self::NO_SLOT) as usize
    }

    /// Returns 0 only if the two are equal.
    #[inline(always)]
    pub(super) fn differs(self, other: Origin) -> u64 {
        self.0 ^ other.0
    }
}

/// What is known of a packet apart from its bytes. One cache line.
///
/// A head is *blank* while nothing is known. A blank head either belongs to no packet, or belongs to a packet that
/// carries all its bytes in one frame. It has not been written since it was last blank.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Head {
    /// The bytes, if the packet does not carry them.
    pub(super) data: Data,
    /// The next part of the same packet. Invariant: None if the packet carries its bytes.
    pub(super) next: Option<Packet>,
    /// The array that the head was taken from. It is written when a worker gets the head from the cache.
    pub(super) origin: Origin,
    /// What was recorded about the packet.
    pub(super) record: Record,
}

const _: () = assert!(size_of::<Head>() == 64);

/// The record of a packet; all 0 while nothing is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(align(8))]
pub(super) struct Record {
    /// The flow's hash; 0 until it is computed.
    pub(super) flow_hash: u32,
    /// The receive queue of the packet plus one; 0 if the packet came from no queue.
    rx_queue: u32,
}

impl Record {
    #[inline(always)]
    pub(super) fn rx_queue(self) -> Option<u16> {
        self.rx_queue.checked_sub(1).map(|queue| queue as u16)
    }

    /// Returns whether anything is recorded.
    #[inline(always)]
    fn is_any(self) -> bool {
        // Combined into one word, so that the compiler makes one load.
        u64::from(self.flow_hash) | u64::from(self.rx_queue) << 32 != 0
    }

    #[inline(always)]
    pub(super) fn set_rx_queue(&mut self, queue: u16) {
        self.rx_queue = u32::from(queue) + 1;
    }
}

impl Head {
    /// Returns a head of which nothing is known.
    pub(super) fn blank(origin: Origin) -> Head {
        Head { data: Data::NOTHING, next: None, origin, record: Record::default() }
    }

    /// Clears the record. Writes only if something was recorded.
    #[inline(always)]
    pub(super) fn forget_record(&mut self) {
        if self.record.is_any() {
            self.record = Record::default();
        }
    }
}

impl Drop for Head {
    /// Parts are dropped one by one, so a long chain causes no deep recursion.
    #[inline]
    fn drop(&mut self) {
        if let Some(part) = self.next.take() {
            drop_parts(self.data.take(), part);
        }
    }
}

/// Drops all parts, even if one of them panics: giving back memory of others runs their code.
#[cold]
#[inline(never)]
fn drop_parts(first: Data, second: Packet) {
    let (mut next, mut steps) = (Some(second), Steps::new());
    steps.run(|| drop(first));
    while let Some(mut part) = next {
        next = part.take_next();
        steps.run(|| drop(part));
    }
    steps.end();
}
