//! The batch: up to 64 frames in order. It is the unit in which frames move.

mod free;
mod hand_over;
mod line;
mod sort;
mod written;

pub(crate) use hand_over::HandOver;
pub(crate) use line::{LINE_MAX, Line};
pub use sort::IntoFrames;
pub(super) use written::Written;

use super::desc::METADATA;
use super::frame::Frame;
use super::frame_table::{each_pool, first_run, pool_of};
use super::run::RUN;
use super::shared::Shared;
use crate::limits::BATCH_MAX;
use crate::sync::{Steps, Worker};
use crate::sys::cpu::prefetch_write;
use crate::sys::region;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr;

/// Up to [`BATCH_MAX`] frames, oldest first; derefs to a slice of them.
///
/// A batch remembers its pool while all its frames are known to belong to one pool. Counting and freeing by pool then
/// costs nothing for each frame. Pushing a single frame, or access as `&mut Frame`, ends that knowledge.
///
/// A batch that is dropped with frames inside frees them one pool at a time without a worker. [`Batch::free`] is the
/// fast form.
///
/// The struct begins with a cache line, so that no vector of frames lies across two lines.
#[repr(C, align(64))]
pub struct Batch {
    /// Invariant: the first `len` slots are initialised. The others hold no claim.
    frames: [MaybeUninit<Frame>; BATCH_MAX],
    len: usize,
    /// Null, or the pool that all the frames belong to, which they keep. Without frames it may be any, also one that is
    /// gone.
    pool: *const Shared,
}

// SAFETY: the pool's pointer is followed only while frames of that pool are inside, which keep it. The pool itself is
// Sync.
unsafe impl Send for Batch {}
// SAFETY: as above; a shared batch only compares and reads.
unsafe impl Sync for Batch {}

impl Batch {
    /// An empty batch.
    #[inline]
    pub fn new() -> Batch {
        Batch { frames: [const { MaybeUninit::uninit() }; BATCH_MAX], len: 0, pool: ptr::null() }
    }

    /// The number of frames that there is room for.
    #[inline(always)]
    pub fn room(&self) -> usize {
        BATCH_MAX - self.len
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// The frame, if the batch is full.
    #[inline(always)]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        let Some(place) = self.frames.get_mut(self.len) else { return Err(frame) };
        place.write(frame);
        self.len += 1;
        self.pool = ptr::null();
        Ok(())
    }

    /// Appends frames until the iterator ends or the batch is full. Returns how many. It takes no frame from the
    /// iterator that it has no room for.
    ///
    /// # Cost
    /// One store for each frame: the batch's length is written once, while [`Batch::push`] writes it for each frame.
    ///
    /// ```
    /// # use netmem::{page::{Memory, MemoryConfig}, pool::{Batch, Pool, PoolConfig}};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// let mut batch = Batch::new();
    /// let frames = std::iter::from_fn(|| pool.alloc(&mut w));
    /// assert_eq!(batch.extend(frames.take(5)), 5);
    /// batch.free(&mut w);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn extend(&mut self, frames: impl IntoIterator<Item = Frame>) -> usize {
        let (batch, mut frames): (*mut Batch, _) = (self, frames.into_iter());
        let mut added = Added { batch, n: 0 };
        // SAFETY: it is `self`, which no other code names until `added` goes, after the last use of these slots.
        for place in unsafe { (*batch).places() } {
            let Some(frame) = frames.next() else { break };
            place.write(frame);
            added.n += 1;
        }
        added.n
    }

    /// Takes the newest frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the slot was inside `len`, so it is initialised; it is outside now, so it is read once.
        Some(unsafe { self.frames[self.len].assume_init_read() })
    }

    /// Takes frames from the front, oldest first. Frames that the iterator does not take stay in the batch.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        let end = std::mem::take(&mut self.len);
        Drain { batch: self, next: 0, end }
    }

    /// Moves frames from the front of `other` until this batch is full or `other` is empty. Returns how many.
    #[inline]
    pub fn append(&mut self, other: &mut Batch) -> usize {
        let n = other.len;
        other.drain().move_to(self, n)
    }

    /// Calls `f` with the writable data of each frame, oldest first. The order of the batch and its knowledge of the
    /// pool stay.
    ///
    /// The first line of each frame is prefetched for writing `ahead` frames before its turn. Headers come from another
    /// core or a device, so the lines travel while `f` works, and no more at once than a core can have in flight.
    #[inline(always)]
    pub fn each_data_mut(&mut self, ahead: usize, mut f: impl FnMut(usize, &mut [u8])) {
        let mut starts = [std::ptr::null_mut(); BATCH_MAX];
        for (i, (start, frame)) in starts.iter_mut().zip(self.iter()).enumerate() {
            *start = frame.start();
            if i < ahead {
                prefetch_write(*start);
            }
        }
        for (i, place) in self.frames[..self.len].iter().enumerate() {
            // Past the end this is null, which is no hint, or, in a full batch, a line that is already in the cache.
            prefetch_write(starts[i.wrapping_add(ahead) & (BATCH_MAX - 1)]);
            // SAFETY: the slot is inside `len`, so initialised. Its frame's bytes are mapped while the frame is out,
            // and `&mut self` is the only claim on them.
            let data = unsafe { std::slice::from_raw_parts_mut(starts[i], place.assume_init_ref().len()) };
            f(i, data);
        }
    }

    /// Extends the data of each frame by `n` bytes, oldest first, and calls `f` to write these bytes. It ends at the
    /// first frame that has no room for them. Returns how many frames were written. The batch keeps its knowledge of
    /// the pool.
    ///
    /// As with [`Frame::put`], the bytes hold old contents of an earlier use of the frame: `f` must write all of them.
    /// If `f` panics, that frame has them as data, and so may some frames behind it: free them, or [`Frame::trim`] each
    /// to its former length.
    ///
    /// # Cost
    /// For frames without data of a pool that the batch knows: half a store for each frame, besides the stores of `f`.
    /// For other frames: one load of the region table and one store.
    #[inline(always)]
    pub fn put_each(&mut self, n: usize, mut f: impl FnMut(usize, &mut [u8])) -> usize {
        let (origin, mut done) = (self.origin(), 0);
        // SAFETY: the first `len` places are initialised.
        let frames = unsafe { initialised_mut(&mut self.frames[..self.len]) };
        if let Some(origin) = origin {
            put_rows::<RUN>(frames, n, origin, &mut done, &mut f);
            if frames.len() % RUN >= 4 {
                put_rows::<4>(frames, n, origin, &mut done, &mut f);
            }
        }
        for frame in &mut frames[done..] {
            let Ok(tail) = frame.put(n) else { break };
            f(done, tail);
            done += 1;
        }
        done
    }

    /// Cuts the data of the frame at `at` to its first `len` bytes. Does nothing if there is no such frame, or if its
    /// data is not longer.
    pub fn trim(&mut self, at: usize, len: usize) {
        // SAFETY: the first `len` places are initialised.
        let frames = unsafe { initialised_mut(&mut self.frames[..self.len]) };
        frames.get_mut(at).map(|frame| frame.trim(len));
    }

    /// Begins the data of the frame at `at` `n` bytes later. Does nothing if there is no such frame, or if it has less
    /// data.
    pub fn pull(&mut self, at: usize, n: usize) {
        // SAFETY: the first `len` places are initialised.
        let frames = unsafe { initialised_mut(&mut self.frames[..self.len]) };
        frames.get_mut(at).map(|frame| frame.pull(n));
    }

    /// The data of the frame at `at`, for writing. It is empty if there is no such frame.
    pub fn data_mut(&mut self, at: usize) -> &mut [u8] {
        // SAFETY: the first `len` places are initialised.
        let frames = unsafe { initialised_mut(&mut self.frames[..self.len]) };
        frames.get_mut(at).map_or(&mut [], |frame| frame.data_mut())
    }

    /// Returns false if no frame has metadata, and so no frame [has an offload](Frame::has_offload).
    ///
    /// # Cost
    /// One load for each frame, four at a time.
    #[inline]
    pub(crate) fn may_have_offloads(&self) -> bool {
        // One frame is enough to set the bit. Empty data at the end of the longest frame sets it as well.
        self.iter().fold(0, |all, frame| all | frame.word()) >> 32 & u64::from(METADATA) != 0
    }

    /// The address at which chunk 0 of the frames' region would lie, if their pool is known. Chunk 0 itself may be at
    /// address 0.
    #[inline(always)]
    fn origin(&self) -> Option<*mut u8> {
        // What an empty batch knew may be gone.
        let pool = if self.len == 0 { ptr::null() } else { self.pool };
        // SAFETY: a batch with frames knows a pool only if they belong to it; they are out, and keep it.
        unsafe { pool.as_ref() }.map(|pool| region::origin(pool.frame_table.first()))
    }

    /// Frees all frames through the worker, in bulk, grouped by their pool.
    ///
    /// # Cost
    /// Frames of a pool that the worker owns: one slot of the cache for each, no locked instruction. If the batch does
    /// not know its pool, also one entry of the table of pools for each. Other frames: one CAS for each pool, in any
    /// order of the frames.
    #[inline]
    pub fn free(&mut self, w: &mut Worker) {
        let end = std::mem::take(&mut self.len);
        if end == 0 {
            return;
        }
        // SAFETY: the slots up to `end` are initialised and no longer counted by `len`: their claims belong to this
        // function, and end here or in `free_in_rounds`.
        let frames = unsafe { initialised(self.frames.get_unchecked(..end)) };
        // SAFETY: a batch with frames knows a pool only if they belong to it; they are out, and keep it.
        let kept = unsafe { self.pool.as_ref() }.is_some_and(|pool| pool.keep_hot(w, frames));
        if !kept {
            self.free_in_rounds(w, end);
        }
    }

    /// Does the same as [`Batch::free`] for frames that their owner's cache does not take at once. Each round frees all
    /// frames of one pool, and keeps the other frames for the next round, as page_pool's bulk put does. The callbacks
    /// that run when pages are freed may panic. A panic does not end the rounds.
    #[inline(never)]
    fn free_in_rounds(&mut self, w: &mut Worker, mut end: usize) {
        let mut steps = Steps::new();
        while end > 0 {
            // SAFETY: the slots up to `end` are initialised and no longer counted by `len`: their claims belong to this
            // function, and each is ended once, by `free_run` for its round.
            let frames = unsafe { initialised(&self.frames[..end]) };
            let (pool, n) = if self.pool.is_null() { first_run(frames) } else { (self.pool, end) };
            if n == end {
                // SAFETY: as above; the frames are out until `free_run` puts them down, and keep their pool.
                unsafe { Shared::free_run(pool, Some(w), frames) };
                break;
            }
            let (mut round, mut n, mut kept) = ([const { MaybeUninit::uninit() }; BATCH_MAX], 0, 0);
            for at in 0..end {
                let place = std::mem::replace(&mut self.frames[at], MaybeUninit::uninit());
                // SAFETY: the slot was initialised.
                let own = pool_of(unsafe { place.assume_init_ref() }) == pool;
                let (to, len) = if own { (&mut round, &mut n) } else { (&mut self.frames, &mut kept) };
                to[*len] = place;
                *len += 1;
            }
            // SAFETY: the first `n` are initialised, and frames of `pool` whose claims end here.
            steps.run(|| unsafe { Shared::free_run(pool, Some(&mut *w), initialised(&round[..n])) });
            end = kept;
        }
        steps.end();
    }

    /// Calls `f` for each run of frames of one pool among the first `n` frames, or among all if there are fewer.
    #[inline(always)]
    pub(crate) fn each_pool(&self, n: usize, f: impl FnMut(&Shared, &[Frame])) {
        let frames = &self[..n.min(self.len)];
        each_pool(frames, self.pool, f);
    }

    /// Calls `f` for each run of frames of one pool, from the frame at `first` on.
    #[inline(always)]
    pub(crate) fn each_pool_from(&self, first: usize, f: impl FnMut(&Shared, &[Frame])) {
        each_pool(&self[first.min(self.len)..], self.pool, f);
    }

    /// The free slots, for frames that [`Batch::grown`] adds afterwards.
    #[inline(always)]
    pub(super) fn places(&mut self) -> &mut [MaybeUninit<Frame>] {
        // SAFETY: the invariant of `frames`: `len` is at most their number.
        unsafe { self.frames.get_unchecked_mut(self.len..) }
    }

    /// Adds `n` more frames behind the others. All belong to `pool`, or to unknown pools if it is null.
    ///
    /// # Safety
    /// The first `n` free slots are initialised with frames whose claims belong to the batch from now on.
    #[inline(always)]
    pub(super) unsafe fn grown(&mut self, n: usize, pool: *const Shared) {
        if self.len == 0 {
            self.pool = pool;
        } else if self.pool != pool {
            self.pool = ptr::null();
        }
        self.len += n;
    }
}

/// Does the same as [`Batch::put_each`] for the frames from `done` on, in rows of `N`, up to a row that has data or may
/// have no room.
#[inline(always)]
fn put_rows<const N: usize>(
    frames: &mut [Frame],
    n: usize,
    origin: *mut u8,
    done: &mut usize,
    f: &mut impl FnMut(usize, &mut [u8]),
) {
    for row in frames[*done..].as_chunks_mut::<N>().0 {
        let Some(tails) = Frame::put_row(row, n, origin) else { return };
        for tail in tails {
            f(*done, tail);
            *done += 1;
        }
    }
}

/// The slots as frames.
///
/// # Safety
/// All of them are initialised.
#[inline(always)]
unsafe fn initialised(places: &[MaybeUninit<Frame>]) -> &[Frame] {
    // SAFETY: MaybeUninit<Frame> has Frame's layout, and the caller promises the rest.
    unsafe { std::slice::from_raw_parts(places.as_ptr().cast::<Frame>(), places.len()) }
}

/// The slots as frames.
///
/// # Safety
/// As for [`initialised`].
#[inline(always)]
unsafe fn initialised_mut(places: &mut [MaybeUninit<Frame>]) -> &mut [Frame] {
    // SAFETY: as for `initialised`.
    unsafe { std::slice::from_raw_parts_mut(places.as_mut_ptr().cast::<Frame>(), places.len()) }
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Deref for Batch {
    type Target = [Frame];
    #[inline(always)]
    fn deref(&self) -> &[Frame] {
        // SAFETY: the first `len` places are initialised.
        unsafe { initialised(&self.frames[..self.len]) }
    }
}

impl DerefMut for Batch {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Frame] {
        // The caller may swap in a frame of another pool.
        self.pool = ptr::null();
        // SAFETY: the first `len` places are initialised.
        unsafe { initialised_mut(self.frames.get_unchecked_mut(..self.len)) }
    }
}

impl Drop for Batch {
    #[inline]
    fn drop(&mut self) {
        if self.len > 0 {
            drop_rest(self);
        }
    }
}

#[cold]
#[inline(never)]
fn drop_rest(batch: &mut Batch) {
    let mut steps = Steps::new();
    while let Some(frame) = batch.pop() {
        steps.run(|| drop(frame));
    }
    steps.end();
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Counts frames that were written behind those of a batch, and adds them to the batch when it is dropped, also if the
/// iterator panics.
struct Added {
    batch: *mut Batch,
    n: usize,
}

impl Drop for Added {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the batch is that of `Batch::extend`, which outlives this; that many were written to its first free
        // slots.
        unsafe { (*self.batch).grown(self.n, ptr::null()) };
    }
}

/// Takes frames from the front of a [`Batch`]; when it is dropped, the remaining frames move up.
#[derive(Debug)]
pub struct Drain<'a> {
    /// Its `len` is 0 during the drain: a leaked Drain leaks frames and breaks nothing else.
    batch: &'a mut Batch,
    next: usize,
    end: usize,
}

impl Drain<'_> {
    /// The frames that were not taken.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Frame] {
        // SAFETY: slots from `next` to `end` are initialised.
        unsafe { initialised(&self.batch.frames[self.next..self.end]) }
    }

    /// Moves the next `n` frames behind those of `to`, or as many as there are and `to` has room for. Returns how many.
    #[inline]
    pub fn move_to(&mut self, to: &mut Batch, n: usize) -> usize {
        let n = n.min(self.end - self.next).min(to.room());
        let from = self.batch.frames[self.next..self.next + n].as_ptr();
        // SAFETY: the slots from `next` on are initialised, and given up by moving `next`. `to` is another batch and
        // has room for them behind its own.
        unsafe {
            ptr::copy_nonoverlapping(from, to.frames[to.len..].as_mut_ptr(), n);
            to.grown(n, self.batch.pool);
        }
        self.next += n;
        n
    }
}

impl Iterator for Drain<'_> {
    type Item = Frame;

    #[inline(always)]
    fn next(&mut self) -> Option<Frame> {
        if self.next == self.end {
            return None;
        }
        // SAFETY: slots from `next` to `end` are initialised; `next` moves on, so each is read once.
        let frame = unsafe { self.batch.frames[self.next].assume_init_read() };
        self.next += 1;
        Some(frame)
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline]
    fn drop(&mut self) {
        let left = self.end - self.next;
        if left > 0 && self.next > 0 {
            let frames = self.batch.frames.as_mut_ptr();
            // SAFETY: both ranges lie within the array; the moved slots are initialised, and those left behind are
            // outside the new length.
            unsafe { ptr::copy(frames.add(self.next), frames, left) };
        }
        self.batch.len = left;
    }
}
