//! HOT: carries out the verdicts of packets, as the loop does with frames, together with their heads.

use crate::forward::egress::Egress;
use crate::forward::path::Path;
use crate::forward::poll::Forwarder;
use crate::forward::verdict::{Reason, Verdict};
use crate::limits::BATCH_MAX;
use crate::packet::{CopyError, Packet, Packets};
use crate::pool::Batch;
use crate::steer::Source;
use crate::sync::Worker;
use std::iter::once;
use std::slice::from_ref;

impl Forwarder {
    /// As `forward`, for packets of frames just received. Their heads may have waited since the frames were posted.
    #[inline(never)]
    pub(in crate::forward) fn forward_received(&mut self, from: Source, burst: &mut Batch, w: &mut Worker) {
        let Path::Packets(path) = &mut self.path else { return };
        let filling = &mut self.egresses[usize::from(from.port)].filling;
        let packets = path.buffers.receive(burst, filling, w);
        self.forward_packets(from, packets, burst, w);
    }

    /// As `forward`, for packets of frames that another worker received, or that stayed here.
    #[inline(never)]
    pub(in crate::forward) fn forward_as_packets(&mut self, from: Source, burst: &mut Batch, w: &mut Worker) {
        let Path::Packets(path) = &mut self.path else { return };
        let packets = path.buffers.attach(burst, w);
        self.forward_packets(from, packets, burst, w);
    }

    /// Decides about each packet. The frames in `headless` found no head and are dropped.
    #[inline]
    fn forward_packets(&mut self, from: Source, mut packets: Packets, headless: &mut Batch, w: &mut Worker) {
        if !headless.is_empty() {
            self.lose(Some(from), Reason::NoMem, headless, w);
        }
        let Path::Packets(path) = &mut self.path else { return };
        let mut verdicts = [Verdict::Pass; BATCH_MAX];
        path.decide_all(&mut *self.decision, from, &mut packets, &mut verdicts);
        let ingress = usize::from(from.port);
        let decided = packets.len();
        let mut rest = packets.drain();
        for run in verdicts[..decided].chunk_by(PartialEq::eq) {
            let run_of = rest.by_ref().take(run.len());
            match run[0] {
                Verdict::Redirect(to) => self.redirect_packets(usize::from(to), run_of, w),
                Verdict::Tx => self.redirect_packets(ingress, run_of, w),
                Verdict::Drop(reason) if self.decision.answers(reason) => {
                    self.answer_packets(from, reason, run_of, w);
                }
                Verdict::Drop(reason) => self.discard_packets(reason, run_of, w),
                Verdict::Pass => self.pass_packets(run_of, w),
                Verdict::Wait => self.wait_packets(from, run_of, w),
                Verdict::Fragment => self.fragment_packets(from, run_of, w),
            }
        }
        drop(rest);
        if let Path::Packets(path) = &mut self.path {
            path.buffers.put_spare(packets);
        }
    }

    /// Takes packets apart: their frames go to a port's batch, and their heads wait. A full batch is sent.
    #[inline]
    fn redirect_packets(&mut self, to: usize, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        if to >= self.egresses.len() {
            return self.lose_packets(Reason::NoRoute, packets, w);
        }
        if self.egresses[to].wants_complete {
            return self.redirect_packets_complete(to, packets, w);
        }
        self.redirect_all_packets(to, packets, w);
    }

    /// The same for a port that carries only complete frames: the heads of frames with open offload work are removed.
    #[cold]
    #[inline(never)]
    fn redirect_packets_complete(
        &mut self,
        to: usize,
        packets: impl Iterator<Item = Packet>,
        w: &mut Worker,
    ) {
        for packet in packets {
            if packet.offload().is_none() {
                self.redirect_all_packets(to, once(packet), w);
            } else {
                let mut frames = self.detach(once(packet), w);
                let n = frames.len();
                self.redirect_complete(to, &mut frames.drain(), n, w);
            }
        }
    }

    #[inline]
    fn redirect_all_packets(&mut self, to: usize, mut packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        loop {
            let Egress { flight, out, .. } = &mut self.egresses[to];
            let Some(left) = packets.find_map(|packet| flight.detach(packet, out).err()) else { return };
            if out.room() == 0 && self.leave_by(to, w) == BATCH_MAX {
                self.give_up(to, Reason::TxFull, w);
            }
            self.redirect_whole(to, left, w);
        }
    }

    /// Sends a packet that the port's batch, which has room now, did not take: as a copy if others read its bytes or it
    /// has several parts.
    #[cold]
    #[inline(never)]
    fn redirect_whole(&mut self, to: usize, packet: Packet, w: &mut Worker) {
        let Some(whole) = self.copy_whole(packet, w) else { return };
        let Egress { flight, out, .. } = &mut self.egresses[to];
        if let Err(packet) = flight.detach(whole, out) {
            self.lose_packets(Reason::TxRefused, once(packet), w);
        }
    }

    /// Makes a packet one frame that belongs to it alone, as ports and local queues require. If that fails, the packet
    /// is dropped.
    #[cold]
    #[inline(never)]
    fn copy_whole(&mut self, mut packet: Packet, w: &mut Worker) -> Option<Packet> {
        let Path::Packets(path) = &mut self.path else { return None };
        let reason = match path.buffers.heads.make_sendable(w, &mut packet, &self.pool) {
            Ok(is_copied) => {
                self.meters.copied.add(is_copied.into());
                if is_copied && let Some(frame) = packet.whole_frame() {
                    self.decision.made(from_ref(frame));
                }
                return Some(packet);
            }
            Err(CopyError::NoFrame) => Reason::NoMem,
            Err(CopyError::TooLong { .. }) => Reason::TxTooLong,
            Err(CopyError::NoHeadroom { .. } | CopyError::SecondOffload) => Reason::GsoSeg,
        };
        self.lose_packets(reason, once(packet), w);
        None
    }

    /// Drops packets.
    #[inline(never)]
    fn discard_packets(&mut self, reason: Reason, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        let Path::Packets(path) = &mut self.path else { return };
        let dropped = path.buffers.collect(packets);
        self.meters.drops.add(reason, dropped.len() as u64);
        path.buffers.free(dropped, self.free, w);
    }

    /// Drops packets that a verdict had sent on.
    #[cold]
    #[inline(never)]
    fn lose_packets(&mut self, reason: Reason, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        for packet in packets {
            if let Some(frame) = packet.whole_frame() {
                self.decision.lost(None, reason, from_ref(frame));
            }
            self.discard_packets(reason, once(packet), w);
        }
    }

    /// Drops packets and has them answered. They lose their heads, and replies pass no hooks, since a reply was not
    /// received.
    #[cold]
    #[inline(never)]
    fn answer_packets(
        &mut self,
        from: Source,
        reason: Reason,
        packets: impl Iterator<Item = Packet>,
        w: &mut Worker,
    ) {
        let mut frames = self.detach(packets, w);
        self.meters.drops.add(reason, frames.len() as u64);
        self.answer(from, reason, &mut frames, w);
        self.free(&mut frames, w);
    }

    /// Removes the heads of packets and gives their frames to the local queue.
    #[inline(never)]
    fn pass_packets(&mut self, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        let mut frames = self.detach(packets, w);
        self.hold(&mut frames, w);
    }

    /// Removes the heads of packets and lets their frames wait.
    #[cold]
    #[inline(never)]
    fn wait_packets(&mut self, from: Source, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        let mut frames = self.detach(packets, w);
        self.wait_all(from, &mut frames, w);
    }

    /// Removes the heads of packets and has their frames cut. The pieces have no heads and pass no hooks, like replies.
    #[cold]
    #[inline(never)]
    fn fragment_packets(&mut self, from: Source, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        let mut frames = self.detach(packets, w);
        self.fragment_all(from, &mut frames, w);
    }

    /// Removes the heads of packets.
    fn detach(&mut self, packets: impl Iterator<Item = Packet>, w: &mut Worker) -> Batch {
        let mut frames = Batch::new();
        let Path::Packets(path) = &mut self.path else { return frames };
        let mut packets = path.buffers.collect(packets);
        path.buffers.heads.detach_burst(w, &mut packets, &mut frames);
        if !packets.is_empty() {
            self.detach_copies(&mut packets, &mut frames, w);
        }
        if let Path::Packets(path) = &mut self.path {
            path.buffers.put_spare(packets);
        }
        frames
    }

    /// Removes the heads of packets, some of which must be copied before.
    #[cold]
    #[inline(never)]
    fn detach_copies(&mut self, packets: &mut Packets, frames: &mut Batch, w: &mut Worker) {
        for packet in packets.drain() {
            if let Some(packet) = self.copy_whole(packet, w)
                && let Path::Packets(path) = &mut self.path
                && let Ok(frame) = path.buffers.heads.detach(w, packet)
            {
                // There is room: a run is at most a burst.
                let _ = frames.push(frame);
            }
        }
    }
}
