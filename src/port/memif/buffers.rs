//! Where the bytes of a slot are that are copied: in buffers of our own, or wherever in its regions a client says.

use super::ring::{Descriptor, Lending, Serving, WakeFlag};
use crate::ring::Corrupt;
use crate::sys::memfd::SharedMemory;
use std::sync::Arc;

/// Packets ahead of the one that is copied whose bytes are asked for.
pub(super) const AHEAD: u32 = 8;
/// Slots ahead of those, of which four lie in a cache line.
const SLOTS_AHEAD: u32 = 8;
/// Slots of one packet at most: 128 KiB in buffers of 2 KiB. A peer says how long its buffers are, and how many slots a packet has; were it believed, each
/// packet could cost a walk over all of a ring.
pub(super) const PARTS_MAX: u32 = 64;
/// Slots that one call looks at, at most; the others wait for the next call.
pub(super) const SLOTS_MAX: u32 = 256;

/// Buffers of our own, one for each slot of a ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Buffers {
    /// Where in the memory the first one lies.
    pub(super) first: u32,
    /// Bytes of each.
    pub(super) size: u32,
}

impl Buffers {
    /// Where the buffer of the slot at `position` lies.
    #[inline]
    pub(super) fn at(self, position: u32) -> u32 {
        self.first + position * self.size
    }

    /// What the slot at `position` says while its buffer is empty.
    #[inline]
    pub(super) fn empty(self, position: u32) -> Descriptor {
        Descriptor { next: false, region: 0, len: self.size, offset: self.at(position) }
    }
}

/// An end of a ring whose buffers are copied from or into.
#[derive(Debug)]
pub(super) enum Copying {
    /// The client's: each slot has a buffer of its own in our memory, and what the ring says of where it is counts for
    /// nothing.
    Own {
        /// The end.
        ring: Lending,
        /// What the buffers lie in.
        memory: Arc<SharedMemory>,
        /// Where they lie there.
        buffers: Buffers,
    },
    /// The server's: the client says where.
    Peers {
        /// The end.
        ring: Serving,
        /// The client's regions by their numbers.
        regions: Arc<[Arc<SharedMemory>]>,
    },
}

/// A piece of memory that a peer shares.
pub(super) type Buffer<'a> = (&'a SharedMemory, u64);

impl Copying {
    /// Lends all buffers empty, for the server to fill; nothing where they are the client's to lend.
    #[cold]
    pub(super) fn lend_all(&mut self) {
        if let Copying::Own { ring, buffers, .. } = self {
            let room = ring.room();
            lend_empty(ring, *buffers, room);
        }
    }

    /// The first of the peer's regions that is lost.
    #[cold]
    pub(super) fn lost(&self) -> Option<usize> {
        match self {
            Copying::Own { .. } => None,
            Copying::Peers { regions, .. } => lost(regions),
        }
    }

    /// Slots in all.
    #[inline]
    pub(super) fn size(&self) -> u32 {
        match self {
            Copying::Own { ring, .. } => ring.size(),
            Copying::Peers { ring, .. } => ring.size(),
        }
    }

    /// Slots with packets to be received.
    #[inline]
    pub(super) fn received(&mut self) -> Result<u32, Corrupt> {
        match self {
            Copying::Own { ring, .. } => ring.returned(),
            Copying::Peers { ring, .. } => ring.ready(),
        }
    }

    /// What the `i`-th of them says, and its buffer; None where that makes no sense.
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

    /// Asks for the bytes of the `i`-th packet of `n`, and for a slot further on: the peer's core has them. What the slot says
    /// is looked at again, and checked, when the packet is received.
    #[inline]
    pub(super) fn prefetch_packet(&self, i: u32, n: u32) {
        self.prefetch(i, n, Lending::returned_at, SharedMemory::prefetch);
    }

    /// The same of the room that the `i`-th packet of `n` to send will have.
    #[inline]
    pub(super) fn prefetch_room(&self, i: u32, n: u32) {
        self.prefetch(i, n, Lending::next_at, SharedMemory::prefetch_write);
    }

    /// Asks for the bytes of the `i`-th slot of `n` by `ask`; where the slots are ours `at` says which one that is.
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

    /// The first `n` of them have been received.
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

    /// Slots that packets may be put into.
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

    /// Slots with packets that the peer has not read yet; none where its index makes no sense.
    #[cold]
    pub(super) fn unread_by_peer(&mut self) -> u32 {
        match self {
            Copying::Own { .. } => self.free().map_or(0, |free| self.size() - free),
            Copying::Peers { ring, .. } => ring.unread().unwrap_or(0),
        }
    }

    /// The buffer of the `i`-th of them and its room, with what its slot says; None where that makes no sense.
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

    /// Says what the `i`-th of them holds now.
    #[inline]
    pub(super) fn describe(&mut self, i: u32, descriptor: Descriptor) {
        match self {
            Copying::Own { ring, .. } => ring.write(ring.next_at(i), descriptor),
            Copying::Peers { ring, .. } => ring.write(ring.ready_at(i), descriptor),
        }
    }

    /// The first `n` of them hold packets.
    #[inline]
    pub(super) fn send(&mut self, n: u32) {
        match self {
            Copying::Own { ring, .. } => ring.lend(n),
            Copying::Peers { ring, .. } => ring.give_back(n),
        }
    }

    /// The word by which who reads the ring says whether it sleeps.
    pub(super) fn wake(&self) -> &WakeFlag {
        match self {
            Copying::Own { ring, .. } => &ring.wake,
            Copying::Peers { ring, .. } => &ring.wake,
        }
    }
}

/// The first of these regions that is lost.
#[cold]
pub(super) fn lost(regions: &[Arc<SharedMemory>]) -> Option<usize> {
    regions.iter().position(|region| region.is_lost())
}

/// What the client's `i`-th slot that is ours says, and the piece of its memory that it names; None where none of its regions
/// has that.
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

/// Lends the next `n` slots with their buffers empty.
#[inline]
fn lend_empty(ring: &mut Lending, buffers: Buffers, n: u32) {
    for i in 0..n {
        let position = ring.next_at(i);
        ring.write(position, buffers.empty(position));
    }
    ring.lend(n);
}
