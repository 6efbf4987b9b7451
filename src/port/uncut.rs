//! Received packets to which their senders left something to be done: kept so, completed, or cut, and those that are to be cut until
//! there are frames for all of them.
//!
//! A packet that stands for many (GSO) has up to 64 KiB, of which the frame that was posted may have room for the beginning alone. The
//! device writes the rest into a slot of this memory; the beginning is put before it, and segments are written to frames from there.

use super::PortCounters;
use crate::limits::FRAME_SIZE_MAX;
use crate::wire::ethernet::{ADDRESSES_LEN, TAG_LEN};
use crate::wire::offload::{BadOffload, Offload};
use crate::wire::segment::Segments;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of a slot before the rest of a packet: for a whole frame, and a tag.
const FRONT: usize = FRAME_SIZE_MAX + 64;
/// Bytes of a slot for the rest: for the longest packet of IP behind its link header.
const BEYOND: usize = 68 << 10;
const SLOT: usize = FRONT + BEYOND;

/// Packets that are not in frames yet, oldest first.
#[derive(Debug)]
pub(super) struct Uncut {
    /// A slot for each. The system backs none before it is written.
    memory: Vec<u8>,
    waiting: VecDeque<Waiting>,
    /// Segments of the first packet that are in frames.
    cut: usize,
}

#[derive(Debug)]
struct Waiting {
    /// Where it is in `memory`.
    place: Range<usize>,
    offload: Offload,
    /// How it is cut; None of one that is a single segment.
    segments: Option<Segments>,
    /// What is left to be done to it goes on with it.
    keeps: bool,
}

impl Uncut {
    /// Room for so many packets.
    pub(super) fn new(packets: usize) -> Uncut {
        Uncut { memory: vec![0; packets * SLOT], waiting: VecDeque::new(), cut: 0 }
    }

    /// Whether nothing waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Packets that wait, whole or in part.
    #[cfg(feature = "af-packet")]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Where the device may write what the frames of a burst have no room for, while nothing waits.
    #[inline]
    pub(super) fn beyond(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.memory.chunks_exact_mut(SLOT).map(|slot| &mut slot[FRONT..])
    }

    /// Lets packet number `i` of a burst wait: `front` of it is in the frame that it came in, the next `beyond` bytes are where
    /// the device wrote them. A `tag` is put behind its addresses. With `most` it is cut into pieces of so many bytes, which go on with
    /// what is left to be done to them.
    ///
    /// # Errors
    /// [`BadOffload`]: it cannot be cut, and is not kept.
    ///
    /// # Panics
    /// Without a slot of that number.
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
        self.waiting.push_back(Waiting { place, offload, segments, keeps: most.is_some() });
        Ok(())
    }

    /// Frames that what waits is to be put into.
    #[cfg(feature = "xdp")]
    pub(super) fn frames(&self) -> usize {
        self.waiting.iter().map(Waiting::frames).sum::<usize>() - self.cut
    }

    /// Bytes of the next frame; None where nothing waits.
    #[inline]
    pub(super) fn next_len(&self) -> Option<usize> {
        self.waiting.front().map(|waiting| match &waiting.segments {
            Some(segments) => segments.bytes(self.cut),
            None => waiting.place.len(),
        })
    }

    /// Writes what is next to a frame that has room for it, or drops and counts it where there is none; what is left to be done to it
    /// where the frame has it.
    pub(super) fn write_next(&mut self, to: Option<&mut [u8]>, counters: &PortCounters) -> Option<Offload> {
        let waiting = self.waiting.front()?;
        let packet = &self.memory[waiting.place.clone()];
        let written = match to {
            Some(to) => waiting.write(packet, self.cut, to, counters),
            None => {
                counters.rx_too_long.add(1);
                None
            }
        };
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

    /// Writes the segment at `i` of this packet, or all of it; what is left to be done to it. None, and counted, where its checksum
    /// cannot be completed.
    fn write(&self, packet: &[u8], i: usize, to: &mut [u8], counters: &PortCounters) -> Option<Offload> {
        if let Some(segments) = &self.segments {
            let offload = segments.offload(i);
            counters.gso_kept.add(offload.gso.is_some().into());
            return segments.write(packet, i, to).then_some(offload);
        }
        to.copy_from_slice(packet);
        if self.keeps {
            return Some(self.offload);
        }
        let finished = finish(to, self.offload, counters);
        counters.rx_dropped.add((!finished).into());
        finished.then(Offload::default)
    }
}

/// Completes a packet's checksum where that is left to be done; false where it cannot be.
pub(super) fn finish(packet: &mut [u8], offload: Offload, counters: &PortCounters) -> bool {
    let Some(checksum) = offload.checksum else { return true };
    let finished = checksum.finish(packet).is_ok();
    counters.csum_finished.add(finished.into());
    finished
}

/// Puts a tag between the addresses and the type of `frame`, whose first bytes are room for it: the addresses move, which are fewer
/// bytes than the rest.
pub(super) fn insert(frame: &mut [u8], tag: [u8; TAG_LEN]) {
    frame.copy_within(tag.len()..tag.len() + ADDRESSES_LEN, 0);
    frame[ADDRESSES_LEN..ADDRESSES_LEN + tag.len()].copy_from_slice(&tag);
}
