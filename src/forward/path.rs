//! HOT: the form of frames in the loop: frames, or packets.
//!
//! The loop depends on it only when it decides about a burst. All other operations that packets need beyond frames are
//! here, once.

use super::egress::Egress;
use super::free::Free;
use super::packets::PacketPath;
use crate::packet::InFlightHeads;
use crate::pool::{Batch, Pool};
use crate::sync::Worker;

/// The form of frames in the loop.
pub(super) enum Path {
    /// Frames without heads.
    Frames,
    /// Packets: each has its head, or its head waits while a port has the frame.
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

    /// Frees frames that a port has sent.
    #[inline]
    pub(super) fn free_sent(&mut self, egress: &mut Egress, sent: &mut Batch, free: Free, w: &mut Worker) {
        match self {
            Path::Frames => free.batch(sent, w),
            Path::Packets(path) => path.free_sent(egress, sent, free, w),
        }
    }

    /// Removes the heads of frames that a port has sent: others will see the frames.
    pub(super) fn detach_sent(&mut self, egress: &mut Egress, sent: &mut Batch, w: &mut Worker) {
        if let Path::Packets(path) = self {
            path.detach_sent(egress, sent, w);
        }
    }

    /// Frees `frames`, which no longer wait for a port, and as many of the heads that came to `flight` last.
    pub(super) fn free_unsent(&mut self, flight: &mut InFlightHeads, frames: &mut Batch, w: &mut Worker) {
        match self {
            Path::Frames => frames.free(w),
            Path::Packets(path) => path.free_unsent(flight, frames, w),
        }
    }

    /// Removes the heads of frames just received: another worker may get them.
    #[inline]
    pub(super) fn strip_received(&mut self, egress: &mut Egress, burst: &mut Batch, w: &mut Worker) {
        if let Path::Packets(path) = self {
            path.strip_received(egress, burst, w);
        }
    }

    /// Removes the heads of frames that wait for a port: another worker must transmit them.
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
