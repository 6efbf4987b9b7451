//! A mirror: a reader gets every frame that was sent, and may keep claims on the frames (port mirroring).
//!
//! A frame belongs to the device until it is sent. Then it is shared with every mirror that has room, each claim
//! read-only. It is freed when the last claim is released, on any worker. The reader sees a rewritten
//! frame as it was sent. Without a mirror none of this costs anything.
//!
//! A round's frames come in the order in which the forwarder gave them to its ports, whichever ports these are. A frame
//! that its device gives back late comes in a later round. Only sent frames come, and no dropped ones: a [recorder]
//! keeps received packets with their verdicts. A claim tells neither the port nor the direction.
//!
//! [recorder]: super::recorder

use super::free::Free;
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, SharedFrame};
use crate::ring::{Receiver, Sender, ring};
use crate::stats::Count;
use crate::sync::Worker;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The counters of a mirror, readable from any thread. `taken + missed` is the number of frames given to
/// ports since the mirror was added, and sent.
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

/// A frame when it was given to a port.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// The number of frames given before it.
    number: u64,
    off: usize,
    len: usize,
}

/// The mirrors of a forwarder, and the frames that they will get.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    mirrors: Vec<Mirror>,
    /// Frames that a port may have, by their numbers: a port need not give a frame back with its length, and an `xdp`
    /// port gives it back empty.
    given: HashMap<NonZeroU32, Given>,
    /// Number of frames given to ports.
    count: u64,
    /// Frames that were sent since the last offer, each with the number of frames given before it.
    sent: Vec<(u64, Frame)>,
}

impl Mirrors {
    pub(super) fn add(&mut self, mirror: Mirror) {
        self.mirrors.push(mirror);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.mirrors.is_empty()
    }

    /// Notes frames that a port is about to be given. Those that it does not take are noted again next time.
    #[cold]
    #[inline(never)]
    pub(super) fn note(&mut self, frames: &Batch) {
        for frame in frames.iter() {
            self.given.insert(frame.id(), Given { number: self.count, off: frame.off(), len: frame.len() });
            self.count += 1;
        }
    }

    /// Takes sent frames for the next offer. Frames that the port got before there was a mirror stay.
    pub(super) fn take(&mut self, sent: &mut Batch) {
        let known = sent.extract(|frame| self.given.contains_key(&frame.id()));
        for mut frame in known {
            if let Some(given) = self.given.remove(&frame.id()) {
                if (frame.off(), frame.len()) != (given.off, given.len) {
                    // It is the same frame, which had these bytes.
                    let _ = frame.restore(given.off, given.len);
                }
                self.sent.push((given.number, frame));
            }
        }
    }

    /// Shares the sent frames with the mirrors, and frees those that no mirror took, or that were released again.
    ///
    /// # Cost
    /// Two locked instructions for each frame and mirror. Allocates room for a batch.
    #[cold]
    #[inline(never)]
    pub(super) fn offer(&mut self, free: Free, w: &mut Worker) {
        self.sent.sort_unstable_by_key(|(number, _)| *number);
        let mut unheld = Batch::new();
        while !self.sent.is_empty() {
            let burst = self.sent.drain(..self.sent.len().min(BATCH_MAX));
            let shared: Vec<SharedFrame> = burst.map(|(_, frame)| frame.share()).collect();
            self.mirrors.iter_mut().for_each(|mirror| mirror.offer(&shared));
            // There is room: no more come back than were shared.
            shared.into_iter().filter_map(SharedFrame::release).for_each(|frame| drop(unheld.push(frame)));
            free.batch(&mut unheld, w);
        }
    }
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
