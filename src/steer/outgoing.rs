//! What is listed for one worker during a poll round, and sent at its end.

use super::counters::LaneCounts;
use super::label::{Barrier, Source};
use super::lane::{GONE, LaneSender};
use super::limit::FlowLimit;
use super::mesh::Mesh;
use super::toeplitz::Toeplitz;
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Drain, LINE_MAX, Line, Place};
use crate::stats::Count;
use crate::sync::Worker;
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// Lines that are listed at most: as many frames as a batch, each from another place.
const LINES_MAX: usize = BATCH_MAX;

/// The list for one worker and the lane it goes into.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) lane: LaneSender<Line>,
    counts: Arc<CachePadded<LaneCounts>>,
    /// Not yet sent; the frames count as the program's.
    lines: Vec<Line>,
    /// As much room again, for a list that flows are dropped from.
    spare: Vec<Line>,
    /// Frames in `lines`.
    listed: u32,
    /// When the list began; kept only where lists may linger.
    pub(super) since: u64,
    limit: Option<FlowLimit>,
}

impl Outgoing {
    pub(super) fn new(
        lane: LaneSender<Line>,
        counts: Arc<CachePadded<LaneCounts>>,
        limit: Option<FlowLimit>,
    ) -> Outgoing {
        let [lines, spare] = [(); 2].map(|()| Vec::with_capacity(LINES_MAX));
        Outgoing { lane, counts, lines, spare, listed: 0, since: 0, limit }
    }

    /// Frames that are listed.
    #[inline]
    pub(super) fn listed(&self) -> usize {
        self.listed as usize
    }

    /// The position behind the last frame listed, if none of them is dropped.
    #[inline]
    pub(super) fn position(&self) -> u32 {
        self.lane.sent().wrapping_add(self.listed)
    }

    /// Looks up how far the reader is, for [`Outgoing::load`] and [`Outgoing::has_finished`].
    #[inline]
    pub(super) fn look(&mut self) {
        self.lane.backlog();
    }

    /// Whether all frames before `position` are finished, as last looked up, or never will be; `ahead` of them are to be
    /// listed yet.
    #[inline]
    pub(super) fn has_finished(&self, position: u32, ahead: u32) -> bool {
        // Where frames were dropped the last ones never come to their positions: an empty lane is finished all the same.
        let is_empty = ahead == 0 && self.load() == 0;
        self.lane.has_finished_seen(position) || is_empty || self.lane.progress().reader() == GONE
    }

    /// Whether nothing listed or sent is unfinished, or nobody reads it.
    #[inline]
    pub(super) fn is_drained(&mut self) -> bool {
        self.listed == 0 && self.lane.is_drained()
    }

    /// Frames that wait or are in work, as last looked up, and those that are listed.
    #[inline]
    pub(super) fn load(&self) -> u32 {
        self.lane.backlog_seen() + self.listed
    }

    /// Moves the next `n` frames of `frames` onto the list; false if it is full before that.
    #[inline]
    pub(super) fn list(&mut self, frames: &mut Drain, mut n: usize, source: Source) -> bool {
        while n > 0 {
            let open = |line: &&mut Line| line.room() > 0 && line.word == source.word();
            let full = self.lines.len() == LINES_MAX;
            let Some(line) = self.lines.last_mut().filter(open) else {
                if full {
                    return false;
                }
                self.lines.push(Line::new(source.word()));
                continue;
            };
            let moved = frames.move_to_line(line, n.min(LINE_MAX));
            self.listed += moved as u32;
            n -= moved;
        }
        true
    }

    /// Sends the list and wakes who reads it; what does not fit is dropped, counted and freed in bulk.
    #[inline]
    pub(super) fn flush(&mut self, w: &mut Worker, mesh: &Mesh, hash: &Toeplitz) {
        if self.lane.progress().reader() == GONE {
            return self.drop_listed(w, |counts| &counts.gone);
        }
        let half = self.lane.limit() / 2;
        if self.limit.is_some() && self.load() > half && self.lane.backlog() + self.listed > half {
            self.limit_flows(w, hash);
        }
        let (n, units) = self.lane.fit(&self.lines, self.listed);
        if n > 0 {
            Line::enter(&mut self.lines[..n], Place::Queued, w);
            self.lane.send(n, units, &mut self.lines.drain(..n));
            self.listed -= units;
            self.counts.sent.add(u64::from(units));
            if mesh.wake(self.lane.progress()) {
                self.counts.wakeups.add(1);
            }
        }
        if !self.lines.is_empty() {
            self.drop_listed(w, |counts| &counts.full);
        }
    }

    /// Frees what is listed and counts it as dropped for `cause`.
    #[cold]
    #[inline(never)]
    fn drop_listed(&mut self, w: &mut Worker, cause: fn(&LaneCounts) -> &Count) {
        let mut batch = Batch::new();
        for line in self.lines.drain(..) {
            if batch.room() < line.len() {
                batch.free(w);
            }
            line.unload(&mut batch);
        }
        batch.free(w);
        cause(&self.counts).add(u64::from(std::mem::take(&mut self.listed)));
    }

    /// Drops frames of flows that have more than their share. The inbox is more than half full: there is time.
    #[cold]
    #[inline(never)]
    fn limit_flows(&mut self, w: &mut Worker, hash: &Toeplitz) {
        let Some(mut limit) = self.limit.take() else { return };
        let mut listed = std::mem::take(&mut self.spare);
        std::mem::swap(&mut self.lines, &mut listed);
        let (mut dropped, mut frames) = (Batch::new(), Batch::new());
        let before = std::mem::take(&mut self.listed);
        for line in listed.drain(..) {
            let source = Source::of(line.word);
            line.unload(&mut frames);
            let mut admitted = [false; LINE_MAX];
            for (admitted, frame) in admitted.iter_mut().zip(frames.iter()) {
                *admitted = limit.admits(hash.flow(frame.data(), source.queue));
            }
            if dropped.room() < frames.len() {
                dropped.free(w);
            }
            let mut drain = frames.drain();
            for admitted in admitted.into_iter().take(drain.len()) {
                if admitted {
                    // There is room: the list grows by no line.
                    self.list(&mut drain, 1, source);
                } else {
                    drain.move_to(&mut dropped, 1);
                }
            }
        }
        dropped.free(w);
        self.counts.flow_limit.add(u64::from(before - self.listed));
        (self.limit, self.spare) = (Some(limit), listed);
    }

    /// Places a barrier behind all that was sent: what follows waits for the lane to `worker` to be finished up to
    /// `position`. There is room, and nothing is listed.
    #[cold]
    pub(super) fn send_barrier(&mut self, worker: u8, position: u32) {
        let line = Barrier { worker, position }.line();
        self.lane.send(1, 1, &mut std::iter::once(line));
    }
}
