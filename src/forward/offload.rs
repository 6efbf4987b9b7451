//! Open offload work of frames that leave by a port that does not carry it, or that are to be fragmented. COLD.

use super::egress::Egress;
use super::poll::Forwarder;
use super::verdict::Reason;
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Drain, Frame};
use crate::sync::Worker;
use crate::wire::offload::Offload;
use crate::wire::segment::Segments;
use std::slice::from_ref;

impl Forwarder {
    /// Makes each port keep the offload work of frames, if another port carries it.
    #[cold]
    pub(super) fn keep_offloads(egresses: &mut [Egress]) {
        let carries: Vec<bool> = egresses.iter().map(|egress| egress.port.carries_offloads()).collect();
        let carriers = carries.iter().filter(|carries| **carries).count();
        let mut are_kept = false;
        for (egress, &carries) in egresses.iter_mut().zip(&carries) {
            are_kept |= egress.port.keep_offloads(carriers > usize::from(carries));
        }
        for (egress, carries) in egresses.iter_mut().zip(carries) {
            egress.wants_complete = are_kept && !carries;
        }
    }

    /// Puts the next `n` frames of a burst into the batch of a port that carries only complete frames.
    #[cold]
    #[inline(never)]
    pub(super) fn redirect_complete(&mut self, to: usize, burst: &mut Drain<'_>, n: usize, w: &mut Worker) {
        let mut frames = Batch::new();
        burst.move_to(&mut frames, n);
        for frame in frames.drain() {
            self.complete_each(frame, w, |forwarder, done, w| {
                let n = done.len();
                forwarder.redirect_all(to, &mut done.drain(), n, w);
                // Fewer than a batch are the last ones, or there are no more frames: the port need not be called.
                if n < BATCH_MAX { BATCH_MAX } else { BATCH_MAX - forwarder.leave_by(to, w) }
            });
        }
    }

    /// Calls `then` with a frame without open work, or with all segments that it is cut into, in order. Frames that
    /// cannot be completed are dropped. `then` returns how many more there is room for, at most a batch. If that is
    /// less than the next segments, the rest is dropped before it is made.
    pub(super) fn complete_each(
        &mut self,
        mut frame: Frame,
        w: &mut Worker,
        mut then: impl FnMut(&mut Forwarder, &mut Batch, &mut Worker) -> usize,
    ) {
        let offload = frame.offload().unwrap_or_default();
        if offload.gso.is_some() {
            return self.cut(frame, &offload, w, then);
        }
        let finished = offload.checksum.is_none_or(|checksum| checksum.finish(frame.data_mut()).is_ok());
        let mut done = Batch::new();
        // Neither call can fail: there is room, and no work is left.
        let _ = frame.set_offload(Offload::default());
        let _ = done.push(frame);
        if finished {
            then(self, &mut done, w);
        } else {
            self.lose(None, Reason::GsoSeg, &mut done, w);
        }
    }

    /// Calls `then` with the segments of a frame, by as many as a batch holds.
    fn cut(
        &mut self,
        frame: Frame,
        offload: &Offload,
        w: &mut Worker,
        mut then: impl FnMut(&mut Forwarder, &mut Batch, &mut Worker) -> usize,
    ) {
        let Ok(segments) = Segments::of(frame.data(), offload) else {
            let mut bad = Batch::new();
            // There is room.
            let _ = bad.push(frame);
            return self.lose(None, Reason::GsoSeg, &mut bad, w);
        };
        let count = segments.count();
        self.meters.fragmented.add(1);
        self.meters.fragments.add(count as u64);
        let mut room = BATCH_MAX;
        for first in (0..count).step_by(BATCH_MAX) {
            let n = (count - first).min(BATCH_MAX);
            if n > room {
                self.meters.drops.add(Reason::TxFull, (count - first) as u64);
                self.decision.lost(None, Reason::TxFull, from_ref(&frame));
                break;
            }
            let (mut empty, mut done) = (Batch::new(), Batch::new());
            self.pool.alloc_burst(w, &mut empty, n);
            for (i, mut segment) in (first..).zip(empty.drain()) {
                let room = segment.put(segments.bytes(i)).unwrap_or_default();
                if segments.write(frame.data(), i, room) {
                    // Each segment has the packet's time of recording. A frame without headroom has no room for it.
                    let _ = segment.set_timestamp(frame.timestamp());
                    // There is room.
                    let _ = done.push(segment);
                }
            }
            // Segments for which there was no frame.
            if done.len() < n {
                self.meters.drops.add(Reason::GsoSeg, (n - done.len()) as u64);
                self.decision.lost(None, Reason::GsoSeg, from_ref(&frame));
            }
            self.decision.made(&done);
            room = then(self, &mut done, w);
        }
        frame.free(w);
    }
}
