//! One queue of the port: two rings, one in each direction, and the frames that are posted on them.

use super::buffers::Copying;
use super::ring::{Descriptor, Lending, WakeFlag};
use crate::limits::{CHUNK_SHIFT, CHUNK_SIZE};
use crate::pool::Frame;
use crate::port::posted::{Posted, PostedQueue};
use crate::sys::memfd::SharedMemory;
use crate::sys::region::Region;
use crate::sys::shared_event::SharedEvent;
use std::num::NonZeroU32;
use std::sync::Arc;

/// One end of a ring: frames are lent, or their bytes are copied.
#[derive(Debug)]
pub(super) enum End {
    /// The peer reads and writes our frames.
    Lent(Lending),
    /// Bytes are copied, once.
    Copied(Copying),
}

impl End {
    pub(super) fn wake(&self) -> &WakeFlag {
        match self {
            End::Lent(ring) => &ring.wake,
            End::Copied(ring) => ring.wake(),
        }
    }

    /// Number of packets that have not been received; 0 if the peer's index is invalid. One whose end has not come counts.
    #[cold]
    pub(super) fn unread(&mut self) -> u32 {
        let slots = match self {
            End::Lent(ring) => ring.returned().unwrap_or(0),
            End::Copied(ring) => ring.received().unwrap_or(0),
        };
        (0..slots).filter(|&i| i + 1 == slots || !self.goes_on(i)).count() as u32
    }

    fn goes_on(&self, i: u32) -> bool {
        match self {
            End::Lent(ring) => ring.read(ring.returned_at(i)).next,
            End::Copied(ring) => ring.goes_on(i),
        }
    }

    /// Returns the first region of shared memory that is lost.
    #[cold]
    pub(super) fn lost(&self) -> Option<usize> {
        match self {
            End::Lent(ring) => ring.is_lost().then_some(0),
            End::Copied(ring) => ring.lost(),
        }
    }

    /// Whether a packet can be received. Also true if the index is invalid, which the next reception finds.
    pub(super) fn has_packets(&mut self) -> bool {
        let packets = match self {
            End::Lent(ring) => ring.returned(),
            End::Copied(ring) => ring.received(),
        };
        packets != Ok(0)
    }
}

/// The part of one queue that two peers share while they are connected.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) rx: End,
    pub(super) tx: End,
    /// Wakes the peer that reads our packets.
    pub(super) peers_bell: SharedEvent,
    /// The peer writes it when it has sent packets.
    pub(super) bell: SharedEvent,
    /// Packets have been sent since the peer was last woken.
    pub(super) unannounced: bool,
}

impl Rings {
    /// The memory of this process through which bytes are copied. None if frames are lent, or the memory is the peer's.
    pub(super) fn own_buffers(&self) -> Option<&Arc<SharedMemory>> {
        match &self.tx {
            End::Copied(Copying::Own { memory, .. }) => Some(memory),
            _ => None,
        }
    }
}

/// One queue, with or without a peer.
///
/// Invariant: a posted frame is in `filled` or `sent` until it is claimed. With [`End::Lent`] the oldest frames of each
/// belong to the slots that are lent, in the order of the ring. So a slot that comes back belongs to the oldest frame,
/// whatever its descriptor says.
#[derive(Debug)]
pub(super) struct Pair {
    /// Empty frames to receive into. They stay when the peer changes, except those that are too many for the next one.
    pub(super) filled: PostedQueue,
    /// Frames that are being sent or have been sent. Without a peer, all of them have been sent.
    pub(super) sent: PostedQueue,
    /// Some while there is a peer.
    pub(super) rings: Option<Rings>,
}

impl Pair {
    #[cold]
    pub(super) fn new(capacity: u32) -> Pair {
        let queue = || PostedQueue::new(capacity as usize);
        Pair { filled: queue(), sent: queue(), rings: None }
    }

    /// Number of sent packets that the peer has not acknowledged; 0 without a peer, or if its index is invalid.
    #[cold]
    pub(super) fn unacknowledged(&mut self) -> usize {
        match self.rings.as_mut().map(|rings| &mut rings.tx) {
            Some(End::Lent(ring)) => {
                let sent = self.sent.len();
                ring.returned().map_or(0, |returned| sent.saturating_sub(returned as usize))
            }
            _ => self.unread(),
        }
    }

    /// Number of copied packets that the peer has not read; 0 without a peer. Lent frames are completed when they are read.
    #[cold]
    pub(super) fn unread(&mut self) -> usize {
        match self.rings.as_mut().map(|rings| &mut rings.tx) {
            Some(End::Copied(ring)) => ring.unread_by_peer() as usize,
            _ => 0,
        }
    }

    /// Starts with a peer. If frames are lent, the frames that are posted for reception are lent to it. Moves to `surplus`,
    /// for the caller to free, those for which its ring has no slots, and the frames that were sent to the last peer and
    /// not claimed yet. Returns the number of the latter.
    #[cold]
    pub(super) fn join(
        &mut self,
        mut rings: Rings,
        lender: Option<Lender>,
        surplus: &mut Vec<Posted>,
    ) -> usize {
        let former = self.sent.split_off(0);
        let n_former = former.len();
        surplus.extend(former);
        if let (End::Lent(ring), Some(lender)) = (&mut rings.rx, lender) {
            surplus.extend(self.filled.split_off(ring.room() as usize));
            let n = self.filled.len() as u32;
            for i in 0..n {
                if let Some(frame) = self.filled.frame(i as usize) {
                    let empty = lender.empty(frame);
                    ring.write(ring.next_at(i), empty);
                }
            }
            ring.lend(n);
        }
        if let End::Copied(ring) = &mut rings.rx {
            ring.lend_all();
        }
        rings.rx.wake().want(false);
        self.rings = Some(rings);
        n_former
    }
}

/// Where lent frames lie: in region 1, at their offsets in our region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lender {
    /// The number of the region's first chunk.
    first: u32,
    chunks: u32,
    /// Whether frames may be larger than a chunk. Then each frame's own room is used.
    large: bool,
}

/// The number of the region that frames lie in. Region 0 has the rings.
pub(super) const FRAMES: u16 = 1;

impl Lender {
    pub(super) fn new(region: &Region, frame_size: usize) -> Lender {
        Lender { first: region.first_chunk(), chunks: region.chunks(), large: frame_size > CHUNK_SIZE }
    }

    /// Whether the chunk numbered `id` lies in the region.
    #[inline]
    pub(super) fn owns(&self, id: NonZeroU32) -> bool {
        id.get().wrapping_sub(self.first) < self.chunks
    }

    /// Whether it is this region.
    #[cold]
    pub(super) fn is_of(&self, region: &Region) -> bool {
        (region.first_chunk(), region.chunks()) == (self.first, self.chunks)
    }

    /// Returns the offset at which the frame's data begins. It is less than 4 GiB.
    #[inline]
    fn offset(&self, frame: &Frame) -> u32 {
        (frame.id().get().wrapping_sub(self.first) << CHUNK_SHIFT).wrapping_add(frame.off() as u32)
    }

    /// Returns the descriptor of the frame's data.
    #[inline]
    pub(super) fn full(&self, frame: &Frame) -> Descriptor {
        Descriptor { next: false, region: FRAMES, len: frame.len() as u32, offset: self.offset(frame) }
    }

    /// Returns the descriptor of the frame's room, from the start of its data. If frames are not larger than a chunk,
    /// the room ends with the frame's first chunk.
    #[inline]
    pub(super) fn empty(&self, frame: &Frame) -> Descriptor {
        let room =
            if self.large { frame.len() + frame.tailroom() } else { CHUNK_SIZE.saturating_sub(frame.off()) };
        Descriptor { next: false, region: FRAMES, len: room as u32, offset: self.offset(frame) }
    }
}
