//! The heads of packets whose frames are with a device.
//!
//! A device's rings carry frames. The heads wait beside the ring, in the order in which frames went in. The head that
//! has waited longest is joined with the frame that comes out next. It need not be the head that this frame had before:
//! a waiting head records nothing about bytes, and its packet's record has ended. So a device that completes out of
//! order causes no loss and no mix-up.

use super::head::Head;
use super::heads::HeadCache;
use super::packet::Packet;
use super::packets::Packets;
use crate::limits::{BATCH_MAX, FRAMES_MAX};
use crate::pool::{Batch, Frame};
use crate::slab::Object;
use crate::sync::Worker;
use std::collections::VecDeque;

/// Heads that wait for frames, oldest first.
///
/// Invariant: each head belongs to no packet. Dropped heads go back to their cache by the slow path.
#[derive(Debug, Default)]
pub struct InFlightHeads {
    heads: VecDeque<Object<Head>>,
}

impl InFlightHeads {
    /// Returns a queue without heads and with room for `frames` heads, the maximum that a device's ring holds. No pool
    /// has more than 4,194,304 frames, so no more room is made.
    #[cold]
    pub fn new(frames: usize) -> InFlightHeads {
        InFlightHeads { heads: VecDeque::with_capacity(frames.min(FRAMES_MAX) + BATCH_MAX) }
    }

    /// Number of waiting heads.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Returns whether no head waits.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Takes a packet apart: its frame is appended to `frames`, and its head waits.
    ///
    /// # Errors
    /// Returns the packet if its bytes are not one frame that belongs to it alone ([`HeadCache::make_sendable`] makes
    /// them one), or if `frames` has no room.
    ///
    /// # Cost
    /// One look at the head's line. Allocates if more heads wait than the queue has room for.
    #[inline]
    pub fn detach(&mut self, mut packet: Packet, frames: &mut Batch) -> Result<(), Packet> {
        if frames.room() == 0 {
            return Err(packet);
        }
        let Some(frame) = packet.take_frame() else { return self.detach_shared(packet, frames) };
        // There is room.
        let _ = frames.push(frame);
        self.heads.push_back(packet.into_head());
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn detach_shared(&mut self, mut packet: Packet, frames: &mut Batch) -> Result<(), Packet> {
        // The others that shared the frame may be gone.
        packet.reclaim();
        let Some(frame) = packet.take_frame() else { return Err(packet) };
        let _ = frames.push(frame);
        self.heads.push_back(packet.into_head());
        Ok(())
    }

    /// Joins frames from the front of `frames` with the heads that have waited longest, and appends the packets to
    /// `packets`. It stops when frames, heads or room run out. Returns the number of packets.
    #[inline]
    pub fn attach(&mut self, frames: &mut Batch, packets: &mut Packets) -> usize {
        let n = frames.len().min(self.heads.len()).min(packets.room());
        packets.extend(self.heads.drain(..n).zip(frames.drain()).map(join));
        n
    }

    /// As [`InFlightHeads::attach`], but with the heads that came last. Use it for frames that the device did not take.
    pub fn attach_newest(&mut self, frames: &mut Batch, packets: &mut Packets) -> usize {
        let n = frames.len().min(self.heads.len()).min(packets.room());
        let last = self.heads.len() - n;
        packets.extend(self.heads.drain(last..).zip(frames.drain()).map(join));
        n
    }

    /// Gives the newest `n` heads back to `heads`, or as many as wait. Use it for frames that never come back.
    #[cold]
    pub fn free_newest(&mut self, n: usize, heads: &HeadCache, w: &mut Worker) {
        let first = self.heads.len().saturating_sub(n);
        self.heads.drain(first..).for_each(|head| heads.keep(w, head));
    }
}

/// Makes a packet of a frame and a head that belonged to no packet.
#[inline(always)]
fn join((head, frame): (Object<Head>, Frame)) -> Packet {
    Packet::new(head, frame)
}
