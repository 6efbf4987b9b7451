//! Memory in a file of its own (memfd_create(2)) that another process maps too.
//!
//! No reference to it is ever made, because the other process may write it at any time. Bytes are copied in and out,
//! indices are atomics, and slots are copied by volatile access. Every offset is checked against the mapping before it
//! becomes an address. The copy is the snapshot that is checked and used; nothing is read twice.
//!
//! If a file becomes shorter behind a mapping, an access to the lost pages is a SIGBUS. So foreign memory is mapped
//! only if it is sealed against that (fcntl(2), "File sealing"), unless the caller trusts its owner. Huge pages do not
//! count as sealed: their owner may punch holes, and a hole without a free huge page is the same SIGBUS. So is a page
//! that was only promised, if the machine has none to give. If a SIGBUS comes in any case, the mapping is
//! [lost](SharedMemory::is_lost), and the process continues (ADR 0031).

mod holes;
mod lost;
mod whole;

use super::cpu;
use super::dump::leave_out_of_dumps;
use super::fork::Birthplace;
use super::slow_close::PeerDescriptor;
pub use holes::HoleBudget;
use lost::Guard;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, fstatfs,
    ftruncate, memfd_create,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
pub use whole::{Mapped, MappedElsewhere};

/// `HUGETLBFS_MAGIC` of `linux/magic.h`.
const HUGE_PAGES: u64 = 0x9584_58f6;

/// Bytes of an ordinary page.
const PAGE: usize = 4096;

/// Bytes that one call allocates: cleared in a fraction of a millisecond, which lies between two signals of a profiler.
const ALLOCATED_AT_ONCE: usize = 1 << 20;

/// Which memory may be shared with a peer. For memory of this process's own, of which the peer is no owner, only holes matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sealing {
    /// Only memory that its owner cannot make shorter, and can make no holes in. This process adds the seal against holes
    /// when it maps the memory (`F_SEAL_FUTURE_WRITE`, Linux 5.1), and allocates pages that are missing, within a budget. So
    /// no access allocates a page at this process's cost, or waits for a peer that makes a hole. The owner cannot map the
    /// memory for writing again, or write(2) to it.
    #[default]
    Required,
    /// Only memory that its owner cannot make shorter. An access to a hole allocates a page at this process's cost, and waits
    /// while the owner makes holes.
    HolesAllowed,
    /// Any memory, also of an owner that may remove pages, which makes the mapping [lost](SharedMemory::is_lost).
    Trusted,
}

/// Why foreign memory is not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Its owner could make it shorter.
    #[error("its memory is not sealed against shrinking (F_SEAL_SHRINK)")]
    Unsealed,
    /// It consists of huge pages.
    #[error("its memory is on huge pages, which no seal protects from holes")]
    HugePages,
    /// It is shorter than announced, or empty.
    #[error("its memory has {file} bytes where {claimed} were announced")]
    Short {
        /// Bytes of the file.
        file: u64,
        /// Bytes announced.
        claimed: u64,
    },
    /// Its owner can make holes in it. The text fits into the 95 bytes in which a memif peer is told a reason.
    #[error("its memory cannot be sealed against holes: do not lend, or holes=ok at the server")]
    CanHaveHoles,
    /// It lacks more pages than may be allocated for peers of this port.
    #[error(
        "its memory lacks {bytes} bytes or more, and {left} may be allocated: write them there, or raise holes= here"
    )]
    Holes {
        /// Bytes of the missing pages that were counted.
        bytes: u64,
        /// Bytes that may still be allocated.
        left: u64,
    },
    /// It lacks pages, and nothing would say when they are freed.
    #[error("its memory lacks pages, and cannot be watched: {0}{remedy}", remedy = watch_remedy(*.0))]
    Unwatched(Errno),
    /// The system refused.
    #[error("its memory cannot be mapped: {0}")]
    Refused(Errno),
}

fn watch_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::MFILE => "; raise `sysctl fs.inotify.max_user_instances`, or `ulimit -n`",
        Errno::NOSPC => "; raise `sysctl fs.inotify.max_user_watches`",
        Errno::NOENT | Errno::ACCESS => "; mount /proc",
        _ => "",
    }
}

/// A mapping of such a file, and the file.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    /// Bytes mapped. The file had at least this many.
    len: usize,
    /// Present until the drop.
    guard: Option<Guard>,
    /// Its pages are a peer's, and may be many.
    is_foreign: bool,
    /// Present until the drop.
    held: Option<(Mapping, PeerDescriptor)>,
}

/// A range of addresses that a drop unmaps.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
    birthplace: Birthplace,
}

// SAFETY: any thread may unmap a range of addresses, and the drop unmaps it once.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A child does not have it. Other memory may lie there.
        if self.birthplace.is_elsewhere() {
            return;
        }
        // SAFETY: `Mapping::of` mapped the range, and every word and slot in use holds its memory by Arc.
        let done = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(done.is_ok(), "munmap of memory we mapped: {done:?}");
    }
}

// SAFETY: it names memory that any thread may use; its contents are accessed by copies and atomics alone.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

/// Makes a file of `len` zero bytes in memory, whose length is sealed.
///
/// # Errors
/// The error of memfd_create(2), ftruncate(2) or fcntl(2).
pub(super) fn sealed_file(name: &str, len: usize, flags: MemfdFlags) -> Result<OwnedFd, Errno> {
    file_of(name, len, flags, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
}

fn file_of(name: &str, len: usize, flags: MemfdFlags, seals: SealFlags) -> Result<OwnedFd, Errno> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags)?;
    ftruncate(&file, len as u64)?;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// Has the system back these bytes of the file. In parts, each repeated after a signal: before Linux 6.10, any signal
/// ends a fallocate(2) of such a file, and what this call allocated is freed.
pub(super) fn allocate(file: &impl AsFd, range: Range<usize>) -> Result<(), Errno> {
    for begin in range.clone().step_by(ALLOCATED_AT_ONCE) {
        let bytes = ALLOCATED_AT_ONCE.min(range.end - begin);
        retry_on_intr(|| fallocate(file, FallocateFlags::empty(), begin as u64, bytes as u64))?;
    }
    Ok(())
}

/// Bytes of a page of the file: more than [`PAGE`] if it consists of huge pages.
fn page_of(file: &impl AsFd) -> Result<usize, Errno> {
    let system = fstatfs(file)?;
    let huge = (system.f_type as u64 == HUGE_PAGES).then(|| usize::try_from(system.f_bsize).ok());
    Ok(huge.flatten().filter(|page| page.is_power_of_two()).unwrap_or(PAGE))
}

impl Mapping {
    fn of(file: &impl AsFd, len: usize) -> Result<Mapping, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address the kernel chooses overlaps nothing of ours.
        let base = unsafe { mmap(ptr::null_mut(), len, access, MapFlags::SHARED, file, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::FAULT)?;
        let mapping = Mapping { base, len, birthplace: Birthplace::here() };
        // SAFETY: the mapping was just made; the advice changes no byte.
        unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        leave_out_of_dumps(base.as_ptr(), len);
        Ok(mapping)
    }
}

impl SharedMemory {
    /// Makes new memory of `len` zero bytes, sealed, to be given to a peer. Every page is written, so that no later access
    /// finds that there is none, and a peer that accepts no holes takes it. The peer may add seals. It may give pages back to
    /// the system, and then the memory is lost as foreign memory may be.
    ///
    /// # Errors
    /// The error of memfd_create(2), ftruncate(2), fallocate(2), fcntl(2) or mmap(2).
    #[cold]
    pub fn new(name: &str, len: usize) -> Result<Arc<SharedMemory>, Errno> {
        let file = file_of(name, len, MemfdFlags::empty(), SealFlags::SHRINK | SealFlags::GROW)?;
        allocate(&file, 0..len)?;
        let memory = SharedMemory::mapped(file.into(), len, false)?;
        for page in (0..len).step_by(PAGE) {
            memory.write(page as u64, &[0]);
        }
        Ok(Arc::new(memory))
    }

    /// Maps the first `len` bytes of a peer's memory. They may have holes, and may still get some: see
    /// [`SharedMemory::map_whole`].
    ///
    /// # Errors
    /// [`MapError`]; nothing is mapped then, and the file is closed.
    #[cold]
    pub fn map(
        file: impl Into<PeerDescriptor>,
        len: u64,
        sealing: Sealing,
    ) -> Result<Arc<SharedMemory>, MapError> {
        let file = file.into();
        if sealing != Sealing::Trusted {
            // A file that cannot be sealed at all returns an error.
            let seals = fcntl_get_seals(&file).map_err(|_| MapError::Unsealed)?;
            if !seals.contains(SealFlags::SHRINK) {
                return Err(MapError::Unsealed);
            }
            if page_of(&file).map_err(MapError::Refused)? != PAGE {
                return Err(MapError::HugePages);
            }
        }
        let size = fstat(&file).map_err(MapError::Refused)?.st_size;
        let size = u64::try_from(size).unwrap_or(0);
        if size < len || len == 0 {
            return Err(MapError::Short { file: size, claimed: len });
        }
        let len = usize::try_from(len).map_err(|_| MapError::Refused(Errno::NOMEM))?;
        Ok(Arc::new(SharedMemory::mapped(file, len, true).map_err(MapError::Refused)?))
    }

    fn mapped(file: PeerDescriptor, len: usize, is_foreign: bool) -> Result<SharedMemory, Errno> {
        let page = page_of(&file)?;
        // Only whole pages can be unmapped or replaced.
        let whole = len.checked_next_multiple_of(page).ok_or(Errno::NOMEM)?;
        let mapping = Mapping::of(&file, whole)?;
        // SAFETY: no reference to it is ever made, and zeros are as good as any bytes that the peer may write; the
        // guard goes first.
        let guard = unsafe { Guard::new(mapping.base, whole, page) }?;
        Ok(SharedMemory {
            base: mapping.base,
            len,
            guard: Some(guard),
            is_foreign,
            held: Some((mapping, file)),
        })
    }

    /// Bytes mapped.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether a page was gone when it was accessed, which the peer can cause. From then on all of the mapping, or at
    /// least that page, is memory of this process alone that held zeros.
    #[cold]
    pub fn is_lost(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_lost)
    }

    /// TEST: memory sealed against shrinking, without a page.
    #[cfg(test)]
    pub(crate) fn sparse(name: &str, len: usize) -> Arc<SharedMemory> {
        let file = file_of(name, len, MemfdFlags::empty(), SealFlags::SHRINK).unwrap();
        Arc::new(SharedMemory::mapped(file.into(), len, false).unwrap())
    }

    /// Loses it, as an access to a page that is gone does.
    #[cfg(test)]
    pub(crate) fn lose(&self) {
        lost::replace(self.base.addr().get());
    }

    /// The address of `n` bytes at `offset`, if they lie inside.
    #[inline]
    fn at(&self, offset: u64, n: usize) -> Option<NonNull<u8>> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset <= self.len)?;
        // SAFETY: `offset` is at most the mapping's length.
        (n <= self.len - offset).then(|| unsafe { self.base.add(offset) })
    }

    /// Whether `n` bytes at `offset` lie inside.
    pub fn holds(&self, offset: u64, n: usize) -> bool {
        self.at(offset, n).is_some()
    }

    /// Copies the bytes at `offset` out. Returns false and does nothing if they do not lie inside.
    #[inline]
    pub fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.at(offset, into.len()) else { return false };
        // SAFETY: the bytes are mapped and inside, and `into` is ours. The peer may write them at the same time: then
        // the copy has bytes of before and of after, any of which is a valid u8.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies `bytes` in at `offset`. Returns false and does nothing if they would not lie inside.
    #[inline]
    pub fn write(&self, offset: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.at(offset, bytes.len()) else { return false };
        // SAFETY: as in `read`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        true
    }

    /// Prefetches the cache line at `offset`. Does nothing if it does not lie inside.
    #[inline]
    pub fn prefetch(&self, offset: u64) {
        if let Some(line) = self.at(offset, 1) {
            cpu::prefetch(line.as_ptr());
        }
    }

    /// Prefetches the cache line at `offset` for writing. Does nothing if it does not lie inside.
    #[inline]
    pub fn prefetch_write(&self, offset: u64) {
        if let Some(line) = self.at(offset, 1) {
            cpu::prefetch_write(line.as_ptr());
        }
    }

    /// The word at `offset`, if it lies inside and is aligned.
    #[cold]
    pub fn word(self: &Arc<Self>, offset: u64) -> Option<SharedWord> {
        let word = self.at(offset, size_of::<u16>())?.cast::<u16>();
        word.is_aligned().then(|| SharedWord { word, _memory: Arc::clone(self) })
    }

    /// `size` slots, a power of two, from `offset` on, if they lie inside and are aligned.
    #[cold]
    pub fn slots(self: &Arc<Self>, offset: u64, size: u32) -> Option<SharedSlots> {
        let bytes = (size as usize).checked_mul(size_of::<Slot>())?;
        let first = self.at(offset, bytes)?.cast::<Slot>();
        let sound = first.is_aligned() && size.is_power_of_two();
        sound.then(|| SharedSlots { first, size, memory: Arc::clone(self) })
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.held {
            Some((_, file)) => file.as_fd(),
            None => unreachable!("the file is there until the drop"),
        }
    }
}

impl Drop for SharedMemory {
    /// Foreign memory is unmapped and closed by another thread: that frees its pages, of which a peer may have many.
    fn drop(&mut self) {
        let Some((mapping, file)) = self.held.take() else { return };
        // The guard goes before another mapping may be made there.
        self.guard = None;
        if self.is_foreign { file.leave_with(mapping) } else { drop((mapping, file.into_known())) }
    }
}

/// Sixteen bits that both processes read and at least one of them writes.
#[derive(Debug)]
pub struct SharedWord {
    /// Aligned, and inside the mapping.
    word: NonNull<u16>,
    _memory: Arc<SharedMemory>,
}

// SAFETY: the word is only ever used as an atomic.
unsafe impl Send for SharedWord {}

impl SharedWord {
    #[inline]
    fn atomic(&self) -> &AtomicU16 {
        // SAFETY: aligned, and mapped for as long as `_memory` is held.
        unsafe { AtomicU16::from_ptr(self.word.as_ptr()) }
    }

    /// The value.
    #[inline]
    pub fn load(&self) -> u16 {
        self.atomic().load(Relaxed)
    }

    /// Writes the value.
    #[inline]
    pub fn store(&self, value: u16) {
        self.atomic().store(value, Relaxed);
    }

    /// Reads the value, and sees everything that the peer did before it wrote the value.
    #[inline]
    pub fn load_acquire(&self) -> u16 {
        // Acquire: pairs with the peer's release of the same word, which is `store_release` if the peer is netmem.
        self.atomic().load(Acquire)
    }

    /// Writes the value after everything that this side did before.
    #[inline]
    pub fn store_release(&self, value: u16) {
        // Release: pairs with the peer's acquire of the same word, which is `load_acquire` if the peer is netmem.
        self.atomic().store(value, Release);
    }
}

/// The contents of one slot: plain integers, for which any bytes are valid.
pub type Slot = [u64; 2];

/// An array of slots that both processes read and write.
#[derive(Debug)]
pub struct SharedSlots {
    /// The first of `size` slots, aligned, all inside the mapping.
    first: NonNull<Slot>,
    /// A power of two.
    size: u32,
    memory: Arc<SharedMemory>,
}

// SAFETY: slots are only ever copied in and out.
unsafe impl Send for SharedSlots {}

impl SharedSlots {
    /// The number of slots, a power of two.
    #[inline]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// As [`SharedMemory::is_lost`], of their memory.
    #[cold]
    pub fn is_lost(&self) -> bool {
        self.memory.is_lost()
    }

    /// As [`SharedMemory::lose`], of their memory.
    #[cfg(test)]
    pub(crate) fn lose(&self) {
        self.memory.lose();
    }

    /// Copies the slot at `position` (taken modulo the size) out.
    #[inline]
    pub fn read(&self, position: u32) -> Slot {
        // SAFETY: inside the mapping and aligned, and any bytes are a valid Slot.
        unsafe { self.slot(position).read_volatile() }
    }

    /// Prefetches the cache line of the slot at `position` (taken modulo the size).
    #[inline]
    pub fn prefetch(&self, position: u32) {
        cpu::prefetch_write(self.slot(position).as_ptr().cast());
    }

    /// Copies `slot` into the slot at `position` (taken modulo the size).
    #[inline]
    pub fn write(&mut self, position: u32, slot: Slot) {
        // SAFETY: as in `read`.
        unsafe { self.slot(position).write_volatile(slot) }
    }

    #[inline]
    fn slot(&self, position: u32) -> NonNull<Slot> {
        // SAFETY: the masked position is below `size`, and `size` slots lie inside the mapping.
        unsafe { self.first.add((position & (self.size - 1)) as usize) }
    }
}

/// TEST: gives the page at `offset` of a file back to the system.
#[cfg(test)]
pub(crate) fn make_hole(file: &impl AsFd, offset: u64) -> Result<(), Errno> {
    fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, PAGE as u64)
}

/// TEST: whether nobody can make holes in a file.
#[cfg(test)]
pub(crate) fn is_sealed(file: &impl AsFd) -> bool {
    fcntl_get_seals(file).unwrap().contains(SealFlags::FUTURE_WRITE)
}

#[cfg(test)]
mod tests;
