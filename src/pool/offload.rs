//! COLD: what a frame's sender left to be done, as it travels with the frame.

use super::desc::{Desc, NoRoom};
use super::frame::Frame;
use super::metadata::Metadata;
use crate::wire::offload::{Offload, PartialChecksum};

impl Desc {
    /// What is left to be done to the data of a frame that is out.
    #[inline(always)]
    pub(super) fn offload(self) -> Option<Offload> {
        if self.has_metadata() { self.stored_offload() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn stored_offload(self) -> Option<Offload> {
        let Offload { checksum, gso } = Offload::from_virtio(self.metadata().offload).ok()?;
        let off = self.plain().off;
        let checksum = match checksum {
            Some(PartialChecksum { start, offset }) => {
                Some(PartialChecksum { start: start.checked_sub(off)?, offset })
            }
            None => None,
        };
        Some(Offload { checksum, gso }).filter(|offload| !offload.is_none())
    }

    /// Whether anything is, also where it does not fit the data any more.
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
    /// What the packet's sender left to be done to it: a checksum to be completed, segments to be cut. None where nothing is left, and
    /// where the data does not begin before the checksum's start any more.
    ///
    /// Frames come with an offload from a port that was asked for it ([`Rx::keep_offloads`](crate::port::Rx::keep_offloads)) alone.
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
    /// A look at the frame's word; where there is one, the frame's first line.
    #[inline]
    pub fn offload(&self) -> Option<Offload> {
        self.desc().offload()
    }

    /// Says what is left to be done to the packet that the data is; nothing, and the frame is as any other, with
    /// [`Offload::default`]. A port that cannot carry it on takes no such frame
    /// ([`Tx::carries_offloads`](crate::port::Tx::carries_offloads)).
    ///
    /// The headers are those that the data has now: what moves its beginning later ([`Frame::push`], [`Frame::pull`]) needs no new one.
    ///
    /// # Errors
    /// [`NoRoom`] where the headroom has no room for its 18 bytes, or the data ends with a frame of 32 KiB, or there is none. The frame
    /// is as it was then.
    pub fn set_offload(&mut self, offload: Offload) -> Result<(), NoRoom> {
        let desc = self.desc();
        let offload = if offload.is_none() {
            Metadata::NONE.offload
        } else {
            offload.moved_by(desc.plain().off).to_virtio(&[])
        };
        self.set_metadata(Metadata { offload, ..desc.metadata() })
    }
}
