//! HOT: bytes in.

use super::{CopyingPort, Device, RxBuffers};
use crate::pool::{Batch, Frame, FrameState};
use crate::port::Rx;
use crate::sync::Worker;

impl<D: Device> Rx for CopyingPort<D> {
    #[inline]
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let (before, want) = (frames.len(), frames.room().min(self.filled.len()));
        if want == 0 || self.violation.is_some() {
            return 0;
        }
        let first = self.filled.len() - want;
        let open = &mut self.filled[first..];
        // The device may have left data in buffers that it did not report. Before the call, since the last one may have
        // panicked.
        Frame::empty_all(open);
        let mut rooms = RxBuffers::of(open);
        let n = self.device.receive(&mut rooms, &self.counters);
        if n > want {
            return self.receive_none(n, want);
        }
        if n == 0 {
            return 0;
        }
        for frame in self.filled.drain(first..first + n) {
            // There is room: no more frames were requested.
            let _ = frames.push(frame);
        }
        frames.taken_back(FrameState::Posted, w, before);
        FrameState::Posted.leave_last(w, frames, n);
        self.counters.rx.add(n as u64);
        self.counters.copied.add(n as u64);
        self.counters.rx_bytes.add(frames[before..].iter().map(|frame| frame.len() as u64).sum());
        n
    }

    fn rx_pending(&mut self) -> Option<usize> {
        self.device.rx_pending(&self.counters)
    }

    fn rx_finished(&self) -> bool {
        self.violation.is_some() || self.device.rx_finished()
    }

    fn keep_offloads(&mut self, keep: bool) -> bool {
        self.device.keep_offloads(keep)
    }
}

impl<D: Device> CopyingPort<D> {
    /// The device says that it received `said` packets into `given` buffers. Nothing of that is received.
    #[cold]
    #[inline(never)]
    fn receive_none(&mut self, said: usize, given: usize) -> usize {
        let first = self.filled.len() - given;
        let open = &mut self.filled[first..];
        let dropped = open.iter().filter(|frame| !frame.is_empty()).count();
        self.counters.rx_dropped.add(dropped as u64);
        Frame::empty_all(open);
        self.take_down("receive", said, &format!("{given} buffers"));
        0
    }
}
