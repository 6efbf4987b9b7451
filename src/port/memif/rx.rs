//! HOT: receives packets from the peer.

use super::buffers::{AHEAD, Copying, PARTS_MAX, SLOTS_MAX};
use super::pair::{End, Pair};
use super::ring::Lending;
use super::{Fault, MemifPort};
use crate::pool::{Batch, Frame, NoRoom};
use crate::port::Rx;
use crate::port::posted::PostedQueue;
use crate::sync::Worker;

/// The result of one reception from a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Got {
    /// Slots that can be given back.
    slots: u32,
    /// Number of frames that hold packets now, which are the oldest.
    frames: usize,
    /// Number of frames whose bytes were copied.
    copied: u64,
    /// Number of packets that are longer than a frame.
    too_long: u64,
}

impl Pair {
    /// Appends received packets to `frames` while it has room. The packets received before a fault are valid.
    #[inline]
    pub(super) fn receive(&mut self, w: &mut Worker, frames: &mut Batch) -> (Got, Result<(), Fault>) {
        let Some(rings) = &mut self.rings else { return (Got::default(), Ok(())) };
        match &mut rings.rx {
            End::Lent(ring) => receive_lent(ring, &mut self.filled, w, frames),
            End::Copied(ring) => {
                let (got, done) = copy_packets(ring, &mut self.filled, frames.room());
                self.filled.claim(w, frames, got.frames);
                ring.release(got.slots);
                (got, done)
            }
        }
    }
}

/// Receives frames that the peer has written into.
#[inline]
fn receive_lent(
    ring: &mut Lending,
    filled: &mut PostedQueue,
    w: &mut Worker,
    frames: &mut Batch,
) -> (Got, Result<(), Fault>) {
    let mut got = Got::default();
    let returned = match ring.returned() {
        Ok(returned) => returned,
        Err(corrupt) => return (got, Err(Fault::Ring("rx", corrupt))),
    };
    let most = returned.min(frames.room() as u32);
    let mut done = Ok(());
    let mut chained = false;
    for i in 0..most {
        let said = ring.read(ring.returned_at(i));
        let Some(frame) = filled.frame(i as usize) else { break };
        chained = said.next;
        if chained {
            break;
        }
        if !holds(frame, said.len) {
            done = Err(Fault::Descriptor("rx", said));
            break;
        }
        got.slots += 1;
    }
    got.frames = filled.claim(w, frames, got.slots as usize);
    ring.take_back(got.slots);
    if chained && got.frames == 0 {
        return gather_lent(ring, filled, w, frames, returned);
    }
    (got, done)
}

/// Makes an empty frame hold `len` bytes that were written into it. Returns false if the frame has less room.
#[inline]
fn holds(frame: &mut Frame, len: u32) -> bool {
    frame.rewrite(len as usize).is_ok()
}

/// The oldest packet lies in several frames. Puts its parts together in the first one, and appends it to `frames`.
/// Drops the packet if it is too long.
#[cold]
#[inline(never)]
fn gather_lent(
    ring: &mut Lending,
    filled: &mut PostedQueue,
    w: &mut Worker,
    frames: &mut Batch,
    returned: u32,
) -> (Got, Result<(), Fault>) {
    let Some(last) = (0..returned.min(PARTS_MAX)).find(|&i| !ring.read(ring.returned_at(i)).next) else {
        return (Got::default(), Err(without_end(returned, ring.size())));
    };
    let (mut whole, mut fits) = (None::<Frame>, true);
    for _ in 0..=last {
        let said = ring.read(ring.returned_at(0));
        let mut claimed = Batch::new();
        filled.claim(w, &mut claimed, 1);
        ring.take_back(1);
        let Some(mut part) = claimed.pop() else { break };
        if !holds(&mut part, said.len) {
            return (Got::default(), Err(Fault::Descriptor("rx", said)));
        }
        match &mut whole {
            None => whole = Some(part),
            Some(whole) => {
                fits &= behind(whole, part.len()).map(|room| room.copy_from_slice(part.data())).is_ok();
                part.free(w);
            }
        }
    }
    match whole {
        // There is room: packets are received only while there is.
        Some(whole) if fits => drop(frames.push(whole)),
        too_long => {
            too_long.into_iter().for_each(|frame| frame.free(w));
            return (Got { too_long: 1, ..Got::default() }, Ok(()));
        }
    }
    (Got { frames: 1, copied: 1, ..Got::default() }, Ok(()))
}

/// Copies packets into the oldest frames, at most `most`.
#[inline]
fn copy_packets(ring: &mut Copying, filled: &mut PostedQueue, most: usize) -> (Got, Result<(), Fault>) {
    let mut got = Got::default();
    let received = match ring.received() {
        Ok(received) => received,
        Err(corrupt) => return (got, Err(Fault::Ring("rx", corrupt))),
    };
    let wanted = received.min(most as u32);
    (0..wanted.min(AHEAD)).for_each(|i| ring.prefetch_packet(i, wanted));
    while got.slots < received.min(SLOTS_MAX) && got.frames < most {
        if got.slots + AHEAD < wanted {
            ring.prefetch_packet(got.slots + AHEAD, wanted);
        }
        let Some(frame) = filled.frame(got.frames) else { break };
        let Some((said, (memory, offset))) = ring.packet(got.slots) else {
            return (got, Err(Fault::Outside("rx")));
        };
        if said.next {
            match gather(ring, got.slots, received, frame) {
                Ok((slots, fits)) => {
                    got.slots += slots;
                    got.frames += usize::from(fits);
                    got.copied += u64::from(fits);
                    got.too_long += u64::from(!fits);
                    continue;
                }
                Err(fault) => return (got, Err(fault)),
            }
        }
        got.slots += 1;
        let len = said.len as usize;
        let room = match frame.rewrite(len) {
            Ok(room) => Ok(room),
            Err(_) => from_start(frame, len),
        };
        match room {
            // It was checked to lie inside.
            Ok(room) => drop(memory.read(offset, room)),
            Err(_) => {
                got.too_long += 1;
                continue;
            }
        }
        got.frames += 1;
        got.copied += 1;
    }
    (got, Ok(()))
}

/// Returns room for a packet of `len` bytes that is too long to lie behind the frame's colour.
#[cold]
#[inline(never)]
fn from_start(frame: &mut Frame, len: usize) -> Result<&mut [u8], NoRoom> {
    frame.trim(0)?;
    frame.put_earlier(len)
}

/// Returns room for the next part of a packet, behind the data of its frame.
fn behind(frame: &mut Frame, len: usize) -> Result<&mut [u8], NoRoom> {
    if len > frame.tailroom() { frame.put_earlier(len) } else { frame.put(len) }
}

/// Puts a packet of several slots, from the `first` on, together in one frame. Returns its number of slots, and whether
/// it fits.
#[cold]
#[inline(never)]
fn gather(ring: &Copying, first: u32, received: u32, frame: &mut Frame) -> Result<(u32, bool), Fault> {
    let _ = frame.trim(0);
    let mut fits = true;
    for i in first..received.min(first + PARTS_MAX) {
        let Some((said, (memory, offset))) = ring.packet(i) else { return Err(Fault::Outside("rx")) };
        match behind(frame, said.len as usize) {
            Ok(room) if fits => drop(memory.read(offset, room)),
            _ => fits = false,
        }
        if !said.next {
            return Ok((i + 1 - first, fits));
        }
    }
    Err(without_end(received - first, ring.size()))
}

/// The fault of a packet that goes on in the last of these slots.
#[cold]
fn without_end(slots: u32, size: u32) -> Fault {
    if slots < PARTS_MAX.min(size) { Fault::Unfinished } else { Fault::Endless }
}

impl Rx for MemifPort {
    #[inline]
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        let before = frames.len();
        let queues = self.receiving;
        for i in 0..queues {
            // Each call begins with another queue, so that no queue is left out if the batch is full.
            let queue = (self.turn + i) % queues;
            let (got, done) = self.pairs[queue].receive(w, frames);
            self.counters.copied.add(got.copied);
            self.counters.rx_too_long.add(got.too_long);
            if let Err(fault) = done
                && !self.ends_within_a_packet(queue, &fault)
            {
                self.fault(&fault);
                break;
            }
        }
        self.turn = if queues > 1 { (self.turn + 1) % queues } else { 0 };
        let received = &frames[before..];
        if !received.is_empty() {
            self.counters.rx.add(received.len() as u64);
            self.counters.rx_bytes.add(received.iter().map(|frame| frame.len() as u64).sum());
        }
        received.len()
    }

    fn rx_pending(&mut self) -> Option<usize> {
        if self.birthplace.is_elsewhere() {
            return Some(self.abandon());
        }
        let rings = self.pairs.iter_mut().filter_map(|pair| pair.rings.as_mut());
        Some(rings.map(|rings| rings.rx.unread() as usize).sum())
    }
}
