//! Applies faults to received frames.

use super::chance::draw;
use super::{FaultPort, LATE_MAX};
use crate::pool::{Batch, Frame};
use crate::sync::Worker;
use std::time::Instant;

/// Number of frames that overtake a reordered frame.
const PASSED_BY: u64 = 3;

/// The draws for one frame, one for each fault.
const DROP: u64 = 0;
const CORRUPT: u64 = 1;
const BIT: u64 = 2;
const DUPLICATE: u64 = 3;
const REORDER: u64 = 4;
const DELAY: u64 = 5;

/// A frame that is received later.
#[derive(Debug)]
pub(super) struct Late {
    frame: Frame,
    due: Due,
}

#[derive(Debug, Clone, Copy)]
enum Due {
    /// After that many frames were received.
    After(u64),
    /// At this time; None is later than any time.
    At(Option<Instant>),
}

impl FaultPort {
    /// Receives frames, after their faults.
    pub(super) fn receive(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        if self.ready.is_empty() {
            let mut burst = Batch::new();
            let n = self.within.rx(w, &mut burst);
            burst.drain().for_each(|frame| self.suffer(w, frame));
            self.release(n == 0);
        }
        let n = frames.room().min(self.ready.len());
        for frame in self.ready.drain(..n) {
            // There is room: no more frames were taken.
            let _ = frames.push(frame);
        }
        self.tally.counters.rx.add(n as u64);
        self.tally.counters.rx_bytes.add(frames[before..].iter().map(|frame| frame.len() as u64).sum());
        n
    }

    /// Handles one more received frame: injects the faults that its number and the seed decide.
    fn suffer(&mut self, w: &mut Worker, mut frame: Frame) {
        let number = self.received;
        self.received = number.wrapping_add(1);
        let seed = self.config.seed;
        let roll = |which| draw(seed, number, which);
        if self.config.drop.strikes(number, roll(DROP)) {
            self.tally.faults.dropped.add(1);
            return frame.free(w);
        }
        if self.config.corrupt.strikes(number, roll(CORRUPT)) && !frame.is_empty() {
            self.tally.faults.corrupted.add(1);
            turn_a_bit(frame.data_mut(), roll(BIT));
        }
        let twin = self.config.duplicate.strikes(number, roll(DUPLICATE)).then(|| self.duplicate(w, &frame));
        let due = if self.late.len() == LATE_MAX {
            None
        } else if self.config.reorder.strikes(number, roll(REORDER)) {
            self.tally.faults.reordered.add(1);
            Some(Due::After(self.received.wrapping_add(PASSED_BY)))
        } else if self.config.delay.strikes(number, roll(DELAY)) {
            self.tally.faults.delayed.add(1);
            Some(Due::At(Instant::now().checked_add(self.config.delay_by)))
        } else {
            None
        };
        match due {
            Some(due) => self.late.push(Late { frame, due }),
            None => self.ready.push_back(frame),
        }
        self.ready.extend(twin.flatten());
        let received = self.received;
        self.make_ready(|due| matches!(due, Due::After(number) if number <= received));
    }

    /// Makes a copy of a frame, if the pool has a free frame.
    fn duplicate(&self, w: &mut Worker, frame: &Frame) -> Option<Frame> {
        let mut twin = self.pool.alloc(w);
        let room = twin.as_mut().and_then(|twin| twin.put(frame.len()).ok());
        let copied = room.map(|room| room.copy_from_slice(frame.data())).is_some();
        if let Some(twin) = &mut twin {
            // A copy without headroom has no room for it.
            let _ = twin.set_timestamp(frame.timestamp());
        }
        if copied {
            self.tally.faults.duplicated.add(1);
        } else {
            self.tally.faults.no_frame.add(1);
        }
        twin.filter(|_| copied)
    }

    /// Makes frames ready that are due. If no more frames come, also those that wait for others to overtake them.
    fn release(&mut self, is_quiet: bool) {
        if self.late.is_empty() {
            return;
        }
        let now = Instant::now();
        self.make_ready(|due| match due {
            Due::After(_) => is_quiet,
            Due::At(time) => time.is_some_and(|time| time <= now),
        });
    }

    /// Makes the delayed frames ready that are due, in the order in which they were received.
    fn make_ready(&mut self, is_due: impl Fn(Due) -> bool) {
        let due = self.late.extract_if(.., |late| is_due(late.due));
        self.ready.extend(due.map(|late| late.frame));
    }
}

/// Inverts one bit of `bytes`, which are not empty.
fn turn_a_bit(bytes: &mut [u8], draw: u64) {
    let bit = (draw % (8 * bytes.len() as u64)) as usize;
    bytes[bit / 8] ^= 1 << (bit % 8);
}
