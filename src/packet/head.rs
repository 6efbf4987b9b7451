//! The packet's head: what is known of a packet beside its bytes.

use super::data::Data;
use super::packet::Packet;
use crate::slab::Object;
use std::mem;

/// Whose array a head goes back to: the number of its [`Heads`](super::Heads), and the worker's slot below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin(u64);

impl Origin {
    const SLOT_BITS: u32 = 8;
    /// The slot of who has none.
    const NO_SLOT: u64 = 0xff;

    /// The worker of `slot`, or somebody who is no worker of the heads' memory.
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
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Head {
    /// The bytes. Invariant: [`Data::NOTHING`] in a head that is no packet's, and in no other.
    pub(super) data: Data,
    /// The next part of the same packet. Invariant: None in a head that is no packet's.
    pub(super) next: Option<Packet>,
    /// Whose array it was taken from; written when a worker gets the head from the cache.
    pub(super) origin: Origin,
    /// The flow's hash; 0 while nobody has computed it.
    pub(super) flow_hash: u32,
    /// The receive queue it came by, if it came by one.
    pub(super) rx_queue: Option<u16>,
}

const _: () = assert!(size_of::<Head>() == 64);

impl Head {
    /// A head that is no packet's.
    pub(super) fn blank(origin: Origin) -> Head {
        Head { data: Data::NOTHING, next: None, origin, flow_hash: 0, rx_queue: None }
    }
}

/// Makes a blank head a packet's: everything that its last user may have left is written over.
#[inline(always)]
pub(super) fn begin(mut head: Object<Head>, data: Data) -> Packet {
    head.begin(data);
    Packet::new(head)
}

impl Head {
    /// As [`begin`], in place.
    #[inline(always)]
    pub(super) fn begin(&mut self, data: Data) {
        // What was there is nothing, by the invariant, and need not be looked at.
        mem::forget(mem::replace(&mut self.data, data));
        mem::forget(self.next.take());
        (self.rx_queue, self.flow_hash) = (None, 0);
    }
}

impl Drop for Head {
    /// Parts go one by one: a long chain is not a deep recursion.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut part) = next {
            next = part.head_mut().next.take();
        }
    }
}
