//! HOT: a worker steers the frames that it received.
//!
//! ```text
//!   steer ─► whose? ─┬─ its own: into the batch of those
//!                    ├─ another's: that one's list ── flush, at the round's end ──► lane ─► its inbox
//!                    └─ another's, whose inbox has no room: stay in the batch
//! ```

mod adopt;
mod give;

use super::config::MeshConfig;
use super::counters::SteerCounts;
use super::flows::{FlowTable, Own};
use super::label::Source;
use super::limit::FlowLimit;
use super::mesh::{Mesh, Row};
use super::outgoing::{By, Outgoing};
use super::policy::Policy;
use super::toeplitz::Toeplitz;
use crate::limits::{BATCH_MAX, WORKERS_MAX};
use crate::pool::{Batch, Drain};
use crate::sync::Worker;
use crate::sys::clock;
use adopt::Change;
use crossbeam_utils::CachePadded;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Number of frames by which a frame's first line is prefetched ahead when its flow will be hashed.
const AHEAD: usize = 8;

/// The sending side of a worker: the policy, and a list and a lane for every worker.
///
/// If it is dropped, listed frames are freed by the slow path, counted as
/// [`HandOffDrops::inbox_gone`](super::HandOffDrops::inbox_gone). Call [`Outbox::flush_all`] first to hand them over.
pub struct Outbox {
    own: u8,
    out: Vec<Outgoing>,
    /// One bit for each worker with listed frames.
    listed: u64,
    policy: Arc<Policy>,
    generation: u32,
    change: Option<Change>,
    /// For each worker, the workers whose lanes a barrier in its lane may be waiting for.
    behind: Vec<u64>,
    hash: Toeplitz,
    flows: FlowTable,
    /// The worker whose turn it is.
    turn: usize,
    /// Number of batches steered so far; wraps.
    batches: u32,
    /// A list with fewer frames waits at the end of a round.
    batch: usize,
    /// Maximum number of ticks that it waits.
    linger: u64,
    counts: Arc<CachePadded<SteerCounts>>,
    mesh: Arc<Mesh>,
}

/// Prints its worker only.
impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("worker", &self.own).finish_non_exhaustive()
    }
}

/// The destinations of a batch's frames.
enum Choice {
    /// All to one worker.
    One(u8),
    /// Each to the worker stored for it.
    Each,
}

impl Outbox {
    #[cold]
    pub(super) fn new(mesh: &Arc<Mesh>, own: usize, row: Row, config: &MeshConfig) -> Outbox {
        let limit = || config.flow_limit.map(|limit| FlowLimit::new(limit, config.inbox));
        let (policy, generation) = mesh.current();
        Outbox {
            own: own as u8,
            out: row.into_iter().map(|(lane, counts)| Outgoing::new(lane, counts, limit())).collect(),
            listed: 0,
            policy,
            generation,
            change: None,
            behind: vec![0; config.workers],
            hash: Toeplitz::new(&config.key),
            flows: FlowTable::new(config.flows),
            turn: 0,
            batches: 0,
            batch: config.batch,
            linger: ticks(config.linger),
            counts: mesh.counts(own),
            mesh: Arc::clone(mesh),
        }
    }

    /// This worker's number.
    pub fn worker(&self) -> usize {
        usize::from(self.own)
    }

    /// Returns whether frames for this worker itself may bypass its lane, because nothing is in it.
    #[inline]
    fn is_direct(&mut self) -> bool {
        let own = usize::from(self.own);
        self.out[own].is_drained() && (self.behind[own] == 0 || self.is_past_barriers())
    }

    /// Chooses the worker of each of `frames`.
    #[inline]
    fn choose(&mut self, queue: u16, frames: &Batch, targets: &mut [u8; BATCH_MAX]) -> Choice {
        let direct = matches!(*self.policy, Policy::Flow(_)) && self.is_direct();
        let policy = &*self.policy;
        match (policy, policy.targets(queue)) {
            (_, []) => return Choice::One(self.own),
            (_, [one]) => return Choice::One(*one),
            (Policy::RoundRobin(_), list) => {
                for target in &mut targets[..frames.len()] {
                    *target = list[self.turn % list.len()];
                    self.turn = self.turn.wrapping_add(1) % list.len();
                }
            }
            (Policy::Flow(_), list) => {
                let own = Own { worker: self.own, direct, list: self.batches };
                let closed = closed_after_look(list, &mut self.out, own);
                let (flows, out, mut ahead) = (&mut self.flows, &self.out, [0; WORKERS_MAX]);
                let consumers = self.mesh.consumers();
                each_hash(&self.hash, queue, frames, |i, hash| {
                    targets[i] = flows.choose(hash, (list, closed), out, own, &mut ahead, consumers);
                });
                self.counts.flow_moves.set(self.flows.moves);
            }
            (_, list) => each_hash(&self.hash, queue, frames, |i, hash| {
                // Scaled, not modulo, so that the whole hash decides.
                targets[i] = list[((u64::from(hash) * list.len() as u64) >> 32) as usize];
            }),
        }
        Choice::Each
    }

    /// Lists each frame for its target, and moves this worker's own frames to `own`. Frames without room stay in
    /// `frames`, in order, with their targets in `targets`. After the first frame of a worker that stays, all that
    /// worker's frames stay.
    #[inline]
    fn scatter(
        &mut self,
        w: &mut Worker,
        from: Source,
        (frames, own): (&mut Batch, &mut Batch),
        targets: &mut [u8; BATCH_MAX],
    ) {
        let direct = self.is_direct();
        let (mut rest, mut refused, mut at, end) = (Batch::new(), 0_u64, 0, frames.len());
        let mut left = frames.drain();
        while at < end {
            let target = targets[at];
            let run = targets[at..end].iter().take_while(|next| **next == target).count();
            let taken = match target {
                _ if refused >> target & 1 != 0 => 0,
                _ if target == self.own && direct => left.move_to(own, run),
                _ => self.list(w, usize::from(target), &mut left, run, (from, By::Policy)),
            };
            if taken < run {
                refused |= 1 << target;
                let stay = rest.len()..rest.len() + left.move_to(&mut rest, run - taken);
                targets[stay].fill(target);
            }
            at += run;
        }
        drop(left);
        if refused != 0 {
            *frames = rest;
        }
    }

    /// Lists the next `n` of `frames` for a worker, as far as its inbox has room. A full list is sent. Returns the
    /// number listed.
    #[inline]
    fn list(
        &mut self,
        w: &mut Worker,
        worker: usize,
        frames: &mut Drain<'_>,
        n: usize,
        (from, by): (Source, By),
    ) -> usize {
        let mut done = self.out[worker].list(frames, n, from, by);
        while done < n && self.out[worker].is_full() {
            self.out[worker].flush(w, &self.mesh, &self.hash);
            done += self.out[worker].list(frames, n - done, from, by);
        }
        let bit = 1 << worker;
        if self.linger > 0 && self.listed & bit == 0 {
            self.out[worker].since = clock::ticks();
        }
        self.listed |= bit;
        done
    }

    /// Number of frames that are listed and not sent.
    pub fn listed_frames(&self) -> usize {
        self.out.iter().map(Outgoing::listed).sum()
    }

    /// Ends a poll round; call it also if nothing was received. It sends the lists, wakes each sleeping worker that
    /// received frames, once, and adopts a change of the policy.
    ///
    /// A list shorter than [`MeshConfig::batch`] waits for up to [`MeshConfig::linger`], so no frame is held for longer
    /// than that and one round.
    #[inline]
    pub fn flush(&mut self, w: &mut Worker) {
        if self.listed != 0 {
            self.flush_lists(w, self.linger > 0);
        }
        if self.mesh.generation() != self.generation {
            self.change_policy(w);
        }
    }

    /// Returns whether all frames given to others are finished, or never will be because no worker reads them.
    ///
    /// # Cost
    /// One line of each reader that was not known to be done.
    #[inline]
    pub fn is_finished(&mut self) -> bool {
        self.out.iter_mut().all(Outgoing::is_drained)
    }

    /// Sends all listed frames, including lists that may linger. Call it before this worker sleeps or stops.
    pub fn flush_all(&mut self, w: &mut Worker) {
        self.flush_lists(w, false);
    }

    #[inline]
    fn flush_lists(&mut self, w: &mut Worker, may_linger: bool) {
        let now = if may_linger { clock::ticks() } else { 0 };
        let mut rest = self.listed;
        while rest != 0 {
            let worker = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let out = &mut self.out[worker];
            if may_linger && out.listed() < self.batch && now.wrapping_sub(out.since) < self.linger {
                continue;
            }
            out.flush(w, &self.mesh, &self.hash);
            self.listed &= !(1 << worker);
        }
    }
}

/// Converts a time to ticks. The clock is measured only if a time is set.
fn ticks(time: Duration) -> u64 {
    if time.is_zero() { 0 } else { (time.as_nanos() as f64 * clock::ticks_per_ns()) as u64 }
}

/// Looks at the lanes to `targets`. Returns one bit for each worker to which no flow may go: another one whose inbox no
/// worker reads, or this one, if frames for it are not direct.
#[inline]
fn closed_after_look(targets: &[u8], out: &mut [Outgoing], own: Own) -> u64 {
    let mut closed = u64::from(!own.direct) << own.worker;
    for &worker in targets {
        let out = &mut out[usize::from(worker)];
        out.look();
        // Its own inbox may be gone: what this worker keeps needs no lane.
        closed |= u64::from(worker != own.worker && !out.is_read()) << worker;
    }
    closed
}

/// Calls `f` with the hash of each frame's flow, oldest first.
#[inline]
fn each_hash(hash: &Toeplitz, queue: u16, frames: &Batch, mut f: impl FnMut(usize, u32)) {
    frames.iter().take(AHEAD).for_each(|frame| frame.prefetch());
    for (i, frame) in frames.iter().enumerate() {
        if let Some(later) = frames.get(i + AHEAD) {
            later.prefetch();
        }
        f(i, hash.flow(frame.data(), queue));
    }
}
