//! The source and destination of packets: heads that are attached to received frames, or pairs that are posted.
//!
//! | | heads | pairs ([rizzo02-mbuf]) |
//! |---|---|---|
//! | a fill ring gets | frames of the pool | frames of packets, whose heads wait |
//! | a received frame gets | a head | the head that has waited longest |
//! | a packet that was sent | is a head and a frame to be freed | stays together, ready for the next fill |

use super::ready::Ready;
use crate::forward::free::Free;
use crate::limits::BATCH_MAX;
use crate::packet::{HeadCache, InFlightHeads, Packet, Packets};
use crate::pool::{Batch, Pool};
use crate::port::Port;
use crate::sync::Worker;

/// Heads, and optionally ready packets above them.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) heads: HeadCache,
    pub(super) pairs: Option<Ready>,
    /// Empty arrays, kept so that no round allocates.
    spare: Vec<Packets>,
}

impl Buffers {
    pub(super) fn new(heads: HeadCache) -> Buffers {
        Buffers { heads, pairs: None, spare: Vec::new() }
    }

    /// Takes an empty array.
    #[inline]
    pub(super) fn take_spare(&mut self) -> Packets {
        self.spare.pop().unwrap_or_default()
    }

    /// Gives the array back, empty again.
    #[inline]
    pub(super) fn put_spare(&mut self, packets: Packets) {
        self.spare.push(packets);
    }

    /// Collects packets in an array of their own; at most [`BATCH_MAX`].
    #[inline]
    pub(super) fn collect(&mut self, packets: impl Iterator<Item = Packet>) -> Packets {
        let mut collected = self.take_spare();
        // A run is at most a burst, for which there is room.
        packets.for_each(|packet| drop(collected.push(packet)));
        collected
    }

    /// Makes packets of received frames: with heads that wait in `filling`, then with new ones. Frames that found no
    /// head stay in `frames`.
    #[inline]
    pub(super) fn receive(
        &mut self,
        frames: &mut Batch,
        filling: &mut InFlightHeads,
        w: &mut Worker,
    ) -> Packets {
        let mut packets = self.take_spare();
        if !filling.is_empty() {
            filling.attach(frames, &mut packets);
        }
        if !frames.is_empty() {
            self.heads.attach_burst(w, frames, &mut packets);
        }
        packets
    }

    /// Makes packets of frames with new heads. Frames that found no head stay in `frames`.
    #[inline]
    pub(super) fn attach(&mut self, frames: &mut Batch, w: &mut Worker) -> Packets {
        let mut packets = self.take_spare();
        self.heads.attach_burst(w, frames, &mut packets);
        packets
    }

    /// Gives up the heads that wait in `filling` for the frames just received, which stay in order.
    pub(super) fn strip(&mut self, frames: &mut Batch, filling: &mut InFlightHeads, w: &mut Worker) {
        let (mut packets, mut stripped) = (self.take_spare(), Batch::new());
        filling.attach(frames, &mut packets);
        self.heads.detach_burst(w, &mut packets, &mut stripped);
        self.put_spare(packets);
        stripped.append(frames);
        *frames = stripped;
    }

    /// Frees packets: as pairs, or the heads first.
    #[inline]
    pub(super) fn free(&mut self, mut packets: Packets, free: Free, w: &mut Worker) {
        match (&self.pairs, free) {
            (None, Free::Bulk) => self.heads.free_bulk(w, &mut packets),
            (None, Free::Single) => packets.drain().for_each(|packet| self.heads.free(w, packet)),
            (Some(pairs), Free::Bulk) => pairs.free_bulk(w, &mut packets),
            (Some(pairs), Free::Single) => packets.drain().for_each(|packet| pairs.free(w, packet)),
        }
        self.spare.push(packets);
    }

    /// Tops a port's fill ring up to `most` frames: with frames of pairs, whose heads wait in `filling`, or of `pool`.
    #[inline]
    pub(super) fn refill(
        &mut self,
        port: &mut dyn Port,
        filling: &mut InFlightHeads,
        pool: &Pool,
        most: usize,
        w: &mut Worker,
    ) {
        let Some(pairs) = self.pairs.clone().filter(|_| port.own_pool().is_none()) else {
            port.refill_to(w, pool, most);
            return;
        };
        // Frames that the port dropped by itself left their heads.
        let lost = filling.len().saturating_sub(port.rx_posted());
        if lost > 0 {
            filling.free_newest(lost, &self.heads, w);
        }
        let mut frames = Batch::new();
        loop {
            let want = port.fill_room().min(most.saturating_sub(port.rx_posted())).min(BATCH_MAX);
            let mut packets = self.take_spare();
            if want == 0 || pairs.get_burst(w, &mut packets, want) == 0 {
                return self.put_spare(packets);
            }
            let is_short = packets.len() < want;
            // A new packet is one frame, and there is room for as many as were requested.
            packets.drain().for_each(|packet| drop(filling.detach(packet, &mut frames)));
            port.fill(w, &mut frames);
            if !frames.is_empty() {
                filling.attach_newest(&mut frames, &mut packets);
                return self.free(packets, Free::Bulk, w);
            }
            self.put_spare(packets);
            if is_short {
                return;
            }
        }
    }
}
