//! HOT: frames that the host sent.

use super::TapLink;
use crate::port::PortCounters;
use crate::port::copying::{RxBuffer, RxBuffers};
use crate::port::virtio::Received;
use crate::wire::offload::{Offload, VIRTIO_LEN};

impl TapLink {
    pub(super) fn receive_burst(&mut self, rooms: &mut RxBuffers<'_>, counters: &PortCounters) -> usize {
        let mut n = self.uncut.fill(rooms, 0, counters);
        while self.uncut.is_empty()
            && self.link.is_up()
            && let Some(mut room) = rooms.get(n)
        {
            let Some(good) = self.receive_one(&mut room, counters) else { break };
            n += usize::from(good);
            if !self.uncut.is_empty() {
                n = self.uncut.fill(rooms, n, counters);
            }
        }
        n
    }

    /// Receives a frame into `room`, which is empty again where none came; whether it is a whole one, None where there is none.
    #[inline]
    fn receive_one(&mut self, room: &mut RxBuffer<'_>, counters: &PortCounters) -> Option<bool> {
        let (most, mut header) = (room.tailroom(), [0; VIRTIO_LEN]);
        let beyond = self.uncut.beyond().next().unwrap_or_default();
        let longest = most + beyond.len();
        // There is as much.
        let read = self.queue.receive(&mut header, room.put(most).unwrap_or_default(), beyond);
        let good = match read {
            Ok(Some(len)) if len > longest => {
                counters.rx_too_long.add(1);
                Some(false)
            }
            Ok(Some(len)) if Offload::is_in(&header) || len > most => {
                let received = Received { len, tag: None, header, keeps: self.keeps_offloads };
                Some(self.uncut.settle(0, room, received, counters))
            }
            // No longer than the room.
            Ok(Some(len)) => Some(room.trim(len).is_ok()),
            Ok(None) => None,
            Err(errno) => {
                self.link.heed(errno);
                None
            }
        };
        if good != Some(true) {
            // To nothing, which is always less than there is.
            let _ = room.trim(0);
        }
        good
    }
}
