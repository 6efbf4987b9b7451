//! HOT: sends packets to the peer.

use super::buffers::{AHEAD, Copying, PARTS_MAX};
use super::pair::{End, Lender, Pair};
use super::ring::{Descriptor, Lending};
use super::{Fault, MemifPort};
use crate::pool::{Batch, Frame};
use crate::port::{Tx, set_aside};
use crate::ring::Corrupt;
use crate::steer::tx_queue;
use crate::sync::Worker;

/// The result of one transmission into a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Put {
    /// Number of frames taken, from the front.
    frames: usize,
    /// Their bytes.
    bytes: u64,
    /// Number of those that can never be sent: longer than all buffers of the ring together, or than [`PARTS_MAX`] of
    /// them.
    unfit: u64,
    /// Number of those whose bytes were copied.
    copied: u64,
}

impl Pair {
    /// Sends frames from the front of `frames` while there is room.
    #[inline]
    pub(super) fn send(
        &mut self,
        w: &Worker,
        frames: &mut Batch,
        lender: Option<Lender>,
    ) -> Result<Put, Fault> {
        let Some(rings) = &mut self.rings else { return Ok(Put::default()) };
        let most = self.sent.room().min(frames.len());
        let put = match (&mut rings.tx, lender) {
            (End::Lent(ring), Some(lender)) => lend_packets(ring, &frames[..most], lender),
            (End::Lent(_), None) => Put::default(),
            (End::Copied(ring), _) => copy_packets(ring, &frames[..most])?,
        };
        self.sent.post(w, frames, put.frames);
        if let End::Lent(ring) = &mut rings.tx {
            // Lent only now: from here on the peer reads them.
            ring.lend(put.frames as u32);
        }
        rings.unannounced |= put.frames > 0;
        Ok(put)
    }

    /// Takes the frames that have been sent, as many as `frames` has room for. Returns how many.
    ///
    /// Copied frames could be freed at once. While the ring is full they stay, as lent ones would. So a slow peer holds
    /// up the sender, and nothing is lost.
    #[inline]
    pub(super) fn complete(&mut self, w: &Worker, frames: &mut Batch) -> Result<usize, Corrupt> {
        let mut n = frames.room().min(self.sent.len());
        if n == 0 {
            return Ok(0);
        }
        match self.rings.as_mut().map(|rings| &mut rings.tx) {
            Some(End::Lent(ring)) => {
                n = n.min(ring.returned()? as usize);
                ring.take_back(n as u32);
            }
            Some(End::Copied(ring)) => n = if ring.free()? == 0 { 0 } else { n },
            None => {}
        }
        Ok(self.sent.claim(w, frames, n))
    }
}

/// Describes frames in the next slots, as long as there is room.
#[inline]
fn lend_packets(ring: &mut Lending, frames: &[Frame], lender: Lender) -> Put {
    let n = (ring.room() as usize).min(frames.len());
    let mut put = Put { frames: n, ..Put::default() };
    for (i, frame) in (0..n as u32).zip(frames) {
        put.bytes += frame.len() as u64;
        ring.write(ring.next_at(i), lender.full(frame));
    }
    put
}

/// Copies frames into the next slots, as long as there is room.
#[inline]
fn copy_packets(ring: &mut Copying, frames: &[Frame]) -> Result<Put, Fault> {
    let free = ring.free().map_err(|corrupt| Fault::Ring("tx", corrupt))?;
    let (mut put, mut slots) = (Put::default(), 0);
    let wanted = free.min(frames.len() as u32);
    (0..wanted.min(AHEAD)).for_each(|i| ring.prefetch_room(i, wanted));
    for frame in frames {
        if slots == free {
            break;
        }
        if slots + AHEAD < wanted {
            ring.prefetch_room(slots + AHEAD, wanted);
        }
        // The frames copied before this are not sent either. They stay in the batch, and the connection ends.
        let (said, (memory, offset)) = ring.room(slots).ok_or(Fault::Outside("tx"))?;
        let data = frame.data();
        if data.len() <= said.len as usize {
            // It was checked to lie inside.
            let _ = memory.write(offset, data);
            ring.describe(slots, Descriptor { next: false, len: data.len() as u32, ..said });
            slots += 1;
        } else {
            match scatter(ring, slots, free, data)? {
                Scattered::Over(n) => slots += n,
                Scattered::TooLong => put.unfit += 1,
                Scattered::NoRoom if slots == 0 && free == ring.size() => put.unfit += 1,
                Scattered::NoRoom => break,
            }
        }
        put.frames += 1;
        put.bytes += data.len() as u64;
    }
    ring.send(slots);
    put.copied = put.frames as u64 - put.unfit;
    Ok(put)
}

/// The result of copying a packet that is longer than a buffer.
enum Scattered {
    /// It lies in this number of slots.
    Over(u32),
    /// The free slots are too few.
    NoRoom,
    /// [`PARTS_MAX`] slots are too few.
    TooLong,
}

/// Copies a packet into several slots, from the `first` on.
#[cold]
#[inline(never)]
fn scatter(ring: &mut Copying, first: u32, free: u32, data: &[u8]) -> Result<Scattered, Fault> {
    let (mut rest, mut i) = (data, first);
    while !rest.is_empty() {
        if i - first == PARTS_MAX {
            return Ok(Scattered::TooLong);
        }
        if i == free {
            return Ok(Scattered::NoRoom);
        }
        let Some((said, (memory, offset))) = ring.room(i) else { return Err(Fault::Outside("tx")) };
        if said.len == 0 {
            return Err(Fault::Descriptor("tx", said));
        }
        let (part, behind) = rest.split_at(rest.len().min(said.len as usize));
        let _ = memory.write(offset, part);
        ring.describe(i, Descriptor { next: !behind.is_empty(), len: part.len() as u32, ..said });
        (rest, i) = (behind, i + 1);
    }
    Ok(Scattered::Over(i - first))
}

impl Tx for MemifPort {
    #[inline]
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        let lends = |lender: Lender| frames.iter().all(|frame| lender.owns(frame.id()));
        if frames.may_have_offloads() || !self.lender.is_none_or(lends) {
            return self.tx_without_unsendable(w, frames);
        }
        self.tx_queues(w, frames)
    }

    fn tx_posted(&self) -> usize {
        self.pairs.iter().map(|pair| pair.sent.len()).sum()
    }

    /// Lent frames are completed when they are read.
    #[cold]
    fn tx_unread(&mut self) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        // A peer that is gone reads nothing more: those are in `tx_left_unread`.
        if self.active == 0 {
            return 0;
        }
        self.pairs.iter_mut().map(Pair::unread).sum()
    }

    /// A copying port may have no room for a long packet although its peer has taken all others.
    fn can_retry_tx(&self) -> bool {
        self.active > 0
    }

    fn take_unsendable(&self, frames: &mut Batch) -> Batch {
        let lends = |frame: &Frame| self.lender.is_none_or(|lender| lender.owns(frame.id()));
        set_aside(frames, |frame| lends(frame) && !frame.has_offload())
    }
}

impl MemifPort {
    #[inline]
    fn tx_queues(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        match self.active {
            0 => 0,
            1 => self.tx_queue(w, 0, frames),
            _ => self.tx_by_flow(w, frames),
        }
    }

    /// Sends the frames that can be sent. The others stay, behind those for which there was no room.
    #[cold]
    #[inline(never)]
    fn tx_without_unsendable(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut stay = self.take_unsendable(frames);
        let with_offload = stay.iter().filter(|frame| frame.has_offload()).count();
        self.counters.tx_invalid.add(with_offload as u64);
        self.counters.wrong_memory.add((stay.len() - with_offload) as u64);
        let n = self.tx_queues(w, frames);
        frames.append(&mut stay);
        n
    }

    /// Sends through one queue.
    #[inline]
    fn tx_queue(&mut self, w: &Worker, queue: usize, frames: &mut Batch) -> usize {
        match self.pairs[queue].send(w, frames, self.lender) {
            Ok(put) => {
                self.counters.tx.add(put.frames as u64);
                self.counters.tx_bytes.add(put.bytes);
                self.counters.tx_invalid.add(put.unfit);
                self.counters.copied.add(put.copied);
                put.frames
            }
            Err(fault) => {
                self.fault(&fault);
                0
            }
        }
    }

    /// Sends each flow through its own queue. Frames that do not fit stay, in order within a flow.
    fn tx_by_flow(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let queues = self.active as u16;
        let (mut sent, mut stay) = (0, Batch::new());
        for queue in 0..queues {
            let toeplitz = &self.toeplitz;
            let of_queue = |frame: &Frame| tx_queue(None, toeplitz.flow(frame.data(), 0), queues) == queue;
            let mut others = set_aside(frames, of_queue);
            if self.active == usize::from(queues) {
                sent += self.tx_queue(w, usize::from(queue), frames);
            }
            stay.append(frames);
            frames.append(&mut others);
        }
        stay.append(frames);
        frames.append(&mut stay);
        sent
    }
}
