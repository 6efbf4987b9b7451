//! COLD: the offload of a packet of one or more parts. It is stored with the frame of a part.

use super::packet::Packet;
use crate::pool::{METADATA_LEN, NoRoom};
use crate::wire::offload::Offload;
use std::mem;

impl Packet {
    /// As [`Frame::offload`](crate::pool::Frame::offload): the work that the packet's sender left to be done. A checksum
    /// counts from the packet's first byte to its last.
    ///
    /// A chain has the work that is stored with its first part that has some. So a header that is put in front as a packet
    /// of its own leaves the work as it is ([`Packet::append`]). If two parts have work, the chain cannot be copied into
    /// one frame ([`CopyError::SecondOffload`](super::CopyError::SecondOffload)).
    #[inline]
    pub fn offload(&self) -> Option<Offload> {
        match self.frame() {
            Some(frame) => frame.offload(),
            None => self.offload_of_parts(),
        }
    }

    #[cold]
    #[inline(never)]
    fn offload_of_parts(&self) -> Option<Offload> {
        self.offloads().next()
    }

    /// The work that is stored with each part, for those that have some. Checksums count from the packet's first byte.
    pub(super) fn offloads(&self) -> impl Iterator<Item = Offload> {
        let mut before = 0_usize;
        self.parts().filter_map(move |part| {
            // No frame that the bytes could be copied into is that long.
            let start = u16::try_from(before).unwrap_or(u16::MAX);
            before += part.data().len();
            let offload =
                part.frame().map_or_else(|| part.put_down_data().offload(), |frame| frame.offload());
            offload.map(|offload| offload.moved_by(start))
        })
    }

    /// As [`Frame::set_offload`](crate::pool::Frame::set_offload): sets the work that is left to be done to the packet,
    /// in place of earlier work. It is stored with the first part, and a checksum in it counts from the start of that part.
    ///
    /// # Errors
    /// [`NoRoom`] as [`Frame::set_offload`](crate::pool::Frame::set_offload), and if others may read the first part, or
    /// another one with such work, or if the first part lies in no frame. The packet is unchanged then.
    pub fn set_offload(&mut self, offload: Offload) -> Result<(), NoRoom> {
        if self.frame().is_none() {
            self.reclaim_first();
        }
        match self.frame_mut() {
            Some(frame) => frame.set_offload(offload),
            None => self.set_offload_of_parts(offload),
        }
    }

    #[cold]
    #[inline(never)]
    fn set_offload_of_parts(&mut self, offload: Offload) -> Result<(), NoRoom> {
        let mut parts = 0;
        let removable = self.each_data_mut(|data| {
            parts += 1;
            parts == 1 || data.offload().is_none() || data.reclaim()
        });
        if !removable {
            return Err(NoRoom::of(METADATA_LEN, 0));
        }
        let (mut offload, mut done) = (offload, Ok(()));
        self.each_data_mut(|data| {
            done = data.set_offload(mem::take(&mut offload));
            done.is_ok()
        });
        done
    }
}
