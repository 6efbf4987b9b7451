//! Frames that wait for their next hop's MAC address. COLD.
//!
//! ```text
//!   verdict: wait ─► Waiting::put ─► a queue for each neighbour      the table changed ─► each queue whose first frame need
//!                        └─ the first of a queue ─► Wanted::read     not wait for this neighbour is decided about
//! ```
//! The table changes when a neighbour answers, when it is known not to answer, and when a route changes. If a queue
//! is full, its oldest frame makes room for the newest (RFC 1122 §2.3.2.2: the latest is to be kept). Steering's
//! guarantee of order does not cover waiting frames: a flow may move to another worker while its first packets wait
//! here.
//!
//! If the queues or the frames are at their limit, room is shared by the two ports of a frame (`shares`). A scan
//! from one port of addresses behind another leaves room to every pair that needs less. A pair that takes a queue has
//! it at once. The frames of the ended queue are removed as frames come in, because no call returns more frames than
//! a batch holds.
//!
//! A name that was sent may still be lost: its receiver may have no room for it, or no link yet. So the name is
//! sent again while frames come for the neighbour or the table changes, at most once a second.

mod names;
mod shares;

use crate::ip::awaited;
use crate::route::{Neighbour, Table};
use names::Names;
use netmem::limits::BATCH_MAX;
use netmem::pool::{Batch, Frame};
use netmem::ring::{Receiver, ring};
use netmem::steer::Source;
use shares::{Pair, Shares};
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of queues: neighbours with waiting frames.
const QUEUES: usize = 64;
/// Maximum number of ended queues that still have frames.
const ENDED: usize = QUEUES;
/// Slots of the ring by which names of neighbours reach the code that has the kernel resolve them.
pub(crate) const ASKED: u32 = 256;
/// The time after which a neighbour is asked for again (RFC 1122 §2.3.2.1).
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// The waiting frames of one worker.
#[derive(Debug)]
pub struct Waiting {
    queues: VecDeque<Queue>,
    /// Invariant: the number of queues that are ended.
    ended: usize,
    /// Number of queues, from the first, that have not been examined since the table changed.
    due: usize,
    /// Invariant: the number of frames in all queues.
    frames: usize,
    /// Maximum number of waiting frames.
    most: usize,
    /// The queues and frames of each pair of ports.
    shares: Shares,
    names: Names,
}

/// The frames that wait for one neighbour and came from one source.
#[derive(Debug)]
struct Queue {
    neighbour: Neighbour,
    from: Source,
    frames: Batch,
    /// The time at which the neighbour's name was last sent, by the monotonic clock.
    asked: Option<u64>,
    /// The queue was taken from its pair. It gets no more frames, and goes once its frames are removed. Until then they
    /// count as frames of the pair.
    ended: bool,
}

impl Queue {
    fn pair(&self) -> Pair {
        Pair::of(self.neighbour, self.from)
    }

    /// Sends the neighbour's name, unless it was sent shortly before.
    fn ask(&mut self, names: &mut Names, now: u64) {
        let is_asked = self.asked.is_some_and(|then| u128::from(now.saturating_sub(then)) < AGAIN.as_nanos());
        if !is_asked && names.send(self.neighbour) {
            self.asked = Some(now);
        }
    }
}

/// Frames that are removed to make room.
///
/// Invariant: there is room for the frames that are still to come, because any of them may be refused.
struct Gone {
    frames: Batch,
    /// Number of frames that are still to come.
    to_come: usize,
}

impl Gone {
    /// Returns the number of frames that may be removed for the current frame. It is never 0 in
    /// [`put`](Waiting::put), which counts the current frame's own slot.
    fn spare(&self) -> usize {
        self.frames.room().saturating_sub(self.to_come)
    }
}

/// The names of neighbours that frames wait for. Its owner has their MAC addresses resolved.
#[derive(Debug)]
pub struct Wanted(pub(crate) Receiver<Neighbour>);

/// Makes room for at most `most` waiting frames of a worker. Also returns the names of the neighbours that the
/// frames wait for.
#[cold]
pub fn waiting(most: usize) -> (Waiting, Wanted) {
    let (wanted, names) = ring(ASKED);
    (
        Waiting {
            queues: VecDeque::with_capacity(QUEUES + ENDED),
            ended: 0,
            due: 0,
            frames: 0,
            most,
            shares: Shares::default(),
            names: Names::new(wanted),
        },
        Wanted(names),
    )
}

impl Wanted {
    /// Takes the names that came since the last call. A name may come more than once. Returns the number of names.
    pub fn read(&mut self, take: impl FnMut(Neighbour)) -> usize {
        self.0.recv_burst(ASKED as usize, take)
    }
}

impl Waiting {
    /// Takes `frames`, which came from one source. On return `frames` holds those that have no room, and those that
    /// were removed to make room.
    pub(crate) fn put(&mut self, from: Source, frames: &mut Batch, table: &Table, now: u64) {
        let mut neighbours = [None; BATCH_MAX];
        frames.each_data_mut(0, |i, data| neighbours[i] = awaited(data, table));
        let mut gone = Gone { to_come: frames.len(), frames: Batch::new() };
        for (frame, neighbour) in frames.drain().zip(neighbours) {
            gone.to_come -= 1;
            let refused = match neighbour.and_then(|neighbour| self.queue(neighbour, from, now, &mut gone)) {
                Some(at) => self.keep(at, frame),
                None => Some(frame),
            };
            // There is room: a frame for which a queue was ended is neither refused nor exchanged for another, unless
            // that queue was empty.
            drop(refused.map(|frame| gone.frames.push(frame)));
        }
        self.remove_ended(&mut gone.frames);
        frames.append(&mut gone.frames);
    }

    /// Puts a frame into a queue. Returns the frame that was removed for it, or the frame itself if there is no
    /// room.
    fn keep(&mut self, at: usize, frame: Frame) -> Option<Frame> {
        let pair = self.queues[at].pair();
        if self.queues[at].frames.room() == 0 {
            let oldest = self.queues[at].frames.drain().next();
            // The oldest frame's slot is free.
            return self.queues[at].frames.push(frame).err().or(oldest);
        }
        let gone = match self.frames < self.most {
            true => None,
            false => match self.shares.giver(pair, |share| share.frames) {
                Some(giver) => self.oldest_of(giver),
                None => return Some(frame),
            },
        };
        self.frames += 1;
        self.shares.change(pair, |share| share.frames += 1);
        self.queues[at].frames.push(frame).err().or(gone)
    }

    /// Takes the oldest frame of an ended queue of a pair, otherwise of its longest queue.
    fn oldest_of(&mut self, pair: Pair) -> Option<Frame> {
        let queues = self.queues.iter_mut().filter(|queue| queue.pair() == pair && !queue.frames.is_empty());
        let oldest = queues.max_by_key(|queue| (queue.ended, queue.frames.len()))?.frames.drain().next()?;
        self.frames -= 1;
        self.shares.change(pair, |share| share.frames -= 1);
        Some(oldest)
    }

    /// Ends the shortest queue of the pair that has to give one. Its frames go to `gone` as far as there is room, and
    /// the others later. Returns false if no pair has to give a queue, or if there are too many ended queues.
    fn end_one_for(&mut self, pair: Pair, gone: &mut Gone) -> bool {
        let Some(giver) = self.shares.giver(pair, |share| share.queues) else { return false };
        let is_its = |queue: &Queue| !queue.ended && queue.pair() == giver;
        let its = (0..self.queues.len()).filter(|at| is_its(&self.queues[*at]));
        let Some(at) = its.min_by_key(|at| self.queues[*at].frames.len()) else { return false };
        let spare = gone.spare();
        if self.queues[at].frames.len() > spare && self.ended == ENDED {
            return false;
        }
        self.queues[at].ended = true;
        self.ended += 1;
        self.shares.change(giver, |share| share.queues -= 1);
        self.remove_from(at, &mut gone.frames, spare);
        true
    }

    /// Removes the frames of ended queues, as many as `gone` has room for.
    fn remove_ended(&mut self, gone: &mut Batch) {
        let mut at = 0;
        while self.ended > 0 && at < self.queues.len() {
            let is_removed = self.queues[at].ended && self.remove_from(at, gone, BATCH_MAX);
            at += usize::from(!is_removed);
        }
    }

    /// Removes at most `most` frames of an ended queue, and the queue with its last frame. Returns true if the queue
    /// was removed.
    fn remove_from(&mut self, at: usize, gone: &mut Batch, most: usize) -> bool {
        let queue = &mut self.queues[at];
        let pair = queue.pair();
        let n = queue.frames.drain().move_to(gone, most);
        let is_empty = queue.frames.is_empty();
        self.frames -= n;
        self.shares.change(pair, |share| share.frames -= n);
        if is_empty {
            self.queues.remove(at);
            self.ended -= 1;
            self.due -= usize::from(at < self.due);
        }
        is_empty
    }

    /// Marks all queues as due after the table has changed.
    pub(crate) fn table_changed(&mut self) {
        self.due = self.queues.len();
    }

    /// Returns the number of waiting frames.
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the index of the queue for frames from this source that wait for this neighbour. Asks for the
    /// neighbour, unless that was done shortly before. Returns None if there are too many queues.
    fn queue(&mut self, neighbour: Neighbour, from: Source, now: u64, gone: &mut Gone) -> Option<usize> {
        let is_its = |queue: &Queue| !queue.ended && queue.neighbour == neighbour && queue.from == from;
        let found = self.queues.iter().position(is_its);
        let pair = Pair::of(neighbour, from);
        let at = match found {
            Some(at) => at,
            None if self.queues.len() - self.ended == QUEUES && !self.end_one_for(pair, gone) => {
                self.names.send_unqueued(neighbour, pair);
                return None;
            }
            None => {
                let frames = Batch::new();
                self.queues.push_back(Queue { neighbour, from, frames, asked: None, ended: false });
                self.shares.change(pair, |share| share.queues += 1);
                self.queues.len() - 1
            }
        };
        self.queues[at].ask(&mut self.names, now);
        Some(at)
    }

    /// Takes out the next due queue whose first frame need not wait for its neighbour any more. If only the route
    /// of another frame has changed, that frame waits on with the first.
    ///
    /// # Cost
    /// A lookup for each queue, not for each frame. A table that changes all the time must not keep a worker busy.
    pub(crate) fn next_due(&mut self, table: &Table, now: u64) -> Option<(Source, Batch)> {
        while self.due > 0 {
            self.due -= 1;
            let mut queue = self.queues.pop_front()?;
            let first = queue.frames.first().and_then(|frame| awaited(frame.data(), table));
            if first != Some(queue.neighbour) {
                self.frames -= queue.frames.len();
                self.ended -= usize::from(queue.ended);
                self.shares.change(queue.pair(), |share| {
                    share.queues -= usize::from(!queue.ended);
                    share.frames -= queue.frames.len();
                });
                return Some((queue.from, queue.frames));
            }
            if !queue.ended {
                queue.ask(&mut self.names, now);
            }
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

    fn nothing() -> Gone {
        Gone { frames: Batch::new(), to_come: 0 }
    }

    fn names(wanted: &mut Wanted) -> Vec<Neighbour> {
        let mut names = Vec::new();
        wanted.read(|name| names.push(name));
        names
    }

    /// Seen: a name that the follower rejected was never sent again, and the neighbour's packets were dropped
    /// forever.
    #[test]
    fn a_name_is_sent_again_a_second_later_and_not_before() {
        let (mut waiting, mut wanted) = waiting(8);
        let neighbour = Neighbour { port: 1, address: IpAddr::from([10, 0, 0, 7]) };
        let from = Source::default();
        for (now, sent) in [(0, 1), (1, 0), (SECOND - 1, 0), (SECOND, 1), (SECOND + 1, 0), (9 * SECOND, 1)] {
            assert_eq!(waiting.queue(neighbour, from, now, &mut nothing()), Some(0));
            assert_eq!(names(&mut wanted), vec![neighbour; sent], "{now}");
        }
    }

    /// If the ring is full, the name is sent as soon as the ring has a free slot.
    #[test]
    fn a_name_that_the_ring_has_no_place_for_is_sent_with_the_next_frame() {
        let (mut waiting, mut wanted) = waiting(8);
        let name = |last| Neighbour { port: 1, address: IpAddr::from([10, 0, 0, last]) };
        while waiting.names.send(name(1)) {}
        let from = Source::default();
        waiting.queue(name(2), from, 0, &mut nothing());
        assert!(!names(&mut wanted).contains(&name(2)));
        waiting.queue(name(2), from, 1, &mut nothing());
        assert_eq!(names(&mut wanted), [name(2)]);
    }

    /// Seen: a scan of a network through one port took all queues. New neighbours of the other ports were
    /// unreachable during the scan.
    #[test]
    fn a_scan_behind_one_port_takes_no_queue_nor_name_from_the_others() {
        let (mut waiting, mut wanted) = waiting(8);
        let scanned =
            |number: u32| Neighbour { port: 1, address: IpAddr::from((0x0a00_0000 + number).to_be_bytes()) };
        let honest = |last| Neighbour { port: 2, address: IpAddr::from([192, 0, 2, last]) };
        let from = Source::default();
        let mut gone = nothing();
        let queued =
            (0..10_000).filter(|number| waiting.queue(scanned(*number), from, 0, &mut gone).is_some());
        assert_eq!(queued.count(), QUEUES);
        for last in 0..QUEUES as u8 / 2 {
            assert!(waiting.queue(honest(last), from, 0, &mut gone).is_some(), "{last}");
        }
        assert!(
            waiting.queue(honest(99), from, 0, &mut gone).is_none(),
            "nor does that port take more than half"
        );
        let asked = names(&mut wanted);
        assert!((0..QUEUES as u8 / 2).all(|last| asked.contains(&honest(last))));
        assert!(asked.len() > QUEUES + QUEUES / 2, "what has no queue is asked for too: {}", asked.len());
    }
}
