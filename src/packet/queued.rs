//! Packets on their way to another worker, as the ledgers of their frames have them.
//!
//! The frames that a packet has for itself alone count as queued from just before it goes into a ring until just after it came out, by runs of one pool
//! ([`enter`], [`leave`]). What is dropped on the way counts itself back.

use super::packet::Packet;
use crate::pool::Place;
use crate::sync::Worker;
use std::slice;
use std::vec;

/// A packet in a ring to another worker: no thread reads or changes it there, and its unshared frames count as `queued`
/// in the ledgers of their pools.
///
/// Made by [`Packets::send_queued`](super::Packets::send_queued), and a packet again by
/// [`Packets::receive_queued`](super::Packets::receive_queued). Dropped, it goes home by the slow way.
#[derive(Debug)]
#[must_use = "dropped, it is freed by the slow way"]
pub struct QueuedPacket {
    /// None once it was taken.
    packet: Option<Packet>,
}

const _: () = assert!(size_of::<QueuedPacket>() == 16);

impl QueuedPacket {
    /// A packet that was counted.
    #[inline(always)]
    fn of(packet: Packet) -> QueuedPacket {
        QueuedPacket { packet: Some(packet) }
    }

    /// The packet, which is still to be counted back.
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
        Place::Queued.fetch(None, slice::from_ref(frame));
    }
    drop(packet);
}

/// Packets that were counted, on their way into a ring; those that did not get there go home.
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

/// Packets that come out of a ring, behind others; counted when this is dropped.
pub(super) struct Leaving<'a> {
    pub(super) packets: &'a mut Vec<Packet>,
    before: usize,
    w: &'a Worker,
}

impl<'a> Leaving<'a> {
    /// Behind these.
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

/// Packets come into a ring.
#[inline(always)]
fn enter(w: &Worker, packets: &[Packet]) {
    Place::Queued.enter_apart(w, packets.iter().filter_map(Packet::frame));
    each_odd(packets, |packet| Place::Queued.enter_apart(w, packet.parts().filter_map(Packet::own_frame)));
}

/// Packets came out of a ring.
#[inline(always)]
fn leave(w: &Worker, packets: &[Packet]) {
    Place::Queued.leave_apart(w, packets.iter().filter_map(Packet::frame));
    each_odd(packets, |packet| Place::Queued.leave_apart(w, packet.parts().filter_map(Packet::own_frame)));
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
