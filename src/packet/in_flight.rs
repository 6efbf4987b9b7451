//! The heads of packets whose frames are with a device.
//!
//! A device's rings carry frames. The head waits beside the ring, in the order in which frames went in; the one that has
//! waited longest meets the frame that comes out next. Whose frame that was does not matter: a waiting head says nothing
//! about bytes, and what was recorded of its packet ends with it, so a device that completes out of order loses and mixes
//! up nothing.

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
/// Invariant: each is no packet's. Dropped, they go back to their cache by the slow way.
#[derive(Debug, Default)]
pub struct InFlightHeads {
    heads: VecDeque<Object<Head>>,
}

impl InFlightHeads {
    /// Without heads, and with room for `frames` of them: what a device's ring holds at most. No pool has more than 4,194,304
    /// frames, so room is made for no more.
    #[cold]
    pub fn new(frames: usize) -> InFlightHeads {
        InFlightHeads { heads: VecDeque::with_capacity(frames.min(FRAMES_MAX) + BATCH_MAX) }
    }

    /// Heads that wait.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Takes a packet apart: its frame is appended to `frames`, its head waits.
    ///
    /// # Errors
    /// The packet, when its bytes are not one frame that is its alone ([`HeadCache::make_sendable`] makes them so), or `frames` has
    /// no room.
    ///
    /// # Cost
    /// The head's line. Allocates where more heads wait than there was room made for.
    #[inline]
    pub fn depart(&mut self, mut packet: Packet, frames: &mut Batch) -> Result<(), Packet> {
        if frames.room() == 0 {
            return Err(packet);
        }
        let Some(frame) = packet.take_frame() else { return self.depart_odd(packet, frames) };
        // There is room.
        let _ = frames.push(frame);
        self.heads.push_back(packet.into_head());
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn depart_odd(&mut self, mut packet: Packet, frames: &mut Batch) -> Result<(), Packet> {
        // Those who shared the frame may be gone.
        packet.reclaim();
        let Some(frame) = packet.take_frame() else { return Err(packet) };
        let _ = frames.push(frame);
        self.heads.push_back(packet.into_head());
        Ok(())
    }

    /// Joins frames, from the front of `frames`, with the heads that have waited longest, and appends the packets to
    /// `packets`, as far as there are frames, heads and room; returns how many.
    #[inline]
    pub fn arrive(&mut self, frames: &mut Batch, packets: &mut Packets) -> usize {
        let n = frames.len().min(self.heads.len()).min(packets.room());
        packets.extend(self.heads.drain(..n).zip(frames.drain()).map(join));
        n
    }

    /// As [`InFlightHeads::arrive`] with the heads that came last: for frames that the device did not take.
    pub fn recall(&mut self, frames: &mut Batch, packets: &mut Packets) -> usize {
        let n = frames.len().min(self.heads.len()).min(packets.room());
        let last = self.heads.len() - n;
        packets.extend(self.heads.drain(last..).zip(frames.drain()).map(join));
        n
    }

    /// Gives the `n` heads that came last back to `heads`, or as many as wait: for frames that never come out again.
    #[cold]
    pub fn give_up(&mut self, n: usize, heads: &HeadCache, w: &mut Worker) {
        let first = self.heads.len().saturating_sub(n);
        self.heads.drain(first..).for_each(|head| heads.keep(w, head));
    }
}

/// A packet of a frame and a head that was no packet's.
#[inline(always)]
fn join((head, frame): (Object<Head>, Frame)) -> Packet {
    Packet::new(head, frame)
}
