//! Frames that are dropped after their verdict. COLD.

use super::poll::Forwarder;
use super::verdict::Reason;
use crate::pool::{Batch, Drain};
use crate::steer::Source;
use crate::sync::Worker;
use std::mem;

impl Forwarder {
    /// Drops frames that a verdict had sent on. `from` is set if there was no verdict about them.
    #[cold]
    #[inline(never)]
    pub(super) fn lose(&mut self, from: Option<Source>, reason: Reason, frames: &mut Batch, w: &mut Worker) {
        self.meters.drops.add(reason, frames.len() as u64);
        self.decision.lost(from, reason, frames);
        self.free(frames, w);
    }

    /// The same for frames that waited for a port. They may be packets.
    fn lose_unsent(&mut self, port: usize, reason: Reason, frames: &mut Batch, w: &mut Worker) {
        self.meters.drops.add(reason, frames.len() as u64);
        self.decision.lost(None, reason, frames);
        self.path.free_unsent(&mut self.egresses[port].flight, frames, w);
    }

    /// Drops the frames that the port can never carry: they would wait forever.
    pub(super) fn refuse_unfit(&mut self, port: usize, w: &mut Worker) {
        let egress = &mut self.egresses[port];
        let mut unfit = egress.port.take_unsendable(&mut egress.out);
        if unfit.is_empty() {
            return;
        }
        let mut long = unfit.extract(|frame| egress.port.is_too_long(frame));
        self.lose_unsent(port, Reason::TxTooLong, &mut long, w);
        self.lose_unsent(port, Reason::TxRefused, &mut unfit, w);
    }

    /// Drops all waiting frames: the port takes nothing, now or later (link down), or can never carry some of them.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, port: usize, w: &mut Worker) {
        self.refuse_unfit(port, w);
        self.give_up(port, Reason::TxRefused, w);
    }

    /// Drops all waiting frames: the port's ring stayed full, or the port takes nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn give_up(&mut self, port: usize, reason: Reason, w: &mut Worker) {
        let mut unsent = mem::take(&mut self.egresses[port].out);
        self.lose_unsent(port, reason, &mut unsent, w);
        self.forget_stranded(port, w);
    }

    /// Drops the next `n` frames of a burst without an answer.
    #[cold]
    #[inline(never)]
    pub(super) fn discard_untold(&mut self, reason: Reason, burst: &mut Drain<'_>, n: usize, w: &mut Worker) {
        let mut dropped = Batch::new();
        burst.move_to(&mut dropped, n);
        self.lose(None, reason, &mut dropped, w);
    }

    /// Gives up the state kept for frames that a port had and never gives back: their heads and their times.
    #[cold]
    #[inline(never)]
    pub(super) fn forget_stranded(&mut self, port: usize, w: &mut Worker) {
        let egress = &mut self.egresses[port];
        self.path.give_up_stranded(egress, w);
        if let Some(probe) = &mut self.probe {
            probe.stranded(port, egress.port.tx_posted(), &self.meters.latency);
        }
    }
}
