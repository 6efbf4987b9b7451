//! Finds the bytes of a slot that is copied: in buffers of our own, or in a client's regions, at the offset that the
//! slot names.

use super::ring::{Descriptor, Lending, Serving, WakeFlag};
use crate::ring::Corrupt;
use crate::sys::memfd::SharedMemory;
use std::sync::Arc;

/// Number of packets from the one that is copied to the one whose bytes are prefetched.
pub(super) const AHEAD: u32 = 8;
/// Number of slots from that one to the slot that is prefetched. Four slots lie in a cache line.
const SLOTS_AHEAD: u32 = 8;
/// Maximum number of slots of one packet: 128 KiB in buffers of 2 KiB. A peer chooses the length of its buffers and the
/// number of slots of a packet. Without this bound, each packet could cost a walk over the whole ring.
pub(super) const PARTS_MAX: u32 = 64;
/// Maximum number of slots that one call processes. The others wait for the next call.
pub(super) const SLOTS_MAX: u32 = 256;

/// Buffers of our own, one for each slot of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    /// The offset of the first one in the memory.
    pub(super) first: u32,
    /// Bytes of each.
    pub(super) size: u32,
}

impl Buffers {
    /// Returns the offset of the buffer of the slot at `position`.
    #[inline]
    pub(super) fn at(self, position: u32) -> u32 {
        self.first + position * self.size
    }

    /// Returns the descriptor of the slot at `position` while its buffer is empty.
    #[inline]
    pub(super) fn empty(self, position: u32) -> Descriptor {
        Descriptor { next: false, region: 0, len: self.size, offset: self.at(position) }
    }
}

/// One end of a ring whose packets are copied.
#[derive(Debug)]
pub(super) enum Copying {
    /// The client's end: each slot has its own buffer in our memory. The region and the offset in the slot are not
    /// used.
    Own {
        /// The end.
        ring: Lending,
        /// The memory that the buffers lie in.
        memory: Arc<SharedMemory>,
        /// Where they lie in that memory.
        buffers: Buffers,
    },
    /// The server's end: the client's slots name the buffers.
    Peers {
        /// The end.
        ring: Serving,
        /// The client's regions, by number.
        regions: Arc<[Arc<SharedMemory>]>,
    },
}

/// A piece of memory that a peer shares.
pub(super) type Buffer<'a> = (&'a SharedMemory, u64);

impl Copying {
    /// Lends all buffers, empty, for the server to fill. Does nothing on a server: there the client lends them.
    #[cold]
    pub(super) fn lend_all(&mut self) {
        if let Copying::Own { ring, buffers, .. } = self {
            let room = ring.room();
            lend_empty(ring, *buffers, room);
        }
    }

    /// Returns the first region of shared memory that is lost.
    #[cold]
    pub(super) fn lost(&self) -> Option<usize> {
        match self {
            Copying::Own { ring, .. } => ring.is_lost().then_some(0),
            Copying::Peers { regions, .. } => lost(regions),
        }
    }

    /// Number of slots.
    #[inline]
    pub(super) fn size(&self) -> u32 {
        match self {
            Copying::Own { ring, .. } => ring.size(),
            Copying::Peers { ring, .. } => ring.size(),
        }
    }

    /// Number of slots with packets that can be received.
    #[inline]
    pub(super) fn received(&mut self) -> Result<u32, Corrupt> {
        match self {
            Copying::Own { ring, .. } => ring.returned(),
            Copying::Peers { ring, .. } => ring.ready(),
        }
    }

    /// Returns the descriptor and the buffer of the `i`-th of them. Returns None if the descriptor is invalid.
    #[inline]
    pub(super) fn packet(&self, i: u32) -> Option<(Descriptor, Buffer<'_>)> {
        match self {
            Copying::Own { ring, memory, buffers } => {
                let position = ring.returned_at(i);
                let said = ring.read(position);
                (said.len <= buffers.size).then(|| (said, (&**memory, buffers.at(position).into())))
            }
            Copying::Peers { ring, regions } => said_by_client(ring, regions, i),
        }
    }

    /// Prefetches the bytes of the `i`-th packet of `n`, and a slot further on, which are in the cache of the peer's
    /// core. The slot is read and checked again when the packet is received.
    #[inline]
    pub(super) fn prefetch_packet(&self, i: u32, n: u32) {
        self.prefetch(i, n, Lending::returned_at, SharedMemory::prefetch);
    }

    /// Does the same for the buffer that the `i`-th packet of `n` to send will be written into.
    #[inline]
    pub(super) fn prefetch_room(&self, i: u32, n: u32) {
        self.prefetch(i, n, Lending::next_at, SharedMemory::prefetch_write);
    }

    /// Prefetches the bytes of the `i`-th slot of `n` by `ask`. For a ring of ours, `at` gives the position of the
    /// slot.
    #[inline(always)]
    fn prefetch(&self, i: u32, n: u32, at: fn(&Lending, u32) -> u32, ask: fn(&SharedMemory, u64)) {
        let later = Some(i + SLOTS_AHEAD).filter(|&later| later < n);
        match self {
            Copying::Own { ring, memory, buffers } => {
                ask(memory, buffers.at(at(ring, i)).into());
                later.into_iter().for_each(|later| ring.prefetch(at(ring, later)));
            }
            Copying::Peers { ring, regions } => {
                let said = ring.read(ring.ready_at(i));
                if let Some(memory) = regions.get(usize::from(said.region)) {
                    ask(memory, said.offset.into());
                }
                later.into_iter().for_each(|later| ring.prefetch(ring.ready_at(later)));
            }
        }
    }

    /// Gives the first `n` of them back: they have been received.
    #[inline]
    pub(super) fn release(&mut self, n: u32) {
        match self {
            Copying::Own { ring, buffers, .. } => {
                ring.take_back(n);
                lend_empty(ring, *buffers, n);
            }
            Copying::Peers { ring, .. } => ring.give_back(n),
        }
    }

    /// Number of slots that packets can be written into.
    #[inline]
    pub(super) fn free(&mut self) -> Result<u32, Corrupt> {
        match self {
            Copying::Own { ring, .. } => {
                let read = ring.returned()?;
                ring.take_back(read);
                Ok(ring.room())
            }
            Copying::Peers { ring, .. } => ring.lent(),
        }
    }

    /// Number of packets that the peer has not read yet; 0 if the peer's index is invalid.
    #[cold]
    pub(super) fn unread_by_peer(&mut self) -> u32 {
        let slots = match self {
            Copying::Own { .. } => self.free().map_or(0, |free| self.size() - free),
            Copying::Peers { ring, .. } => ring.unread().unwrap_or(0),
        };
        // They lie before the next slot.
        (1..=slots).filter(|&i| !self.sent_before(i).next).count() as u32
    }

    /// Returns the descriptor of the slot that lies `i` slots before the next one that a packet is written into.
    #[cold]
    fn sent_before(&self, i: u32) -> Descriptor {
        let i = i.wrapping_neg();
        match self {
            Copying::Own { ring, .. } => ring.read(ring.next_at(i)),
            Copying::Peers { ring, .. } => ring.read(ring.ready_at(i)),
        }
    }

    /// Whether the packet in the `i`-th slot of those that can be received goes on in the next.
    #[cold]
    pub(super) fn goes_on(&self, i: u32) -> bool {
        match self {
            Copying::Own { ring, .. } => ring.read(ring.returned_at(i)).next,
            Copying::Peers { ring, .. } => ring.read(ring.ready_at(i)).next,
        }
    }

    /// Returns the descriptor and the buffer of the `i`-th of them. The descriptor says how long the buffer is. Returns
    /// None if the descriptor is invalid.
    #[inline]
    pub(super) fn room(&self, i: u32) -> Option<(Descriptor, Buffer<'_>)> {
        match self {
            Copying::Own { ring, memory, buffers } => {
                let said = buffers.empty(ring.next_at(i));
                Some((said, (&**memory, said.offset.into())))
            }
            Copying::Peers { ring, regions } => said_by_client(ring, regions, i),
        }
    }

    /// Writes the descriptor of the `i`-th of them.
    #[inline]
    pub(super) fn describe(&mut self, i: u32, descriptor: Descriptor) {
        match self {
            Copying::Own { ring, .. } => ring.write(ring.next_at(i), descriptor),
            Copying::Peers { ring, .. } => ring.write(ring.ready_at(i), descriptor),
        }
    }

    /// Sends the packets in the first `n` of them.
    #[inline]
    pub(super) fn send(&mut self, n: u32) {
        match self {
            Copying::Own { ring, .. } => ring.lend(n),
            Copying::Peers { ring, .. } => ring.give_back(n),
        }
    }

    /// The flag by which the reader of the ring says whether it sleeps.
    pub(super) fn wake(&self) -> &WakeFlag {
        match self {
            Copying::Own { ring, .. } => &ring.wake,
            Copying::Peers { ring, .. } => &ring.wake,
        }
    }
}

/// Returns the first of these regions that is lost.
#[cold]
pub(super) fn lost(regions: &[Arc<SharedMemory>]) -> Option<usize> {
    regions.iter().position(|region| region.is_lost())
}

/// Returns the descriptor of the `i`-th slot that is ours, and the memory that it names. Returns None if no region of
/// the client contains that memory.
#[inline]
fn said_by_client<'a>(
    ring: &Serving,
    regions: &'a [Arc<SharedMemory>],
    i: u32,
) -> Option<(Descriptor, Buffer<'a>)> {
    let said = ring.read(ring.ready_at(i));
    let memory = regions.get(usize::from(said.region))?;
    let inside = memory.holds(said.offset.into(), said.len as usize);
    inside.then(|| (said, (&**memory, said.offset.into())))
}

/// Lends the next `n` slots with empty buffers.
#[inline]
fn lend_empty(ring: &mut Lending, buffers: Buffers, n: u32) {
    for i in 0..n {
        let position = ring.next_at(i);
        ring.write(position, buffers.empty(position));
    }
    ring.lend(n);
}
