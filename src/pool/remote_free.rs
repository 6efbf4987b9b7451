//! The remote free queue: frames that were freed elsewhere wait here for the pool's owner.
//!
//! A small ring takes a batch with one CAS. Frames that the ring has no room for go onto a stack, whose links lie in a
//! side array. A push is a CAS, and a swap takes the whole stack, so there is no ABA. Nothing blocks and nothing can
//! overflow, because every frame has its own link.
//!
//! Closing takes all frames and leaves both shut. Later frames are refused, and the thread that brought them counts
//! them down instead ([`Latch`]).

#[cfg(test)]
mod tests;

use crate::ring::Mpsc;
use crate::sync::shim::{AtomicU32, AtomicU64};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// There is no frame below. No chunk has this number.
const EMPTY: u32 = 0;
/// The first value of a [`Latch`].
const UNARMED: u64 = 1 << 63;
/// The stack takes nothing any more. No chunk has this number.
const SHUT: u32 = u32::MAX;

/// The side array of links: one for each chunk of the region.
#[derive(Clone, Copy)]
pub(crate) struct Links<'a> {
    pub(crate) next: &'a [AtomicU32],
    /// The chunk of the first link.
    pub(crate) first: u32,
}

impl Links<'_> {
    fn of(&self, id: u32) -> &AtomicU32 {
        &self.next[id.wrapping_sub(self.first) as usize]
    }
}

/// The ring and the stack.
#[derive(Debug)]
pub(crate) struct RemoteFree {
    ring: Mpsc,
    /// The frame that was pushed last, [`EMPTY`] or [`SHUT`].
    top: AtomicU32,
    /// The number of frames on the stack. Counted before they are pushed.
    stacked: AtomicU32,
    /// Frames that went to the stack so far.
    overflowed: AtomicU64,
}

impl RemoteFree {
    pub(crate) fn new(ring: u32) -> Self {
        RemoteFree {
            ring: Mpsc::new(ring, 0),
            top: AtomicU32::new(EMPTY),
            stacked: AtomicU32::new(0),
            overflowed: AtomicU64::new(0),
        }
    }

    /// Puts freed frames on the queue: those whose ids `id` makes from `frames`. Returns how many were refused because
    /// the queue is shut (the last ones of `frames`).
    ///
    /// Once a frame is pushed the pool may be gone: nothing of the pool is touched after the last one.
    #[inline]
    pub(crate) fn push<S>(&self, links: Links<'_>, frames: &[S], id: impl Fn(&S) -> u32) -> usize {
        let n = self.ring.push(frames, &id);
        if n == frames.len() { 0 } else { self.stack(links, frames[n..].iter().map(id)) }
    }

    #[cold]
    fn stack(&self, links: Links<'_>, mut ids: impl ExactSizeIterator<Item = u32>) -> usize {
        let n = ids.len();
        let Some(last) = ids.next() else { return 0 };
        let top = ids.fold(last, |below, id| {
            links.of(id).store(below, Relaxed);
            id
        });
        self.stacked.fetch_add(n as u32, Relaxed);
        self.overflowed.fetch_add(n as u64, Relaxed);
        let mut below = self.top.load(Relaxed);
        loop {
            if below == SHUT {
                self.stacked.fetch_sub(n as u32, Relaxed);
                self.overflowed.fetch_sub(n as u64, Relaxed);
                return n;
            }
            links.of(last).store(below, Relaxed);
            // AcqRel: the Release pairs with the Acquire of the swap in `pop_stack`, for the links and for everything
            // that the frame's holder did; the Acquire keeps that chain whole for the frames below.
            match self.top.compare_exchange_weak(below, top, AcqRel, Relaxed) {
                Ok(_) => return 0,
                Err(now) => below = now,
            }
        }
    }

    /// Takes up to `want` frames from the ring, up to four at a time. `take` does not panic and does not use the
    /// queue. Only for the thread that is inside the pool's slot.
    #[inline]
    pub(crate) fn pop_ring(&self, want: usize, mut take: impl FnMut(&[u32])) -> usize {
        self.ring.pop_fours(want, |_, ids| take(ids))
    }

    /// Takes everything on the stack. Only for the thread that is inside the pool's slot.
    pub(crate) fn pop_stack(&self, links: Links<'_>, take: impl FnMut(u32)) -> usize {
        if self.top.load(Relaxed) == EMPTY {
            return 0;
        }
        // AcqRel: the Acquire pairs with the Release in `stack`.
        let top = self.top.swap(EMPTY, AcqRel);
        self.unlink(links, top, take)
    }

    fn unlink(&self, links: Links<'_>, mut top: u32, mut take: impl FnMut(u32)) -> usize {
        let mut n = 0;
        while top != EMPTY {
            let below = links.of(top).load(Relaxed);
            take(top);
            top = below;
            n += 1;
        }
        self.stacked.fetch_sub(n as u32, Relaxed);
        n
    }

    /// Calls `look` for each frame on the queue, for none once it is shut. Only for the thread that is inside the
    /// pool's slot, and not while another thread closes the queue: the links of frames that leave belong to their next
    /// pool.
    #[cold]
    pub(crate) fn each(&self, links: Links<'_>, mut look: impl FnMut(u32)) {
        // Acquire: pairs with the Release in `stack`, for the links.
        let mut id = self.top.load(Acquire);
        if id == SHUT {
            return;
        }
        self.ring.each(&mut look);
        while id != EMPTY {
            look(id);
            id = links.of(id).load(Relaxed);
        }
    }

    /// The number of frames on the queue, 0 once it is shut. A reading from another thread may be a moment old.
    pub(crate) fn len(&self) -> u64 {
        if self.top.load(Relaxed) == SHUT {
            return 0;
        }
        u64::from(self.ring.len()) + u64::from(self.stacked.load(Relaxed))
    }

    /// Frames that found the ring full so far.
    pub(crate) fn overflowed(&self) -> u64 {
        self.overflowed.load(Relaxed)
    }

    /// Shuts the queue and takes all frames on it.
    #[cold]
    pub(crate) fn close(&self, links: Links<'_>, mut take: impl FnMut(u32)) {
        self.ring.close(&mut take);
        // AcqRel: as in `pop_stack`.
        let top = self.top.swap(SHUT, AcqRel);
        if top != SHUT {
            self.unlink(links, top, take);
        }
    }
}

/// Counts the frames that are freed after the queue was shut. Exactly one caller is told that its frame was the last.
///
/// The count starts far above any number of frames, and late frames decrement it. When the number of frames that were
/// out at closing is known, the count is once set to those of them that are still out. It reaches 0 exactly when the
/// last of them is freed, and never before.
#[derive(Debug)]
pub(crate) struct Latch(AtomicU64);

impl Latch {
    pub(crate) fn new() -> Self {
        Latch(AtomicU64::new(UNARMED))
    }

    /// Sets how many frames are out. Returns true if all of them have come already.
    pub(crate) fn arm(&self, out: u64) -> bool {
        // AcqRel: the Acquire pairs with the Release of each late `down`.
        let change = out.wrapping_sub(UNARMED);
        self.0.fetch_add(change, AcqRel).wrapping_add(change) == 0
    }

    /// Counts `n` freed frames. Returns true for the caller that brings the last one.
    pub(crate) fn down(&self, n: u64) -> bool {
        // AcqRel: Release for what this thread did with its frames; Acquire for the last thread, which gives the memory
        // back after all of it.
        self.0.fetch_sub(n, AcqRel) == n
    }

    /// The number of frames still out. It is larger than any possible number while the number is not known.
    pub(crate) fn out(&self) -> u64 {
        // Acquire: a thread that waits for 0 sees everything that the holders did.
        self.0.load(Acquire)
    }

    /// The number of frames still out, if it is known: from [`Latch::arm`] on.
    pub(crate) fn known(&self) -> Option<u64> {
        // Before it is known, late frames bring the count down by far less than half.
        Some(self.out()).filter(|&out| out < UNARMED / 2)
    }
}
