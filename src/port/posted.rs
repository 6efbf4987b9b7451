//! The posted frame: a frame that a device inside this process holds, and the ring it lies in.

use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, FrameState, HandOver, NoRoom, Origin, Pool};
use crate::ring::Lender;
#[cfg(feature = "memif")]
use crate::sync::Steps;
use crate::sync::Worker;
#[cfg(feature = "memif")]
use std::collections::VecDeque;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::num::NonZeroU32;
use std::slice;

/// A frame that a device has. The pool's ledger counts it as posted, and the program gets it back by [`Batch::claim`].
///
/// A port whose device lies in this process, or that keeps its frames beside the descriptors of a ring, holds values of
/// this type. [`Batch::post`] makes them. They can be moved anywhere, also to another thread or from one port to
/// another. If a posted frame is dropped (a ring torn down with frames inside), it is counted back and freed to its
/// pool.
///
/// ```
/// use netmem::pool::Batch;
/// # let config = netmem::page::MemoryConfig { bytes: 2 << 20, ..Default::default() };
/// # let memory = netmem::page::Memory::new(&config)?;
/// # let mut w = memory.worker()?;
/// # let pool = netmem::pool::Pool::new(&memory, &mut w, &netmem::pool::PoolConfig::default())?;
/// let mut frames = Batch::new();
/// pool.alloc_burst(&mut w, &mut frames, 3);
/// let mut ring: Vec<_> = frames.post(&w, 2).collect();
/// assert_eq!((pool.ledger().posted, pool.ledger().owned), (2, 1));
///
/// assert!(ring[0].device_address(&pool).is_none(), "this pool has no mapping for a device");
/// ring[0].room()[..5].copy_from_slice(b"hello"); // as a device does
/// ring[0].set_len(5)?;
///
/// assert_eq!(frames.claim(&w, ring.drain(..)), 2);
/// assert_eq!(frames[1].data(), b"hello");
/// frames.free(&mut w);
/// assert!(pool.ledger().all_freed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// It does not deref to a frame, so no other frame can be put in its place:
/// ```compile_fail,E0308
/// # use netmem::{pool::Frame, port::Posted};
/// fn exchange(posted: &mut Posted, mine: &mut Frame) {
///     std::mem::swap(posted, mine);
/// }
/// ```
#[derive(Debug)]
#[repr(transparent)]
#[must_use = "dropped, the frame is freed to its pool while the device may have it"]
pub struct Posted(ManuallyDrop<Frame>);

const _: () = assert!(size_of::<Posted>() == size_of::<Frame>());

impl Posted {
    #[inline(always)]
    fn new(frame: Frame) -> Posted {
        Posted(ManuallyDrop::new(frame))
    }

    /// The frame that the device reads and writes.
    #[inline(always)]
    pub(crate) fn frame(&mut self) -> &mut Frame {
        &mut self.0
    }

    /// The number of the frame's first chunk. It is unique among frames.
    #[inline(always)]
    pub fn id(&self) -> NonZeroU32 {
        self.0.id()
    }

    /// Number of bytes of data.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no data.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The data, for a device that sends it.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        self.0.data()
    }

    /// All bytes from the data's start to the frame's end, for a device that receives into them. The data has this
    /// length until [`Posted::set_len`] sets the number of bytes received.
    ///
    /// The bytes hold old content of an earlier use of the frame: set no more than was written.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        // The whole tailroom always fits.
        let rest = self.0.tailroom();
        let _ = self.0.put(rest);
        self.0.data_mut()
    }

    /// Sets the length of the data to `len` bytes, from its start.
    ///
    /// # Errors
    /// Returns [`NoRoom`] if the frame ends before that; nothing has changed then.
    #[inline]
    pub fn set_len(&mut self, len: usize) -> Result<(), NoRoom> {
        let now = self.0.len();
        if len <= now { self.0.trim(len) } else { self.0.put(len - now).map(drop) }
    }

    /// The address at which the pool's device finds the data, as [`Pool::device_address`] returns it for a frame. A
    /// port writes it into its device's descriptor.
    #[inline]
    pub fn device_address(&self, pool: &Pool) -> Option<u64> {
        pool.device_address(&self.0)
    }

    /// Takes the frame out. It belongs to the program again; the caller counts it so.
    #[inline(always)]
    fn into_frame(self) -> Frame {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the Posted is not dropped, so the frame is taken once.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl Batch {
    /// Posts the first `n` frames, or all if there are fewer. Returns each as a [`Posted`], counted in its pool's
    /// ledger. Frames that are not taken out of the iterator stay in the batch.
    ///
    /// # Cost
    /// Two additions for a run of frames of one pool; no look-up if the batch knows its pool.
    #[inline]
    pub fn post<'a>(&'a mut self, w: &'a Worker, n: usize) -> Posting<'a> {
        FrameState::Posted.enter_batch(w, self, n.min(self.len()));
        Posting { handed: self.hand_over(FrameState::Posted, w, n), w }
    }

    /// Appends frames that a device has given back, while there is room for them. Returns their number. They belong to
    /// the program again. Frames that are not taken stay with the iterator.
    ///
    /// # Cost
    /// The cost of [`Batch::post`], and a look-up of each frame's pool: a byte in a table.
    #[inline]
    pub fn claim(&mut self, w: &Worker, posted: impl IntoIterator<Item = Posted>) -> usize {
        let before = self.len();
        let mut claiming = Claiming { frames: self, w, before, claimed: 0 };
        let mut posted = posted.into_iter();
        while claiming.frames.room() > 0
            && let Some(posted) = posted.next()
        {
            // There is room.
            let _ = claiming.frames.push(posted.into_frame());
            claiming.claimed += 1;
        }
        claiming.claimed
    }
}

/// The frames of a [`Batch`] that are being posted; see [`Batch::post`].
#[derive(Debug)]
#[must_use = "frames that are not taken stay in the batch"]
pub struct Posting<'a> {
    handed: HandOver<'a>,
    w: &'a Worker,
}

impl Iterator for Posting<'_> {
    type Item = Posted;

    #[inline(always)]
    fn next(&mut self) -> Option<Posted> {
        self.handed.next().map(Posted::new)
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.handed.size_hint()
    }
}

impl ExactSizeIterator for Posting<'_> {}

impl Drop for Posting<'_> {
    #[inline]
    fn drop(&mut self) {
        FrameState::Posted.leave(Some(self.w), self.handed.as_slice());
    }
}

/// Frames that come back. They are counted when all have come, or when the iterator that returns them panics.
struct Claiming<'a> {
    frames: &'a mut Batch,
    w: &'a Worker,
    before: usize,
    claimed: usize,
}

impl Drop for Claiming<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frames.taken_back(FrameState::Posted, self.w, self.before);
        FrameState::Posted.leave_last(self.w, self.frames, self.claimed);
    }
}

impl Drop for Posted {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: this is the end of the Posted: the frame is taken once.
        let frame = unsafe { ManuallyDrop::take(&mut self.0) };
        FrameState::Posted.leave(None, slice::from_ref(&frame));
        FrameState::Posted.take_back(None, slice::from_ref(&frame));
    }
}

/// A port's side of one of the device's descriptor rings, and the pools of the frames inside it.
#[derive(Debug)]
pub(crate) struct Descriptors {
    ring: Lender<Posted>,
    inside: Origin,
}

impl Descriptors {
    pub(crate) fn new(ring: Lender<Posted>) -> Descriptors {
        Descriptors { ring, inside: Origin::new(FrameState::Posted) }
    }

    /// Number of frames posted and not claimed again.
    pub(crate) fn inside(&self) -> usize {
        self.inside.inside()
    }

    /// Number of frames for which there is room, at most `want`.
    #[inline]
    pub(crate) fn room(&mut self, want: usize) -> usize {
        self.ring.room(want)
    }

    /// Posts the first `n` of `frames`, for which there is room.
    ///
    /// # Cost
    /// Eight bytes copied for each frame, and the ring's index once; no look-up if the batch knows its pool.
    #[inline]
    pub(crate) fn post(&mut self, w: &Worker, frames: &mut Batch, n: usize) {
        self.inside.enter(w, frames, n);
        let mut handed = frames.hand_over(FrameState::Posted, w, n);
        let items = handed.as_slice();
        // SAFETY: Posted is a transparent Frame. The claims of as many frames as are lent go into the ring, and the
        // batch gives them up at the same time.
        unsafe {
            let lent = self.ring.lend(slice::from_raw_parts(items.as_ptr().cast::<Posted>(), items.len()));
            handed.forget(lent);
        }
    }

    /// Claims the frames that came back, as many as `frames` has room for. Returns their number.
    ///
    /// # Cost
    /// The cost of [`Descriptors::post`]; no look-up while all frames inside the device belong to one pool.
    #[inline]
    pub(crate) fn claim(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        let take = |places: &mut [MaybeUninit<Frame>]| {
            let (start, len) = (places.as_mut_ptr().cast::<MaybeUninit<Posted>>(), places.len());
            // SAFETY: Posted is a transparent Frame, so the slots fit either type.
            self.ring.reclaim(unsafe { slice::from_raw_parts_mut(start, len) })
        };
        // SAFETY: the ring initialises as many slots as it returns, with claims that were its own.
        let n = unsafe { frames.grow(take, &self.inside) };
        self.ring.prefetch_returned(BATCH_MAX);
        frames.taken_back(FrameState::Posted, w, before);
        self.inside.leave(w, frames, n);
        n
    }

    /// Returns whether a frame has come back that is not claimed yet.
    pub(crate) fn has_returned(&mut self) -> bool {
        self.ring.has_returned()
    }

    /// Prefetches the lines of the next `n` descriptors to post, which the device read last.
    #[inline]
    pub(crate) fn prefetch_room(&self, n: usize) {
        self.ring.prefetch_room(n);
    }

    /// Prefetches the first lines of the next `n` frames to claim, for writing.
    #[inline]
    pub(crate) fn prefetch_frames(&self, n: usize) {
        self.ring.returned(n).for_each(|posted| posted.0.prefetch_write());
    }
}

/// Posted frames in order, kept beside a device that reports only how many of them are done.
#[cfg(feature = "memif")]
#[derive(Debug)]
pub(crate) struct PostedQueue {
    /// Oldest first; never more than `capacity`, for which there is room.
    frames: VecDeque<Posted>,
    capacity: usize,
    inside: Origin,
}

#[cfg(feature = "memif")]
impl PostedQueue {
    #[cold]
    pub(crate) fn new(capacity: usize) -> PostedQueue {
        let frames = VecDeque::with_capacity(capacity);
        PostedQueue { frames, capacity, inside: Origin::new(FrameState::Posted) }
    }

    /// Number of frames posted and not claimed again.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Number of frames for which there is room.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.frames.len()
    }

    /// Posts the first `n` of `frames`, for which there is room.
    #[inline]
    pub(crate) fn post(&mut self, w: &Worker, frames: &mut Batch, n: usize) {
        self.inside.enter(w, frames, n);
        let handed = frames.hand_over(FrameState::Posted, w, n);
        self.frames.extend(handed.map(Posted::new));
    }

    /// The `i`-th oldest frame, for the code that acts as the device to write to.
    #[inline]
    pub(crate) fn frame(&mut self, i: usize) -> Option<&mut Frame> {
        self.frames.get_mut(i).map(Posted::frame)
    }

    /// Claims the oldest `n` frames, as many as exist and `frames` has room for. Returns their number.
    #[inline]
    pub(crate) fn claim(&mut self, w: &Worker, frames: &mut Batch, n: usize) -> usize {
        let before = frames.len();
        let take = |places: &mut [MaybeUninit<Frame>]| {
            let n = n.min(places.len()).min(self.frames.len());
            for (place, posted) in places.iter_mut().zip(self.frames.drain(..n)) {
                place.write(posted.into_frame());
            }
            n
        };
        // SAFETY: as many slots are initialised as it returns, with claims that were the queue's own.
        let n = unsafe { frames.grow(take, &self.inside) };
        frames.taken_back(FrameState::Posted, w, before);
        self.inside.leave(w, frames, n);
        n
    }

    /// Keeps the oldest `n` frames, and takes out the others, which the caller frees ([`free_all`]).
    #[cold]
    pub(crate) fn split_off(&mut self, n: usize) -> VecDeque<Posted> {
        let n = n.min(self.frames.len());
        self.inside.lose(self.frames.len() - n);
        self.frames.split_off(n)
    }
}

/// Frees frames, all of them also if the caller's code panics meanwhile.
#[cfg(feature = "memif")]
#[cold]
pub(crate) fn free_all(frames: impl IntoIterator<Item = Posted>) {
    let mut steps = Steps::new();
    frames.into_iter().for_each(|posted| steps.run(|| drop(posted)));
    steps.end();
}
