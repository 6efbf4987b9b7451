//! Frames on their way between a port and smoltcp.

use crate::link;
use netmem::port::NextHops;
use netmem::wire::ethernet;
use netmem::{Batch, Frame};
use smoltcp::phy::{RxToken, TxToken};

/// A received packet, in its frame.
#[derive(Debug)]
pub struct RxFrame<'a> {
    pub(crate) frame: Frame,
    /// Has room for the frame.
    pub(crate) read: &'a mut Batch,
}

/// A frame for a packet that is to be sent.
#[derive(Debug)]
pub struct TxFrame<'a> {
    /// An empty frame, unless it is used.
    pub(crate) spare: &'a mut Option<Frame>,
    /// Has room for the frame.
    pub(crate) to_send: &'a mut Batch,
    /// Set if packets have no link header.
    pub(crate) next_hops: Option<&'a mut NextHops>,
    pub(crate) unsent: &'a mut u64,
}

impl RxToken for RxFrame<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        let result = read(self.frame.data());
        // There is room; without it, the frame would be dropped and freed.
        drop(self.read.push(self.frame));
        result
    }
}

impl TxToken for TxFrame<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, write: F) -> R {
        let Some(mut frame) = self.spare.take() else { return self.refuse(len, write) };
        let link_len = self.next_hops.as_ref().map_or(0, |_| ethernet::HEADER_LEN);
        let Ok(room) = frame.put(link_len + len) else {
            *self.spare = Some(frame);
            return self.refuse(len, write);
        };
        let (header, packet) = room.split_at_mut(link_len);
        packet.fill(0); // smoltcp relies on zeros in the reserved bytes of headers
        let result = write(packet);
        let found = match self.next_hops {
            Some(next_hops) => {
                link::header(next_hops, packet).map(|bytes| header.copy_from_slice(&bytes)).is_some()
            }
            None => true,
        };
        if found {
            drop(self.to_send.push(frame));
        } else {
            *self.unsent += 1;
            // Trimmed to zero bytes, it is empty as before.
            *self.spare = frame.trim(0).is_ok().then_some(frame);
        }
        result
    }
}

impl TxFrame<'_> {
    /// A packet for which there is no frame is written all the same, since smoltcp needs the closure's result. It is
    /// then discarded.
    #[cold]
    fn refuse<R>(self, len: usize, write: impl FnOnce(&mut [u8]) -> R) -> R {
        *self.unsent += 1;
        write(&mut vec![0; len])
    }
}
