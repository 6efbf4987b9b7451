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
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The state that workers share: the progress and counters of their lanes, their doorbells, the policy.
///
/// Any thread may read the counters and change the policy.
#[derive(Debug)]
pub struct Mesh {
    /// Indexed by sender, then receiver.
    lanes: Vec<Between>,
    seats: Vec<Seat>,
    policy: Mutex<Arc<Policy>>,
    consumers: FlowConsumers,
    /// Incremented with each change of the policy.
    generation: CachePadded<AtomicU32>,
}

/// The shared state of one lane.
#[derive(Debug)]
struct Between {
    progress: Arc<Progress>,
    /// Written by the sender.
    counts: Arc<CachePadded<LaneCounts>>,
    /// Frames received; written by the reader.
    received: Arc<CachePadded<Count>>,
}

/// The shared state of one worker.
#[derive(Debug)]
struct Seat {
    bell: Doorbell,
    counts: Arc<CachePadded<SteerCounts>>,
    /// Lanes handed over to this worker that it has not looked at yet; None after the worker itself is gone.
    legacy: Mutex<Option<Vec<Incoming>>>,
    /// Whether there are such lanes.
    has_legacy: AtomicU32,
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
        let seats = (0..workers).map(|_| Seat::new()).collect::<io::Result<Vec<Seat>>>()?;
        let (mut lanes, mut senders, mut incoming) = (Vec::new(), Vec::new(), Vec::new());
        incoming.resize_with(workers, Vec::new);
        for sender in 0..workers {
            let mut row = Vec::with_capacity(workers);
            for (reader, inbox) in incoming.iter_mut().enumerate() {
                let between = Between::new(reader as u32);
                let made = lane(config.inbox, Arc::clone(&between.progress));
                let (tx, rx) = made.map_err(|_| MeshError::NoMemory { inbox: config.inbox })?;
                row.push((tx, Arc::clone(&between.counts)));
                inbox.push(Incoming { sender, lane: rx, received: Arc::clone(&between.received) });
                lanes.push(between);
            }
            senders.push(row);
        }
        let policy = Mutex::new(Arc::new(config.policy.resolved(workers)));
        let generation = CachePadded::new(AtomicU32::new(0));
        let consumers = FlowConsumers::new(Toeplitz::new(&config.key), config.flows);
        let mesh = Arc::new(Mesh { lanes, seats, policy, consumers, generation });
        let ends = senders.into_iter().zip(incoming).enumerate().map(|(worker, (row, lanes))| {
            (Outbox::new(&mesh, worker, row, config), Inbox::new(&mesh, worker, lanes, config.recorded_queue))
        });
        let ends = ends.collect();
        Ok((mesh, ends))
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.seats.len()
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
        let seat = &self.seats[worker].counts;
        let mut stats = InboxStats {
            kept: seat.kept.get(),
            flow_moves: seat.flow_moves.get(),
            adopted: seat.adopted.get(),
            postponed: seat.postponed.get(),
            ..InboxStats::default()
        };
        for sender in 0..self.workers() {
            let between = self.between(sender, worker);
            let (counts, received) = (&between.counts, between.received.get());
            let rest = counts.sent.get().saturating_sub(received);
            let gone = between.progress.reader() == GONE;
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

    fn between(&self, sender: usize, reader: usize) -> &Between {
        &self.lanes[sender * self.workers() + reader]
    }

    /// The progress of the reader of the lane from `sender` to `reader`; None if there is no such lane.
    pub(super) fn progress(&self, sender: usize, reader: usize) -> Option<&Progress> {
        let lane = self.lanes.get(sender * self.workers() + reader)?;
        Some(&lane.progress)
    }

    /// A worker's own counters.
    pub(super) fn counts(&self, worker: usize) -> Arc<CachePadded<SteerCounts>> {
        Arc::clone(&self.seats[worker].counts)
    }

    /// A worker's bell.
    pub(super) fn bell(&self, worker: usize) -> &Doorbell {
        &self.seats[worker].bell
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
        self.seats.iter().for_each(|seat| {
            seat.bell.ring();
        });
    }

    #[inline]
    fn ring(&self, worker: u32) -> bool {
        self.seats.get(worker as usize).is_some_and(|seat| seat.bell.ring())
    }

    /// Hands lanes of `worker` over to `heir`, in any state, and with them those that were handed over to `worker` in the
    /// meantime: `worker` no longer reads. Returns them, and nothing has changed, if the heir is gone too, is not a
    /// worker, or is `worker` itself.
    pub(super) fn bequeath(
        &self,
        mut lanes: Vec<Incoming>,
        worker: usize,
        heir: usize,
    ) -> Result<(), Vec<Incoming>> {
        if worker == heir || heir >= self.seats.len() {
            return Err(lanes);
        }
        // In the order of their numbers: two workers may hand over to each other.
        let [low, high] = [worker.min(heir), worker.max(heir)].map(|of| lock(&self.seats[of].legacy));
        let (mut own, mut its) = if worker < heir { (low, high) } else { (high, low) };
        let Some(legacy) = its.as_mut() else { return Err(lanes) };
        lanes.extend(own.take().unwrap_or_default());
        lanes.iter().for_each(|incoming| incoming.lane.progress().set_reader(heir as u32));
        legacy.extend(lanes);
        // Relaxed: only a hint to look under the lock.
        self.seats[heir].has_legacy.store(1, Relaxed);
        self.seats[heir].bell.ring();
        Ok(())
    }

    /// Returns whether lanes were handed over to `worker` that it has not fetched.
    #[inline]
    pub(super) fn has_legacy(&self, worker: usize) -> bool {
        self.seats[worker].has_legacy.load(Relaxed) != 0
    }

    /// Lanes that were handed over to `worker`.
    #[cold]
    pub(super) fn fetch_legacy(&self, worker: usize) -> Vec<Incoming> {
        let seat = &self.seats[worker];
        let mut legacy = lock(&seat.legacy);
        seat.has_legacy.store(0, Relaxed);
        legacy.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// `worker` no longer reads: lanes that were handed over to it have no reader, and no more can be handed over.
    pub(super) fn close_seat(&self, worker: usize) {
        let lanes = lock(&self.seats[worker].legacy).take();
        // Without the lock: freeing the frames in the lanes may run code of the caller.
        drop(lanes);
    }
}

impl Seat {
    fn new() -> io::Result<Seat> {
        let legacy = Mutex::new(Some(Vec::new()));
        Ok(Seat { bell: Doorbell::new()?, counts: Arc::default(), legacy, has_legacy: AtomicU32::new(0) })
    }
}

impl Between {
    fn new(reader: u32) -> Between {
        Between { progress: Progress::new(reader, 0), counts: Arc::default(), received: Arc::default() }
    }
}

/// The sending ends of a worker's lanes, by receiver.
pub(super) type Row = Vec<(LaneSender<Line>, Arc<CachePadded<LaneCounts>>)>;

#[cfg(test)]
mod tests;
