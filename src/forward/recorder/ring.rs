//! HOT when recording: a port's last packets, written by one worker and read by any thread.
//!
//! Each slot has the number of its packet, and no number while it is written. A reader reads the number before and
//! after it reads the slot. If both are the packet's, the content is too. The writer waits for no reader, and a slow
//! reader misses packets.

use crate::forward::verdict::{Code, Reason};
use crate::sync::shim::{AtomicU64, fence};
use crate::sys::dump::UndumpedArray;
use crossbeam_utils::CachePadded;
use std::array::from_fn;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Number of words of a packet's beginning in a slot. With the rest of the slot, they are three cache lines.
const WORDS: usize = if cfg!(loom) { 1 } else { 18 };
/// Maximum number of bytes kept of a packet.
pub(super) const BYTES: usize = WORDS * 8;

/// The state of a packet as one word: the frame's id above, then verdict, the reason for which it was lost, and whether
/// a drop was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Became(u64);

impl Became {
    const UNDECIDED: u64 = 0xffff_0000;
    const CODE: u64 = 0xffff_0000;
    const LOST: u64 = 0xff00;
    const ANSWERED: u64 = 1;

    /// No state yet; 0 is not a frame's id.
    fn of(id: Option<NonZeroU32>) -> Became {
        Became(u64::from(id.map_or(0, NonZeroU32::get)) << 32 | Became::UNDECIDED)
    }

    #[inline]
    pub(super) fn decided(self, code: Code) -> Became {
        Became(self.0 & !(Became::CODE | Became::LOST) | u64::from(code.bits()) << 16)
    }

    pub(super) fn lost(self, reason: Reason) -> Became {
        Became(self.0 & !Became::LOST | (reason.index() as u64 + 1) << 8)
    }

    pub(super) fn answered(self) -> Became {
        Became(self.0 | Became::ANSWERED)
    }

    /// The verdict; None while there is none.
    pub(super) fn code(self) -> Option<Code> {
        let code = self.0 & Became::CODE;
        (code != Became::UNDECIDED).then(|| Code::from_bits((code >> 16) as u16))
    }

    /// The reason for which it was dropped after its verdict.
    pub(super) fn lost_for(self) -> Option<Reason> {
        let index = (self.0 & Became::LOST) >> 8;
        index.checked_sub(1).map(|index| Reason::at(index as usize))
    }

    /// The frame, or None if it is not known.
    pub(super) fn id(self) -> Option<NonZeroU32> {
        NonZeroU32::new((self.0 >> 32) as u32)
    }

    pub(super) fn is_answered(self) -> bool {
        self.0 & Became::ANSWERED != 0
    }
}

/// One packet.
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot {
    /// The packet's number plus 1; 0 while it is written, or if there never was one.
    holds: AtomicU64,
    /// The time when it was first looked at.
    ticks: AtomicU64,
    /// The time when another worker handed it over, or 0.
    handed: AtomicU64,
    /// The time when it was decided about again, or 0.
    again: AtomicU64,
    /// Its length above, and the queue of reception.
    size: AtomicU64,
    became: AtomicU64,
    bytes: [AtomicU64; WORDS],
}

/// A packet as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) ticks: u64,
    pub(super) handed: u64,
    pub(super) again: u64,
    pub(super) queue: u16,
    pub(super) len: u32,
    pub(super) became: Became,
    pub(super) bytes: [u8; BYTES],
}

/// A port's last packets at one worker.
#[derive(Debug)]
pub(super) struct Ring {
    /// The number of the next packet, from 0.
    next: CachePadded<AtomicU64>,
    /// A power of two of them: packet `n` is in slot `n` modulo their number.
    slots: UndumpedArray<Slot>,
}

impl Ring {
    /// Makes room for at least that many packets.
    #[cold]
    pub(super) fn new(packets: usize) -> Ring {
        let [holds, ticks, handed, again, size, became] = [(); 6].map(|()| || AtomicU64::new(0));
        let slot = || Slot {
            holds: holds(),
            ticks: ticks(),
            handed: handed(),
            again: again(),
            size: size(),
            became: became(),
            bytes: from_fn(|_| AtomicU64::new(0)),
        };
        let slots = UndumpedArray::new(packets.next_power_of_two(), slot);
        Ring { next: CachePadded::new(AtomicU64::new(0)), slots }
    }

    /// Number of packets for which there is room.
    pub(super) fn room(&self) -> usize {
        self.slots.len()
    }

    /// The number of the next packet.
    pub(super) fn next(&self) -> u64 {
        // Pairs with the Release of `note`: packets below it have been written.
        self.next.load(Acquire)
    }

    #[inline]
    fn slot(&self, number: u64) -> &Slot {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }

    /// Writes a packet over the oldest one, with the time when it was first looked at and the time when it was handed
    /// over (0: not). Returns its number. Only the ring's one writer may call it.
    #[inline]
    pub(super) fn note(
        &self,
        (ticks, handed): (u64, u64),
        queue: u16,
        id: Option<NonZeroU32>,
        data: &[u8],
    ) -> u64 {
        let number = self.next.load(Relaxed);
        let slot = self.slot(number);
        slot.holds.store(0, Relaxed);
        // Pairs with the Acquire fence of `read`: a reader that has read any of the values that follow finds the old
        // number gone.
        fence(Release);
        slot.ticks.store(ticks, Relaxed);
        slot.handed.store(handed, Relaxed);
        slot.again.store(0, Relaxed);
        slot.size.store((data.len() as u64) << 16 | u64::from(queue), Relaxed);
        slot.became.store(Became::of(id).0, Relaxed);
        let (words, rest) = data[..data.len().min(BYTES)].as_chunks();
        for (to, word) in slot.bytes.iter().zip(words) {
            to.store(u64::from_ne_bytes(*word), Relaxed);
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            slot.bytes[words.len()].store(u64::from_ne_bytes(word), Relaxed);
        }
        // Pairs with the Acquire of `read`: a reader that finds the number finds the packet.
        slot.holds.store(number + 1, Release);
        self.next.store(number + 1, Release);
        number
    }

    /// Changes the state of a packet, if it is still here and belongs to this frame. Called by the ring's one writer.
    #[inline]
    pub(super) fn change(
        &self,
        number: u64,
        id: Option<NonZeroU32>,
        change: impl FnOnce(Became) -> Became,
    ) -> bool {
        let slot = self.slot(number);
        let became = Became(slot.became.load(Relaxed));
        let is_here = self.holds(number) && became.0 >> 32 == Became::of(id).0 >> 32;
        if is_here {
            // Pairs with the Acquire of `read`: a reader that sees a second verdict sees its time.
            slot.became.store(change(became).0, Release);
        }
        is_here
    }

    /// The time when the packet of this number was first looked at. Called by the ring's one writer, while it is here.
    pub(super) fn noted_at(&self, number: u64) -> u64 {
        self.slot(number).ticks.load(Relaxed)
    }

    /// Records when a packet was decided about again. Called by the ring's one writer, before it changes the state.
    pub(super) fn decided_again(&self, number: u64, ticks: u64) {
        self.slot(number).again.store(ticks, Relaxed);
    }

    /// Returns whether the packet of this number is still here. Called by the ring's one writer.
    pub(super) fn holds(&self, number: u64) -> bool {
        self.slot(number).holds.load(Relaxed) == number + 1
    }

    /// The packet of this number, if it is here still.
    pub(super) fn read(&self, number: u64) -> Option<Read> {
        let slot = self.slot(number);
        // Pairs with the Release of `note`.
        if slot.holds.load(Acquire) != number + 1 {
            return None;
        }
        // Pairs with the Release of `change`.
        let became = Became(slot.became.load(Acquire));
        let mut bytes = [0; BYTES];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(&slot.bytes) {
            *to = word.load(Relaxed).to_ne_bytes();
        }
        let size = slot.size.load(Relaxed);
        let (ticks, again) = (slot.ticks.load(Relaxed), slot.again.load(Relaxed));
        let handed = slot.handed.load(Relaxed);
        // Pairs with the Release fence of `note`.
        fence(Acquire);
        let read = Read { ticks, handed, again, queue: size as u16, len: (size >> 16) as u32, became, bytes };
        (slot.holds.load(Relaxed) == number + 1).then_some(read)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::ring::tests::model;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn what_is_read_is_one_packet_however_the_writer_goes_on() {
        model(|| {
            let ring = Arc::new(Ring::new(1));
            ring.note((7, 7), 7, NonZeroU32::new(7), &[7; 8]);
            let writer = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || {
                    let number = ring.note((8, 8), 8, NonZeroU32::new(8), &[8; 8]);
                    ring.decided_again(number, 9);
                    assert!(ring.change(number, NonZeroU32::new(8), Became::answered));
                })
            };
            for number in 0..ring.next() {
                let Some(read) = ring.read(number) else { continue };
                let is = 7 + number;
                assert_eq!((read.ticks, read.handed, read.queue, read.len), (is, is, is as u16, 8));
                assert_eq!((read.bytes, read.became.0 >> 32), ([is as u8; 8], is));
                assert!(!read.became.is_answered() || read.again == 9);
            }
            writer.join().unwrap();
        });
    }
}
