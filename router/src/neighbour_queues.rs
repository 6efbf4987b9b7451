//! Frames that wait for their next hop's MAC address. COLD.
//!
//! ```text
//!   verdict: wait ─► NeighbourQueues::put ─► a queue for each neighbour
//!                        └─ the first of a queue ─► UnresolvedNeighbours::read
//!   the table changed ─► each queue whose first frame need not wait for this neighbour is decided about
//! ```
//! The table changes when a neighbour answers, when it is known not to answer, and when a route changes. If a queue
//! is full, its oldest frame makes room for the newest (RFC 1122 §2.3.2.2: the latest is to be kept). If as many frames wait
//! as may wait, the oldest frame of the longest queue makes room. Steering's
//! guarantee of order does not cover waiting frames: a flow may move to another worker while its first packets wait
//! here.
//!
//! If the queues or the frames are at their limit, room is shared by the two ports of a frame (`shares`). A scan
//! from one port of addresses behind another leaves room to every pair that needs less. A pair that takes a queue has
//! it at once. The frames of the ended queue are removed as frames come in, because no call returns more frames than
//! a batch holds.
//!
//! A request that was sent may still be lost: its receiver may have no room for it, or no link yet. So the request is
//! sent again while frames come for the neighbour or the table changes, at most once a second.

mod requests;
mod shares;

use crate::ip::awaited;
use crate::route::{Neighbour, Table};
use netmem::limits::BATCH_MAX;
use netmem::pool::{Batch, Frame};
use netmem::ring::{Receiver, ring};
use netmem::steer::Source;
use requests::RequestRing;
use shares::{Pair, Shares};
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of queues: neighbours with waiting frames.
const QUEUES_MAX: usize = 64;
/// Maximum number of ended queues that still have frames.
const ENDED_MAX: usize = QUEUES_MAX;
/// Slots of the ring by which requests reach the code that has the kernel resolve neighbours.
pub(crate) const REQUEST_SLOTS: u32 = 256;
/// The minimum time between two requests for a neighbour (RFC 1122 §2.3.2.1).
pub(crate) const REQUEST_INTERVAL: Duration = Duration::from_secs(1);

/// The frames of one worker that wait for neighbours, in a queue for each neighbour.
#[derive(Debug)]
pub struct NeighbourQueues {
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
    requests: RequestRing,
}

/// The frames that wait for one neighbour and came from one source.
#[derive(Debug)]
struct Queue {
    neighbour: Neighbour,
    from: Source,
    frames: Batch,
    /// The time at which the neighbour was last requested, by the monotonic clock.
    last_request: Option<u64>,
    /// The queue was taken from its pair. It gets no more frames, and goes once its frames are removed. Until then they
    /// count as frames of the pair.
    ended: bool,
}

impl Queue {
    fn pair(&self) -> Pair {
        Pair::of(self.neighbour, self.from)
    }

    /// Requests the neighbour, unless that was done shortly before.
    fn request(&mut self, requests: &mut RequestRing, now: u64) {
        let is_recent = self
            .last_request
            .is_some_and(|then| u128::from(now.saturating_sub(then)) < REQUEST_INTERVAL.as_nanos());
        if !is_recent && requests.send(self.neighbour) {
            self.last_request = Some(now);
        }
    }
}

/// Frames that are removed to make room.
///
/// Invariant: there is room for the frames that are still to come, because any of them may be refused.
struct Evicted {
    frames: Batch,
    /// Number of frames that are still to come.
    to_come: usize,
}

impl Evicted {
    /// Returns the number of frames that may be removed for the current frame. It is never 0 in
    /// [`put`](NeighbourQueues::put), which counts the current frame's own slot.
    fn spare(&self) -> usize {
        self.frames.room().saturating_sub(self.to_come)
    }
}

/// The receiver of the neighbours that frames wait for. Its owner has their MAC addresses resolved.
#[derive(Debug)]
pub struct UnresolvedNeighbours(pub(crate) Receiver<Neighbour>);

/// Makes room for at most `most` waiting frames of a worker. Also returns the receiver of the neighbours that
/// the frames wait for.
#[cold]
pub fn neighbour_queues(most: usize) -> (NeighbourQueues, UnresolvedNeighbours) {
    let (sender, receiver) = ring(REQUEST_SLOTS);
    (
        NeighbourQueues {
            queues: VecDeque::with_capacity(QUEUES_MAX + ENDED_MAX),
            ended: 0,
            due: 0,
            frames: 0,
            most,
            shares: Shares::default(),
            requests: RequestRing::new(sender),
        },
        UnresolvedNeighbours(receiver),
    )
}

impl UnresolvedNeighbours {
    /// Takes the neighbours that were requested since the last call. One may come more than once. Returns their number.
    pub fn read(&mut self, take: impl FnMut(Neighbour)) -> usize {
        self.0.recv_burst(REQUEST_SLOTS as usize, take)
    }
}

impl NeighbourQueues {
    /// Takes `frames`, which came from one source. On return `frames` holds those that have no room, and those that
    /// were removed to make room.
    pub(crate) fn put(&mut self, from: Source, frames: &mut Batch, table: &Table, now: u64) {
        let mut neighbours = [None; BATCH_MAX];
        frames.each_data_mut(0, |i, data| neighbours[i] = awaited(data, table));
        let mut evicted = Evicted { to_come: frames.len(), frames: Batch::new() };
        for (frame, neighbour) in frames.drain().zip(neighbours) {
            evicted.to_come -= 1;
            let refused = match neighbour.and_then(|neighbour| self.queue(neighbour, from, now, &mut evicted))
            {
                Some(at) => self.enqueue(at, frame),
                None => Some(frame),
            };
            // There is room: a frame for which a queue was ended is neither refused nor exchanged for another, unless
            // that queue was empty.
            drop(refused.map(|frame| evicted.frames.push(frame)));
        }
        self.remove_ended(&mut evicted.frames);
        frames.append(&mut evicted.frames);
    }

    /// Puts a frame into a queue. Returns the frame that was removed for it, or the frame itself if there is no
    /// room.
    fn enqueue(&mut self, at: usize, frame: Frame) -> Option<Frame> {
        let pair = self.queues[at].pair();
        if self.queues[at].frames.room() == 0 {
            let oldest = self.queues[at].frames.drain().next();
            // The oldest frame's slot is free.
            return self.queues[at].frames.push(frame).err().or(oldest);
        }
        let evicted = match self.frames < self.most {
            true => None,
            false => {
                // The latest frame is to be kept, so a pair to which no other has to give loses an old one.
                let giver = self.shares.giver(pair, |share| share.frames).unwrap_or(pair);
                match self.oldest_of(giver, at) {
                    None => return Some(frame),
                    oldest => oldest,
                }
            }
        };
        self.frames += 1;
        self.shares.change(pair, |share| share.frames += 1);
        self.queues[at].frames.push(frame).err().or(evicted)
    }

    /// Takes the oldest frame of an ended queue of a pair, otherwise of its longest queue. Of several, that is the one at
    /// `at`, whose new frame replaces it.
    fn oldest_of(&mut self, pair: Pair, at: usize) -> Option<Frame> {
        let queues = self.queues.iter_mut().enumerate();
        let queues = queues.filter(|(_, queue)| queue.pair() == pair && !queue.frames.is_empty());
        let (_, queue) = queues.max_by_key(|(i, queue)| (queue.ended, queue.frames.len(), *i == at))?;
        let oldest = queue.frames.drain().next()?;
        self.frames -= 1;
        self.shares.change(pair, |share| share.frames -= 1);
        Some(oldest)
    }

    /// Ends the shortest queue of the pair that has to give one. Its frames go to `evicted` as far as there is room, and
    /// the others later. Returns false if no pair has to give a queue, or if there are too many ended queues.
    fn end_one_for(&mut self, pair: Pair, evicted: &mut Evicted) -> bool {
        let Some(giver) = self.shares.giver(pair, |share| share.queues) else { return false };
        let is_its = |queue: &Queue| !queue.ended && queue.pair() == giver;
        let its = (0..self.queues.len()).filter(|at| is_its(&self.queues[*at]));
        let Some(at) = its.min_by_key(|at| self.queues[*at].frames.len()) else { return false };
        let spare = evicted.spare();
        if self.queues[at].frames.len() > spare && self.ended == ENDED_MAX {
            return false;
        }
        self.queues[at].ended = true;
        self.ended += 1;
        self.shares.change(giver, |share| share.queues -= 1);
        self.remove_from(at, &mut evicted.frames, spare);
        true
    }

    /// Removes the frames of ended queues, as many as `evicted` has room for.
    fn remove_ended(&mut self, evicted: &mut Batch) {
        let mut at = 0;
        while self.ended > 0 && at < self.queues.len() {
            let is_removed = self.queues[at].ended && self.remove_from(at, evicted, BATCH_MAX);
            at += usize::from(!is_removed);
        }
    }

    /// Removes at most `most` frames of an ended queue, and the queue with its last frame. Returns true if the queue
    /// was removed.
    fn remove_from(&mut self, at: usize, evicted: &mut Batch, most: usize) -> bool {
        let queue = &mut self.queues[at];
        let pair = queue.pair();
        let n = queue.frames.drain().move_to(evicted, most);
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
    fn queue(
        &mut self,
        neighbour: Neighbour,
        from: Source,
        now: u64,
        evicted: &mut Evicted,
    ) -> Option<usize> {
        let is_its = |queue: &Queue| !queue.ended && queue.neighbour == neighbour && queue.from == from;
        let found = self.queues.iter().position(is_its);
        let pair = Pair::of(neighbour, from);
        let at = match found {
            Some(at) => at,
            None if self.queues.len() - self.ended == QUEUES_MAX && !self.end_one_for(pair, evicted) => {
                self.requests.send_unqueued(neighbour, pair);
                return None;
            }
            None => {
                let frames = Batch::new();
                self.queues.push_back(Queue { neighbour, from, frames, last_request: None, ended: false });
                self.shares.change(pair, |share| share.queues += 1);
                self.queues.len() - 1
            }
        };
        self.queues[at].request(&mut self.requests, now);
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
                queue.request(&mut self.requests, now);
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

    const SECOND: u64 = REQUEST_INTERVAL.as_nanos() as u64;

    fn nothing() -> Evicted {
        Evicted { frames: Batch::new(), to_come: 0 }
    }

    fn requested(unresolved: &mut UnresolvedNeighbours) -> Vec<Neighbour> {
        let mut all = Vec::new();
        unresolved.read(|neighbour| all.push(neighbour));
        all
    }

    /// Seen: a request that the follower rejected was never sent again, and the neighbour's packets were dropped
    /// forever.
    #[test]
    fn a_neighbour_is_requested_again_a_second_later_and_not_before() {
        let (mut queues, mut unresolved) = neighbour_queues(8);
        let neighbour = Neighbour { port: 1, address: IpAddr::from([10, 0, 0, 7]) };
        let from = Source::default();
        for (now, sent) in [(0, 1), (1, 0), (SECOND - 1, 0), (SECOND, 1), (SECOND + 1, 0), (9 * SECOND, 1)] {
            assert_eq!(queues.queue(neighbour, from, now, &mut nothing()), Some(0));
            assert_eq!(requested(&mut unresolved), vec![neighbour; sent], "{now}");
        }
    }

    /// If the ring is full, the request is sent as soon as the ring has a free slot.
    #[test]
    fn a_request_that_the_ring_has_no_slot_for_is_sent_with_the_next_frame() {
        let (mut queues, mut unresolved) = neighbour_queues(8);
        let neighbour = |last| Neighbour { port: 1, address: IpAddr::from([10, 0, 0, last]) };
        while queues.requests.send(neighbour(1)) {}
        let from = Source::default();
        queues.queue(neighbour(2), from, 0, &mut nothing());
        assert!(!requested(&mut unresolved).contains(&neighbour(2)));
        queues.queue(neighbour(2), from, 1, &mut nothing());
        assert_eq!(requested(&mut unresolved), [neighbour(2)]);
    }

    /// Seen: a scan of a network through one port took all queues. New neighbours of the other ports were
    /// unreachable during the scan.
    #[test]
    fn a_scan_behind_one_port_takes_no_queue_and_no_request_from_the_others() {
        let (mut queues, mut unresolved) = neighbour_queues(8);
        let scanned =
            |number: u32| Neighbour { port: 1, address: IpAddr::from((0x0a00_0000 + number).to_be_bytes()) };
        let honest = |last| Neighbour { port: 2, address: IpAddr::from([192, 0, 2, last]) };
        let from = Source::default();
        let mut evicted = nothing();
        let queued =
            (0..10_000).filter(|number| queues.queue(scanned(*number), from, 0, &mut evicted).is_some());
        assert_eq!(queued.count(), QUEUES_MAX);
        for last in 0..QUEUES_MAX as u8 / 2 {
            assert!(queues.queue(honest(last), from, 0, &mut evicted).is_some(), "{last}");
        }
        assert!(
            queues.queue(honest(99), from, 0, &mut evicted).is_none(),
            "nor does that port take more than half"
        );
        let asked = requested(&mut unresolved);
        assert!((0..QUEUES_MAX as u8 / 2).all(|last| asked.contains(&honest(last))));
        assert!(
            asked.len() > QUEUES_MAX + QUEUES_MAX / 2,
            "what has no queue is asked for too: {}",
            asked.len()
        );
    }
}
