//! HOT: frames that the host sent.

use super::TapLink;
use crate::port::PortCounters;
use crate::port::copying::RxBuffers;
use crate::port::spread::FRAMES;
use crate::port::virtio::{Received, frames_each, parts};
use crate::sys::errno::Errno;
use crate::wire::offload::VIRTIO_LEN;

impl TapLink {
    pub(super) fn receive_burst(&mut self, rooms: &mut RxBuffers<'_>, counters: &PortCounters) -> usize {
        let mut n = self.uncut.fill(rooms, 0, counters);
        // As many packets as there are rooms at most: one that is dropped takes none, and a host can send such packets
        // faster than they are dropped.
        for _ in 0..rooms.len() {
            // The queue of an interface that is down may still have packets.
            if !self.uncut.is_empty() || self.link.is_failed() || n >= rooms.len() {
                break;
            }
            let Some(got) = self.receive_one(rooms, n, counters) else { break };
            n += got;
            if !self.uncut.is_empty() {
                n = self.uncut.fill(rooms, n, counters);
            }
        }
        n
    }

    /// Receives a packet into `rooms` from `first` on. Returns how many are whole frames then; the others are empty
    /// again. Returns None if there is no packet.
    #[inline]
    fn receive_one(
        &mut self,
        rooms: &mut RxBuffers<'_>,
        first: usize,
        counters: &PortCounters,
    ) -> Option<usize> {
        let keeps = self.keeps_offloads;
        let each = frames_each(rooms, first..first + FRAMES, keeps);
        let mut header = [0; VIRTIO_LEN];
        let (longest, read) = {
            let beyond = self.uncut.beyond().next().unwrap_or_default();
            let parts = parts(each, &mut rooms.iter_mut().skip(first), beyond);
            (parts.iter().map(|part| part.len()).sum::<usize>(), self.queue.receive(&mut header, parts))
        };
        let got = match read {
            Ok(Some(len)) if len > longest => {
                counters.rx_too_long.add(1);
                Some(0)
            }
            Ok(Some(len)) => {
                let received = Received { len, tag: None, header, keeps, time: None };
                Some(self.uncut.land(0, (first, each), rooms, received, counters))
            }
            Ok(None) => None,
            // A frame that the kernel could not describe; it is gone.
            Err(Errno::INVAL) => {
                counters.rx_dropped.add(1);
                None
            }
            Err(errno) => {
                self.link.heed(errno);
                None
            }
        };
        for mut room in rooms.iter_mut().take(first + each).skip(first + got.unwrap_or(0)) {
            // Trimming to 0 bytes always succeeds.
            let _ = room.trim(0);
        }
        got
    }
}
