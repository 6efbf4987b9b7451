//! The mesh: a lane from every worker to every worker, a bell for each, and the policy by which they steer.

use super::config::{MeshConfig, MeshError};
use super::consumers::FlowConsumers;
use super::counters::{InboxStats, LaneCounts, SteerCounts};
use super::inbox::Inbox;
use super::lane::{GONE, LaneReceiver, LaneSender, Progress, lane};
use super::outbox::Outbox;
use super::policy::{Policy, PolicyError};
use super::toeplitz::Toeplitz;
use crate::pool::Line;
use crate::stats::Count;
use crate::sync::Doorbell;
use crate::sync::shim::{AtomicU32, Mutex, lock};
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{fmt, io};

/// The state that workers share: the progress and counters of their lanes, their doorbells, the policy.
///
/// Any thread may read the counters and change the policy.
pub struct Mesh {
    /// Indexed by sender, then receiver.
    lanes: Vec<LaneState>,
    members: Vec<Member>,
    policy: Mutex<Arc<Policy>>,
    consumers: FlowConsumers,
    /// Incremented with each change of the policy.
    generation: CachePadded<AtomicU32>,
}

/// Prints the number of its workers only.
impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh").field("workers", &self.members.len()).finish_non_exhaustive()
    }
}

/// The shared state of one lane.
#[derive(Debug)]
struct LaneState {
    progress: Arc<Progress>,
    /// Written by the sender.
    counts: Arc<CachePadded<LaneCounts>>,
    /// Frames received; written by the reader.
    received: Arc<CachePadded<Count>>,
}

/// The shared state of one worker.
#[derive(Debug)]
struct Member {
    bell: Doorbell,
    counts: Arc<CachePadded<SteerCounts>>,
    /// Lanes handed over to this worker that it has not looked at yet; None after the worker itself is gone.
    handed_over: Mutex<Option<Vec<Incoming>>>,
    /// Whether there are such lanes.
    has_handed_over: AtomicU32,
}

/// A lane as held by its reader, with its counter.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) sender: usize,
    pub(super) lane: LaneReceiver<Line>,
    pub(super) received: Arc<CachePadded<Count>>,
}

/// Each worker's two ends, by worker.
pub type Ends = Vec<(Outbox, Inbox)>;

impl Mesh {
    /// Makes lanes, bells and policy for `config.workers` workers. Returns the two ends of each worker: the one that it
    /// steers by, and the one in which it receives from the others.
    ///
    /// # Errors
    /// Returns [`MeshError`] if a value is out of range, or if no event descriptors or no memory are available.
    #[cold]
    pub fn new(config: &MeshConfig) -> Result<(Arc<Mesh>, Ends), MeshError> {
        config.check()?;
        let workers = config.workers;
        let members = (0..workers).map(|_| Member::new()).collect::<io::Result<Vec<Member>>>()?;
        let (mut lanes, mut senders, mut incoming) = (Vec::new(), Vec::new(), Vec::new());
        incoming.resize_with(workers, Vec::new);
        for sender in 0..workers {
            let mut row = Vec::with_capacity(workers);
            for (reader, inbox) in incoming.iter_mut().enumerate() {
                let state = LaneState::new(reader as u32);
                let made = lane(config.inbox, Arc::clone(&state.progress));
                let (tx, rx) = made.map_err(|_| MeshError::NoMemory { inbox: config.inbox })?;
                row.push((tx, Arc::clone(&state.counts)));
                inbox.push(Incoming { sender, lane: rx, received: Arc::clone(&state.received) });
                lanes.push(state);
            }
            senders.push(row);
        }
        let policy = Mutex::new(Arc::new(config.policy.resolved(workers)));
        let generation = CachePadded::new(AtomicU32::new(0));
        let consumers = FlowConsumers::new(Toeplitz::new(&config.key), config.flows);
        let mesh = Arc::new(Mesh { lanes, members, policy, consumers, generation });
        let ends = senders.into_iter().zip(incoming).enumerate().map(|(worker, (row, lanes))| {
            (Outbox::new(&mesh, worker, row, config), Inbox::new(&mesh, worker, lanes, config.recorded_queue))
        });
        let ends = ends.collect();
        Ok((mesh, ends))
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.members.len()
    }

    /// Changes the policy. Each worker adopts the change at the end of a round ([`Outbox::flush`]). The change loses no
    /// frame, and reorders no frames within a flow.
    ///
    /// # Errors
    /// Returns [`PolicyError`] if the policy names a worker that does not exist; nothing has changed then.
    #[cold]
    pub fn set_policy(&self, policy: &Policy) -> Result<(), PolicyError> {
        policy.check(self.workers())?;
        let mut current = lock(&self.policy);
        *current = Arc::new(policy.resolved(self.workers()));
        // Release: pairs with the Acquire in `generation`; the lock orders the rest.
        self.generation.store(self.generation.load(Relaxed).wrapping_add(1), Release);
        Ok(())
    }

    /// The policy, with the list of the workers that it chooses from.
    pub fn policy(&self) -> Policy {
        (**lock(&self.policy)).clone()
    }

    /// The table of flows' consumers, in which the consumers register.
    pub fn consumers(&self) -> &FlowConsumers {
        &self.consumers
    }

    /// Number of changes of the policy. A worker whose [`InboxStats::adopted`] has the same value steers by the latest
    /// policy, if no change came before it had adopted the one before.
    #[inline]
    pub fn generation(&self) -> u32 {
        // Acquire: pairs with the Release in `set_policy`.
        self.generation.load(Acquire)
    }

    /// The current policy and its generation.
    pub(super) fn current(&self) -> (Arc<Policy>, u32) {
        let policy = lock(&self.policy);
        (Arc::clone(&policy), self.generation.load(Relaxed))
    }

    /// Each worker's counters, in order.
    pub fn stats(&self) -> Vec<InboxStats> {
        (0..self.workers()).map(|worker| self.stats_of(worker)).collect()
    }

    fn stats_of(&self, worker: usize) -> InboxStats {
        let member = &self.members[worker].counts;
        let mut stats = InboxStats {
            kept: member.kept.get(),
            flow_moves: member.flow_moves.get(),
            adopted: member.adopted.get(),
            postponed: member.postponed.get(),
            ..InboxStats::default()
        };
        for sender in 0..self.workers() {
            let state = self.state(sender, worker);
            let (counts, received) = (&state.counts, state.received.get());
            let rest = counts.sent.get().saturating_sub(received);
            let gone = state.progress.reader() == GONE;
            *(if gone { &mut stats.lost } else { &mut stats.waiting }) += rest;
            stats.enqueued += counts.sent.get();
            stats.dequeued += received;
            stats.drops.inbox_full += counts.full.get();
            stats.drops.flow_limit += counts.flow_limit.get();
            stats.drops.inbox_gone += counts.gone.get();
            stats.wakeups += counts.wakeups.get();
        }
        stats
    }

    fn state(&self, sender: usize, reader: usize) -> &LaneState {
        &self.lanes[sender * self.workers() + reader]
    }

    /// The progress of the reader of the lane from `sender` to `reader`; None if there is no such lane.
    pub(super) fn progress(&self, sender: usize, reader: usize) -> Option<&Progress> {
        let lane = self.lanes.get(sender * self.workers() + reader)?;
        Some(&lane.progress)
    }

    /// A worker's own counters.
    pub(super) fn counts(&self, worker: usize) -> Arc<CachePadded<SteerCounts>> {
        Arc::clone(&self.members[worker].counts)
    }

    /// A worker's bell.
    pub(super) fn bell(&self, worker: usize) -> &Doorbell {
        &self.members[worker].bell
    }

    /// Wakes the reader of a lane, if it sleeps, after frames were sent. Returns true if it slept.
    ///
    /// The reader is looked up again after its bell was rung. If the lane has just changed hands, then either the new
    /// reader is seen now, or the new reader has seen the sent frames ([`Doorbell`] explains why).
    #[inline]
    pub(super) fn wake(&self, lane: &Progress) -> bool {
        let reader = lane.reader();
        let mut woken = self.ring(reader);
        let now = lane.reader();
        if now != reader {
            woken |= self.ring(now);
        }
        woken
    }

    /// Wakes all sleeping workers.
    pub(crate) fn wake_all(&self) {
        self.members.iter().for_each(|member| {
            member.bell.ring();
        });
    }

    #[inline]
    fn ring(&self, worker: u32) -> bool {
        self.members.get(worker as usize).is_some_and(|member| member.bell.ring())
    }

    /// Hands lanes of `worker` over to `successor`, in any state, and with them those that were handed over to `worker` in the
    /// meantime: `worker` no longer reads. Returns them, and nothing has changed, if the successor is gone too, is not a
    /// worker, or is `worker` itself.
    pub(super) fn hand_over(
        &self,
        mut lanes: Vec<Incoming>,
        worker: usize,
        successor: usize,
    ) -> Result<(), Vec<Incoming>> {
        if worker == successor || successor >= self.members.len() {
            return Err(lanes);
        }
        // In the order of their numbers: two workers may hand over to each other.
        let [low, high] =
            [worker.min(successor), worker.max(successor)].map(|of| lock(&self.members[of].handed_over));
        let (mut own, mut its) = if worker < successor { (low, high) } else { (high, low) };
        let Some(handed_over) = its.as_mut() else { return Err(lanes) };
        lanes.extend(own.take().unwrap_or_default());
        lanes.iter().for_each(|incoming| incoming.lane.progress().set_reader(successor as u32));
        handed_over.extend(lanes);
        // Relaxed: only a hint to look under the lock.
        self.members[successor].has_handed_over.store(1, Relaxed);
        self.members[successor].bell.ring();
        Ok(())
    }

    /// Returns whether lanes were handed over to `worker` that it has not fetched.
    #[inline]
    pub(super) fn has_handed_over(&self, worker: usize) -> bool {
        self.members[worker].has_handed_over.load(Relaxed) != 0
    }

    /// Lanes that were handed over to `worker`.
    #[cold]
    pub(super) fn take_handed_over(&self, worker: usize) -> Vec<Incoming> {
        let member = &self.members[worker];
        let mut handed_over = lock(&member.handed_over);
        member.has_handed_over.store(0, Relaxed);
        handed_over.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// `worker` no longer reads: lanes that were handed over to it have no reader, and no more can be handed over.
    pub(super) fn close_reader(&self, worker: usize) {
        let lanes = lock(&self.members[worker].handed_over).take();
        // Without the lock: freeing the frames in the lanes may run code of the caller.
        drop(lanes);
    }
}

impl Member {
    fn new() -> io::Result<Member> {
        let handed_over = Mutex::new(Some(Vec::new()));
        Ok(Member {
            bell: Doorbell::new()?,
            counts: Arc::default(),
            handed_over,
            has_handed_over: AtomicU32::new(0),
        })
    }
}

impl LaneState {
    fn new(reader: u32) -> LaneState {
        LaneState { progress: Progress::new(reader, 0), counts: Arc::default(), received: Arc::default() }
    }
}

/// The sending ends of a worker's lanes, by receiver.
pub(super) type Row = Vec<(LaneSender<Line>, Arc<CachePadded<LaneCounts>>)>;

#[cfg(test)]
mod tests;
