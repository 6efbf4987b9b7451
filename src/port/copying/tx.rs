//! HOT: bytes out.

use super::{CopyingPort, Device};
use crate::pool::{Batch, FrameState};
use crate::port::{Tx, set_aside};
use crate::sync::Worker;

impl<D: Device> Tx for CopyingPort<D> {
    #[inline]
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if !self.device.carries_offloads() && frames.may_have_offloads() {
            return self.tx_without_offloads(w, frames);
        }
        self.send(w, frames)
    }

    fn tx_posted(&self) -> usize {
        self.sent.len()
    }

    fn can_retry_tx(&self) -> bool {
        self.violation.is_none() && self.device.can_retry_tx()
    }

    fn carries_offloads(&self) -> bool {
        self.device.carries_offloads()
    }

    #[cold]
    fn take_unsendable(&self, frames: &mut Batch) -> Batch {
        let carries = self.device.carries_offloads();
        set_aside(frames, |frame| carries || !frame.has_offload())
    }
}

impl<D: Device> CopyingPort<D> {
    #[inline]
    fn send(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let want = frames.len().min(self.size - self.sent.len());
        if want == 0 || self.violation.is_some() {
            return 0;
        }
        let n = self.device.send(&frames[..want], &self.counters);
        if n > want {
            self.take_down("send", n, &format!("{want} frames"));
            return 0;
        }
        self.counters.tx.add(n as u64);
        self.counters.copied.add(n as u64);
        self.counters.tx_bytes.add(frames[..n].iter().map(|frame| frame.len() as u64).sum());
        FrameState::Posted.enter_batch(w, frames, n);
        self.sent.extend(frames.hand_over(FrameState::Posted, w, n));
        n
    }

    /// Sends the frames that can be sent. The others stay, behind those for which there is no room.
    #[cold]
    #[inline(never)]
    fn tx_without_offloads(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut stay = self.take_unsendable(frames);
        self.counters.tx_invalid.add(stay.len() as u64);
        let n = self.send(w, frames);
        frames.append(&mut stay);
        n
    }
}
