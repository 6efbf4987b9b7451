//! COLD: what a frame's sender left to be done, as it travels with the frame.
//!
//! ```text
//!   chunk start   headroom      off                off + len
//!   ├─ offload ─┼──────────────┼─── data ─────────────┼── tailroom ──┤
//! ```
//! It stands at the frame's start as a `struct virtio_net_hdr` whose `csum_start` counts from there, so that headers may be put
//! before the data or taken off. One bit of the frame's word says that it does; whoever does not ask finds a little less headroom.
//!
//! Frames of a shared memory can be written by a peer that does not keep to its promise: what is read here is checked anew.

use super::desc::{Desc, NoRoom, OFFLOAD_LEN, OFFLOADED};
use super::frame::Frame;
use crate::sys::region;
use crate::wire::offload::{Offload, PartialChecksum, VIRTIO_LEN};

impl Desc {
    /// What is left to be done to the data of a frame that is out.
    #[inline(always)]
    pub(super) fn offload(self) -> Option<Offload> {
        if self.has_offload() { self.stored_offload() } else { None }
    }

    #[cold]
    #[inline(never)]
    fn stored_offload(self) -> Option<Offload> {
        let mut header = [0; VIRTIO_LEN];
        let stored: *const u8 = region::address(self.id.get());
        // SAFETY: the frame's first bytes, which are mapped while it is out, and lie before its data; they are copied, no reference
        // to them is made. Nobody else writes them: the claim is the frame's only one, or one of those that only read.
        unsafe { stored.copy_to_nonoverlapping(header.as_mut_ptr(), VIRTIO_LEN) };
        let Offload { checksum, gso } = Offload::from_virtio(header).ok()?;
        let off = self.plain().off;
        let checksum = match checksum {
            Some(PartialChecksum { start, offset }) => {
                Some(PartialChecksum { start: start.checked_sub(off)?, offset })
            }
            None => None,
        };
        Some(Offload { checksum, gso })
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
    /// [`NoRoom`] where the headroom has no room for its 10 bytes, or the data ends with a frame of 32 KiB, or there is none. The frame
    /// is as it was then.
    pub fn set_offload(&mut self, offload: Offload) -> Result<(), NoRoom> {
        let Desc { id, off, len } = self.desc().plain();
        if offload.is_none() {
            self.word = Desc { id, off, len }.word();
            return Ok(());
        }
        NoRoom::check(OFFLOAD_LEN, off.into())?;
        NoRoom::check(1, len.min(OFFLOADED - off - len).into())?;
        let header = offload.moved_by(off).to_virtio(&[]);
        let stored = region::address(id.get());
        // SAFETY: the frame's first bytes, which are mapped while it is out and nobody else's, and lie before its data.
        unsafe { stored.copy_from_nonoverlapping(header.as_ptr(), VIRTIO_LEN) };
        self.word = Desc { id, off: off | OFFLOADED, len }.word();
        Ok(())
    }
}
