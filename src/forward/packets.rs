//! HOT: frames as packets, with heads, and on the full path through hooks.
//!
//! ```text
//!   rx ─► heads ─► rules ─► statistics ─► the decision's verdict ─┬─ redirect, tx ─► frames to the port, heads wait
//!                    └─ drop, pass                            ├─ pass, wait, fragment ─► the local queue, the decision: without heads
//!                                                             └─ drop ─► heads and frames freed in bulk
//!   complete ─► packets again ─► heads and frames freed in bulk, or kept together as pairs
//! ```
//! The action of a hook precedes the decision: a packet that a rule drops is not rewritten.

mod buffers;
mod carry_out;
mod hooks;
mod protocols;
mod ready;

pub use protocols::Protocols;

use self::buffers::Buffers;
use self::hooks::Hooks;
use self::ready::Ready;
use super::decide::Decide;
use super::egress::Egress;
use super::filter::Filter;
use super::free::Free;
use super::verdict::Verdict;
#[cfg(feature = "comparisons")]
use crate::packet::ReadyList;
use crate::packet::{HeadCache, InFlightHeads, Packet, Packets, ReadyPackets};
use crate::pool::{Batch, Pool};
use crate::steer::Source;
use crate::sync::Worker;
use std::sync::Arc;

/// Number of packets by which headers are prefetched ahead of the current packet.
const AHEAD: usize = 8;

/// The settings of the packet path: the source of heads, and the hooks.
#[derive(Debug)]
pub struct PacketPath {
    buffers: Buffers,
    hooks: Option<Hooks>,
}

impl PacketPath {
    /// Packets get `heads` when they are received, and pass no hooks.
    pub fn new(heads: HeadCache) -> PacketPath {
        PacketPath { buffers: Buffers::new(heads), hooks: None }
    }

    /// The full path: packets pass `filter`, and are counted by protocol.
    #[must_use]
    pub fn with_hooks(mut self, filter: Filter) -> PacketPath {
        self.hooks = Some(Hooks { filter, protocols: Arc::default(), are_told: false });
        self
    }

    /// Sets whether the decision sees packets that rules have decided about.
    pub(super) fn tell_overruled(&mut self, told: bool) {
        if let Some(hooks) = &mut self.hooks {
            hooks.are_told = told;
        }
    }

    /// Makes packets when the fill rings are refilled, from ready `pairs` if there are any. The pairs must belong to
    /// the forwarder's pool and to these heads. A forwarder that steers keeps none: its frames leave their heads before
    /// they may go to another worker, so every refill misses.
    #[must_use]
    pub fn with_ready_packets(mut self, pairs: ReadyPackets) -> PacketPath {
        self.buffers.pairs = Some(Ready::Workers(pairs));
        self
    }

    /// As [`with_ready_packets`](PacketPath::with_ready_packets), with one list of pairs for all workers, under a lock.
    /// For comparison, as in [rizzo02-mbuf].
    #[cfg(feature = "comparisons")]
    #[must_use]
    pub fn with_ready_list(mut self, list: ReadyList) -> PacketPath {
        self.buffers.pairs = Some(Ready::List(list));
        self
    }

    /// The counters of the statistics hook, readable from any thread; None if there are no hooks.
    pub fn protocols(&self) -> Option<Arc<Protocols>> {
        self.hooks.as_ref().map(|hooks| Arc::clone(&hooks.protocols))
    }

    /// Frees the packets whose frames a port has sent, and also frames that were never packets.
    #[inline]
    pub(super) fn free_sent(&mut self, egress: &mut Egress, sent: &mut Batch, free: Free, w: &mut Worker) {
        let mut packets = self.buffers.take_spare();
        egress.flight.attach(sent, &mut packets);
        self.buffers.free(packets, free, w);
        sent.free(w);
    }

    /// Removes the heads of packets whose frames a port has sent.
    pub(super) fn detach_sent(&mut self, egress: &mut Egress, sent: &mut Batch, w: &mut Worker) {
        let mut packets = self.buffers.take_spare();
        egress.flight.attach(sent, &mut packets);
        self.buffers.heads.detach_burst(w, &mut packets, sent);
        self.buffers.put_spare(packets);
    }

    /// Removes the heads of frames just received, if they were posted as pairs: another worker may get the frames.
    pub(super) fn strip_received(&mut self, egress: &mut Egress, burst: &mut Batch, w: &mut Worker) {
        if !egress.filling.is_empty() {
            self.buffers.strip(burst, &mut egress.filling, w);
        }
    }

    /// Removes the heads of packets that wait for a port: another worker must transmit them.
    pub(super) fn strip_unsent(&mut self, egress: &mut Egress, w: &mut Worker) {
        let (mut packets, mut stripped) = (self.buffers.take_spare(), Batch::new());
        egress.flight.attach_newest(&mut egress.out, &mut packets);
        self.buffers.heads.detach_burst(w, &mut packets, &mut stripped);
        self.buffers.put_spare(packets);
        stripped.append(&mut egress.out);
        egress.out = stripped;
    }

    /// Frees packets of `frames` that no longer wait for a port, and as many of the heads that came to `flight` last.
    pub(super) fn free_unsent(&mut self, flight: &mut InFlightHeads, frames: &mut Batch, w: &mut Worker) {
        let mut packets = self.buffers.take_spare();
        flight.attach_newest(frames, &mut packets);
        self.buffers.free(packets, Free::Bulk, w);
        frames.free(w);
    }

    /// Gives up the heads of frames that a port had and never gives back.
    #[cold]
    pub(super) fn give_up_stranded(&self, egress: &mut Egress, w: &mut Worker) {
        let expected = egress.port.tx_posted() + egress.out.len();
        let stranded = egress.flight.len().saturating_sub(expected);
        if stranded > 0 {
            egress.flight.free_newest(stranded, &self.buffers.heads, w);
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

    /// Shows the decision the packets that rules have decided about, if it is set to see them.
    #[inline]
    fn overrule(
        &self,
        decision: &mut dyn Decide,
        from: Source,
        packet: &Packet,
        verdict: Verdict,
    ) -> Verdict {
        if self.hooks.as_ref().is_some_and(|hooks| hooks.are_told) {
            decision.overruled(from, packet, verdict);
        }
        verdict
    }

    /// Writes the verdict of each packet: that of the hooks, or otherwise that of the decision.
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
            verdicts[i] = match said {
                Some(verdict) => self.overrule(decision, from, packet, verdict),
                None => decision.decide_packet(from, packet),
            };
        }
    }
}
