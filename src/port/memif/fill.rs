//! HOT: posts empty frames to receive into.

use super::MemifPort;
use super::pair::{End, Lender, Pair};
use crate::pool::Batch;
use crate::port::{Fill, set_aside};
use crate::sync::Worker;

impl Pair {
    /// Posts frames from the front of `frames` while there is room, and lends them if frames are lent. Returns how
    /// many.
    #[inline]
    fn fill(&mut self, w: &Worker, frames: &mut Batch, lender: Option<Lender>) -> usize {
        let mut n = self.filled.room().min(frames.len());
        if let (Some(rings), Some(lender)) = (&mut self.rings, lender)
            && let End::Lent(ring) = &mut rings.rx
        {
            n = n.min(ring.room() as usize);
            for (i, frame) in (0..n as u32).zip(frames.iter()) {
                ring.write(ring.next_at(i), lender.empty(frame));
            }
            self.filled.post(w, frames, n);
            ring.lend(n as u32);
        } else {
            self.filled.post(w, frames, n);
        }
        n
    }

    #[inline]
    fn fill_room(&self) -> usize {
        match &self.rings {
            Some(rings) => match &rings.rx {
                End::Lent(ring) => self.filled.room().min(ring.room() as usize),
                End::Copied(_) => self.filled.room(),
            },
            None => 0,
        }
    }
}

impl Fill for MemifPort {
    /// Free slots; 0 without a peer, so that the frames that wait for the next peer do not become more.
    #[inline]
    fn fill_room(&mut self) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        self.pairs[..self.receiving].iter().map(Pair::fill_room).sum()
    }

    #[inline]
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        if let Some(lender) = self.lender
            && !frames.iter().all(|frame| lender.owns(frame.id()))
        {
            return self.fill_without_foreign(w, frames, lender);
        }
        let mut filled = 0;
        for pair in &mut self.pairs[..self.receiving] {
            if frames.is_empty() {
                break;
            }
            filled += pair.fill(w, frames, self.lender);
        }
        self.counters.filled.add(filled as u64);
        filled
    }

    fn rx_posted(&self) -> usize {
        self.pairs.iter().map(|pair| pair.filled.len()).sum()
    }
}

impl MemifPort {
    /// Posts the frames that can be lent. The others stay, behind those for which there was no room.
    #[cold]
    #[inline(never)]
    fn fill_without_foreign(&mut self, w: &mut Worker, frames: &mut Batch, lender: Lender) -> usize {
        let mut foreign = set_aside(frames, |frame| lender.owns(frame.id()));
        self.counters.foreign.add(foreign.len() as u64);
        let n = self.fill(w, frames);
        frames.append(&mut foreign);
        n
    }
}
