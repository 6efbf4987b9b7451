//! HOT: frames as packets, with heads, and on the full path through hooks.
//!
//! ```text
//!   rx ─► heads ─► rules ─► statistics ─► the decision's verdict ─┬─ redirect, tx ─► frames to the port, heads wait
//!                    └─ drop, pass                            ├─ pass, wait ─► the local queue, the decision: without heads
//!                                                             └─ drop ─► heads and frames freed in bulk
//!   complete ─► packets again ─► heads and frames freed in bulk, or kept together as pairs
//! ```
//! What a hook says goes before the decision: a packet that a rule drops is not rewritten.

mod buffers;
mod hooks;
mod protocols;

pub use protocols::Protocols;

use self::buffers::Buffers;
use self::hooks::Hooks;
use super::decide::Decide;
use super::egress::Egress;
use super::filter::Filter;
use super::free::Free;
use super::poll::Forwarder;
use super::position::Call;
use super::verdict::{Reason, Verdict};
use crate::limits::BATCH_MAX;
use crate::packet::{HeadCache, InFlightHeads, Packet, Packets, ReadyPackets};
use crate::pool::{Batch, Pool};
use crate::steer::Source;
use crate::sync::Worker;
use std::sync::Arc;

/// Packets ahead of the one in work whose headers are asked for.
const AHEAD: usize = 8;

/// What frames need to be packets on their way: where heads come from, and what hooks there are.
#[derive(Debug)]
pub struct PacketPath {
    buffers: Buffers,
    hooks: Option<Hooks>,
}

impl PacketPath {
    /// Packets get `heads` when they are received, and go through no hooks.
    pub fn new(heads: HeadCache) -> PacketPath {
        PacketPath { buffers: Buffers::new(heads), hooks: None }
    }

    /// The full path: packets go through `filter`, and are counted by what they carry.
    #[must_use]
    pub fn with_hooks(mut self, filter: Filter) -> PacketPath {
        self.hooks = Some(Hooks { filter, protocols: Arc::default() });
        self
    }

    /// Packets are made when the fill rings are refilled, from ready `pairs` where there are; they must be of the
    /// forwarder's pool and of these heads. A forwarder that steers keeps none: its frames leave their heads
    /// before they may go to another worker, so that every refill misses.
    #[must_use]
    pub fn with_ready_packets(mut self, pairs: ReadyPackets) -> PacketPath {
        self.buffers.pairs = Some(pairs);
        self
    }

    /// What the statistics hook counts, readable from any thread; None where there are no hooks.
    pub fn protocols(&self) -> Option<Arc<Protocols>> {
        self.hooks.as_ref().map(|hooks| Arc::clone(&hooks.protocols))
    }

    /// Frees the packets whose frames a port has sent; frames that were never packets too.
    #[inline]
    pub(super) fn free_sent(&mut self, egress: &mut Egress, sent: &mut Batch, free: Free, w: &mut Worker) {
        let mut packets = self.buffers.take_spare();
        egress.flight.arrive(sent, &mut packets);
        self.buffers.free(packets, free, w);
        sent.free(w);
    }

    /// Takes the heads off the packets whose frames a port has sent.
    pub(super) fn detach_sent(&mut self, egress: &mut Egress, sent: &mut Batch, w: &mut Worker) {
        let mut packets = self.buffers.take_spare();
        egress.flight.arrive(sent, &mut packets);
        self.buffers.heads.detach_bulk(w, &mut packets, sent);
        self.buffers.put_spare(packets);
    }

    /// Takes the heads off frames just received, where they were posted as pairs: another worker may get them.
    pub(super) fn strip_received(&mut self, egress: &mut Egress, burst: &mut Batch, w: &mut Worker) {
        if !egress.filling.is_empty() {
            self.buffers.strip(burst, &mut egress.filling, w);
        }
    }

    /// Takes the heads off the packets that wait for a port: another worker is to transmit them.
    pub(super) fn strip_unsent(&mut self, egress: &mut Egress, w: &mut Worker) {
        let (mut packets, mut stripped) = (self.buffers.take_spare(), Batch::new());
        egress.flight.recall(&mut egress.out, &mut packets);
        self.buffers.heads.detach_bulk(w, &mut packets, &mut stripped);
        self.buffers.put_spare(packets);
        stripped.append(&mut egress.out);
        egress.out = stripped;
    }

    /// Frees packets of `frames` that wait for a port no more, and of as many of the heads that came to `flight` last.
    pub(super) fn free_unsent(&mut self, flight: &mut InFlightHeads, frames: &mut Batch, w: &mut Worker) {
        let mut packets = self.buffers.take_spare();
        flight.recall(frames, &mut packets);
        self.buffers.free(packets, Free::Bulk, w);
        frames.free(w);
    }

    /// Gives up the heads of frames that a port had and never gives back.
    #[cold]
    pub(super) fn give_up_stranded(&self, egress: &mut Egress, w: &mut Worker) {
        let expected = egress.port.tx_posted() + egress.out.len();
        let stranded = egress.flight.len().saturating_sub(expected);
        if stranded > 0 {
            egress.flight.give_up(stranded, &self.buffers.heads, w);
        }
    }

    /// Tops a port's fill ring up to `most` frames.
    #[inline]
    pub(super) fn refill(&mut self, egress: &mut Egress, pool: &Pool, most: usize, w: &mut Worker) {
        self.buffers.refill(&mut *egress.port, &mut egress.filling, pool, most, w);
    }

    /// Ends a poll round.
    pub(super) fn end_round(&self, w: &mut Worker) {
        self.buffers.heads.end_round(w);
    }

    /// Writes what becomes of each packet: what the hooks say, or else the decision.
    #[inline]
    fn decide_all(
        &mut self,
        decision: &mut dyn Decide,
        from: Source,
        packets: &mut Packets,
        verdicts: &mut [Verdict],
    ) {
        let port = usize::from(from.port);
        if let Some(hooks) = &mut self.hooks {
            hooks.filter.refresh();
        }
        packets.iter().take(AHEAD).for_each(Packet::prefetch);
        for i in 0..packets.len() {
            if let Some(next) = packets.get(i + AHEAD) {
                next.prefetch();
            }
            let packet = &mut packets[i];
            packet.record_rx_queue(from.queue);
            let said = self.hooks.as_ref().and_then(|hooks| hooks.judge(packet.data(), port));
            verdicts[i] = said.unwrap_or_else(|| decision.decide_packet(from, packet));
        }
    }
}

impl Forwarder {
    /// As `receive`, with packets.
    #[inline(never)]
    pub(super) fn receive_packets(&mut self, from: usize, w: &mut Worker) -> usize {
        let Some(path) = &mut self.packets else { return 0 };
        let Egress { port, filling, .. } = &mut self.egresses[from];
        let mut burst = Batch::new();
        self.meters.position.begin(from, Call::Rx);
        let received = port.rx(w, &mut burst);
        if received == 0 {
            return 0;
        }
        self.meters.received.add(received as u64);
        let packets = path.buffers.receive(&mut burst, filling, w);
        self.forward_packets(Source { port: from as u8, queue: from as u16 }, packets, &mut burst, w);
        received
    }

    /// As `forward`, with packets: of frames that another worker received, or that stayed here.
    #[inline(never)]
    pub(super) fn forward_as_packets(&mut self, from: Source, burst: &mut Batch, w: &mut Worker) {
        let Some(path) = &mut self.packets else { return };
        let packets = path.buffers.attach(burst, w);
        self.forward_packets(from, packets, burst, w);
    }

    /// Decides about each packet; the frames in `headless` found no head and are dropped.
    #[inline]
    fn forward_packets(&mut self, from: Source, mut packets: Packets, headless: &mut Batch, w: &mut Worker) {
        if !headless.is_empty() {
            self.meters.drops.add(Reason::NoHead, headless.len() as u64);
            headless.free(w);
        }
        let Some(path) = &mut self.packets else { return };
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
            }
        }
        drop(rest);
        if let Some(path) = &mut self.packets {
            path.buffers.put_spare(packets);
        }
    }

    /// Takes packets apart: their frames go to a port's batch, their heads wait; a full batch is sent.
    #[inline]
    fn redirect_packets(&mut self, to: usize, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        if to >= self.egresses.len() {
            return self.discard_packets(Reason::NoRoute, packets, w);
        }
        for packet in packets {
            if self.egresses[to].out.room() == 0 && self.transmit(to, w) == BATCH_MAX {
                self.give_up(to, Reason::TxFull, w);
            }
            let Egress { flight, out, .. } = &mut self.egresses[to];
            if let Err(odd) = flight.depart(packet, out) {
                self.discard_packets(Reason::TxRefused, std::iter::once(odd), w);
            }
        }
    }

    /// Drops packets.
    #[inline(never)]
    fn discard_packets(&mut self, reason: Reason, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        let Some(path) = &mut self.packets else { return };
        let dropped = path.buffers.collect(packets);
        self.meters.drops.add(reason, dropped.len() as u64);
        path.buffers.free(dropped, self.free, w);
    }

    /// Drops packets and has them answered: without heads, and by no hooks, a reply being nothing that was received.
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

    /// Takes the heads off packets and gives their frames to the local queue.
    #[inline(never)]
    fn pass_packets(&mut self, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        let mut frames = self.detach(packets, w);
        self.hold(&mut frames, w);
    }

    /// Takes the heads off packets and lets their frames wait.
    #[cold]
    #[inline(never)]
    fn wait_packets(&mut self, from: Source, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        let mut frames = self.detach(packets, w);
        self.wait_all(from, &mut frames, w);
    }

    /// Takes the heads off packets.
    fn detach(&mut self, packets: impl Iterator<Item = Packet>, w: &mut Worker) -> Batch {
        let mut frames = Batch::new();
        if let Some(path) = &mut self.packets {
            let mut packets = path.buffers.collect(packets);
            path.buffers.heads.detach_bulk(w, &mut packets, &mut frames);
            path.buffers.put_spare(packets);
        }
        frames
    }
}
