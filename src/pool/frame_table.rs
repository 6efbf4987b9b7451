//! The frame table: the pool of each frame, and side arrays over a region's chunks.
//!
//! One table of the process ([`sys::table`](crate::sys::table)) maps each chunk to its pool, in two bytes a chunk. A
//! free finds the pool by the frame's number alone. The frame table of each memory has a link and a count for each
//! chunk, and a position for each page. It is made with the memory's first pool and goes with its last. Together they
//! take 0.59 % of the memory.

use super::config::PoolError;
use super::frame::Frame;
use super::remote_free::Links;
use super::shared::Shared;
use super::traces::Traces;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::{Memory, Refs};
use crate::sync::shim::AtomicU32;
use crate::sync::try_array;
use crate::sys::region::Region;
use crate::sys::table::{self, ChunkTable};
use std::collections::BTreeMap;
use std::iter;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The frame tables by first segment, for pools that are made later.
static KNOWN: Mutex<BTreeMap<usize, Weak<FrameTable>>> = Mutex::new(BTreeMap::new());

/// The number of pool numbers. 0 means no pool.
const NUMBERS: usize = 1 << 16;
/// The pools by number. Each entry holds a strong count of its pool.
static POOLS: [AtomicPtr<Shared>; NUMBERS] = [const { AtomicPtr::new(ptr::null_mut()) }; NUMBERS];
/// Each number below it has a pool, save one whose pool left at the moment in which another was registered.
static LOWEST: AtomicUsize = AtomicUsize::new(1);
/// The pool of each chunk; 0 for none. Null until the process's first pool. An entry is written when its page enters or
/// leaves a pool.
static POOL_NUMBERS: AtomicPtr<ChunkTable> = AtomicPtr::new(ptr::null_mut());

/// The side arrays of one region.
#[derive(Debug)]
pub(crate) struct FrameTable {
    pool_numbers: PoolNumbers,
    /// The region's first chunk.
    first: u32,
    region: Arc<Region>,
    /// Links of the stacks on the remote free queue.
    next: Box<[AtomicU32]>,
    /// The position of each page in its pool's list. Written under the pool's lock.
    places: Box<[AtomicU32]>,
    /// The claims on a frame that has several holders. The value means nothing while the frame is a
    /// [`Frame`](super::Frame) or free.
    refs: Box<[AtomicU32]>,
    /// The holder of each frame, once a pool has traced.
    traces: OnceLock<Traces>,
}

/// The pool that the frame `id` belongs to.
///
/// # Safety
/// The frame is out and stays out while the pool is used. The frame keeps its pool, whose strong count is given up only
/// after the last frame was freed ([`leave`]).
#[inline(always)]
pub(super) unsafe fn pool(id: NonZeroU32) -> *const Shared {
    // SAFETY: there is a frame, so there was a first pool; the table is never unmapped. Relaxed: the frame reached this
    // thread after that.
    let pool_numbers = PoolNumbers(unsafe { &*POOL_NUMBERS.load(Relaxed) });
    by_number(pool_numbers.of(id))
}

/// The pool with this number. Null for 0, and for a number that no pool has.
#[inline(always)]
pub(super) fn by_number(number: u16) -> *const Shared {
    // Acquire: pairs with the Release in `register`.
    POOLS[usize::from(number)].load(Acquire)
}

/// A strong count of the pool with this number, for the caller.
///
/// # Safety
/// The pool is in the list and does not leave it during this call.
#[cold]
pub(super) unsafe fn keep(number: u16) -> Arc<Shared> {
    let pool = by_number(number);
    // SAFETY: the list's own count keeps the pool, as the caller promises; the pointer came from an Arc.
    unsafe {
        Arc::increment_strong_count(pool);
        Arc::from_raw(pool)
    }
}

/// The frame table that contains `id`.
///
/// # Safety
/// A frame with this id is out and stays out for `'a`. The frame keeps its pool, and the pool keeps its frame table.
#[inline(always)]
pub(super) unsafe fn of<'a>(id: NonZeroU32) -> &'a FrameTable {
    // SAFETY: the caller's promise.
    unsafe { &(*pool(id)).frame_table }
}

/// Bytes of the frame that begins at `id`.
///
/// # Safety
/// As for [`pool`].
#[inline]
pub(super) unsafe fn frame_size(id: NonZeroU32) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (*pool(id)).frame_size }
}

/// Gives a new pool a number, and keeps a strong count of the pool until [`leave`]. Returns None if all numbers are in
/// use.
#[cold]
pub(super) fn register(make: impl FnOnce(u16) -> Arc<Shared>) -> Option<Arc<Shared>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    // Acquire: pairs with the Release in `leave`. What is done about the new pool follows what was done about the last one of
    // its number.
    let from = LOWEST.load(Relaxed);
    let number = (from..NUMBERS).chain(1..from).find(|&n| POOLS[n].load(Acquire).is_null())?;
    LOWEST.store(number + 1, Relaxed);
    let pool = make(number as u16);
    // Release: pairs with the Acquire in `by_number`.
    POOLS[number].store(Arc::into_raw(Arc::clone(&pool)).cast_mut(), Release);
    Some(pool)
}

/// Frees a pool's number and returns the strong count of it, for the caller to drop.
///
/// # Safety
/// No frame of the pool is out, its chunks belong to no pool any more, and it is called once.
#[cold]
pub(super) unsafe fn leave(number: u16) -> Arc<Shared> {
    // Release: pairs with the Acquire in `register`.
    let pool = POOLS[usize::from(number)].swap(ptr::null_mut(), Release);
    LOWEST.fetch_min(usize::from(number), Relaxed);
    // SAFETY: `register` put the count there, and the caller promises that no code will look for it.
    unsafe { Arc::from_raw(pool) }
}

/// The pool that a frame belongs to. The frame keeps it.
#[inline]
pub(super) fn pool_of(frame: &Frame) -> *const Shared {
    // SAFETY: the frame is out for as long as it is borrowed, and keeps its pool.
    unsafe { pool(frame.id()) }
}

/// The smallest headroom of an empty frame of the pool that a frame belongs to.
#[cold]
pub(super) fn least_headroom(frame: &Frame) -> usize {
    // SAFETY: the frame is out for as long as it is borrowed, and keeps its pool.
    let pool = unsafe { &*pool_of(frame) };
    // No bit of the number: the first colour.
    pool.start.of(0) as usize
}

/// The pool of the first of `frames`, and how many frames from there on belong to it. `frames` is not empty.
///
/// # Cost
/// An entry of the table of pools for each frame.
#[inline]
pub(super) fn first_run(frames: &[Frame]) -> (*const Shared, usize) {
    let id = frames[0].id();
    // SAFETY: the frames are out for as long as they are borrowed, and keep their pool.
    let pool = unsafe { pool(id) };
    // SAFETY: as above.
    let Shared { pool_numbers, number, .. } = unsafe { &*pool };
    let n = frames.iter().take_while(|frame| pool_numbers.of(frame.id()) == *number).count();
    (pool, n.max(1))
}

/// Calls `f` for each run of `frames` of one pool. If `known` is not null, all of them belong to it.
#[inline(always)]
pub(super) fn each_pool(frames: &[Frame], known: *const Shared, mut f: impl FnMut(&Shared, &[Frame])) {
    if frames.is_empty() {
        return;
    }
    if known.is_null() {
        return each_run(frames, f);
    }
    // SAFETY: the frames are out for as long as they are borrowed, and keep their pool.
    f(unsafe { &*known }, frames);
}

/// Does the same as [`each_pool`] for frames whose pools are not known.
#[inline(never)]
fn each_run(frames: &[Frame], mut f: impl FnMut(&Shared, &[Frame])) {
    let mut rest = frames;
    while !rest.is_empty() {
        let (pool, n) = first_run(rest);
        // SAFETY: the run's frames are out for as long as they are borrowed, and keep their pool.
        f(unsafe { &*pool }, &rest[..n]);
        rest = &rest[n..];
    }
}

/// Does the same as [`each_pool`] for frames that lie apart: calls `f` with the length of each run, and its frames.
///
/// # Cost
/// An entry of the table of pools for each frame.
#[inline(always)]
pub(super) fn each_pool_apart<'a, I: Iterator<Item = &'a Frame> + Clone>(
    mut frames: I,
    mut f: impl FnMut(&Shared, usize, iter::Take<I>),
) {
    let mut run = frames.clone();
    let mut next = frames.next();
    while let Some(first) = next {
        // SAFETY: the frame is out for as long as it is borrowed, and keeps its pool.
        let pool = unsafe { &*pool_of(first) };
        let (mut n, mut behind) = (1, frames.clone());
        next = frames.next();
        while next.is_some_and(|frame| pool.pool_numbers.of(frame.id()) == pool.number) {
            n += 1;
            behind = frames.clone();
            next = frames.next();
        }
        f(pool, n, run.take(n));
        run = behind;
    }
}

/// Makes the links, positions and claims of a region of this many chunks.
#[cold]
fn side_arrays(chunks: usize) -> Result<[Box<[AtomicU32]>; 3], PoolError> {
    let pages = chunks.div_ceil(PAGE_SIZE / CHUNK_SIZE);
    let bytes = (2 * chunks + pages) * size_of::<u32>();
    let make = |len| try_array(len, || AtomicU32::new(0));
    let made = make(chunks).and_then(|next| Ok([next, make(pages)?, make(chunks)?]));
    made.map_err(|_| PoolError::NoMemory { what: "the memory's frame table", bytes })
}

impl FrameTable {
    /// The frame table of a memory. It is made if this is the memory's first pool.
    ///
    /// # Errors
    /// [`PoolError::Table`] if there is no room for the table of chunks, [`PoolError::NoMemory`] for the side arrays.
    #[cold]
    pub(super) fn of_memory(memory: &Memory) -> Result<Arc<FrameTable>, PoolError> {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, frame_table| frame_table.strong_count() > 0);
        let region = memory.region();
        if let Some(frame_table) = known.get(&region.segments().start).and_then(Weak::upgrade) {
            return Ok(frame_table);
        }
        let (first, chunks) = (region.first_chunk(), region.chunks() as usize);
        let [next, places, refs] = side_arrays(chunks)?;
        table::open(first..first + region.chunks())?;
        let pool_numbers = table::chunk_table()?;
        POOL_NUMBERS.store(ptr::from_ref(pool_numbers).cast_mut(), Relaxed);
        let frame_table = Arc::new(FrameTable {
            region: Arc::clone(region),
            pool_numbers: PoolNumbers(pool_numbers),
            first,
            next,
            places,
            refs,
            traces: OnceLock::new(),
        });
        known.insert(region.segments().start, Arc::downgrade(&frame_table));
        Ok(frame_table)
    }

    /// The region's first chunk.
    #[inline(always)]
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    /// The pool numbers of all chunks.
    #[inline(always)]
    pub(super) fn pool_numbers(&self) -> PoolNumbers {
        self.pool_numbers
    }

    /// Bytes of the side arrays and of the region's part of the table of pools, without traces.
    #[cold]
    pub(super) fn bytes(&self) -> usize {
        let [next, places, refs] =
            [&self.next, &self.places, &self.refs].map(|array| size_of_val(&array[..]));
        next + places + refs + size_of::<u16>() * self.next.len()
    }

    /// Writes the pool of a chunk of this region.
    pub(super) fn set_home(&self, id: NonZeroU32, pool: u16) {
        debug_assert!(self.region.index_of(id.get()).is_some(), "chunk {id} of another region");
        self.pool_numbers.0.entry(id.get()).store(pool, Relaxed);
    }

    /// The links of the stacks on the remote free queue.
    pub(super) fn links(&self) -> Links<'_> {
        Links { next: &self.next, first: self.first }
    }

    /// The count of claims on the frame that begins at `id`, a chunk of this region.
    #[inline(always)]
    pub(super) fn refs(&self, id: NonZeroU32) -> Refs<'_> {
        Refs(&self.refs[id.get().wrapping_sub(self.first) as usize])
    }

    /// The position of the page of `id` in its pool's list.
    pub(super) fn place(&self, id: u32) -> &AtomicU32 {
        &self.places[id.wrapping_sub(self.first) as usize / (PAGE_SIZE / CHUNK_SIZE)]
    }

    /// The link of `id`. It is free for other use while the frame is not on the remote free queue.
    pub(super) fn link(&self, id: u32) -> &AtomicU32 {
        &self.next[id.wrapping_sub(self.first) as usize]
    }

    /// The index of a chunk of this region in the side arrays.
    pub(super) fn index(&self, id: NonZeroU32) -> usize {
        id.get().wrapping_sub(self.first) as usize
    }

    /// The holder of each frame, if a pool has traced.
    pub(super) fn traces(&self) -> Option<&Traces> {
        self.traces.get()
    }

    /// Does the same as [`FrameTable::traces`], but makes the array if it does not exist.
    #[cold]
    pub(super) fn make_traces(&self) -> &Traces {
        self.traces.get_or_init(|| Traces::new(self.next.len()))
    }
}

/// The pool numbers of all chunks.
#[derive(Clone, Copy)]
pub(super) struct PoolNumbers(&'static ChunkTable);

impl PoolNumbers {
    /// The number of the pool that a chunk belongs to; 0 for none.
    #[inline(always)]
    pub(super) fn of(self, id: NonZeroU32) -> u16 {
        self.0.entry(id.get()).load(Relaxed)
    }

    /// Does the same for any number; 0 for a number that is not a chunk's.
    #[inline(always)]
    pub(super) fn of_number(self, number: u32) -> u16 {
        self.0.entry(number).load(Relaxed)
    }

    /// The number of the pool that a frame belongs to; 0 for None, because no pool has chunk 0.
    #[inline(always)]
    pub(super) fn of_place(self, frame: &Option<Frame>) -> u16 {
        let chunk = frame.as_ref().map_or(0, |frame| frame.id().get());
        self.0.entry(chunk).load(Relaxed)
    }
}

impl std::fmt::Debug for PoolNumbers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PoolNumbers")
    }
}
