//! A mirror: a reader gets every frame that was sent, and may keep claims on the frames (port mirroring).
//!
//! A frame belongs to the device until it is sent. Then it is shared with every mirror that has room, each claim
//! read-only. It is freed when the last claim is released, on any worker. The reader sees a rewritten
//! frame as it was sent. Without a mirror none of this costs anything.

use crate::pool::{Batch, SharedFrame};
use crate::ring::{Receiver, Sender, ring};
use crate::stats::Count;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The counters of a mirror, readable from any thread. `taken + missed` is the number of frames sent since the mirror
/// was added.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct MirrorCounters {
    /// Frames that the mirror got a claim on.
    pub taken: Count,
    /// Frames for which there was no room, or that were sent when the reader had gone.
    pub missed: Count,
    /// The reader is gone.
    gone: AtomicBool,
}

/// The forwarder's end of a mirror.
#[derive(Debug)]
pub struct Mirror {
    queue: Sender<SharedFrame>,
    counters: Arc<MirrorCounters>,
}

/// The reading end of a mirror. If it is dropped, it releases waiting claims, and the mirror gets nothing more.
#[derive(Debug)]
pub struct MirrorReader {
    queue: Receiver<SharedFrame>,
    counters: Arc<MirrorCounters>,
}

/// Makes a mirror whose queue has at least `frames` slots (rounded up to a power of two, at most 2^20).
#[cold]
pub fn mirror(frames: u32) -> (Mirror, MirrorReader) {
    let (sender, receiver) = ring(frames.min(1 << 20));
    let counters = Arc::new(MirrorCounters::default());
    let reader = MirrorReader { queue: receiver, counters: Arc::clone(&counters) };
    (Mirror { queue: sender, counters }, reader)
}

impl Mirror {
    /// The mirror's counters.
    pub fn counters(&self) -> Arc<MirrorCounters> {
        Arc::clone(&self.counters)
    }

    /// Clones as many of `frames` as there is room for. The others are missed.
    fn offer(&mut self, frames: &[SharedFrame]) {
        let most = if self.counters.gone.load(Relaxed) { 0 } else { frames.len() };
        let taken = self.queue.send_burst(most, &mut frames.iter().cloned());
        self.counters.taken.add(taken as u64);
        self.counters.missed.add((frames.len() - taken) as u64);
    }
}

/// Shares sent frames with the mirrors. Frames that no mirror took, or that were released again, are in `sent`
/// afterwards, to be freed.
///
/// # Cost
/// Two locked instructions for each frame and mirror. Allocates room for a batch.
#[cold]
#[inline(never)]
pub(super) fn offer_sent(mirrors: &mut [Mirror], sent: &mut Batch) {
    let shared: Vec<SharedFrame> = sent.drain().map(|frame| frame.share()).collect();
    mirrors.iter_mut().for_each(|mirror| mirror.offer(&shared));
    let unheld = shared.into_iter().filter_map(SharedFrame::release);
    // There is room: no more come back than came.
    unheld.for_each(|frame| drop(sent.push(frame)));
}

impl MirrorReader {
    /// Takes at most `want` claims, oldest first. Returns their number.
    pub fn read(&mut self, want: usize, take: impl FnMut(SharedFrame)) -> usize {
        self.queue.recv_burst(want, take)
    }

    /// The mirror's counters.
    pub fn counters(&self) -> Arc<MirrorCounters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for MirrorReader {
    fn drop(&mut self) {
        self.counters.gone.store(true, Relaxed);
        // Claims that are added during this call are released with the queue, at the latest when the forwarder's end is
        // dropped.
        self.queue.recv_burst(usize::MAX, drop);
    }
}
