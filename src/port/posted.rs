//! The posted frame: one that a device inside this process holds, and the ring it lies in.

use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, HandOver, NoRoom, Origin, Place, Pool};
use crate::ring::Lender;
use crate::sync::Worker;
#[cfg(feature = "memif")]
use std::collections::VecDeque;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::num::NonZeroU32;
use std::slice;

/// A frame that a device has: the pool's ledger counts it as posted, and the program gets it back by [`Batch::claim`].
///
/// A port whose device lies in this process, or that keeps its frames beside the descriptors of a ring, holds values of this
/// type. They are made by [`Batch::post`] and can be moved anywhere, also to another thread or from one port to another.
/// Dropped (a ring torn down with frames inside) a posted frame is counted back and goes home.
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
/// assert!(pool.ledger().all_home());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
/// It is no frame, so that no other can be put in its place:
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

    /// What the device reads and writes.
    #[inline(always)]
    pub(crate) fn frame(&mut self) -> &mut Frame {
        &mut self.0
    }

    /// The number of the frame's first chunk, which no other frame has.
    #[inline(always)]
    pub fn id(&self) -> NonZeroU32 {
        self.0.id()
    }

    /// Bytes of data.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no data.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The data, as a device reads it that sends it.
    #[inline(always)]
    pub fn data(&self) -> &[u8] {
        self.0.data()
    }

    /// All bytes from the data's start to the frame's end, for a device that receives into them; the data is as long until
    /// [`Posted::set_len`] says how much was received.
    ///
    /// They hold what an earlier use of the frame left there: say no more than was written.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        // As much as there is cannot be too much.
        let rest = self.0.tailroom();
        let _ = self.0.put(rest);
        self.0.data_mut()
    }

    /// Makes the data `len` bytes long, from where it begins.
    ///
    /// # Errors
    /// [`NoRoom`] when the frame ends before that; nothing has changed then.
    #[inline]
    pub fn set_len(&mut self, len: usize) -> Result<(), NoRoom> {
        let now = self.0.len();
        if len <= now { self.0.trim(len) } else { self.0.put(len - now).map(drop) }
    }

    /// Where the pool's device finds the data, as [`Pool::device_address`] says it of a frame: what a port writes into its device's
    /// descriptor.
    #[inline]
    pub fn device_address(&self, pool: &Pool) -> Option<u64> {
        pool.device_address(&self.0)
    }

    /// The frame, which is the program's again where the caller counts it so.
    #[inline(always)]
    fn into_frame(self) -> Frame {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the Posted is not dropped, so the frame is taken once.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl Batch {
    /// Posts the first `n` frames (fewer if there are fewer): gives each as a [`Posted`], counted in its pool's ledger. Those
    /// that are not taken out of the iterator stay in the batch.
    ///
    /// # Cost
    /// Two additions for a run of frames of one pool; no look-up where the batch knows its pool.
    #[inline]
    pub fn post<'a>(&'a mut self, w: &'a Worker, n: usize) -> Posting<'a> {
        Place::Posted.enter_batch(w, self, n.min(self.len()));
        Posting { handed: self.hand_over(Place::Posted, w, n), w }
    }

    /// Appends frames that a device has given back, while there is room for them; returns how many. They are the program's
    /// again. What is not taken stays with the iterator.
    ///
    /// # Cost
    /// As [`Batch::post`], and a look-up of each frame's pool: a byte in a table.
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
        Place::Posted.leave(Some(self.w), self.handed.as_slice());
    }
}

/// Frames that come back, counted when all have come or the iterator that gives them panics.
struct Claiming<'a> {
    frames: &'a mut Batch,
    w: &'a Worker,
    before: usize,
    claimed: usize,
}

impl Drop for Claiming<'_> {
    #[inline]
    fn drop(&mut self) {
        self.frames.taken_back(Place::Posted, self.w, self.before);
        Place::Posted.leave_last(self.w, self.frames, self.claimed);
    }
}

impl Drop for Posted {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: this is the end of the Posted: the frame is taken once.
        let frame = unsafe { ManuallyDrop::take(&mut self.0) };
        Place::Posted.leave(None, slice::from_ref(&frame));
        Place::Posted.take_back(None, slice::from_ref(&frame));
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
        Descriptors { ring, inside: Origin::new(Place::Posted) }
    }

    /// Frames posted and not claimed again.
    pub(crate) fn inside(&self) -> usize {
        self.inside.inside()
    }

    /// Frames there is room for, at most `want`.
    #[inline]
    pub(crate) fn room(&mut self, want: usize) -> usize {
        self.ring.room(want)
    }

    /// Posts the first `n` of `frames`, for which there is room.
    ///
    /// # Cost
    /// Eight bytes copied a frame, and the ring's index once; no look-up where the batch knows its pool.
    #[inline]
    pub(crate) fn post(&mut self, w: &Worker, frames: &mut Batch, n: usize) {
        self.inside.enter(w, frames, n);
        let mut handed = frames.hand_over(Place::Posted, w, n);
        let items = handed.as_slice();
        // SAFETY: Posted is a transparent Frame. The claims of as many as are lent go into the ring, and the batch
        // gives them up in the same breath.
        unsafe {
            let lent = self.ring.lend(slice::from_raw_parts(items.as_ptr().cast::<Posted>(), items.len()));
            handed.forget(lent);
        }
    }

    /// Claims the frames that came back, as many as `frames` has room for; returns how many.
    ///
    /// # Cost
    /// As [`Descriptors::post`]; no look-up while all inside the device is of one pool.
    #[inline]
    pub(crate) fn claim(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        let take = |places: &mut [MaybeUninit<Frame>]| {
            let (start, len) = (places.as_mut_ptr().cast::<MaybeUninit<Posted>>(), places.len());
            // SAFETY: Posted is a transparent Frame, so the places are places for either.
            self.ring.reclaim(unsafe { slice::from_raw_parts_mut(start, len) })
        };
        // SAFETY: the ring initialises as many places as it says, with claims that were its own.
        let n = unsafe { frames.grow(take, &self.inside) };
        self.ring.prefetch_returned(BATCH_MAX);
        frames.taken_back(Place::Posted, w, before);
        self.inside.leave(w, frames, n);
        n
    }

    /// Whether a frame has come back that is not claimed yet.
    pub(crate) fn has_returned(&mut self) -> bool {
        self.ring.has_returned()
    }

    /// Asks for the lines of the next `n` descriptors to post, which the device read last.
    #[inline]
    pub(crate) fn prefetch_room(&self, n: usize) {
        self.ring.prefetch_room(n);
    }

    /// Asks for the first lines of the next `n` frames to claim, to be written.
    #[inline]
    pub(crate) fn prefetch_frames(&self, n: usize) {
        self.ring.returned(n).for_each(|posted| posted.0.prefetch_write());
    }
}

/// Posted frames in order, kept beside a device that says of them only how many are done.
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
        PostedQueue { frames, capacity, inside: Origin::new(Place::Posted) }
    }

    /// Frames posted and not claimed again.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Frames there is room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.capacity - self.frames.len()
    }

    /// Posts the first `n` of `frames`, for which there is room.
    #[inline]
    pub(crate) fn post(&mut self, w: &Worker, frames: &mut Batch, n: usize) {
        self.inside.enter(w, frames, n);
        let handed = frames.hand_over(Place::Posted, w, n);
        self.frames.extend(handed.map(Posted::new));
    }

    /// The `i`-th oldest frame, to be written by who plays the device.
    #[inline]
    pub(crate) fn frame(&mut self, i: usize) -> Option<&mut Frame> {
        self.frames.get_mut(i).map(Posted::frame)
    }

    /// Claims the oldest `n` frames, as many as there are and `frames` has room for; returns how many.
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
        // SAFETY: as many places are initialised as it says, with claims that were the queue's own.
        let n = unsafe { frames.grow(take, &self.inside) };
        frames.taken_back(Place::Posted, w, before);
        self.inside.leave(w, frames, n);
        n
    }

    /// Keeps the oldest `n` frames, and sends the others home.
    #[cold]
    pub(crate) fn truncate(&mut self, n: usize) {
        self.inside.lose(self.frames.len().saturating_sub(n));
        self.frames.truncate(n);
    }

    /// Sends all frames home.
    #[cold]
    pub(crate) fn clear(&mut self) -> usize {
        let n = self.frames.len();
        self.frames.clear();
        self.inside = Origin::new(Place::Posted);
        n
    }
}
