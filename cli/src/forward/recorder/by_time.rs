//! The packets of all rings of a run in the order of time, read from each ring some at a time.

use super::Recordings;
use crate::recorded::Recorded;
use netmem::forward::recorder::{RecordedPacket, Recording};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::SystemTime;
use std::vec::IntoIter;

/// Maximum number of packets that are read from a ring at once: a whole ring of the usual size, since a fast worker
/// overwrites all of it while the first packets are being written to a file.
const AT_ONCE: usize = 1024;
/// Number of packets that all rings together share, some 300 bytes each, and the minimum for a ring. From more rings than these on,
/// a fast worker may overwrite the newest packets before they are read.
const OF_ALL: usize = 128 * AT_ONCE;
const AT_LEAST: usize = 64;

/// One ring.
struct Ring<'a> {
    recording: &'a Recording,
    worker: usize,
    port: usize,
    /// The number of the next packet to read.
    next: u64,
    /// Number of packets that are read at once.
    at_once: usize,
    /// Packets that are read already, behind the one in the heap.
    read: IntoIter<RecordedPacket>,
}

impl Ring<'_> {
    /// Reads the next packets.
    fn fill(&mut self) {
        let read = self.recording.read_some(self.port, self.next, self.at_once);
        self.next = read.last().map_or(self.next, |last| last.number + 1);
        self.read = read.into_iter();
    }

    /// The ring's next packet.
    fn next(&mut self) -> Option<RecordedPacket> {
        if self.read.len() == 0 {
            self.fill();
        }
        self.read.next()
    }
}

/// The iterator. It ends with the packets that were recorded before the first ones had been read.
pub(super) struct ByTime<'a> {
    recordings: &'a Recordings,
    rings: Vec<Ring<'a>>,
    /// The next packet of each ring that has one.
    heads: BinaryHeap<Reverse<Head>>,
    until: SystemTime,
}

/// A ring's next packet. Earlier ones come first, then those of earlier rings.
struct Head {
    ring: usize,
    packet: RecordedPacket,
}

impl<'a> ByTime<'a> {
    pub(super) fn new(recordings: &'a Recordings, since: &[u64]) -> ByTime<'a> {
        let ports = recordings.ports.len();
        let rings = (recordings.workers.len() * ports).max(1);
        let at_once = (OF_ALL / rings).clamp(AT_LEAST, AT_ONCE);
        let ring = |(worker, recording)| {
            (0..ports).map(move |port| {
                let next = since.get(worker * ports + port).copied().unwrap_or_default();
                Ring { recording, worker, port, next, at_once, read: Vec::new().into_iter() }
            })
        };
        let mut rings: Vec<_> = recordings.workers.iter().enumerate().flat_map(ring).collect();
        rings.iter_mut().for_each(Ring::fill);
        let until = SystemTime::now();
        let mut by_time = ByTime { recordings, rings, heads: BinaryHeap::new(), until };
        (0..by_time.rings.len()).for_each(|ring| by_time.advance(ring));
        by_time
    }

    fn advance(&mut self, ring: usize) {
        let packet = self.rings[ring].next().filter(|packet| packet.time <= self.until);
        self.heads.extend(packet.map(|packet| Reverse(Head { ring, packet })));
    }
}

impl Iterator for ByTime<'_> {
    type Item = Recorded;

    fn next(&mut self) -> Option<Recorded> {
        let Reverse(Head { ring, packet }) = self.heads.pop()?;
        self.advance(ring);
        let Ring { recording, worker, port, .. } = self.rings[ring];
        let port = &self.recordings.ports[port];
        Some(self.recordings.recorded((ring, worker, port), recording, &packet))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Head) -> std::cmp::Ordering {
        (self.packet.time, self.ring).cmp(&(other.packet.time, other.ring))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Eq for Head {}

impl PartialEq for Head {
    fn eq(&self, other: &Head) -> bool {
        self.cmp(other).is_eq()
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::recordings;
    use super::*;

    /// Seen in a review: a request for some packets copied 1,024 of every ring first, gigabytes for some thousand rings.
    #[test]
    fn the_packets_of_many_rings_are_read_a_few_at_a_time_and_all_of_them() {
        let Recordings { ports, workers } = recordings(1024);
        for (count, at_once) in [(1, 1024), (64, 1024), (128, 512), (1024, 64)] {
            let workers = workers.iter().cycle().take(count).cloned().collect();
            let recordings = Recordings { ports: ports.clone(), workers };
            let mut all = ByTime::new(&recordings, &[]);
            let read: usize = all.rings.iter().map(|ring| ring.read.len() + 1).sum();
            assert_eq!(read, 2 * count * at_once, "of {count} workers");
            let first = all.next().map(|packet| packet.number);
            assert!(first == Some(0) && (count > 64 || all.count() == 2 * count * 1024 - 1));
        }
    }
}
