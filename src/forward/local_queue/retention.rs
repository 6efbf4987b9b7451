//! A retention: holds packets as a sender does until they are acknowledged, or an application that reads late.

use super::kept::{GoingHome, Kept};
use super::{LocalQueueCounters, Reader};
use crate::packet::CopyBreak;
use crate::stats::Count;
use crate::sync::Worker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much a retention keeps, and for how long; any one thread can change both at run time.
///
/// A frame goes when `packets` newer ones have come, when it and those newer take up more than the bytes, or when it is
/// older than the time.
#[derive(Debug)]
pub struct RetentionLimit {
    packets: Count,
    bytes: Count,
    nanoseconds: Count,
}

impl RetentionLimit {
    /// At most `packets` frames, each at most `time`, whatever memory they take up.
    pub fn new(packets: usize, time: Duration) -> RetentionLimit {
        let (packets_most, bytes, nanoseconds) = Default::default();
        let limit = RetentionLimit { packets: packets_most, bytes, nanoseconds };
        limit.set_packets(packets);
        limit.set_bytes(usize::MAX);
        limit.set_time(time);
        limit
    }

    /// Changes how many; what is more goes at the next turn.
    pub fn set_packets(&self, packets: usize) {
        self.packets.set(packets as u64);
    }

    /// Changes how many bytes of memory the frames may take up, each with its whole [size](crate::pool::Frame::size) however
    /// short its packet is (what Linux calls truesize, and charges to a socket's `SO_RCVBUF`); `usize::MAX` is no limit.
    pub fn set_bytes(&self, bytes: usize) {
        self.bytes.set(bytes as u64);
    }

    /// Changes how long.
    pub fn set_time(&self, time: Duration) {
        self.nanoseconds.set(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// How many.
    pub fn packets(&self) -> usize {
        self.packets.get() as usize
    }

    /// How many bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes.get() as usize
    }

    /// How long.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.get())
    }
}

/// Keeps the frames that a [`Reader`] gets, and frees them on its own worker.
#[derive(Debug)]
pub struct Retention {
    reader: Reader,
    limit: Arc<RetentionLimit>,
    /// Oldest first, each with when it came.
    kept: VecDeque<(Kept, Instant)>,
    /// Bytes of memory that they take up.
    bytes: usize,
    /// Of those that are kept, copies.
    copies: usize,
    /// What copies short packets out of their frames, where that is wanted.
    copy_break: Option<CopyBreak>,
}

impl Retention {
    /// A retention that takes over `reader`.
    pub fn new(reader: Reader, limit: Arc<RetentionLimit>) -> Retention {
        Retention { reader, limit, kept: VecDeque::new(), bytes: 0, copies: 0, copy_break: None }
    }

    /// Copies packets that come from now on out of frames that take up too much memory for them, so that many short ones, kept for long, do
    /// not hold the pool's frames. Where there is no memory for a copy the frame is kept.
    #[must_use]
    pub fn with_copy_break(mut self, copy_break: CopyBreak) -> Retention {
        self.copy_break = Some(copy_break);
        self
    }

    /// Takes what waits, then frees what is to be kept no longer; returns how many frames it took and freed.
    ///
    /// # Cost
    /// One look at the clock; frees in bulk.
    pub fn turn(&mut self, w: &mut Worker) -> usize {
        let now = Instant::now();
        let taken = self.take(now);
        self.condense(w, taken);
        let most = (self.limit.packets(), self.limit.bytes());
        taken + self.free(w, most, now.checked_sub(self.limit.time()))
    }

    /// Frees all that is kept and all that waits; returns how many frames.
    pub fn release(&mut self, w: &mut Worker) -> usize {
        self.take(Instant::now());
        self.free(w, (0, 0), None)
    }

    /// Takes what waits; returns how many frames.
    fn take(&mut self, now: Instant) -> usize {
        let Retention { reader, kept, bytes, .. } = self;
        let before = kept.len();
        let taken = reader.queue.recv_burst(usize::MAX, |queued| {
            *bytes += queued.size();
            kept.push_back((Kept::Frame(queued), now));
        });
        reader.took(kept.range(before..).filter_map(|(kept, _)| kept.id()));
        taken
    }

    /// Copies what is to be copied of the newest `n`.
    fn condense(&mut self, w: &mut Worker, n: usize) {
        let Retention { kept, copy_break: Some(copy_break), bytes, copies, .. } = self else { return };
        let mut home = GoingHome::new();
        for (newest, _) in kept.iter_mut().rev().take(n) {
            *bytes -= newest.size();
            newest.condense(copy_break, w, &mut home);
            *bytes += newest.size();
            *copies += usize::from(newest.is_copy());
        }
        home.send(w);
    }

    /// Frees the oldest frames until at most so many `packets` and `bytes` are kept, none of which came before `since`.
    fn free(&mut self, w: &mut Worker, (packets, bytes): (usize, usize), since: Option<Instant>) -> usize {
        let (mut freed, mut home) = (0, GoingHome::new());
        let late = |came: Instant| since.is_some_and(|since| came < since);
        while (self.kept.len() > packets
            || self.bytes > bytes
            || self.kept.front().is_some_and(|&(_, came)| late(came)))
            && let Some((oldest, _)) = self.kept.pop_front()
        {
            freed += 1;
            self.bytes -= oldest.size();
            self.copies -= usize::from(oldest.is_copy());
            oldest.free(self.copy_break.as_ref(), w, &mut home);
        }
        home.send(w);
        self.reader.counters.given.add(freed as u64);
        self.reader.counters.kept.set(self.kept.len() as u64);
        self.reader.counters.copies.set(self.copies as u64);
        self.reader.counters.kept_bytes.set(self.bytes as u64);
        freed
    }

    /// What it is told to keep.
    pub fn limit(&self) -> Arc<RetentionLimit> {
        Arc::clone(&self.limit)
    }

    /// The queue's counters.
    pub fn counters(&self) -> Arc<LocalQueueCounters> {
        self.reader.counters()
    }

    /// Frames that are kept.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Bytes of memory that the frames take up which are kept.
    pub fn kept_bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of the packets that are kept, oldest first.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().filter_map(|(kept, _)| kept.data())
    }
}

impl Drop for Retention {
    fn drop(&mut self) {
        self.reader.counters.kept.set(0);
        self.reader.counters.copies.set(0);
        self.reader.counters.kept_bytes.set(0);
    }
}
