//! Frames that wait for their next hop's link address. COLD.
//!
//! ```text
//!   verdict: wait ─► Waiting::put ─► a queue for each neighbour      the table changed ─► those whose first frame need not
//!                        └─ the first of a queue ─► Wanted::read     wait for this neighbour any more are decided about
//! ```
//! A neighbour that answers, or is known not to, is a change of the table; so are routes that lead elsewhere meanwhile. A full
//! queue gives its oldest frame for the newest (RFC 1122 §2.3.2.2: the latest is to be kept). Waiting frames are outside of
//! what steering promises about order: a flow may move to another worker while its first packets wait here.
//!
//! A name that was sent may still be lost: whoever asks has no place for it, or no link yet. So it is sent again, once a second at
//! most, while frames come for the neighbour or the table changes.

use crate::ip::awaited;
use crate::route::{Neighbour, Table};
use netmem::limits::BATCH_MAX;
use netmem::pool::Batch;
use netmem::ring::{Receiver, Sender, ring};
use netmem::steer::Source;
use std::collections::VecDeque;
use std::time::Duration;

/// Queues at most: neighbours that are waited for at once.
const QUEUES: usize = 64;
/// Slots of the ring by which neighbours go to who asks the kernel for them.
pub(crate) const ASKED: u32 = 256;
/// How long after a neighbour was asked for it is asked for again (RFC 1122 §2.3.2.1).
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// Frames that wait, of one worker.
#[derive(Debug)]
pub struct Waiting {
    queues: VecDeque<Queue>,
    /// The first so many queues have not been looked at since the table changed.
    due: usize,
    /// Invariant: the frames in all queues.
    frames: usize,
    /// Frames that may wait at once.
    most: usize,
    wanted: Sender<Neighbour>,
}

/// What waits for one neighbour, and came from one place.
#[derive(Debug)]
struct Queue {
    neighbour: Neighbour,
    from: Source,
    frames: Batch,
    /// When the neighbour's name was last sent to whoever asks, by the monotonic clock.
    asked: Option<u64>,
}

impl Queue {
    /// Sends the neighbour's name, unless that was not long ago.
    fn ask(&mut self, wanted: &mut Sender<Neighbour>, now: u64) {
        let is_asked = self.asked.is_some_and(|then| u128::from(now.saturating_sub(then)) < AGAIN.as_nanos());
        if !is_asked && wanted.send(self.neighbour).is_ok() {
            self.asked = Some(now);
        }
    }
}

/// The names of neighbours that frames wait for, for whoever can ask for their link addresses.
#[derive(Debug)]
pub struct Wanted(pub(crate) Receiver<Neighbour>);

/// Room for at most `most` frames of a worker that wait, and the names of the neighbours that they wait for.
#[cold]
pub fn waiting(most: usize) -> (Waiting, Wanted) {
    let (wanted, names) = ring(ASKED);
    (Waiting { queues: VecDeque::with_capacity(QUEUES), due: 0, frames: 0, most, wanted }, Wanted(names))
}

impl Wanted {
    /// Takes the names that came since the last call; a name may come more than once. Returns how many.
    pub fn read(&mut self, take: impl FnMut(Neighbour)) -> usize {
        self.0.recv_burst(ASKED as usize, take)
    }
}

impl Waiting {
    /// Takes `frames`, which came from one source; what has to go for them, or finds no room, is in `frames` then.
    pub(crate) fn put(&mut self, from: Source, frames: &mut Batch, table: &Table, now: u64) {
        let mut dropped = Batch::new();
        let mut neighbours = [None; BATCH_MAX];
        frames.each_data_mut(0, |i, data| neighbours[i] = awaited(data, table));
        for (frame, neighbour) in frames.drain().zip(neighbours) {
            // There is room in `dropped` for as many as there are in `frames`: each costs one frame at most.
            let place = neighbour.and_then(|neighbour| self.queue(neighbour, from, now));
            let refused = match place {
                Some(at) if self.queues[at].frames.room() == 0 => {
                    let queue = &mut self.queues[at].frames;
                    let oldest = queue.drain().next();
                    // The place of the oldest is free.
                    drop(queue.push(frame));
                    oldest
                }
                Some(at) if self.frames < self.most => {
                    self.frames += 1;
                    self.queues[at].frames.push(frame).err()
                }
                _ => Some(frame),
            };
            drop(refused.map(|frame| dropped.push(frame)));
        }
        frames.append(&mut dropped);
    }

    /// The table has changed: all queues are due.
    pub(crate) fn table_changed(&mut self) {
        self.due = self.queues.len();
    }

    /// Frames that wait.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// The place of the queue for frames from there that wait for this neighbour, asked for if it was not just now; None if
    /// there are too many queues.
    fn queue(&mut self, neighbour: Neighbour, from: Source, now: u64) -> Option<usize> {
        let found = self.queues.iter().position(|queue| queue.neighbour == neighbour && queue.from == from);
        let at = match found {
            Some(at) => at,
            None if self.queues.len() == QUEUES => {
                // Asked for all the same: whoever scans a network must not keep others from being found.
                self.wanted.send(neighbour).ok();
                return None;
            }
            None => {
                self.queues.push_back(Queue { neighbour, from, frames: Batch::new(), asked: None });
                self.queues.len() - 1
            }
        };
        self.queues[at].ask(&mut self.wanted, now);
        Some(at)
    }

    /// Takes out the next queue that is due and whose first frame need not wait for its neighbour any more. Where another
    /// frame's route has changed it waits on with the first.
    ///
    /// # Cost
    /// A lookup for each queue, not for each frame: a table that changes all the time must not keep a worker busy.
    pub(crate) fn next_due(&mut self, table: &Table, now: u64) -> Option<(Source, Batch)> {
        while self.due > 0 {
            self.due -= 1;
            let mut queue = self.queues.pop_front()?;
            let first = queue.frames.first().and_then(|frame| awaited(frame.data(), table));
            if first != Some(queue.neighbour) {
                self.frames -= queue.frames.len();
                return Some((queue.from, queue.frames));
            }
            queue.ask(&mut self.wanted, now);
            self.queues.push_back(queue);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const SECOND: u64 = AGAIN.as_nanos() as u64;

    fn names(wanted: &mut Wanted) -> Vec<Neighbour> {
        let mut names = Vec::new();
        wanted.read(|name| names.push(name));
        names
    }

    /// Seen: a name that the follower turned down was never sent again, and the neighbour's packets were dropped for ever.
    #[test]
    fn a_name_is_sent_again_a_second_later_and_not_before() {
        let (mut waiting, mut wanted) = waiting(8);
        let neighbour = Neighbour { port: 1, address: IpAddr::from([10, 0, 0, 7]) };
        let from = Source::default();
        for (now, sent) in [(0, 1), (1, 0), (SECOND - 1, 0), (SECOND, 1), (SECOND + 1, 0), (9 * SECOND, 1)] {
            assert_eq!(waiting.queue(neighbour, from, now), Some(0));
            assert_eq!(names(&mut wanted), vec![neighbour; sent], "{now}");
        }
    }

    /// Where the ring has no place the name is sent as soon as it has one.
    #[test]
    fn a_name_that_the_ring_has_no_place_for_is_sent_with_the_next_frame() {
        let (mut waiting, mut wanted) = waiting(8);
        let name = |last| Neighbour { port: 1, address: IpAddr::from([10, 0, 0, last]) };
        while waiting.wanted.send(name(1)).is_ok() {}
        let from = Source::default();
        waiting.queue(name(2), from, 0);
        assert!(!names(&mut wanted).contains(&name(2)));
        waiting.queue(name(2), from, 1);
        assert_eq!(names(&mut wanted), [name(2)]);
    }
}
