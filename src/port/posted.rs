//! The posted frame: one that a device inside this process holds, and the rings it lies in.

use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, Origin, unposted_from_anywhere};
use crate::ring::{Receiver, Sender};
use crate::sync::Worker;
use std::mem::{ManuallyDrop, MaybeUninit};

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
        unposted_from_anywhere(std::slice::from_ref(&frame));
    }
}

/// A port's end of a ring into the device.
#[derive(Debug)]
pub(crate) struct IntoDevice {
    pub(crate) ring: Sender<Posted>,
}

impl IntoDevice {
    /// Posts the first `n` of `frames`, for which the ring has room.
    ///
    /// # Cost
    /// Eight bytes copied a frame, and the ring's index once; no look-up where the batch knows its pool.
    #[inline]
    pub(crate) fn post(&mut self, w: &Worker, frames: &mut Batch, n: usize, origin: &mut Origin) {
        origin.post(w, frames, n);
        let items = frames[..n].as_ptr().cast::<Posted>();
        // SAFETY: Posted is a transparent Frame. The claims of as many as are sent go into the ring, and the batch
        // gives them up in the same breath.
        unsafe {
            let sent = self.ring.send_copies(std::slice::from_raw_parts(items, n));
            frames.forget_front(sent);
        }
    }
}

/// A port's end of a ring out of the device.
#[derive(Debug)]
pub(crate) struct OutOfDevice {
    pub(crate) ring: Receiver<Posted>,
}

impl OutOfDevice {
    /// Claims the frames that are there, as many as `frames` has room for; returns how many.
    ///
    /// # Cost
    /// As [`IntoDevice::post`]; no look-up while all inside the device is of one pool.
    #[inline]
    pub(crate) fn claim(&mut self, w: &Worker, frames: &mut Batch, origin: &mut Origin) -> usize {
        let take = |places: &mut [MaybeUninit<Frame>]| {
            let (start, len) = (places.as_mut_ptr().cast::<MaybeUninit<Posted>>(), places.len());
            // SAFETY: Posted is a transparent Frame, so the places are places for either.
            self.ring.recv_copies(unsafe { std::slice::from_raw_parts_mut(start, len) })
        };
        // SAFETY: the ring initialises as many places as it says, with claims that were its own.
        let n = unsafe { frames.grow(take, origin) };
        self.ring.prefetch_ready(BATCH_MAX);
        origin.unpost(w, frames, n);
        n
    }
}
