//! HOT: frees frames from an array of the caller, or one frame if that takes the shortest path.

use super::Batch;
use crate::limits::BATCH_MAX;
use crate::pool::Pool;
use crate::pool::frame::Frame;
use crate::pool::frame_table::{pool, pool_of};
use crate::sync::{Steps, Worker};
use crate::sys::cpu;
use std::mem;
use std::ptr;
use std::slice;

impl Frame {
    /// Frees the frames of an array through the worker, in bulk as [`Batch::free`] does; None is skipped.
    ///
    /// ```
    /// # use netmem::{page::{Memory, MemoryConfig}, pool::{Frame, Pool, PoolConfig}};
    /// # use std::mem::{ManuallyDrop, MaybeUninit};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// # let pool = Pool::new(&memory, &mut w, &PoolConfig::default())?;
    /// let mut places = [const { MaybeUninit::uninit() }; 32];
    /// assert_eq!(pool.alloc_into(&mut w, &mut places), 32);
    /// // SAFETY: all of them were written.
    /// let frames = ManuallyDrop::new(places.map(|place| Some(unsafe { place.assume_init() })));
    /// // SAFETY: what holds them drops nothing, and is not used after this.
    /// unsafe { Frame::free_all(&*frames, &mut w) };
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// The claims on the frames end with this call. The caller forgets the frames.
    #[inline(always)]
    pub unsafe fn free_all(frames: &[Option<Frame>], w: &mut Worker) {
        // SAFETY: the caller's promise.
        unsafe {
            if !Frame::free_all_cached(frames, w) {
                free_by_batches(frames, w);
            }
        }
    }

    /// Does the same as [`Frame::free_all`] if that takes the shortest path, as
    /// [`Pool::alloc_cached_into`](crate::pool::Pool::alloc_cached_into) does. Otherwise returns false, and no claim
    /// has ended. That is the case if the frames do not belong to one pool, if one of them is None, or if the worker
    /// does not own their pool. It is also the case if the cache has no room for all, or another thread is taking
    /// frames out of it.
    ///
    /// # Safety
    /// As for [`Frame::free_all`], if the result is true.
    #[inline(always)]
    #[must_use = "false: the frames were not freed"]
    pub unsafe fn free_all_cached(frames: &[Option<Frame>], w: &mut Worker) -> bool {
        let Some(Some(first)) = frames.first() else { return false };
        // SAFETY: the frame is out, and keeps its pool, until it is kept.
        let pool = unsafe { &*cpu::expected(pool_of(first), &mut w.recent) };
        if !pool.has_all(frames) {
            return false;
        }
        // SAFETY: an Option<Frame> has a Frame's layout, and none of these is None.
        let all = unsafe { slice::from_raw_parts(frames.as_ptr().cast::<Frame>(), frames.len()) };
        pool.keep_all_at_once(w, all)
    }

    /// Does the same as [`Frame::free`] if that takes the shortest path, as
    /// [`Pool::alloc_cached`](crate::pool::Pool::alloc_cached) does.
    ///
    /// # Errors
    /// The frame, if the worker does not own its pool, the cache has no room, or another thread is taking frames out of
    /// it.
    #[inline(always)]
    pub fn free_cached(self, w: &mut Worker) -> Result<(), Frame> {
        let id = self.id();
        // SAFETY: the frame is out, and so keeps its pool, until it is kept.
        let of = unsafe { &*cpu::expected(pool(id), &mut w.recent) };
        if !of.keep_at_once(w, id) {
            return Err(self);
        }
        // The claim ended here, once.
        mem::forget(self);
        Ok(())
    }
}

impl Pool {
    /// Does the same as [`Frame::free_all_cached`] for frames that are known to belong to this pool, so that it checks
    /// none. Returns false, and no claim has ended, if the worker is not the owner, its cache has no room for all, or
    /// another thread is taking frames out of it.
    ///
    /// # Cost
    /// A copy of the frames' numbers. [`Frame::free_all_cached`] also reads each frame's entry in the table of pools.
    ///
    /// # Safety
    /// All slots hold frames, and all of these belong to this pool. If the result is true, their claims have ended: the
    /// caller forgets them.
    #[inline(always)]
    #[must_use = "false: the frames were not freed"]
    pub unsafe fn free_all_cached(&self, w: &mut Worker, frames: &[Option<Frame>]) -> bool {
        // SAFETY: an Option<Frame> has a Frame's layout, and by the caller's promise none of these is None.
        let all = unsafe { slice::from_raw_parts(frames.as_ptr().cast::<Frame>(), frames.len()) };
        self.shared.keep_all_at_once(w, all)
    }

    /// Does the same as [`Frame::free_cached`] for a frame that is known to belong to this pool.
    ///
    /// # Errors
    /// The frame, if the worker is not the owner, its cache has no room, or another thread is taking frames out of it.
    ///
    /// # Safety
    /// The frame belongs to this pool.
    #[inline(always)]
    pub unsafe fn free_cached(&self, w: &mut Worker, frame: Frame) -> Result<(), Frame> {
        if !self.shared.keep_at_once(w, frame.id()) {
            return Err(frame);
        }
        // The claim ended here, once.
        mem::forget(frame);
        Ok(())
    }
}

/// Does the same as [`Frame::free_all`] for frames that their owner's cache does not take at once.
///
/// # Safety
/// As for [`Frame::free_all`].
#[cold]
#[inline(never)]
unsafe fn free_by_batches(frames: &[Option<Frame>], w: &mut Worker) {
    let mut steps = Steps::new();
    for frames in frames.chunks(BATCH_MAX) {
        let mut batch = Batch::new();
        // SAFETY: each is read once, and its claim belongs to the batch from then on, as the caller promises.
        batch.extend(frames.iter().filter_map(|frame| unsafe { ptr::read(frame) }));
        // If the caller's code panics, the frames behind are still freed.
        steps.run(|| batch.free(w));
    }
    steps.end();
}
