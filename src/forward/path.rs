//! HOT: what frames are on their way through the loop: themselves, or packets.
//!
//! The loop asks this nowhere but where a burst is decided about. All else that packets need more than frames is here, once.

use super::egress::Egress;
use super::free::Free;
use super::packets::PacketPath;
use crate::packet::InFlightHeads;
use crate::pool::{Batch, Pool};
use crate::sync::Worker;

/// What frames are on their way through the loop.
pub(super) enum Path {
    /// Themselves: they have no heads.
    Frames,
    /// Packets: a head is with each, or waits while a port has the frame.
    Packets(Box<PacketPath>),
}

impl Path {
    /// Tops a port's fill ring up to `most` frames.
    #[inline]
    pub(super) fn refill(&mut self, egress: &mut Egress, pool: &Pool, most: usize, w: &mut Worker) {
        match self {
            Path::Frames => drop(egress.port.refill_to(w, pool, most)),
            Path::Packets(path) => path.refill(egress, pool, most, w),
        }
    }

    /// Ends a poll round.
    #[inline]
    pub(super) fn end_round(&self, w: &mut Worker) {
        if let Path::Packets(path) = self {
            path.end_round(w);
        }
    }

    /// Frees what a port has sent.
    #[inline]
    pub(super) fn free_sent(&mut self, egress: &mut Egress, sent: &mut Batch, free: Free, w: &mut Worker) {
        match self {
            Path::Frames => free.batch(sent, w),
            Path::Packets(path) => path.free_sent(egress, sent, free, w),
        }
    }

    /// Takes the heads off what a port has sent: others are to see the frames.
    pub(super) fn detach_sent(&mut self, egress: &mut Egress, sent: &mut Batch, w: &mut Worker) {
        if let Path::Packets(path) = self {
            path.detach_sent(egress, sent, w);
        }
    }

    /// Frees `frames`, which wait for a port no more, and as many of the heads that came to `flight` last.
    pub(super) fn free_unsent(&mut self, flight: &mut InFlightHeads, frames: &mut Batch, w: &mut Worker) {
        match self {
            Path::Frames => frames.free(w),
            Path::Packets(path) => path.free_unsent(flight, frames, w),
        }
    }

    /// Takes the heads off frames just received: another worker may get them.
    #[inline]
    pub(super) fn strip_received(&mut self, egress: &mut Egress, burst: &mut Batch, w: &mut Worker) {
        if let Path::Packets(path) = self {
            path.strip_received(egress, burst, w);
        }
    }

    /// Takes the heads off what waits for a port: another worker is to transmit it.
    #[inline]
    pub(super) fn strip_unsent(&mut self, egress: &mut Egress, w: &mut Worker) {
        if let Path::Packets(path) = self {
            path.strip_unsent(egress, w);
        }
    }

    /// Gives up the heads of frames that a port had and never gives back.
    #[cold]
    pub(super) fn give_up_stranded(&self, egress: &mut Egress, w: &mut Worker) {
        if let Path::Packets(path) = self {
            path.give_up_stranded(egress, w);
        }
    }
}
