//! HOT: the full path, on which frames are packets and go through hooks.
//!
//! ```text
//!   rx ─► heads ─► filter ─► statistics ─► the mode's verdict ─┬─ redirect, tx ─► frames to the port, heads wait
//!                     └─ drop, pass                            ├─ pass ─► the holder, without heads
//!                                                              └─ drop ─► heads and frames freed in bulk
//!   complete ─► packets again ─► heads and frames freed in bulk
//! ```
//! What a hook says before the mode's verdict goes: a packet that a rule drops is not rewritten.

mod protocols;

pub use protocols::Protocols;

use super::filter::{Action, Fields, Filter};
use super::lane::Lane;
use super::mode::{Free, Mode};
use super::poll::Forwarder;
use super::verdict::{Reason, Verdict};
use crate::limits::BATCH_MAX;
use crate::packet::{Heads, Packet, Packets};
use crate::pool::Batch;
use crate::sync::Worker;
use std::sync::Arc;

/// Packets ahead of the one in work whose headers are asked for.
const AHEAD: usize = 8;

/// What the full path needs: where heads come from, and the hooks.
#[derive(Debug)]
pub struct FullPath {
    heads: Heads,
    filter: Filter,
    protocols: Arc<Protocols>,
    /// Empty ones, kept so that no round allocates.
    spare: Vec<Packets>,
}

impl FullPath {
    /// A full path whose packets get `heads` and go through `filter`.
    pub fn new(heads: Heads, filter: Filter) -> FullPath {
        FullPath { heads, filter, protocols: Arc::default(), spare: Vec::new() }
    }

    /// What the statistics hook counts, readable from any thread.
    pub fn protocols(&self) -> Arc<Protocols> {
        Arc::clone(&self.protocols)
    }

    fn take_spare(&mut self) -> Packets {
        self.spare.pop().unwrap_or_default()
    }

    /// Frees packets, heads first.
    #[inline]
    fn free(&mut self, mut packets: Packets, free: Free, w: &mut Worker) {
        match free {
            Free::Bulk => self.heads.free_bulk(w, &mut packets),
            Free::Single => packets.drain().for_each(|packet| self.heads.free(w, packet)),
        }
        self.spare.push(packets);
    }

    /// Frees the packets whose frames a port has sent; frames that were never packets too.
    #[inline]
    pub(super) fn free_sent(&mut self, lane: &mut Lane, sent: &mut Batch, free: Free, w: &mut Worker) {
        let mut packets = self.take_spare();
        lane.flight.arrive(sent, &mut packets);
        self.free(packets, free, w);
        sent.free(w);
    }

    /// Frees the packets that wait for a port.
    pub(super) fn free_unsent(&mut self, lane: &mut Lane, w: &mut Worker) {
        let mut packets = self.take_spare();
        lane.flight.recall(&mut lane.out, &mut packets);
        self.free(packets, Free::Bulk, w);
        lane.out.free(w);
    }

    /// Ends a poll round.
    pub(super) fn end_round(&self, w: &mut Worker) {
        self.heads.end_round(w);
    }

    /// Leads packets through the hooks and writes what becomes of each.
    #[inline]
    fn decide_all(&mut self, mode: &Mode, from: usize, packets: &mut Packets, verdicts: &mut [Verdict]) {
        self.filter.refresh();
        packets.iter().take(AHEAD).for_each(Packet::prefetch);
        for i in 0..packets.len() {
            if let Some(next) = packets.get(i + AHEAD) {
                next.prefetch();
            }
            let packet = &mut packets[i];
            packet.record_rx_queue(from as u16);
            verdicts[i] = match self.hooks(packet, from) {
                Some(verdict) => verdict,
                // A packet just received is its frame's only holder.
                None => {
                    packet.data_mut().map_or(Verdict::Drop(Reason::Policy), |data| mode.decide(from, data))
                }
            };
        }
    }

    /// What the hooks say; None to go on.
    #[inline]
    fn hooks(&self, packet: &Packet, from: usize) -> Option<Verdict> {
        let data = packet.data();
        let fields = Fields::read(data, from as u8);
        self.protocols.count(&fields, data.len());
        match self.filter.judge(&fields, data.len()) {
            Some(Action::Drop) => Some(Verdict::Drop(Reason::Policy)),
            Some(Action::Pass) => Some(Verdict::Pass),
            Some(Action::Accept) | None => None,
        }
    }
}

impl Forwarder {
    /// As `receive`, with packets.
    #[inline(never)]
    pub(super) fn receive_packets(&mut self, from: usize, w: &mut Worker) -> usize {
        let Some(full) = &mut self.full else { return 0 };
        let mut burst = Batch::new();
        let received = self.lanes[from].port.rx(w, &mut burst);
        if received == 0 {
            return 0;
        }
        self.meters.received.add(received as u64);
        let mut packets = full.take_spare();
        let attached = full.heads.attach_bulk(w, &mut burst, &mut packets);
        if attached < received {
            self.meters.drops.add(Reason::NoHead, burst.len() as u64);
            burst.free(w);
        }
        let mut verdicts = [Verdict::Pass; BATCH_MAX];
        full.decide_all(&self.mode, from, &mut packets, &mut verdicts);
        let mut rest = packets.drain();
        for run in verdicts[..attached].chunk_by(PartialEq::eq) {
            let run_of = rest.by_ref().take(run.len());
            match run[0] {
                Verdict::Redirect(to) => self.redirect_packets(usize::from(to), run_of, w),
                Verdict::Tx => self.redirect_packets(from, run_of, w),
                Verdict::Drop(reason) => self.discard_packets(reason, run_of, w),
                Verdict::Pass => self.pass_packets(run_of, w),
            }
        }
        drop(rest);
        if let Some(full) = &mut self.full {
            full.spare.push(packets);
        }
        received
    }

    /// Takes packets apart: their frames go to a port's batch, their heads wait; a full batch is sent.
    #[inline]
    fn redirect_packets(&mut self, to: usize, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        if to >= self.lanes.len() {
            return self.discard_packets(Reason::NoRoute, packets, w);
        }
        for packet in packets {
            if self.lanes[to].out.room() == 0 && self.transmit(to, w) == BATCH_MAX {
                self.give_up(to, Reason::TxFull, w);
            }
            let Lane { flight, out, .. } = &mut self.lanes[to];
            if let Err(odd) = flight.depart(packet, out) {
                self.discard_packets(Reason::TxRefused, std::iter::once(odd), w);
            }
        }
    }

    /// Drops packets.
    #[inline(never)]
    fn discard_packets(&mut self, reason: Reason, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        let Some(full) = &mut self.full else { return };
        let mut dropped = full.take_spare();
        // A run is at most a burst, for which there is room.
        packets.for_each(|packet| drop(dropped.push(packet)));
        self.meters.drops.add(reason, dropped.len() as u64);
        full.free(dropped, self.free, w);
    }

    /// Takes the heads off packets and gives their frames to the holder.
    #[inline(never)]
    fn pass_packets(&mut self, packets: impl Iterator<Item = Packet>, w: &mut Worker) {
        let Some(full) = &mut self.full else { return };
        let mut passed = full.take_spare();
        // As above.
        packets.for_each(|packet| drop(passed.push(packet)));
        let mut frames = Batch::new();
        full.heads.detach_bulk(w, &mut passed, &mut frames);
        full.spare.push(passed);
        self.hold(&mut frames, w);
    }
}
