//! The recorded packets, read from any thread. COLD.

use super::queue_times::{Behind, QueueTimes};
use super::ring::{BYTES, Read, Ring};
use crate::forward::verdict::{Reason, Verdict};
use crate::sys::clock;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Maximum number of times that a ring is copied for one call.
const COPIES_MAX: usize = 4;

/// The reading end of a recording; it can be read at any time and any number of times.
#[derive(Debug, Clone)]
pub struct Recording {
    rings: Arc<[Ring]>,
    /// Set if it is known how long packets were in queues between threads.
    queues: Option<QueueTimes>,
    /// The names of the decision's own reasons.
    own: &'static [&'static str],
}

/// A packet and its verdict, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedPacket {
    /// Its number among those of its port at this worker, from 0. Missing numbers between two packets were overwritten.
    pub number: u64,
    /// The queue of reception.
    pub queue: u16,
    /// The time when its burst was decided about.
    pub time: SystemTime,
    /// Its length at reception.
    pub len: usize,
    /// Its first bytes at reception, at most 144.
    pub bytes: Vec<u8>,
    /// Its last verdict; None if there is none yet: it is in work.
    pub verdict: Option<Verdict>,
    /// The reason for which it was dropped after its verdict, if it was.
    pub lost: Option<Reason>,
    /// How long it waited with the decision before the last verdict (in a router: for a neighbour), if it did.
    pub waited: Option<Duration>,
    /// How long it was in the lane from the worker that received it to the one that decided, if there was one.
    pub lane: Option<Duration>,
    /// How long it was in the lane back, from its verdict on, if the worker that received it transmits.
    pub lane_back: Option<Duration>,
    /// How long it was in the local queue, from its verdict until it was taken out. None also while it is in the queue.
    pub local_queue: Option<Duration>,
    /// It was dropped, and its sender got an answer.
    pub is_answered: bool,
}

impl RecordedPacket {
    /// The reason for which it was dropped, by its verdict or after it; None if it was not, as far as that is known.
    pub fn dropped(&self) -> Option<Reason> {
        self.lost.or(match self.verdict {
            Some(Verdict::Drop(reason)) => Some(reason),
            _ => None,
        })
    }
}

/// The clocks at one moment, which give ticks their meaning.
struct Now {
    time: SystemTime,
    ticks: u64,
}

impl Now {
    fn time_of(&self, ticks: u64) -> SystemTime {
        self.time.checked_sub(passed(ticks, self.ticks)).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// The time between two readings of the counter; zero if they came from cores that disagree.
fn passed(from: u64, to: u64) -> Duration {
    Duration::from_nanos((to.saturating_sub(from) as f64 / clock::ticks_per_ns()) as u64)
}

impl Recording {
    pub(super) fn new(rings: Arc<[Ring]>, own: &'static [&'static str]) -> Recording {
        Recording { rings, queues: None, own }
    }

    /// Uses the times of queues between threads too.
    pub(super) fn follow(&mut self, times: &QueueTimes) {
        self.queues = Some(times.clone());
    }

    /// Returns the events of a packet after its verdict, in a queue or with another worker.
    fn behind(&self, read: &Read) -> Behind {
        let put = match read.became.code().map(|code| code.verdict()) {
            Some(Verdict::Pass) => read.ticks,
            Some(_) if read.handed != 0 => read.handed,
            _ => return Behind::default(),
        };
        let known = self.queues.as_ref().zip(read.became.id());
        known.map_or_else(Behind::default, |(times, id)| times.behind(id, put))
    }

    /// Number of recorded ports.
    pub fn ports(&self) -> usize {
        self.rings.len()
    }

    /// Number of packets that are kept for each port.
    pub fn room(&self) -> usize {
        self.rings.first().map_or(0, Ring::room)
    }

    /// Returns the packets of a port from this number on, oldest first; none for a port that does not exist. Packets
    /// that the worker overwrites during the call are missing.
    pub fn read(&self, port: usize, from: u64) -> Vec<RecordedPacket> {
        self.read_some(port, from, usize::MAX)
    }

    /// Returns the oldest `most` packets of those that [`read`](Self::read) returns.
    pub fn read_some(&self, port: usize, from: u64, most: usize) -> Vec<RecordedPacket> {
        let Some(ring) = self.rings.get(port) else { return Vec::new() };
        let copied = copy(ring, from, most);
        let now = Now { time: SystemTime::now(), ticks: clock::ticks() };
        copied.iter().map(|(number, read)| recorded(*number, read, self.behind(read), &now)).collect()
    }

    /// The name of a reason's counter, including the decision's own reasons.
    pub fn name(&self, reason: Reason) -> &'static str {
        reason.name_among(self.own)
    }
}

/// Copies the oldest `most` packets of a ring from this number on, with their numbers. All are copied before the first
/// is looked at, since the worker overwrites what takes long to copy. If it overwrote most of them nevertheless, as it
/// does while the copy's memory is touched for the first time, those that are there now are copied.
fn copy(ring: &Ring, from: u64, most: usize) -> Vec<(u64, Read)> {
    let mut copied = Vec::new();
    for _ in 0..COPIES_MAX {
        let next = ring.next();
        let numbers = from.max(next.saturating_sub(ring.room() as u64))..next;
        let wanted = usize::try_from(next.saturating_sub(numbers.start)).unwrap_or(most).min(most);
        copied.clear();
        copied.reserve(wanted);
        copied.extend(numbers.filter_map(|number| Some((number, ring.read(number)?))).take(most));
        if copied.len() >= wanted / 2 {
            break;
        }
    }
    copied
}

fn recorded(number: u64, read: &Read, behind: Behind, now: &Now) -> RecordedPacket {
    let (len, verdict) = (read.len as usize, read.became.code().map(|code| code.verdict()));
    let is_passed = verdict == Some(Verdict::Pass);
    // For a packet that came back, the time since it was handed over is known, and the way there is a part of it.
    let there = if is_passed { 0 } else { read.ticks.saturating_sub(read.handed) };
    let taken = behind.taken.map(|ticks| passed(0, ticks.saturating_sub(there)));
    RecordedPacket {
        number,
        queue: read.queue,
        time: now.time_of(read.ticks),
        len,
        bytes: read.bytes[..len.min(BYTES)].to_vec(),
        verdict,
        lost: read.became.lost_for().or(behind.lost),
        waited: (read.again != 0).then(|| passed(read.ticks, read.again)),
        lane: (read.handed != 0).then(|| passed(read.handed, read.ticks)),
        lane_back: taken.filter(|_| !is_passed),
        local_queue: taken.filter(|_| is_passed),
        is_answered: read.became.is_answered(),
    }
}
