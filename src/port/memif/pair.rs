//! Two rings, one each way, and the frames that are posted on them: one queue of the port.

use super::buffers::Copying;
use super::ring::{Descriptor, Lending, WakeFlag};
use crate::limits::{CHUNK_SHIFT, CHUNK_SIZE};
use crate::pool::Frame;
use crate::port::posted::PostedQueue;
use crate::sys::region::Region;
use crate::sys::shared_event::SharedEvent;
use std::num::NonZeroU32;

/// The end of a ring: frames are lent as they lie, or their bytes are copied.
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

    /// Slots whose packets were not received; none where the peer's index makes no sense.
    pub(super) fn unread(&mut self) -> u32 {
        match self {
            End::Lent(ring) => ring.returned().unwrap_or(0),
            End::Copied(ring) => ring.received().unwrap_or(0),
        }
    }

    /// The first of the peer's regions that is lost.
    #[cold]
    pub(super) fn lost(&self) -> Option<usize> {
        match self {
            End::Lent(_) => None,
            End::Copied(ring) => ring.lost(),
        }
    }

    /// Whether there is something to be received, or an index that makes no sense and is found out by receiving.
    pub(super) fn has_packets(&mut self) -> bool {
        let packets = match self {
            End::Lent(ring) => ring.returned(),
            End::Copied(ring) => ring.received(),
        };
        packets != Ok(0)
    }
}

/// What two peers share of one queue while they are connected.
#[derive(Debug)]
pub(super) struct Rings {
    pub(super) rx: End,
    pub(super) tx: End,
    /// Wakes the peer that reads what we send.
    pub(super) peers_bell: SharedEvent,
    /// Rung by the peer when it has sent.
    pub(super) bell: SharedEvent,
    /// Something was sent since the peer was last woken.
    pub(super) unannounced: bool,
}

/// One queue, with or without a peer.
///
/// Conservation: a frame posted is in `filled` or `sent` until it is claimed. With [`End::Lent`] the oldest of each are
/// those of the slots that are out, in the ring's order: so a slot that comes back is the oldest frame, whatever it says.
#[derive(Debug)]
pub(super) struct Pair {
    /// Empty frames, received into. They stay through a change of peers.
    pub(super) filled: PostedQueue,
    /// Frames being sent, or sent: all of them once there is no peer.
    pub(super) sent: PostedQueue,
    /// There while a peer is.
    pub(super) rings: Option<Rings>,
}

impl Pair {
    #[cold]
    pub(super) fn new(capacity: u32) -> Pair {
        let queue = || PostedQueue::new(capacity as usize);
        Pair { filled: queue(), sent: queue(), rings: None }
    }

    /// Begins with a peer: frames that are there to be received into are lent to it, if frames are lent. Those that its ring
    /// has no slots for go home, and so do those that were sent to the last peer and not claimed yet; returns how many the
    /// latter were.
    #[cold]
    pub(super) fn join(&mut self, mut rings: Rings, lender: Option<Lender>) -> usize {
        let former = self.sent.clear();
        if let (End::Lent(ring), Some(lender)) = (&mut rings.rx, lender) {
            self.filled.truncate(ring.room() as usize);
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
        former
    }
}

/// Where frames lie that are lent: in region 1, at their offsets in ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lender {
    /// The number of the region's first chunk.
    first: u32,
    chunks: u32,
    /// Whether frames may be larger than a chunk, so that each is asked.
    large: bool,
}

/// The number of the region that frames lie in; 0 has the rings.
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

    /// Where the frame's data begins, which lies within 4 GiB.
    #[inline]
    fn offset(&self, frame: &Frame) -> u32 {
        (frame.id().get().wrapping_sub(self.first) << CHUNK_SHIFT).wrapping_add(frame.off() as u32)
    }

    /// The frame's data.
    #[inline]
    pub(super) fn full(&self, frame: &Frame) -> Descriptor {
        Descriptor { next: false, region: FRAMES, len: frame.len() as u32, offset: self.offset(frame) }
    }

    /// The frame's room from where its data begins; of a frame that is not asked, to the end of its first chunk.
    #[inline]
    pub(super) fn empty(&self, frame: &Frame) -> Descriptor {
        let room =
            if self.large { frame.len() + frame.tailroom() } else { CHUNK_SIZE.saturating_sub(frame.off()) };
        Descriptor { next: false, region: FRAMES, len: room as u32, offset: self.offset(frame) }
    }
}
