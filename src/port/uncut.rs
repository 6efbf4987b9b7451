//! Received packets with open offload work: they are kept as they are, completed, or cut. Packets to be cut wait here
//! until there are frames for all segments.
//!
//! A packet that stands for many (GSO) has up to 64 KiB. The posted frame may have room only for its beginning. The
//! device writes the rest into a slot of this memory. The beginning is then copied in front of it, and segments are
//! written to frames from there.

use super::PortCounters;
use crate::limits::FRAME_SIZE_MAX;
use crate::wire::ethernet::{ADDRESSES_LEN, TAG_LEN};
use crate::wire::offload::{BadOffload, Offload};
use crate::wire::segment::Segments;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Bytes of a slot before the rest of a packet: room for a whole frame and a tag.
const FRONT: usize = FRAME_SIZE_MAX + 64;
/// Bytes of a slot for the rest: room for the longest IP packet behind its link header.
const BEYOND: usize = 68 << 10;
const SLOT: usize = FRONT + BEYOND;

/// Packets that are not in frames yet, oldest first.
#[derive(Debug)]
pub(super) struct Uncut {
    /// One slot for each packet. The system backs none before it is written.
    memory: Vec<u8>,
    waiting: VecDeque<Waiting>,
    /// Number of segments of the first packet that are already in frames.
    cut: usize,
    /// A packet that stands for several was dropped, because nothing says how to cut it.
    #[cfg_attr(not(feature = "af-packet"), allow(dead_code))]
    pub(super) has_refused: bool,
}

#[derive(Debug)]
struct Waiting {
    /// Its range in `memory`.
    place: Range<usize>,
    offload: Offload,
    /// How it is cut; None for a packet of one segment.
    segments: Option<Segments>,
    /// Its open offload work stays with it.
    keeps: bool,
    /// The time that its frames get.
    time: Option<Duration>,
}

impl Uncut {
    /// Makes room for that many packets.
    pub(super) fn new(packets: usize) -> Uncut {
        Uncut { memory: vec![0; packets * SLOT], waiting: VecDeque::new(), cut: 0, has_refused: false }
    }

    /// Returns whether no packet waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Number of packets that wait, whole or in part.
    #[cfg(any(feature = "af-packet", feature = "tap"))]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The slots into which the device may write the bytes for which the frames of a burst have no room, while no
    /// packet waits.
    #[inline]
    pub(super) fn beyond(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.memory.chunks_exact_mut(SLOT).map(|slot| &mut slot[FRONT..])
    }

    /// Lets packet number `i` of a burst wait. `front` of it is in the frame in which it came; the device wrote the
    /// next `beyond` bytes to the slot. A `tag` is inserted behind its addresses. With `most`, it is cut into pieces of
    /// that many bytes, which keep their open offload work.
    ///
    /// # Errors
    /// Returns [`BadOffload`] if the packet cannot be cut and is not kept.
    ///
    /// # Panics
    /// Panics if there is no slot of that number.
    #[cold]
    pub(super) fn wait(
        &mut self,
        i: usize,
        front: &[u8],
        beyond: usize,
        tag: Option<[u8; TAG_LEN]>,
        offload: Offload,
        most: Option<usize>,
    ) -> Result<(), BadOffload> {
        let middle = i * SLOT + FRONT;
        let mut place = middle - front.len()..middle + beyond.min(BEYOND);
        self.memory[place.start..middle].copy_from_slice(front);
        let mut offload = offload;
        if let Some(tag) = tag.filter(|_| place.len() >= ADDRESSES_LEN) {
            offload = offload.moved_by(tag.len() as u16);
            place.start -= tag.len();
            insert(&mut self.memory[place.clone()], tag);
        }
        let segments = match offload.gso {
            Some(_) => Some(Segments::of(&self.memory[place.clone()], &offload)?),
            None => None,
        };
        let segments = segments.map(|segments| match most {
            Some(most) => segments.in_pieces(most),
            None => segments,
        });
        self.waiting.push_back(Waiting { place, offload, segments, keeps: most.is_some(), time: None });
        Ok(())
    }

    /// Sets the time of the packet that came last.
    #[cfg(any(feature = "af-packet", feature = "tap"))]
    pub(super) fn set_time(&mut self, time: Option<Duration>) {
        if let Some(waiting) = self.waiting.back_mut() {
            waiting.time = time;
        }
    }

    /// Number of frames that the waiting packets need.
    #[cfg(feature = "xdp")]
    pub(super) fn frames(&self) -> usize {
        self.waiting.iter().map(Waiting::frames).sum::<usize>() - self.cut
    }

    /// Number of bytes of the next frame; None if no packet waits.
    #[inline]
    pub(super) fn next_len(&self) -> Option<usize> {
        self.waiting.front().map(|waiting| match &waiting.segments {
            Some(segments) => segments.bytes(self.cut),
            None => waiting.place.len(),
        })
    }

    /// Writes the next segment into a frame that has room for it. Without a frame, drops and counts it. Returns the
    /// offload work that the frame has left, and its time.
    pub(super) fn write_next(
        &mut self,
        to: Option<&mut [u8]>,
        counters: &PortCounters,
    ) -> Option<(Offload, Option<Duration>)> {
        let waiting = self.waiting.front()?;
        let packet = &self.memory[waiting.place.clone()];
        let written = match to {
            Some(to) => waiting.write(packet, self.cut, to, counters),
            None => {
                counters.rx_too_long.add(1);
                None
            }
        };
        let written = written.map(|offload| (offload, waiting.time));
        self.cut += 1;
        if self.cut == waiting.frames() {
            counters.gso_cut.add(waiting.segments.is_some().into());
            self.waiting.pop_front();
            self.cut = 0;
        }
        written
    }
}

impl Waiting {
    fn frames(&self) -> usize {
        self.segments.map_or(1, |segments| segments.count())
    }

    /// Writes the segment at `i` of this packet, or all of it. Returns its open offload work. Returns None, and counts
    /// it, if its checksum cannot be completed.
    fn write(&self, packet: &[u8], i: usize, to: &mut [u8], counters: &PortCounters) -> Option<Offload> {
        if let Some(segments) = &self.segments {
            let offload = segments.offload(i);
            counters.gso_kept.add(offload.gso.is_some().into());
            return segments.write(packet, i, to).then_some(offload);
        }
        to.copy_from_slice(packet);
        if self.keeps && self.offload.can_wait(to) {
            return Some(self.offload);
        }
        let finished = finish(to, self.offload, counters);
        counters.rx_dropped.add((!finished).into());
        finished.then(Offload::default)
    }
}

/// Completes a packet's checksum if it is open. Returns false if that is not possible.
pub(super) fn finish(packet: &mut [u8], offload: Offload, counters: &PortCounters) -> bool {
    let Some(checksum) = offload.checksum else { return true };
    let finished = checksum.finish(packet).is_ok();
    counters.csum_completed.add(finished.into());
    finished
}

/// Inserts a tag between the addresses and the type of `frame`, whose first bytes are room for it. The addresses move,
/// which are fewer bytes than the rest.
pub(super) fn insert(frame: &mut [u8], tag: [u8; TAG_LEN]) {
    frame.copy_within(tag.len()..tag.len() + ADDRESSES_LEN, 0);
    frame[ADDRESSES_LEN..ADDRESSES_LEN + tag.len()].copy_from_slice(&tag);
}
