//! The frames listed for one worker during a poll round, and sent at its end.

use super::counters::LaneCounts;
use super::label::{Barrier, Source};
use super::lane::{GONE, LaneSender};
use super::limit::FlowLimit;
use super::mesh::Mesh;
use super::toeplitz::Toeplitz;
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Drain, FrameState, LINE_MAX, Line};
use crate::sync::Worker;
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// The list for one worker and the lane it goes into.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) lane: LaneSender<Line>,
    counts: Arc<CachePadded<LaneCounts>>,
    /// Frames not yet sent; they count as owned by the program.
    list: Batch,
    /// The runs of frames in the list that were received at one place. Neighbours differ, none is empty, and together
    /// they are the list.
    runs: Vec<Run>,
    /// The time when the list began; kept only if lists may linger.
    pub(super) since: u64,
    limit: Option<FlowLimit>,
}

/// Consecutive frames that were received at one place and listed by the same source.
#[derive(Debug)]
struct Run {
    source: Source,
    by: By,
    frames: usize,
}

/// The source that listed a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The policy; the flow limit, if there is one, is a part of it.
    Policy,
    /// The caller, whose frames are not limited.
    Caller,
}

impl Outgoing {
    pub(super) fn new(
        lane: LaneSender<Line>,
        counts: Arc<CachePadded<LaneCounts>>,
        limit: Option<FlowLimit>,
    ) -> Outgoing {
        Outgoing { lane, counts, list: Batch::new(), runs: Vec::with_capacity(BATCH_MAX), since: 0, limit }
    }

    /// Number of listed frames.
    #[inline]
    pub(super) fn listed(&self) -> usize {
        self.list.len()
    }

    /// The position behind the last listed frame, if none of them is dropped.
    #[inline]
    pub(super) fn position(&self) -> u32 {
        self.lane.sent().wrapping_add(self.list.len() as u32)
    }

    /// Looks up the reader's progress, for [`Outgoing::load`] and [`Outgoing::has_finished`].
    #[inline]
    pub(super) fn look(&mut self) {
        self.lane.backlog();
    }

    /// Returns whether a worker reads the lane. If not, frames that were sent while it left are freed.
    #[inline]
    pub(super) fn is_read(&mut self) -> bool {
        let is_read = self.lane.progress().reader() != GONE;
        if !is_read {
            self.lane.abandon();
        }
        is_read
    }

    /// Returns whether all frames before `position` are finished, as last looked up, or never will be. `ahead` of them
    /// are still to be listed.
    #[inline]
    pub(super) fn has_finished(&self, position: u32, ahead: u32) -> bool {
        // If frames were dropped, the last ones never reach their positions. An empty lane is finished all the same,
        // and so is one that no worker reads. Frames ahead may stay with the caller, and those behind them must not go
        // elsewhere.
        let is_over = || self.load() == 0 || self.lane.progress().reader() == GONE;
        self.lane.has_finished_seen(position) || ahead == 0 && is_over()
    }

    /// Returns whether no listed or sent frame is unfinished, or no worker reads the lane.
    #[inline]
    pub(super) fn is_drained(&mut self) -> bool {
        self.list.is_empty() && self.lane.is_drained()
    }

    /// Number of frames that wait or are being processed, as last looked up, plus those that are listed.
    #[inline]
    pub(super) fn load(&self) -> u32 {
        self.lane.backlog_seen() + self.list.len() as u32
    }

    /// Number of frames for which the lane has room behind those that are listed, at most `want`. 0 if no worker reads
    /// it.
    #[inline]
    pub(super) fn room(&mut self, want: u32) -> u32 {
        if self.lane.progress().reader() == GONE {
            return 0;
        }
        // No more frames are listed than there was room for, and room only grows.
        let listed = self.list.len() as u32;
        self.lane.room(listed.saturating_add(want)) - listed
    }

    /// Returns whether the list is full, whatever room the lane has.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.list.room() == 0
    }

    /// Moves the next `n` frames of `frames` onto the list, as far as the list and the lane have room. Returns their
    /// number.
    #[inline]
    pub(super) fn list(&mut self, frames: &mut Drain, n: usize, source: Source, by: By) -> usize {
        let n = self.room(n as u32) as usize;
        let moved = frames.move_to(&mut self.list, n);
        note(&mut self.runs, Run { source, by, frames: moved });
        moved
    }

    /// Sends the list, which fits completely, and wakes its reader.
    #[inline]
    pub(super) fn flush(&mut self, w: &mut Worker, mesh: &Mesh, hash: &Toeplitz) {
        if self.lane.progress().reader() == GONE {
            return self.drop_listed(w);
        }
        if let Some(limit) = &self.limit {
            let most = limit.begins_at();
            if self.load() > most && self.lane.backlog() + self.list.len() as u32 > most {
                self.limit_flows(w, hash);
            }
        }
        let n = self.list.len() as u32;
        if n > 0 {
            self.send(w, n);
            self.counts.sent.add(u64::from(n));
            if mesh.wake(self.lane.progress()) {
                self.counts.wakeups.add(1);
            }
        }
        self.runs.clear();
    }

    /// Sends the list's `n` frames in lines, each with frames received at one place.
    #[inline]
    fn send(&mut self, w: &Worker, n: u32) {
        FrameState::Queued.enter_batch(w, &self.list, n as usize);
        let mut runs = self.runs.iter();
        let (mut unsent, mut left, mut source) = (n as usize, 0, Source::default());
        let mut frames = self.list.hand_over(FrameState::Queued, w, n as usize);
        // There are as many slots as frames, so at least as many as lines. When no frame is left, a slot stays free,
        // and that ends the call.
        self.lane.send(n, |slot| {
            if left == 0
                && let Some(run) = runs.next()
            {
                (left, source) = (run.frames.min(unsent), run.source);
            }
            let len = left.min(LINE_MAX);
            frames.load(slot, len, source.word());
            left -= len;
            unsent -= len;
        });
    }

    /// Frees the listed frames and counts them as dropped: their reader left after they were listed. Frames that were
    /// sent while it left are freed too.
    #[cold]
    #[inline(never)]
    fn drop_listed(&mut self, w: &mut Worker) {
        self.counts.gone.add(self.list.len() as u64);
        self.runs.clear();
        self.list.free(w);
        self.lane.abandon();
    }

    /// Frees frames for which there was no room and counts them as dropped.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, w: &mut Worker, frames: &mut Batch) {
        let is_gone = self.lane.progress().reader() == GONE;
        let cause = if is_gone { &self.counts.gone } else { &self.counts.full };
        cause.add(frames.len() as u64);
        frames.free(w);
    }

    /// Drops frames of flows and ports that have more than their share. The inbox is nearly full, so there is time.
    #[cold]
    #[inline(never)]
    fn limit_flows(&mut self, w: &mut Worker, hash: &Toeplitz) {
        let Some(limit) = &mut self.limit else { return };
        let (mut listed, mut dropped) = (std::mem::take(&mut self.list), Batch::new());
        let (sent, mut frames) = (self.lane.backlog_seen(), listed.drain());
        for run in &mut self.runs {
            for _ in 0..std::mem::take(&mut run.frames) {
                let Some(frame) = frames.as_slice().first() else { break };
                let load = sent + self.list.len() as u32;
                let mut is_admitted =
                    || limit.admits(hash.flow(frame.data(), run.source.queue), run.source.port, load);
                if run.by == By::Caller || is_admitted() {
                    run.frames += frames.move_to(&mut self.list, 1);
                } else {
                    frames.move_to(&mut dropped, 1);
                }
            }
        }
        drop(frames);
        self.runs.retain(|run| run.frames > 0);
        self.runs.dedup_by(|run, before| {
            let same = (run.source, run.by) == (before.source, before.by);
            before.frames += if same { run.frames } else { 0 };
            same
        });
        self.counts.flow_limit.add(dropped.len() as u64);
        dropped.free(w);
    }

    /// Places a barrier behind all sent frames: later frames wait for the lane to `worker` to be finished up to
    /// `position`. There is room, and nothing is listed.
    #[cold]
    pub(super) fn send_barrier(&mut self, worker: u8, position: u32) {
        let barrier = Barrier { worker, position };
        self.lane.send(Barrier::UNITS, |slot| slot.fill(barrier.line()));
    }
}

impl Drop for Outgoing {
    /// Listed frames are freed by the slow path, and count as dropped because no worker will ever read them.
    fn drop(&mut self) {
        self.counts.gone.add(self.list.len() as u64);
    }
}

/// Appends a run.
#[inline(always)]
fn note(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if (last.source, last.by) == (run.source, run.by) => last.frames += run.frames,
        _ if run.frames > 0 => runs.push(run),
        _ => {}
    }
}
