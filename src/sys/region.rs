//! Regions: memory from the operating system, and the one place that turns an id into an address.
//!
//! Every 2 KiB chunk of every region has a process-wide number. The number space is cut into segments of 2^20 chunks (2
//! GiB). A region takes as many whole segments as it needs. So an address is one load from a table of 4,096 entries, a
//! shift and an addition, and two memories never share a number. Regions begin at 2 GiB boundaries of the address
//! space, which is only reserved, not used. So the conversion from an address to a number is one load as well.

mod error;
mod guard;
mod lent;
mod place;
mod plain;
mod populate;
mod shared;

pub use error::RegionError;
pub use lent::Lent;
pub use populate::populating_while;

use crate::limits::{CHUNK_SHIFT, CHUNK_SIZE, PAGE_SIZE};
use place::{Placed, place};
use populate::populate;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, madvise, munmap};
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// log2 of the chunks in one segment. Under Miri segments are small and few, which keeps its tables small.
pub const SEGMENT_SHIFT: u32 = if cfg!(miri) { 10 } else { 20 };
/// Segments in the number space. The first and the last are never used, so that no chunk has the number 0 or
/// `u32::MAX`.
pub const SEGMENTS: usize = if cfg!(miri) { 64 } else { 1 << (32 - SEGMENT_SHIFT) };
const SEGMENT_CHUNKS: u32 = 1 << SEGMENT_SHIFT;
/// log2 of the bytes in one segment.
const SEGMENT_BYTES_SHIFT: u32 = SEGMENT_SHIFT + CHUNK_SHIFT;
const SEGMENT_BYTES: usize = 1 << SEGMENT_BYTES_SHIFT;
/// Segments in the address space of a process: 47 bits on x86-64 and 48 bits on aarch64 (Documentation/arch/arm64/memory.rst),
/// unless it requests higher addresses, which is not done here. Or the part that Miri uses.
const PLACES: usize = 1 << (if cfg!(miri) { 36 } else { 48 } - SEGMENT_BYTES_SHIFT);
const HUGE_2M: usize = 2 << 20;
const HUGE_1G: usize = 1 << 30;

/// The address at which chunk 0 would lie if the region of each segment reached down to it; null if there is no region.
/// Written only while no chunk of the segment is in use.
static ORIGINS: [AtomicPtr<u8>; SEGMENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];
/// The segment at each 2 GiB of the address space; 0 if there is none.
static SEGMENT_AT: [AtomicU16; PLACES] = [const { AtomicU16::new(0) }; PLACES];
/// The segments that are taken.
static TAKEN: Mutex<[bool; SEGMENTS]> = Mutex::new([false; SEGMENTS]);

/// The address of a chunk's first byte.
///
/// It is meaningful only while the chunk's region lives; otherwise it is null plus an offset. Code that dereferences it
/// states why the region lives.
///
/// # Cost
/// One load of a table line that stays hot, a shift and an addition; no atomic read-modify-write.
#[inline]
pub fn address(chunk: u32) -> *mut u8 {
    origin(chunk).wrapping_add((chunk as usize) << CHUNK_SHIFT)
}

/// The address at which chunk 0 would lie if the region of `chunk` reached down to it. It is the same for all chunks of
/// a region.
#[inline(always)]
pub fn origin(chunk: u32) -> *mut u8 {
    // Relaxed: the chunk's number reached this thread over an edge that happened after the region was made.
    ORIGINS[(chunk >> SEGMENT_SHIFT) as usize].load(Relaxed)
}

/// The number of the chunk that holds `address`, or None if no region lies there (or a lent one).
///
/// # Cost
/// One load; the region's end is not checked.
#[inline]
pub fn chunk_at(address: *const u8) -> Option<u32> {
    let place = address.addr() >> SEGMENT_BYTES_SHIFT;
    let segment = if place < PLACES { u32::from(SEGMENT_AT[place].load(Relaxed)) } else { 0 };
    let chunk = ((address.addr() & (SEGMENT_BYTES - 1)) >> CHUNK_SHIFT) as u32;
    (segment != 0).then_some(segment << SEGMENT_SHIFT | chunk)
}

/// The largest kind of page to request; if it is not available, the next smaller kind is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BackingPreference {
    /// Huge pages, otherwise transparent huge pages, otherwise 4 KiB pages.
    #[default]
    Huge,
    /// Transparent huge pages, otherwise 4 KiB pages.
    Transparent,
    /// 4 KiB pages.
    Small,
}

/// The kind of page that a region consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// 1 GiB pages.
    Huge1G,
    /// 2 MiB pages.
    Huge2M,
    /// 4 KiB pages of which the kernel has joined this many bytes into 2 MiB pages.
    Transparent(usize),
    /// 4 KiB pages.
    Small,
    /// The caller's own memory, of any kind. netmem neither maps nor unmaps it.
    Lent,
}

/// The kind of pages that a region has, and the reason if it is not the best kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The kind of page.
    pub kind: PageKind,
    /// Why each better kind of the preference was not available. Empty if the preferred kind was available.
    pub refused: Vec<String>,
}

impl std::fmt::Display for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            PageKind::Huge1G => write!(f, "1 GiB huge pages")?,
            PageKind::Huge2M => write!(f, "2 MiB huge pages")?,
            PageKind::Transparent(bytes) => write!(f, "transparent huge pages, {} MiB of it", bytes >> 20)?,
            PageKind::Small => write!(f, "4 KiB pages")?,
            PageKind::Lent => write!(f, "the caller's memory")?,
        }
        if !self.refused.is_empty() {
            write!(f, " ({})", self.refused.join("; "))?;
        }
        Ok(())
    }
}

/// One mapping of private memory (2 GiB aligned, populated) or of the caller's memory (page aligned, [`Lent`]), with
/// its range of chunk numbers.
///
/// Handles of later stages hold it by `Arc`; the last one unmaps it.
#[derive(Debug)]
pub struct Region {
    base: *mut u8,
    len: usize,
    first_segment: usize,
    segments: usize,
    backing: Backing,
    /// The keeper of lent memory: dropped last.
    keeper: Option<lent::Keeper>,
    /// The file with which a peer can map it.
    file: Option<OwnedFd>,
    /// The guard pages around it, if it has any.
    fences: Option<guard::Fences>,
}

// SAFETY: a Region only names the mapping; the bytes are accessed through ids whose owners are exclusive.
unsafe impl Send for Region {}
// SAFETY: as above; all fields are read-only after construction.
unsafe impl Sync for Region {}

impl Region {
    /// Maps at least `bytes` bytes, faults them in (from Linux 5.14 on) and numbers their chunks. The length is rounded
    /// up to 2 MiB, or to a page if `preference` is [`BackingPreference::Small`].
    ///
    /// # Errors
    /// [`RegionError`]; nothing stays mapped then.
    #[cold]
    pub fn new(bytes: usize, preference: BackingPreference) -> Result<Arc<Region>, RegionError> {
        Region::of(bytes, preference, |len| map(len, preference, false))
    }

    /// Makes a region of the memory that `map` maps: `bytes` bytes, rounded up to `granule(preference)`.
    fn of(
        bytes: usize,
        preference: BackingPreference,
        map: impl FnOnce(usize) -> Result<Mapped, RegionError>,
    ) -> Result<Arc<Region>, RegionError> {
        let max = (SEGMENTS - 2) << SEGMENT_BYTES_SHIFT;
        if bytes == 0 || bytes > max {
            return Err(RegionError::Size { bytes, max });
        }
        let len = bytes.next_multiple_of(granule(preference));
        let segments = (len / CHUNK_SIZE).div_ceil(SEGMENT_CHUNKS as usize);
        let Mapped { base, backing, file, fences } = map(len)?;
        let Some(first_segment) = take_segments(base, segments, true) else {
            unmap(base, len);
            return Err(RegionError::Segments { segments });
        };
        // Later stages keep addresses of objects as numbers, and turn them into pointers again.
        base.expose_provenance();
        Ok(Arc::new(Region { base, len, first_segment, segments, backing, keeper: None, file, fences }))
    }

    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Bytes mapped: a multiple of 2 MiB (of a page if small pages were requested or the memory is lent), never zero.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of the first chunk; a multiple of 2^20, never zero.
    pub fn first_chunk(&self) -> u32 {
        (self.first_segment as u32) << SEGMENT_SHIFT
    }

    /// Chunks of 2 KiB in the region.
    pub fn chunks(&self) -> u32 {
        (self.len >> CHUNK_SHIFT) as u32
    }

    /// The segments whose chunks belong to this region, for tables that later stages keep per segment.
    pub fn segments(&self) -> std::ops::Range<usize> {
        self.first_segment..self.first_segment + self.segments
    }

    /// The kind of its pages, and the reason if it is not the best kind.
    pub fn backing(&self) -> &Backing {
        &self.backing
    }

    /// The index of `chunk` in this region, or None if it lies elsewhere.
    #[inline]
    pub fn index_of(&self, chunk: u32) -> Option<u32> {
        let index = chunk.wrapping_sub(self.first_chunk());
        (index < self.chunks()).then_some(index)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        {
            let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
            for (i, segment) in self.segments().enumerate() {
                ORIGINS[segment].store(ptr::null_mut(), Relaxed);
                if self.keeper.is_none() {
                    SEGMENT_AT[(self.base.addr() >> SEGMENT_BYTES_SHIFT) + i].store(0, Relaxed);
                }
                taken[segment] = false;
            }
        }
        // Last: from here on another region may be mapped at these addresses, and enter itself above.
        match self.keeper.take() {
            Some(keeper) => drop(keeper),
            None => unmap(self.base, self.len),
        }
    }
}

/// The length of a region is a multiple of this, so that it can consist of the pages that `preference` asks for.
fn granule(preference: BackingPreference) -> usize {
    match preference {
        BackingPreference::Small => PAGE_SIZE,
        // Under Miri as small as a test allows.
        _ if cfg!(miri) => 64 << 10,
        _ => HUGE_2M,
    }
}

/// Claims `segments` consecutive free segments and writes their bases. Regions that are `findable` begin at 2 GiB
/// boundaries, and are also entered in the table from address to segment.
fn take_segments(base: *mut u8, segments: usize, findable: bool) -> Option<usize> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let first =
        (1..=(SEGMENTS - 1).checked_sub(segments)?).find(|&s| taken[s..s + segments].iter().all(|t| !t))?;
    let origin = base.wrapping_sub(first << SEGMENT_BYTES_SHIFT);
    for i in 0..segments {
        taken[first + i] = true;
        ORIGINS[first + i].store(origin, Relaxed);
        if findable {
            SEGMENT_AT[(base.addr() >> SEGMENT_BYTES_SHIFT) + i].store((first + i) as u16, Relaxed);
        }
    }
    Some(first)
}

/// The mapping of a region.
#[derive(Debug)]
struct Mapped {
    base: *mut u8,
    backing: Backing,
    file: Option<OwnedFd>,
    fences: Option<guard::Fences>,
}

/// Maps `len` bytes on the best available pages; with `guarded`, between two inaccessible pages.
fn map(len: usize, preference: BackingPreference, guarded: bool) -> Result<Mapped, RegionError> {
    if cfg!(miri) {
        return plain::map(len, guarded);
    }
    let refusal = |errno| RegionError::Map { bytes: len, errno };
    let mut refused = Vec::new();
    if preference == BackingPreference::Huge {
        let sizes = [
            (HUGE_1G, MapFlags::HUGE_1GB, PageKind::Huge1G, "1 GiB huge pages"),
            (HUGE_2M, MapFlags::HUGE_2MB, PageKind::Huge2M, "2 MiB huge pages"),
        ];
        for (size, flag, kind, name) in sizes {
            if !len.is_multiple_of(size) {
                continue;
            }
            let placed = place(len, MapFlags::HUGETLB | flag, None, guarded);
            match placed.and_then(|placed| populate(placed.base, len, None).map(|_| placed).map_err(refusal))
            {
                Ok(Placed { base, fences }) => {
                    return Ok(Mapped { base, backing: Backing { kind, refused }, file: None, fences });
                }
                Err(RegionError::Map { errno, .. }) if errno != Errno::INTR => {
                    refused.push(format!("no {name}: {errno}"));
                }
                Err(error) => return Err(error),
            }
        }
    }
    let Placed { base, fences } = place(len, MapFlags::empty(), None, guarded)?;
    let (base, kind) = small(base, len, preference, &mut refused).map_err(refusal)?;
    Ok(Mapped { base, backing: Backing { kind, refused }, file: None, fences })
}

/// Faults 4 KiB pages in. The kernel joins them if that is preferred and possible.
fn small(
    base: *mut u8,
    len: usize,
    preference: BackingPreference,
    refused: &mut Vec<String>,
) -> rustix::io::Result<(*mut u8, PageKind)> {
    if preference == BackingPreference::Small {
        return populate(base, len, None).map(|base| (base, PageKind::Small));
    }
    // SAFETY: the range was mapped by the caller just now and is ours alone; the advice changes no byte.
    let advised = unsafe { madvise(base.cast(), len, Advice::LinuxHugepage) };
    populate(base, len, None)?;
    match (advised, transparent_bytes(base)) {
        (Err(errno), _) => refused.push(format!("no transparent huge pages: {errno}")),
        (Ok(()), 0) => refused.push("no transparent huge pages: the kernel joined none".into()),
        (Ok(()), joined) => return Ok((base, PageKind::Transparent(joined))),
    }
    Ok((base, PageKind::Small))
}

fn unmap(base: *mut u8, len: usize) {
    if cfg!(miri) {
        return plain::unmap(base, len);
    }
    // SAFETY: callers pass a range that they mapped and that nothing points into any more.
    let done = unsafe { munmap(base.cast(), len) };
    debug_assert!(done.is_ok(), "munmap of a range we mapped: {done:?}");
}

/// Bytes of the mapping at `base` that the kernel keeps in 2 MiB pages, according to /proc/self/smaps.
fn transparent_bytes(base: *mut u8) -> usize {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let mut ours = false;
    for line in smaps.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if let Some((from, to)) = first.split_once('-') {
            let bound = |s| usize::from_str_radix(s, 16).unwrap_or(0);
            ours = (bound(from)..bound(to)).contains(&base.addr());
        } else if ours && first == "AnonHugePages:" {
            let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok());
            return kib.unwrap_or(0) << 10;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_number_leads_to_its_address_and_back() {
        let region = Region::new(5 << 20, BackingPreference::Small).unwrap();
        assert_eq!(region.len(), 5 << 20);
        let first = region.first_chunk();
        assert_eq!(address(first), region.base());
        assert_eq!(address(first + 7), region.base().wrapping_add(7 * CHUNK_SIZE));
        assert_eq!(chunk_at(address(first + 7).wrapping_add(100)), Some(first + 7));
        assert_eq!(chunk_at(std::ptr::null()), None);
        assert_eq!(region.index_of(first + 7), Some(7));
        assert_eq!(region.index_of(first + region.chunks()), None);
        assert_eq!(region.index_of(first - 1), None);
    }

    #[test]
    fn a_region_is_as_long_as_its_pages_allow() {
        let bytes = |preference| Region::new((2 << 20) + 1, preference).unwrap().len();
        assert_eq!(bytes(BackingPreference::Small), (2 << 20) + PAGE_SIZE);
        assert_eq!(bytes(BackingPreference::Transparent), 4 << 20);
    }

    #[test]
    fn two_regions_share_no_number() {
        let a = Region::new(2 << 20, BackingPreference::Small).unwrap();
        let b = Region::new(2 << 20, BackingPreference::Small).unwrap();
        assert_ne!(a.first_chunk(), b.first_chunk());
        assert!(a.first_chunk() != 0 && b.first_chunk() != 0);
    }

    #[test]
    fn a_region_is_aligned_writable_and_says_what_it_stands_on() {
        for preference in [BackingPreference::Huge, BackingPreference::Transparent, BackingPreference::Small]
        {
            let region = Region::new(4 << 20, preference).unwrap();
            assert_eq!(region.base().addr() % SEGMENT_BYTES, 0);
            // SAFETY: the region is mapped and this test alone uses it.
            unsafe { region.base().add(region.len() - 1).write(7) };
            let fell_back =
                region.backing().kind == PageKind::Small && preference != BackingPreference::Small;
            assert!(!(fell_back && region.backing().refused.is_empty()), "{}", region.backing());
        }
    }

    #[test]
    fn regions_made_by_many_threads_at_once_never_take_each_others_place() {
        let make = || {
            for round in 0..40u8 {
                let region = Region::new(2 << 20, BackingPreference::Huge).unwrap();
                // SAFETY: the region is mapped and this thread alone uses it.
                let bytes = unsafe { std::slice::from_raw_parts_mut(region.base(), region.len()) };
                assert!(bytes.iter().step_by(4096).all(|&b| b == 0), "fresh memory is zero");
                bytes.iter_mut().step_by(4096).for_each(|b| *b = round + 1);
                std::thread::yield_now();
                assert!(bytes.iter().step_by(4096).all(|&b| b == round + 1), "nobody else writes here");
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(make))));
    }

    #[test]
    fn a_region_that_goes_does_not_take_one_that_comes_to_its_place_out_of_the_table() {
        let make = || {
            for _ in 0..300 {
                let region = Region::new(2 << 20, BackingPreference::Small).unwrap();
                for _ in 0..20 {
                    assert_eq!(chunk_at(region.base()), Some(region.first_chunk()));
                    std::thread::yield_now();
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(make))));
    }

    #[test]
    fn zero_and_absurd_sizes_are_refused() {
        assert!(matches!(Region::new(0, BackingPreference::Small), Err(RegionError::Size { .. })));
        assert!(matches!(Region::new(usize::MAX, BackingPreference::Small), Err(RegionError::Size { .. })));
    }
}
