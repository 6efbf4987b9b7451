//! HOT: frames that the host sent.

use super::TapLink;
use crate::port::PortCounters;
use crate::port::copying::RxBuffers;

impl TapLink {
    pub(super) fn receive_burst(&mut self, rooms: &mut RxBuffers<'_>, counters: &PortCounters) -> usize {
        let mut n = 0;
        while self.link.is_up()
            && let Some(mut room) = rooms.get(n)
        {
            let most = room.tailroom();
            // There is as much.
            let read = self.queue.receive(room.put(most).unwrap_or_default());
            let len = match read {
                Ok(Some(len)) if len <= most => Some(len),
                Ok(Some(_)) => {
                    counters.rx_too_long.add(1);
                    None
                }
                Ok(None) => None,
                Err(errno) => {
                    self.link.heed(errno);
                    None
                }
            };
            // No longer than the room; to nothing where no whole frame came.
            let _ = room.trim(len.unwrap_or(0));
            n += usize::from(len.is_some());
            if !matches!(read, Ok(Some(_))) {
                break;
            }
        }
        n
    }
}
