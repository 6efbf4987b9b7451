//! The posted frame: one that a device inside this process holds, and the ring it lies in.

use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, Origin, Place};
use crate::ring::Lender;
use crate::sync::Worker;
use std::collections::VecDeque;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::slice;

/// A frame between being posted and coming back, counted as posted in its pool's ledger.
///
/// Dropped (a ring torn down with frames inside) it is counted back and goes home.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Posted(ManuallyDrop<Frame>);

const _: () = assert!(size_of::<Posted>() == size_of::<Frame>());

impl Posted {
    /// What the device reads and writes.
    #[inline(always)]
    pub(crate) fn frame(&mut self) -> &mut Frame {
        &mut self.0
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

/// A port's side of one of the device's descriptor rings, and which pools the frames inside it are of.
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
#[derive(Debug)]
pub(crate) struct PostedQueue {
    /// Oldest first; never more than `capacity`, for which there is room.
    frames: VecDeque<Posted>,
    capacity: usize,
    inside: Origin,
}

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
        self.frames.extend(handed.map(|frame| Posted(ManuallyDrop::new(frame))));
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
                let mut posted = ManuallyDrop::new(posted);
                // SAFETY: the Posted is not dropped, so the frame is taken once.
                place.write(unsafe { ManuallyDrop::take(&mut posted.0) });
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
