//! The thread of local queues and mirrors. It takes the packets that the forwarders pass and the clones of sent ones,
//! keeps as many as configured, and frees them on a worker of its own.

use super::cuts::Standing;
use super::phases::Phases;
use netmem::forward::local_queue::{Retention, RetentionLimit};
use netmem::forward::mirror::MirrorReader;
use netmem::pool::SharedFrame;
use netmem::sync::Worker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The pause after a turn without frames: the first, and the maximum. Each pause is twice the one before.
const REST: Duration = Duration::from_micros(100);
const REST_MAX: Duration = Duration::from_millis(2);

/// The local queues and mirrors, and the worker that frees their frames.
pub struct RetentionThread {
    /// The limits for each worker's frames, or None if no packets are passed.
    pub limit: Option<Arc<RetentionLimit>>,
    /// The passed packets of each worker.
    pub retentions: Vec<Retention>,
    /// Clones of the packets that each worker has sent.
    pub mirrors: Vec<MirrorRetention>,
    pub worker: Worker,
    /// Whether the thread is to stand still, and whether it does.
    pub standing: Arc<Standing>,
}

/// The newest clones of sent frames.
pub struct MirrorRetention {
    reader: MirrorReader,
    keep: usize,
    clones: VecDeque<SharedFrame>,
}

/// The counts of passed frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LocalQueueReport {
    /// Frames that the local queue took from the forwarders.
    pub taken: u64,
    /// Frames that it freed during the run.
    pub freed: u64,
    /// Frames that it kept to the end.
    pub kept: u64,
}

/// The counts of the mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MirrorReport {
    /// Frames of which it got a clone.
    pub taken: u64,
    /// Frames for which it had no room.
    pub missed: u64,
    /// Clones that it kept to the end.
    pub kept: u64,
}

impl RetentionThread {
    /// Keeps frames until the forwarders are drained, then frees all.
    pub fn run(mut self, phases: &Phases) -> (Option<LocalQueueReport>, Option<MirrorReport>) {
        let mut rest = REST;
        loop {
            self.standing.stand();
            // Read before the turn, so that the turn takes every frame passed or sent until then.
            let last = phases.is_drained();
            match (last, self.turn()) {
                (true, 0) => break,
                (_, 0) => {
                    thread::sleep(rest);
                    rest = (2 * rest).min(REST_MAX);
                }
                _ => rest = REST,
            }
        }
        let reports = (
            self.retentions.iter().map(LocalQueueReport::new).reduce(LocalQueueReport::with),
            self.mirrors.iter().map(MirrorReport::new).reduce(MirrorReport::with),
        );
        let RetentionThread { retentions, mirrors, mut worker, .. } = self;
        for mut retention in retentions {
            retention.release(&mut worker);
        }
        mirrors.into_iter().flat_map(|mirror| mirror.clones).for_each(|clone| clone.free(&mut worker));
        reports
    }

    /// Takes new frames and frees those that are too old. Returns the number of frames that it moved.
    fn turn(&mut self) -> usize {
        let RetentionThread { retentions, mirrors, worker, .. } = self;
        let kept: usize = retentions.iter_mut().map(|retention| retention.turn(worker)).sum();
        kept + mirrors.iter_mut().map(|mirror| mirror.turn(worker)).sum::<usize>()
    }
}

impl MirrorRetention {
    /// Keeps at most `keep` clones of the frames that `reader` gets.
    pub fn new(reader: MirrorReader, keep: usize) -> MirrorRetention {
        MirrorRetention { reader, keep, clones: VecDeque::new() }
    }

    fn turn(&mut self, worker: &mut Worker) -> usize {
        let MirrorRetention { reader, keep, clones } = self;
        let moved = reader.read(usize::MAX, |clone| clones.push_back(clone));
        let surplus = clones.len().saturating_sub(*keep);
        clones.drain(..surplus).for_each(|clone| clone.free(worker));
        moved
    }
}

impl LocalQueueReport {
    fn new(retention: &Retention) -> LocalQueueReport {
        let counters = retention.counters();
        let (taken, freed) = (counters.taken.get(), counters.given.get());
        LocalQueueReport { taken, freed, kept: retention.kept() as u64 }
    }

    /// Returns the sum with the counts of another worker.
    fn with(self, other: LocalQueueReport) -> LocalQueueReport {
        let LocalQueueReport { taken, freed, kept } = other;
        LocalQueueReport { taken: self.taken + taken, freed: self.freed + freed, kept: self.kept + kept }
    }
}

impl MirrorReport {
    fn new(mirror: &MirrorRetention) -> MirrorReport {
        let counters = mirror.reader.counters();
        let (taken, missed) = (counters.taken.get(), counters.missed.get());
        MirrorReport { taken, missed, kept: mirror.clones.len() as u64 }
    }

    /// Returns the sum with the counts of another worker.
    fn with(self, other: MirrorReport) -> MirrorReport {
        let MirrorReport { taken, missed, kept } = other;
        MirrorReport { taken: self.taken + taken, missed: self.missed + missed, kept: self.kept + kept }
    }
}
