//! HOT: empty frames for the kernel to receive into.

use super::held::Held;
use super::{Fault, XdpPort, set_aside};
use crate::pool::{Batch, FrameState, Pool};
use crate::port::Fill;
use crate::ring::Corrupt;
use crate::ring::cursor::Producer;
use crate::sync::Worker;
use crate::sys::xdp::{Ring, SharedIndex};

/// The port's end of the FILL ring.
#[derive(Debug)]
pub(super) struct FillQueue {
    producer: Producer<SharedIndex>,
    ring: Ring<u64>,
}

impl FillQueue {
    pub(super) fn new(ring: Ring<u64>) -> FillQueue {
        FillQueue { producer: Producer::new(ring.producer(), ring.consumer(), ring.size()), ring }
    }

    /// Number of free slots.
    #[inline]
    pub(super) fn room(&mut self) -> Result<usize, Corrupt> {
        self.producer.room(self.ring.size()).map(|n| n as usize)
    }

    /// Posts frames from the front of `frames`, all of which `filled` takes, while there is room. Returns how many were
    /// posted.
    ///
    /// The whole chunk goes to the kernel. The start of the frame's data is forgotten.
    #[inline]
    pub(super) fn burst(
        &mut self,
        w: &Worker,
        filled: &mut Held,
        frames: &mut Batch,
    ) -> Result<usize, Corrupt> {
        let n = self.producer.room(frames.len() as u32)?;
        FrameState::Posted.enter_batch(w, frames, n as usize);
        for (i, frame) in (0..n).zip(frames.hand_over(FrameState::Posted, w, n as usize)) {
            self.ring.write(self.producer.slot(i), filled.post(frame));
        }
        self.producer.publish(n);
        Ok(n as usize)
    }

    /// Gives back chunks that are held already, from the end of `addresses`, while there is room.
    pub(super) fn put_back(&mut self, addresses: &mut Vec<u64>) -> Result<(), Corrupt> {
        let n = self.producer.room(addresses.len() as u32)?;
        let rest = addresses.len() - n as usize;
        for (i, address) in (0..n).zip(addresses.drain(rest..)) {
            self.ring.write(self.producer.slot(i), address);
        }
        self.producer.publish(n);
        Ok(())
    }

    /// Returns whether the driver sleeps until it is told that there are frames again.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }
}

impl Fill for XdpPort {
    #[inline]
    fn fill_room(&mut self) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        let Some(queues) = &mut self.queues else { return 0 };
        match queues.fill.room() {
            Ok(room) => room + self.gather.as_ref().map_or(0, |gather| gather.wanted()),
            Err(corrupt) => {
                self.fault(&Fault::Corrupt("FILL", corrupt));
                0
            }
        }
    }

    #[inline]
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        if self.queues.is_none() {
            return 0;
        }
        if !frames.iter().all(|frame| self.filled.takes(frame)) {
            return self.fill_without_foreign(w, frames);
        }
        let mut kept = 0;
        if self.gather.as_ref().is_some_and(|gather| gather.is_busy()) {
            kept = self.fill_spare(w, frames);
            self.return_spare();
        }
        let Some(queues) = &mut self.queues else { return kept };
        match queues.fill.burst(w, &mut self.filled, frames) {
            Ok(n) => {
                self.counters.filled.add(n as u64);
                kept + n
            }
            Err(corrupt) => {
                self.fault(&Fault::Corrupt("FILL", corrupt));
                kept
            }
        }
    }

    fn rx_posted(&self) -> usize {
        self.filled.count()
    }

    #[cold]
    fn takes_frames_of(&self, pool: &Pool) -> bool {
        self.umem.has_frames_of(pool)
    }
}

impl XdpPort {
    /// Posts the frames of this UMEM. The others stay, behind those for which there is no room.
    #[cold]
    #[inline(never)]
    fn fill_without_foreign(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut foreign = set_aside(frames, |frame| self.filled.takes(frame));
        self.counters.wrong_memory.add(foreign.len() as u64);
        let n = self.fill(w, frames);
        frames.append(&mut foreign);
        n
    }
}
