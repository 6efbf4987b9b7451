//! What was recorded, read from any thread. COLD.

use super::ring::{BYTES, Read, Ring};
use crate::forward::verdict::{Reason, Verdict};
use crate::sys::clock;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// What reads a recording, at any time and as often as one likes.
#[derive(Debug, Clone)]
pub struct Recording {
    rings: Arc<[Ring]>,
    /// The names of the reasons that the decision has of its own.
    own: &'static [&'static str],
}

/// A packet and what became of it, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedPacket {
    /// Its place among those of its port at this worker, from 0: what is missing between two of them was overwritten.
    pub number: u64,
    /// The queue it came by.
    pub queue: u16,
    /// When its burst was decided about.
    pub time: SystemTime,
    /// Its length when it came.
    pub len: usize,
    /// Its first bytes, as they came: 152 at most.
    pub bytes: Vec<u8>,
    /// What was decided about it, the last time; None if nothing was yet: it is in work.
    pub verdict: Option<Verdict>,
    /// Why it was dropped behind its verdict, if it was.
    pub lost: Option<Reason>,
    /// How long it waited with the decision before the last verdict (a router: for a neighbour), if it did.
    pub waited: Option<Duration>,
    /// It was dropped, and its sender is told.
    pub is_answered: bool,
}

impl RecordedPacket {
    /// Why it was dropped, by its verdict or behind it; None if it was not, as far as that is known.
    pub fn dropped(&self) -> Option<Reason> {
        self.lost.or(match self.verdict {
            Some(Verdict::Drop(reason)) => Some(reason),
            _ => None,
        })
    }
}

/// The clocks at one moment: what ticks mean.
struct Now {
    time: SystemTime,
    ticks: u64,
}

impl Now {
    fn time_of(&self, ticks: u64) -> SystemTime {
        self.time.checked_sub(passed(ticks, self.ticks)).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

/// The time between two readings of the counter; nothing where they came from cores that disagree.
fn passed(from: u64, to: u64) -> Duration {
    Duration::from_nanos((to.saturating_sub(from) as f64 / clock::ticks_per_ns()) as u64)
}

impl Recording {
    pub(super) fn new(rings: Arc<[Ring]>, own: &'static [&'static str]) -> Recording {
        Recording { rings, own }
    }

    /// How many ports are recorded.
    pub fn ports(&self) -> usize {
        self.rings.len()
    }

    /// How many packets of each port are kept.
    pub fn room(&self) -> usize {
        self.rings.first().map_or(0, Ring::room)
    }

    /// The packets of a port that are there, from this number on, oldest first; none of a port that is not there. Those that the
    /// worker overwrites meanwhile are missing.
    pub fn read(&self, port: usize, from: u64) -> Vec<RecordedPacket> {
        let Some(ring) = self.rings.get(port) else { return Vec::new() };
        let now = Now { time: SystemTime::now(), ticks: clock::ticks() };
        let next = ring.next();
        let oldest = next.saturating_sub(ring.room() as u64);
        let read = |number| ring.read(number).map(|read| recorded(number, &read, &now));
        (from.max(oldest)..next).filter_map(read).collect()
    }

    /// The name of a reason's counter, also of one of the decision's own.
    pub fn name(&self, reason: Reason) -> &'static str {
        reason.name_among(self.own)
    }
}

fn recorded(number: u64, read: &Read, now: &Now) -> RecordedPacket {
    let len = read.len as usize;
    RecordedPacket {
        number,
        queue: read.queue,
        time: now.time_of(read.ticks),
        len,
        bytes: read.bytes[..len.min(BYTES)].to_vec(),
        verdict: read.became.code().map(|code| code.verdict()),
        lost: read.became.lost_for(),
        waited: (read.again != 0).then(|| passed(read.ticks, read.again)),
        is_answered: read.became.is_answered(),
    }
}
