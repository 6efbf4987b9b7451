//! The yard: side arrays over a region's chunks that say which pool a frame is of.
//!
//! One byte, one link and one count a chunk, 0.44 % of the memory; made with the first pool of a memory and gone
//! with the last.

use super::home::Links;
use super::shared::Shared;
use super::trace::Traces;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::{Memory, Refs};
use crate::sync::shim::AtomicU32;
use crate::sys::region::{Region, SEGMENT_SHIFT, SEGMENTS};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32 as Size, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The yard of each segment of the number space, for frames that come home from anywhere.
static YARDS: [AtomicPtr<Yard>; SEGMENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];
/// The yards by first segment, for pools that are made.
static KNOWN: Mutex<BTreeMap<usize, Weak<Yard>>> = Mutex::new(BTreeMap::new());

/// Pools one memory can have at once: the numbers 1..=255.
const POOLS: usize = 256;

/// The side arrays of one region; what a free reads comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Yard {
    /// The pool each chunk is of; 0 for none. Written when a page enters or leaves a pool.
    homes: Box<[AtomicU8]>,
    /// The region's first chunk.
    first: u32,
    region: Arc<Region>,
    /// Links of the stacks on the way home.
    next: Box<[AtomicU32]>,
    /// Where each page stands in its pool's list; written under the pool's lock.
    places: Box<[AtomicU32]>,
    /// Claims on a frame that has several holders; what stands there means nothing while it is a
    /// [`Frame`](super::Frame) or free.
    refs: Box<[AtomicU32]>,
    /// Who holds which frame, once a pool has traced.
    traces: OnceLock<Traces>,
    /// The pools by number; each entry holds a strong count of its pool.
    pools: [AtomicPtr<Shared>; POOLS],
    /// Bytes of a frame of each pool.
    sizes: [Size; POOLS],
}

/// The yard that `id` lies in.
///
/// # Safety
/// A frame with this id is out and stays out for `'a`: it keeps its pool, and the pool its yard.
#[inline(always)]
pub(super) unsafe fn of<'a>(id: NonZeroU32) -> &'a Yard {
    // Acquire: pairs with the Release in `Yard::of_memory`. The frame's own way here orders it too.
    let yard = YARDS[(id.get() >> SEGMENT_SHIFT) as usize].load(Acquire);
    // SAFETY: see above; the entry is cleared only when the yard's last pool has gone.
    unsafe { &*yard }
}

impl Yard {
    /// The yard of a memory, made if this is its first pool.
    #[cold]
    pub(super) fn of_memory(memory: &Memory) -> Arc<Yard> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, yard| yard.strong_count() > 0);
        let region = memory.region();
        if let Some(yard) = known.get(&region.segments().start).and_then(Weak::upgrade) {
            return yard;
        }
        let chunks = 0..region.chunks();
        let yard = Arc::new(Yard {
            region: Arc::clone(region),
            first: region.first_chunk(),
            homes: chunks.clone().map(|_| AtomicU8::new(0)).collect(),
            next: chunks.clone().map(|_| AtomicU32::new(0)).collect(),
            places: chunks.clone().step_by(PAGE_SIZE / CHUNK_SIZE).map(|_| AtomicU32::new(0)).collect(),
            refs: chunks.map(|_| AtomicU32::new(0)).collect(),
            traces: OnceLock::new(),
            pools: [const { AtomicPtr::new(ptr::null_mut()) }; POOLS],
            sizes: [const { Size::new(0) }; POOLS],
        });
        for segment in region.segments() {
            // Release: pairs with the Acquire in `of`.
            YARDS[segment].store(Arc::as_ptr(&yard).cast_mut(), Release);
        }
        known.insert(region.segments().start, Arc::downgrade(&yard));
        yard
    }

    /// The pool number of a chunk; 0 for none and for chunks of other regions.
    #[inline(always)]
    pub(super) fn home(&self, id: NonZeroU32) -> u8 {
        self.homes().of(id)
    }

    /// The pool numbers of all chunks.
    #[inline(always)]
    pub(super) fn homes(&self) -> Homes<'_> {
        Homes { homes: &self.homes, first: self.first }
    }

    /// Writes which pool a chunk is of.
    pub(super) fn set_home(&self, id: NonZeroU32, pool: u8) {
        if let Some(index) = self.region.index_of(id.get()) {
            self.homes[index as usize].store(pool, Relaxed);
        }
    }

    /// Bytes of the frame that begins at `id`.
    #[inline]
    pub(super) fn frame_size(&self, id: NonZeroU32) -> usize {
        self.sizes[usize::from(self.home(id))].load(Relaxed) as usize
    }

    /// The pool that the frame `id` is of; it lives as long as the frame is out, whose claim keeps it: the
    /// entry's strong count is given up only after the last frame came home ([`Yard::leave`]).
    #[inline(always)]
    pub(super) fn pool(&self, id: NonZeroU32) -> *const Shared {
        // Acquire: pairs with the Release in `register`.
        self.pools[usize::from(self.home(id))].load(Acquire)
    }

    /// The links of the stacks on the way home.
    pub(super) fn links(&self) -> Links<'_> {
        Links { next: &self.next, first: self.first }
    }

    /// The count of claims on the frame that begins at `id`, a chunk of this region.
    #[inline(always)]
    pub(super) fn refs(&self, id: NonZeroU32) -> Refs<'_> {
        Refs(&self.refs[id.get().wrapping_sub(self.first) as usize])
    }

    /// Where the page of `id` stands in its pool's list.
    pub(super) fn place(&self, id: u32) -> &AtomicU32 {
        &self.places[id.wrapping_sub(self.first) as usize / (PAGE_SIZE / CHUNK_SIZE)]
    }

    /// The link of `id`, which is free for other use while the frame is not on the way home.
    pub(super) fn link(&self, id: u32) -> &AtomicU32 {
        &self.next[id.wrapping_sub(self.first) as usize]
    }

    /// Where a chunk of this region stands in the side arrays.
    pub(super) fn index(&self, id: NonZeroU32) -> usize {
        id.get().wrapping_sub(self.first) as usize
    }

    /// Who holds which frame, if a pool has traced.
    pub(super) fn traces(&self) -> Option<&Traces> {
        self.traces.get()
    }

    /// As [`Yard::traces`], made if need be.
    #[cold]
    pub(super) fn make_traces(&self) -> &Traces {
        self.traces.get_or_init(|| Traces::new(self.homes.len()))
    }

    /// A free pool number, taken until [`Yard::leave`]; None when all 255 are in use.
    ///
    /// Called under the lock of pools being made ([`Yard::register`]).
    fn free_number(&self) -> Option<usize> {
        (1..POOLS).find(|&n| self.pools[n].load(Relaxed).is_null())
    }

    /// Gives a new pool its number and keeps a strong count of it until [`Yard::leave`].
    #[cold]
    pub(super) fn register(
        &self,
        frame_size: usize,
        make: impl FnOnce(u8) -> Arc<Shared>,
    ) -> Option<Arc<Shared>> {
        let _one_at_a_time = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.free_number()?;
        let pool = make(number as u8);
        self.sizes[number].store(frame_size as u32, Relaxed);
        // Release: pairs with the Acquire in `pool`.
        self.pools[number].store(Arc::into_raw(Arc::clone(&pool)).cast_mut(), Release);
        Some(pool)
    }

    /// Frees a pool's number and gives back the strong count of it, for the caller to drop.
    ///
    /// # Safety
    /// No frame of the pool is out, its chunks are no pool's any more, and it is called once.
    #[cold]
    pub(super) unsafe fn leave(&self, number: u8) -> Arc<Shared> {
        let pool = self.pools[usize::from(number)].swap(ptr::null_mut(), Relaxed);
        // SAFETY: `register` put the count there, and the caller promises that nobody will look for it.
        unsafe { Arc::from_raw(pool) }
    }
}

/// The pool numbers of a region's chunks.
#[derive(Clone, Copy)]
pub(super) struct Homes<'a> {
    homes: &'a [AtomicU8],
    first: u32,
}

impl Homes<'_> {
    /// As [`Yard::home`].
    #[inline(always)]
    pub(super) fn of(self, id: NonZeroU32) -> u8 {
        let index = id.get().wrapping_sub(self.first);
        self.homes.get(index as usize).map_or(0, |home| home.load(Relaxed))
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let me: *mut Yard = self;
        for segment in self.region.segments() {
            // Only if no newer yard of the same region stands there already.
            let _ = YARDS[segment].compare_exchange(me, ptr::null_mut(), Relaxed, Relaxed);
        }
    }
}
