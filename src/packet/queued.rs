//! Packets on their way to another worker, and how the ledgers of their frames count them.
//!
//! A packet's unshared frames count as queued from just before the packet enters a ring until just after it came out.
//! They are counted in runs of one pool ([`enter`], [`leave`]). A packet that is dropped on the way counts itself back.

use super::packet::Packet;
use crate::pool::FrameState;
use crate::sync::Worker;
use std::slice;
use std::vec;

/// A packet in a ring to another worker: no thread reads or changes it there, and its unshared frames count as `queued`
/// in the ledgers of their pools.
///
/// [`Packets::send_queued`](super::Packets::send_queued) makes it, and
/// [`Packets::receive_queued`](super::Packets::receive_queued) turns it into a packet again. When dropped, it is freed
/// by the slow path.
#[derive(Debug)]
#[must_use = "dropping it frees it on the slow path: give it back with a worker"]
pub struct QueuedPacket {
    /// None after it was taken.
    packet: Option<Packet>,
}

const _: () = assert!(size_of::<QueuedPacket>() == 16);

impl QueuedPacket {
    /// Wraps a packet that was counted.
    #[inline(always)]
    fn of(packet: Packet) -> QueuedPacket {
        QueuedPacket { packet: Some(packet) }
    }

    /// Takes the packet, which must still be counted back.
    #[inline(always)]
    pub(super) fn take(mut self) -> Option<Packet> {
        self.packet.take()
    }
}

impl Drop for QueuedPacket {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(packet) = self.packet.take() {
            drop_queued(packet);
        }
    }
}

#[cold]
#[inline(never)]
fn drop_queued(packet: Packet) {
    for frame in packet.parts().filter_map(Packet::own_frame) {
        FrameState::Queued.fetch(None, slice::from_ref(frame));
    }
    drop(packet);
}

/// Packets that were counted, on their way into a ring. Packets that do not get there are freed.
pub(super) struct Entering<'a>(vec::Drain<'a, Packet>);

impl<'a> Entering<'a> {
    /// The first `n` packets.
    #[inline(always)]
    pub(super) fn first(n: usize, packets: &'a mut Vec<Packet>, w: &Worker) -> Entering<'a> {
        enter(w, &packets[..n]);
        Entering(packets.drain(..n))
    }
}

impl Iterator for Entering<'_> {
    type Item = QueuedPacket;

    #[inline(always)]
    fn next(&mut self) -> Option<QueuedPacket> {
        self.0.next().map(QueuedPacket::of)
    }
}

impl Drop for Entering<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

/// Packets that come out of a ring and are appended to others. They are counted when this is dropped.
pub(super) struct Leaving<'a> {
    pub(super) packets: &'a mut Vec<Packet>,
    before: usize,
    w: &'a Worker,
}

impl<'a> Leaving<'a> {
    /// Appends to these packets.
    #[inline(always)]
    pub(super) fn behind(packets: &'a mut Vec<Packet>, w: &'a Worker) -> Leaving<'a> {
        let before = packets.len();
        Leaving { packets, before, w }
    }
}

impl Drop for Leaving<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        leave(self.w, &self.packets[self.before..]);
    }
}

/// Counts packets that enter a ring.
#[inline(always)]
fn enter(w: &Worker, packets: &[Packet]) {
    FrameState::Queued.enter_apart(w, packets.iter().filter_map(Packet::frame));
    each_odd(packets, |packet| {
        FrameState::Queued.enter_apart(w, packet.parts().filter_map(Packet::own_frame))
    });
}

/// Counts packets that came out of a ring.
#[inline(always)]
fn leave(w: &Worker, packets: &[Packet]) {
    FrameState::Queued.leave_apart(w, packets.iter().filter_map(Packet::frame));
    each_odd(packets, |packet| {
        FrameState::Queued.leave_apart(w, packet.parts().filter_map(Packet::own_frame))
    });
}

/// Calls `f` with each packet that is more than a head and a frame.
#[inline(always)]
fn each_odd(packets: &[Packet], mut f: impl FnMut(&Packet)) {
    for packet in packets {
        if packet.frame().is_none() {
            f(packet);
        }
    }
}
