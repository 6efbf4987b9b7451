//! HOT: posts empty frames to receive into.

use super::MemifPort;
use super::pair::{End, Lender, Pair};
use crate::pool::{Batch, Pool};
use crate::port::{Fill, set_aside};
use crate::sync::Worker;

impl Pair {
    /// Posts frames from the front of `frames` while there is room, at most `most` of them, which is no more than there
    /// are, and lends them if frames are lent. Returns how many.
    #[inline]
    fn fill(&mut self, w: &Worker, frames: &mut Batch, most: usize, lender: Option<Lender>) -> usize {
        let mut n = self.filled.room().min(most);
        if let (Some(rings), Some(lender)) = (&mut self.rings, lender)
            && let End::Lent(ring) = &mut rings.rx
        {
            n = n.min(ring.room() as usize);
            frames.empty_first(n);
            for (i, frame) in (0..n as u32).zip(frames.iter()) {
                ring.write(ring.next_at(i), lender.empty(frame));
            }
            self.filled.post(w, frames, n);
            ring.lend(n as u32);
        } else {
            frames.empty_first(n);
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
        let most = frames.len();
        let filled = match self.receiving {
            0 => 0,
            1 => self.pairs[0].fill(w, frames, most, self.lender),
            _ => self.fill_emptiest(w, frames),
        };
        self.counters.filled.add(filled as u64);
        filled
    }

    fn rx_posted(&self) -> usize {
        self.pairs.iter().map(|pair| pair.filled.len()).sum()
    }

    /// False only for a pool of another memory if frames are lent.
    #[cold]
    fn takes_frames_of(&self, pool: &Pool) -> bool {
        self.lender.is_none_or(|lender| lender.is_of(pool.memory().region()))
    }
}

impl MemifPort {
    /// Among the queues that receive, the one with the most room for empty frames, and its room.
    #[inline]
    fn emptiest(&self) -> (usize, usize) {
        let mut most = (0, 0);
        for (i, pair) in self.pairs[..self.receiving].iter().enumerate() {
            let room = pair.fill_room();
            if room > most.1 {
                most = (i, room);
            }
        }
        most
    }

    /// The number of frames that each of the emptiest queues has after `more` frames are shared out among them. The
    /// other queues have more already.
    #[inline]
    fn fill_level(&self, more: usize) -> usize {
        let mut level = usize::MAX;
        loop {
            let posted = self.pairs[..self.receiving].iter().map(|pair| pair.filled.len());
            let taking = posted.filter(|&n| n <= level);
            let (queues, sum) = taking.fold((0_usize, more), |(queues, sum), n| (queues + 1, sum + n));
            // Without the queues above the mean, the mean of the others is less.
            match sum / queues.max(1) {
                mean if mean < level => level = mean,
                _ => return level,
            }
        }
    }

    /// Posts frames on the emptiest queue up to the level of all, then on the next one. A queue that took as many as it
    /// has slots would leave none of the port's share for the last queues, and packets of their flows would never be
    /// received.
    fn fill_emptiest(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let level = self.fill_level(frames.len());
        let mut filled = 0;
        while !frames.is_empty() {
            let (emptiest, room) = self.emptiest();
            if room == 0 {
                break;
            }
            let pair = &mut self.pairs[emptiest];
            let slice = level.saturating_sub(pair.filled.len()).max(1);
            let most = slice.min(frames.len());
            filled += pair.fill(w, frames, most, self.lender);
        }
        filled
    }

    /// Posts the frames that can be lent. The others stay, behind those for which there was no room.
    #[cold]
    #[inline(never)]
    fn fill_without_foreign(&mut self, w: &mut Worker, frames: &mut Batch, lender: Lender) -> usize {
        let mut foreign = set_aside(frames, |frame| lender.owns(frame.id()));
        self.counters.wrong_memory.add(foreign.len() as u64);
        let n = self.fill(w, frames);
        frames.append(&mut foreign);
        n
    }
}
