//! The packet's head: what is known of a packet beside its bytes.

use super::data::Data;
use super::packet::Packet;
use crate::sync::Steps;

/// Whose array a head goes back to: the number of its [`HeadCache`](super::HeadCache), and the worker's slot below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin(u64);

impl Origin {
    const SLOT_BITS: u32 = 8;
    /// The slot of who has none.
    const NO_SLOT: u64 = 0xff;

    /// The worker of `slot`, or a caller that is no worker of the heads' memory.
    pub(super) fn new(heads: u64, slot: Option<usize>) -> Origin {
        Origin(heads << Self::SLOT_BITS | slot.map_or(Self::NO_SLOT, |slot| slot as u64))
    }

    /// The heads' number.
    pub(super) fn heads(self) -> u64 {
        self.0 >> Self::SLOT_BITS
    }

    /// The worker's slot; out of range for who has none.
    pub(super) fn slot(self) -> usize {
        (self.0 & Self::NO_SLOT) as usize
    }

    /// Not 0 if the two differ.
    #[inline(always)]
    pub(super) fn differs(self, other: Origin) -> u64 {
        self.0 ^ other.0
    }
}

/// What is known of a packet beside its bytes. One cache line.
///
/// A head is *blank* while nothing is known: then it is no packet's, or one's whose bytes are in the frame that the packet
/// carries, and it has not been touched since it was last blank.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Head {
    /// The bytes, where the packet does not carry them.
    pub(super) data: Data,
    /// The next part of the same packet. Invariant: None where the packet carries its bytes.
    pub(super) next: Option<Packet>,
    /// Whose array it was taken from; written when a worker gets the head from the cache.
    pub(super) origin: Origin,
    /// What was recorded of the packet.
    pub(super) record: Record,
}

const _: () = assert!(size_of::<Head>() == 64);

/// What is recorded of a packet; all 0 while nothing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(align(8))]
pub(super) struct Record {
    /// The flow's hash; 0 while nobody has computed it.
    pub(super) flow_hash: u32,
    /// One more than the receive queue it came by; 0 if it came by none.
    rx_queue: u32,
}

impl Record {
    #[inline(always)]
    pub(super) fn rx_queue(self) -> Option<u16> {
        self.rx_queue.checked_sub(1).map(|queue| queue as u16)
    }

    /// Whether something is.
    #[inline(always)]
    fn is_any(self) -> bool {
        // One word: so it is one load.
        u64::from(self.flow_hash) | u64::from(self.rx_queue) << 32 != 0
    }

    #[inline(always)]
    pub(super) fn set_rx_queue(&mut self, queue: u16) {
        self.rx_queue = u32::from(queue) + 1;
    }
}

impl Head {
    /// A head of which nothing is known.
    pub(super) fn blank(origin: Origin) -> Head {
        Head { data: Data::NOTHING, next: None, origin, record: Record::default() }
    }

    /// Forgets what was recorded, which is written only where something was.
    #[inline(always)]
    pub(super) fn forget_record(&mut self) {
        if self.record.is_any() {
            self.record = Record::default();
        }
    }
}

impl Drop for Head {
    /// Parts go one by one: a long chain is not a deep recursion.
    #[inline]
    fn drop(&mut self) {
        if let Some(part) = self.next.take() {
            drop_parts(self.data.take(), part);
        }
    }
}

/// All of them, though to give memory of others back is their code, and may panic.
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
