//! A ring that the kernel shares with netmem: the positions of its indices, its flags and its slots.
//!
//! No reference to a slot is ever made, because the kernel may write it at any time. Slots are copied in and out by
//! volatile access, and a position is masked before it becomes an address.

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The contents of one slot of an RX or TX ring: `struct xdp_desc` of `linux/if_xdp.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// The begin of the packet, in bytes from the start of the UMEM.
    pub addr: u64,
    /// Its length in bytes.
    pub len: u32,
    /// Zero, or flags for packets of several descriptors and for metadata.
    pub options: u32,
}

impl Descriptor {
    /// The option for a packet that continues in the next descriptor (XDP_PKT_CONTD of `linux/if_xdp.h`).
    pub const CONTINUED: u32 = 1;
}

/// The type of a slot: plain integers, for which any bytes are valid.
pub trait Entry: Copy + private::Sealed {}
impl Entry for u64 {}
impl Entry for Descriptor {}

mod private {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for super::Descriptor {}
}

/// One mapping; unmapped when the last ring end and index over it are gone.
///
/// It also keeps the socket open: the socket is released only when its descriptor and all its mappings are gone.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a Mapping only names memory that any thread may use; its contents are accessed by atomics and volatile
// copies.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `Ring::map`, and every pointer into it holds this Mapping by Arc.
        let done = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(done.is_ok(), "munmap of a ring we mapped: {done:?}");
    }
}

/// One index of a ring: a word that one side writes and the other side reads.
#[derive(Debug)]
pub struct SharedIndex {
    /// Aligned, and inside the mapping.
    word: NonNull<u32>,
    _mapping: Arc<Mapping>,
}

// SAFETY: the word is only ever used as an atomic.
unsafe impl Send for SharedIndex {}

impl SharedIndex {
    #[inline]
    fn atomic(&self) -> &AtomicU32 {
        // SAFETY: aligned and mapped for as long as `_mapping` is held; the kernel uses it atomically too.
        unsafe { AtomicU32::from_ptr(self.word.as_ptr()) }
    }

    /// Reads the value. This side is its only writer.
    #[inline]
    pub fn load_relaxed(&self) -> u32 {
        self.atomic().load(Relaxed)
    }

    /// Reads the value, and sees everything that the kernel did before it wrote the value.
    #[inline]
    pub fn load_acquire(&self) -> u32 {
        // Acquire: pairs with the kernel's smp_wmb or smp_mb before it stores the index (net/xdp/xsk_queue.h, B and D).
        self.atomic().load(Acquire)
    }

    /// Writes the value after everything that this side did before.
    #[inline]
    pub fn store_release(&self, value: u32) {
        // Release: pairs with the kernel's smp_rmb after it loads the index (net/xdp/xsk_queue.h, C and A).
        self.atomic().store(value, Release);
    }
}

/// The slots and flags of a ring, and the access to its two indices.
#[derive(Debug)]
pub struct Ring<T> {
    mapping: Arc<Mapping>,
    /// Slots, a power of two.
    size: u32,
    producer: NonNull<u32>,
    consumer: NonNull<u32>,
    /// None before Linux 5.4.
    flags: Option<NonNull<u32>>,
    /// The first of `size` slots, all inside the mapping.
    slots: NonNull<T>,
    _entry: PhantomData<T>,
}

// SAFETY: the pointers lead into memory that any thread may use; see Mapping. `&mut self` makes writes exclusive.
unsafe impl<T: Entry> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps the ring that `socket` offers at `page_offset`.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> Result<Ring<T>, Errno> {
        let len = Self::bytes(offsets, size)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address the kernel chooses overlaps nothing of ours.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, flags, socket, page_offset) }?;
        Self::over(base.cast(), len, offsets, size)
    }

    /// Bytes of the ring; `INVAL` if its offsets make no sense.
    fn bytes(offsets: &XdpRingOffset, size: u32) -> Result<usize, Errno> {
        let index = |offset: u64| offset.is_multiple_of(4) && offset + 4 <= offsets.desc;
        let indices = [Some(offsets.producer), Some(offsets.consumer), offsets.flags];
        let sane = offsets.desc < 1 << 16
            && offsets.desc.is_multiple_of(align_of::<T>() as u64)
            && size.is_power_of_two()
            && indices.into_iter().flatten().all(index);
        if sane { Ok(offsets.desc as usize + size as usize * size_of::<T>()) } else { Err(Errno::INVAL) }
    }

    /// The ring in `len` bytes mapped at `base`, which `bytes` computed from the same arguments.
    fn over(base: *mut u8, len: usize, offsets: &XdpRingOffset, size: u32) -> Result<Ring<T>, Errno> {
        let base = NonNull::new(base).ok_or(Errno::FAULT)?;
        let mapping = Arc::new(Mapping { base, len });
        // SAFETY: the mapping was just made and nothing points into it yet; a child of fork(2) will not have it,
        // and so cannot keep the socket open. The advice changes no byte.
        unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        // SAFETY: `bytes` saw that all offsets lie before `desc`, which is inside the mapping.
        let at = |offset: u64| unsafe { base.add(offset as usize) };
        Ok(Ring {
            mapping,
            size,
            producer: at(offsets.producer).cast(),
            consumer: at(offsets.consumer).cast(),
            flags: offsets.flags.map(|offset| at(offset).cast()),
            slots: at(offsets.desc).cast(),
            _entry: PhantomData,
        })
    }

    /// The number of slots, a power of two.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The index of the side that fills slots.
    pub fn producer(&self) -> SharedIndex {
        SharedIndex { word: self.producer, _mapping: self.mapping.clone() }
    }

    /// The index of the side that empties slots.
    pub fn consumer(&self) -> SharedIndex {
        SharedIndex { word: self.consumer, _mapping: self.mapping.clone() }
    }

    /// Whether the kernel asks to be woken for this ring. Always true if the kernel cannot ask.
    #[inline]
    pub fn needs_wakeup(&self) -> bool {
        let Some(flags) = self.flags else { return true };
        // SAFETY: aligned and mapped for as long as `mapping` is held; the kernel writes it as one word.
        let flags = unsafe { AtomicU32::from_ptr(flags.as_ptr()) };
        // Relaxed: the next round corrects a stale answer.
        flags.load(Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }

    /// Copies the entry out of the slot at `position` (taken modulo the size).
    #[inline]
    pub fn read(&self, position: usize) -> T {
        // SAFETY: `slot` is inside the mapping and aligned, and any bytes are a valid T (Entry).
        unsafe { self.slot(position).read_volatile() }
    }

    /// Copies `entry` into the slot at `position` (taken modulo the size).
    #[inline]
    pub fn write(&mut self, position: usize, entry: T) {
        // SAFETY: `slot` is inside the mapping and aligned; a T has no drop.
        unsafe { self.slot(position).write_volatile(entry) }
    }

    #[inline]
    fn slot(&self, position: usize) -> NonNull<T> {
        let masked = position & (self.size as usize - 1);
        // SAFETY: `masked` is below `size`, and `size` slots lie inside the mapping.
        unsafe { self.slots.add(masked) }
    }
}

#[cfg(test)]
impl<T: Entry> Ring<T> {
    /// The same ring over plain memory, so that a test can act as the kernel.
    pub(crate) fn plain(size: u32) -> Ring<T> {
        let offsets = XdpRingOffset { producer: 0, consumer: 64, flags: Some(68), desc: 128 };
        let len = Self::bytes(&offsets, size).unwrap();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh anonymous mapping overlaps nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::SHARED) };
        Self::over(base.unwrap().cast(), len, &offsets, size).unwrap()
    }

    /// The kernel's end of the same memory.
    pub(crate) fn other_end(&self) -> Ring<T> {
        Ring { mapping: self.mapping.clone(), ..*self }
    }

    /// Sets or clears the kernel's request to be woken.
    pub(crate) fn set_needs_wakeup(&self, needs: bool) {
        // SAFETY: as in `needs_wakeup`.
        let flags = unsafe { AtomicU32::from_ptr(self.flags.unwrap().as_ptr()) };
        flags.store(u32::from(needs), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_end_writes_the_other_reads_and_positions_wrap() {
        let mut ours = Ring::<Descriptor>::plain(4);
        let kernels = ours.other_end();
        for position in 0..6 {
            ours.write(position, Descriptor { addr: position as u64, len: 7, options: 0 });
        }
        let seen: Vec<u64> = (0..4).map(|p| kernels.read(p).addr).collect();
        assert_eq!(seen, [4, 5, 2, 3]);
        assert_eq!(kernels.read(usize::MAX).addr, 3);
    }

    #[test]
    fn an_index_is_shared_and_outlives_the_ring_it_came_from() {
        let ring = Ring::<u64>::plain(2);
        let (ours, theirs) = (ring.producer(), ring.other_end().producer());
        drop(ring);
        ours.store_release(u32::MAX);
        assert_eq!(theirs.load_acquire(), u32::MAX);
        assert_eq!(theirs.load_relaxed(), u32::MAX);
    }

    #[test]
    fn the_wish_to_be_woken_is_read_off_the_flags() {
        let ring = Ring::<u64>::plain(2);
        assert!(!ring.needs_wakeup());
        ring.other_end().set_needs_wakeup(true);
        assert!(ring.needs_wakeup());
    }

    #[test]
    fn offsets_that_make_no_sense_are_refused() {
        let good = XdpRingOffset { producer: 0, consumer: 64, flags: Some(68), desc: 128 };
        assert_eq!(Ring::<Descriptor>::bytes(&good, 8), Ok(128 + 8 * 16));
        for bad in [
            XdpRingOffset { producer: 1, ..good },
            XdpRingOffset { consumer: 126, ..good },
            XdpRingOffset { flags: Some(128), ..good },
            XdpRingOffset { desc: 132, ..good },
            XdpRingOffset { desc: 1 << 40, ..good },
        ] {
            assert_eq!(Ring::<Descriptor>::bytes(&bad, 8), Err(Errno::INVAL), "{bad:?}");
        }
        assert_eq!(Ring::<u64>::bytes(&good, 6), Err(Errno::INVAL));
    }
}
