//! The policies that choose a frame's worker.

mod text;

use crate::limits::WORKERS_MAX;

/// Number of receive queues that a map may name.
const QUEUES_MAX: u16 = 1024;

/// The workers to choose from, in order; an empty list means all workers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Targets(Vec<u8>);

impl Targets {
    /// Makes a list of these workers; an empty list means all.
    ///
    /// # Errors
    /// Returns [`PolicyError::Twice`], or [`PolicyError::NoWorker`] for numbers above 63.
    pub fn new(workers: &[usize]) -> Result<Targets, PolicyError> {
        let mut targets = Vec::with_capacity(workers.len());
        for &worker in workers {
            let number = u8::try_from(worker).ok().filter(|&number| usize::from(number) < WORKERS_MAX);
            let number = number.ok_or(PolicyError::NoWorker { worker, workers: WORKERS_MAX })?;
            if targets.contains(&number) {
                return Err(PolicyError::Twice { worker });
            }
            targets.push(number);
        }
        Ok(Targets(targets))
    }

    /// The workers by number.
    #[inline]
    pub(super) fn list(&self) -> &[u8] {
        &self.0
    }

    /// Returns the list with all of `workers` named if it is empty.
    fn resolved(&self, workers: usize) -> Targets {
        if self.0.is_empty() {
            Targets((0..workers).map(|worker| worker as u8).collect())
        } else {
            self.clone()
        }
    }

    fn check(&self, workers: usize) -> Result<(), PolicyError> {
        match self.0.iter().map(|&worker| usize::from(worker)).find(|&worker| worker >= workers) {
            Some(worker) => Err(PolicyError::NoWorker { worker, workers }),
            None => Ok(()),
        }
    }
}

/// The administrator's map: workers for receive queues.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueMap {
    /// Indexed by queue; an empty list is a queue that is not in the map.
    queues: Vec<Targets>,
}

impl QueueMap {
    /// Sets the workers of `queue`, in place of the earlier ones. Several workers share its flows, by their hash.
    ///
    /// # Errors
    /// Returns [`PolicyError::NoTargets`] for an empty list, [`PolicyError::QueueRange`] above queue 1023.
    pub fn set(&mut self, queue: u16, targets: Targets) -> Result<(), PolicyError> {
        if queue >= QUEUES_MAX {
            return Err(PolicyError::QueueRange { queue });
        }
        if targets.0.is_empty() {
            return Err(PolicyError::NoTargets { queue });
        }
        let place = usize::from(queue);
        if self.queues.len() <= place {
            self.queues.resize(place + 1, Targets::default());
        }
        self.queues[place] = targets;
        Ok(())
    }

    /// The workers of `queue`; empty if it is not in the map.
    #[inline]
    pub(super) fn of(&self, queue: u16) -> &[u8] {
        self.queues.get(usize::from(queue)).map_or(&[], Targets::list)
    }

    /// The queues that are in the map, with their workers.
    fn entries(&self) -> impl Iterator<Item = (usize, &Targets)> {
        self.queues.iter().enumerate().filter(|(_, targets)| !targets.0.is_empty())
    }
}

/// The rule that chooses a frame's worker. Written as `none`, `map=rx0:1,rx1:2,3`, `round-robin`, `hash`, `flow`. The
/// last three may name workers to choose from, as in `hash=1,2`.
///
/// | policy | goes by | order within a flow |
/// |---|---|---|
/// | `None` | nothing: frames stay with the worker that received them | kept |
/// | `Map` | the receive queue, then the flow's hash if the queue has several workers | kept |
/// | `RoundRobin` | the turn | not kept |
/// | `Hash` | the flow's hash | kept |
/// | `Flow` | the flow: to the worker that [consumes](super::FlowConsumers) it, otherwise it may move to an idler one when all its frames are finished; it leaves a worker whose inbox no worker reads | kept |
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Policy {
    /// Frames stay with the worker that received them.
    #[default]
    None,
    /// The administrator's map. Frames of other queues stay with the worker that received them.
    Map(QueueMap),
    /// One after the other.
    RoundRobin(Targets),
    /// By the flow's hash.
    Hash(Targets),
    /// By a table of flows.
    Flow(Targets),
}

/// The error in a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// There is no policy of this name.
    #[error("unknown policy {seen:?}: write none, map=rx0:1,rx1:2,3, round-robin, hash or flow")]
    Unknown {
        /// The text.
        seen: String,
    },
    /// Part of a map cannot be read.
    #[error("{seen:?} in a map: write queue and workers, as in map=rx0:1,rx1:2,3")]
    Entry {
        /// The part.
        seen: String,
    },
    /// The text is not a worker's number.
    #[error("unknown worker {seen:?}: write its number, 0 to 63")]
    Worker {
        /// The text.
        seen: String,
    },
    /// A map names a queue that is too high.
    #[error("queue rx{queue} is out of range: rx0 to rx1023")]
    QueueRange {
        /// The queue.
        queue: u16,
    },
    /// A map names a queue twice.
    #[error("queue rx{queue} is in the map twice: name its workers behind each other, as in rx{queue}:1,2")]
    QueueTwice {
        /// The queue.
        queue: u16,
    },
    /// A map names a queue without workers.
    #[error("queue rx{queue} has no worker: name one, as in rx{queue}:1, or leave the queue out")]
    NoTargets {
        /// The queue.
        queue: u16,
    },
    /// A map names no queue.
    #[error("the map is empty: name a queue and its workers, as in map=rx0:1, or write none")]
    EmptyMap,
    /// A worker is named twice, although each named worker has one share.
    #[error("worker {worker} is named twice: name it once")]
    Twice {
        /// The worker.
        worker: usize,
    },
    /// There is no such worker.
    #[error("there is no worker {worker}: there are {workers}, from 0 to {}", workers - 1)]
    NoWorker {
        /// The worker.
        worker: usize,
        /// Number of workers.
        workers: usize,
    },
}

impl Policy {
    /// Checks that all named workers are among `workers`.
    pub(super) fn check(&self, workers: usize) -> Result<(), PolicyError> {
        match self {
            Policy::None => Ok(()),
            Policy::Map(map) if map.entries().next().is_none() => Err(PolicyError::EmptyMap),
            Policy::Map(map) => map.entries().try_for_each(|(_, targets)| targets.check(workers)),
            Policy::RoundRobin(targets) | Policy::Hash(targets) | Policy::Flow(targets) => {
                targets.check(workers)
            }
        }
    }

    /// Returns the policy with all of `workers` named where a list is empty.
    pub(super) fn resolved(&self, workers: usize) -> Policy {
        match self {
            Policy::None => Policy::None,
            Policy::Map(map) => Policy::Map(map.clone()),
            Policy::RoundRobin(targets) => Policy::RoundRobin(targets.resolved(workers)),
            Policy::Hash(targets) => Policy::Hash(targets.resolved(workers)),
            Policy::Flow(targets) => Policy::Flow(targets.resolved(workers)),
        }
    }

    /// The workers to which frames of `queue` may go; empty if they stay with the worker that received them.
    pub(super) fn targets(&self, queue: u16) -> &[u8] {
        match self {
            Policy::None => &[],
            Policy::Map(map) => map.of(queue),
            Policy::RoundRobin(targets) | Policy::Hash(targets) | Policy::Flow(targets) => targets.list(),
        }
    }

    /// The first queue that no map names. From there on all queues are treated alike.
    pub(super) fn queues(&self) -> u16 {
        if let Policy::Map(map) = self { map.queues.len() as u16 } else { 0 }
    }
}
