//! A retention: it holds packets as a sender does until they are acknowledged, or as an application that reads late.

use super::kept::{Kept, ToFree};
use super::{LocalQueueCounters, Reader};
use crate::packet::CopyBreak;
use crate::stats::Count;
use crate::sync::Worker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much a retention keeps, and for how long. Any single thread can change both at run time.
///
/// A frame is freed when `packets` newer ones have come, when it and the newer ones occupy more than the bytes, or when
/// it is older than the time.
#[derive(Debug)]
pub struct RetentionLimit {
    packets: Count,
    bytes: Count,
    nanoseconds: Count,
}

impl RetentionLimit {
    /// Sets the limit to at most `packets` frames, each for at most `time`, whatever memory they occupy.
    pub fn new(packets: usize, time: Duration) -> RetentionLimit {
        let (packets_most, bytes, nanoseconds) = Default::default();
        let limit = RetentionLimit { packets: packets_most, bytes, nanoseconds };
        limit.set_packets(packets);
        limit.set_bytes(usize::MAX);
        limit.set_time(time);
        limit
    }

    /// Changes the number. Excess frames are freed at the next turn.
    pub fn set_packets(&self, packets: usize) {
        self.packets.set(packets as u64);
    }

    /// Changes the maximum number of bytes of memory that the frames may occupy. Each frame counts with its whole
    /// [size](crate::pool::Frame::size), however short its packet is (Linux calls this truesize, and charges it to a
    /// socket's `SO_RCVBUF`). `usize::MAX` is no limit.
    pub fn set_bytes(&self, bytes: usize) {
        self.bytes.set(bytes as u64);
    }

    /// Changes the time.
    pub fn set_time(&self, time: Duration) {
        self.nanoseconds.set(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Maximum number of packets.
    pub fn packets(&self) -> usize {
        self.packets.get() as usize
    }

    /// Maximum number of bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes.get() as usize
    }

    /// Maximum time.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.get())
    }
}

/// Keeps the frames that a [`Reader`] gets, and frees them on its own worker.
#[derive(Debug)]
pub struct Retention {
    reader: Reader,
    limit: Arc<RetentionLimit>,
    /// Oldest first, each with the time when it came.
    kept: VecDeque<(Kept, Instant)>,
    /// Bytes of memory that they occupy.
    bytes: usize,
    /// Number of kept packets that are copies.
    copies: usize,
    /// Copies short packets out of their frames, if set.
    copy_break: Option<CopyBreak>,
}

impl Retention {
    /// Makes a retention that takes over `reader`.
    pub fn new(reader: Reader, limit: Arc<RetentionLimit>) -> Retention {
        Retention { reader, limit, kept: VecDeque::new(), bytes: 0, copies: 0, copy_break: None }
    }

    /// From now on copies packets out of frames that occupy too much memory for them. So many short packets that are
    /// kept for long do not hold the pool's frames. If there is no memory for a copy, the frame is kept.
    #[must_use]
    pub fn with_copy_break(mut self, copy_break: CopyBreak) -> Retention {
        self.copy_break = Some(copy_break);
        self
    }

    /// Takes waiting frames, then frees frames that must no longer be kept. Returns how many frames it took and freed.
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

    /// Frees all kept and all waiting frames. Returns their number.
    pub fn release(&mut self, w: &mut Worker) -> usize {
        self.take(Instant::now());
        self.free(w, (0, 0), None)
    }

    /// Takes waiting frames. Returns their number.
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

    /// Copies those of the newest `n` that must be copied.
    fn condense(&mut self, w: &mut Worker, n: usize) {
        let Retention { kept, copy_break: Some(copy_break), bytes, copies, .. } = self else { return };
        let mut to_free = ToFree::new();
        for (newest, _) in kept.iter_mut().rev().take(n) {
            *bytes -= newest.size();
            newest.condense(copy_break, w, &mut to_free);
            *bytes += newest.size();
            *copies += usize::from(newest.is_copy());
        }
        to_free.send(w);
    }

    /// Frees the oldest frames until at most that many `packets` and `bytes` are kept, none of which came before
    /// `since`.
    fn free(&mut self, w: &mut Worker, (packets, bytes): (usize, usize), since: Option<Instant>) -> usize {
        let (mut freed, mut to_free) = (0, ToFree::new());
        let late = |came: Instant| since.is_some_and(|since| came < since);
        while (self.kept.len() > packets
            || self.bytes > bytes
            || self.kept.front().is_some_and(|&(_, came)| late(came)))
            && let Some((oldest, _)) = self.kept.pop_front()
        {
            freed += 1;
            self.bytes -= oldest.size();
            self.copies -= usize::from(oldest.is_copy());
            oldest.free(self.copy_break.as_ref(), w, &mut to_free);
        }
        to_free.send(w);
        self.reader.counters.given.add(freed as u64);
        self.reader.counters.kept.set(self.kept.len() as u64);
        self.reader.counters.copies.set(self.copies as u64);
        self.reader.counters.kept_bytes.set(self.bytes as u64);
        freed
    }

    /// The limit.
    pub fn limit(&self) -> Arc<RetentionLimit> {
        Arc::clone(&self.limit)
    }

    /// The queue's counters.
    pub fn counters(&self) -> Arc<LocalQueueCounters> {
        self.reader.counters()
    }

    /// Number of kept frames.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Bytes of memory that the kept frames occupy.
    pub fn kept_bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of the kept packets, oldest first.
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
