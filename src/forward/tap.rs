//! A tap: it sees every frame that was sent, and may hold claims on frames.
//!
//! A frame belongs to the device until it is sent. Then it is shared with every tap that has room, each claim
//! read-only. It is freed when the last claim is released, on any worker. A rewritten frame is seen as it was sent.
//! Without a tap none of this costs anything.

use crate::pool::{Batch, SharedFrame};
use crate::ring::{Receiver, Sender, ring};
use crate::stats::Count;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The counters of a tap, readable from any thread. `taken + missed` is the number of frames sent since the tap was
/// added.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct TapCounters {
    /// Frames that the tap got a claim on.
    pub taken: Count,
    /// Frames for which there was no room, or that were sent when the reader had gone.
    pub missed: Count,
    /// The reader is gone.
    gone: AtomicBool,
}

/// The forwarder's end of a tap.
#[derive(Debug)]
pub struct Tap {
    queue: Sender<SharedFrame>,
    counters: Arc<TapCounters>,
}

/// The reading end of a tap. If it is dropped, it releases waiting claims, and the tap gets nothing more.
#[derive(Debug)]
pub struct TapReader {
    queue: Receiver<SharedFrame>,
    counters: Arc<TapCounters>,
}

/// Makes a tap whose queue has at least `frames` slots (rounded up to a power of two, at most 2^20).
#[cold]
pub fn tap(frames: u32) -> (Tap, TapReader) {
    let (sender, receiver) = ring(frames.min(1 << 20));
    let counters = Arc::new(TapCounters::default());
    let reader = TapReader { queue: receiver, counters: Arc::clone(&counters) };
    (Tap { queue: sender, counters }, reader)
}

impl Tap {
    /// The tap's counters.
    pub fn counters(&self) -> Arc<TapCounters> {
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

/// Shares sent frames with the taps. Frames that no tap took, or that were released again, are in `sent` afterwards, to
/// be freed.
///
/// # Cost
/// Two locked instructions for each frame and tap. Allocates room for a batch.
#[cold]
#[inline(never)]
pub(super) fn offer_sent(taps: &mut [Tap], sent: &mut Batch) {
    let shared: Vec<SharedFrame> = sent.drain().map(|frame| frame.share()).collect();
    taps.iter_mut().for_each(|tap| tap.offer(&shared));
    let unheld = shared.into_iter().filter_map(SharedFrame::release);
    // There is room: no more come back than came.
    unheld.for_each(|frame| drop(sent.push(frame)));
}

impl TapReader {
    /// Takes at most `want` claims, oldest first. Returns their number.
    pub fn read(&mut self, want: usize, take: impl FnMut(SharedFrame)) -> usize {
        self.queue.recv_burst(want, take)
    }

    /// The tap's counters.
    pub fn counters(&self) -> Arc<TapCounters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for TapReader {
    fn drop(&mut self) {
        self.counters.gone.store(true, Relaxed);
        // Claims that are added during this call are released with the queue, at the latest when the forwarder's end is
        // dropped.
        self.queue.recv_burst(usize::MAX, drop);
    }
}
