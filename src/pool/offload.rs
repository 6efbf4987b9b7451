//! COLD: the offload of a packet: the work that its sender left to be done. It travels with the frame.

use super::desc::{Desc, NoRoom};
use super::frame::Frame;
use super::metadata::Metadata;
use crate::wire::offload::{Offload, PartialChecksum};

impl Desc {
    /// The work left to be done to the data of a frame that is out.
    #[inline(always)]
    pub(super) fn offload(self) -> Option<Offload> {
        if self.has_metadata() { self.stored_offload() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn stored_offload(self) -> Option<Offload> {
        let Offload { checksum, gso } = Offload::from_virtio(self.metadata().offload).ok()?;
        let off = self.plain().off;
        let from_data = |PartialChecksum { start, offset }| PartialChecksum { start: start - off, offset };
        Some(Offload { checksum: checksum.map(from_data), gso }).filter(|offload| !offload.is_none())
    }

    /// Whether there is an offload.
    #[inline(always)]
    pub(super) fn has_offload(self) -> bool {
        self.has_metadata() && self.has_stored_offload()
    }

    #[cold]
    #[inline(never)]
    fn has_stored_offload(self) -> bool {
        Offload::is_in(&self.metadata().offload)
    }
}

impl Frame {
    /// The work that the packet's sender left: a checksum to be completed, segments to be cut. None if nothing is left.
    /// If the data comes to begin after the checksum's start, as when a tunnel's headers are taken off, the offload is
    /// gone, also when headers are put in front again.
    ///
    /// Frames have an offload only if they come from a port that was asked to keep them
    /// ([`Rx::keep_offloads`](crate::port::Rx::keep_offloads)).
    ///
    /// ```
    /// # use netmem::{Memory, MemoryConfig, Pool, PoolConfig};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let memory = Memory::new(&MemoryConfig { bytes: 8 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..Default::default() })?;
    /// use netmem::wire::offload::{Offload, PartialChecksum};
    ///
    /// let mut frame = pool.alloc(&mut w).ok_or("no frame")?;
    /// frame.put_zeroed(60)?; // UDP in IPv4, say, with the sum of the pseudo-header for a checksum
    /// let offload = Offload { checksum: Some(PartialChecksum { start: 34, offset: 6 }), gso: None };
    /// frame.set_offload(offload)?;
    /// frame.push(4)?; // a VLAN tag
    /// assert_eq!(frame.offload(), Some(offload.moved_by(4)));
    /// # frame.free(&mut w);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// A look at the frame's word; with an offload, also the frame's first line.
    #[inline]
    pub fn offload(&self) -> Option<Offload> {
        self.desc().offload()
    }

    /// Sets the work that is left to be done to the packet in the data. [`Offload::default`] removes the offload. A
    /// port that cannot carry offloads does not take such a frame
    /// ([`Tx::carries_offloads`](crate::port::Tx::carries_offloads)).
    ///
    /// The offload counts from the headers that the data has now. A later move of its beginning ([`Frame::push`],
    /// [`Frame::pull`]) does not need a new offload.
    ///
    /// # Errors
    /// [`NoRoom`] if the headroom has no room for its 18 bytes, if the data ends with a frame of 32 KiB, if there is no
    /// data, or if the checksum starts more than 64 KiB behind the beginning of the frame. The frame is unchanged then.
    pub fn set_offload(&mut self, offload: Offload) -> Result<(), NoRoom> {
        let desc = self.desc();
        let start = offload.checksum.map_or(0, |checksum| checksum.start);
        if start.checked_add(desc.plain().off).is_none() {
            return Err(NoRoom::of(start.into(), usize::from(u16::MAX - desc.plain().off)));
        }
        let offload = if offload.is_none() {
            Metadata::NONE.offload
        } else {
            offload.moved_by(desc.plain().off).to_virtio(&[])
        };
        self.set_metadata(Metadata { offload, ..desc.metadata() })
    }
}
