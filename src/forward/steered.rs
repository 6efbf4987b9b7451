//! HOT: frames that a worker receives go to other workers, and theirs come here.
//!
//! ```text
//!   rx ─► Outbox::steer ─┬─ its own ──────────────────────────────┬─► verdict ─► tx        by this worker's queue
//!                        └─ another's ─► that one's Inbox::take ──┘      │
//!                                                                        └─► the receiver's Inbox ─► tx   by its queue
//! ```
//! The transmit queue follows from the recorded receive queue ([`tx_queue`]). If it is recorded on the second worker,
//! it is that worker's own queue, and the frame is already there. If it is recorded on the first, it is the queue of
//! the worker that received. The decided frames then go back by lanes of their own.
//!
//! **Order.** Frames that the outbox left here, or that the inbox returned, are in a transmit ring before either is
//! called again. If the ring is full, or returning frames are not transmitted yet, nothing more is taken in. So *done*,
//! in the sense of the policies, means transmitted or dropped. Returning frames wait only for a transmit ring, so no
//! two workers wait for each other. Frames for which another worker's inbox has no room are dropped and counted: a slow
//! worker holds up no other. Frames wait for a ring only while it moves (`progress.rs`): a port whose other side stands
//! still holds up the others once, for 10 ms. (ADR 0018)
//!
//! **Turns.** Each port has a turn, and the inbox has one. A round begins with the turn before which the last round had
//! to stop. So a port with many frames for a slow ring leaves every other port its turn.

mod progress;

use self::progress::TxProgress;
use super::path::Path;
use super::poll::Forwarder;
use super::position::Call;
use super::verdict::Reason;
use crate::pool::Batch;
use crate::steer::{
    FlowConsumers, HandOffDrops, Inbox, InboxStats, Mesh, MeshConfig, MeshError, Outbox, Policy, PolicyError,
    RecordedQueue, Source, tx_queue,
};
use crate::sync::Worker;
use crate::sys::clock;
use std::cmp::Ordering;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// One worker's ends of the lanes between all workers.
#[derive(Debug)]
pub struct Steering {
    outbox: Outbox,
    inbox: Inbox,
    /// If the first worker's queue is recorded: the lanes back to it.
    back: Option<(Outbox, Inbox)>,
    /// Number of workers, and of transmit queues of each port: worker `i` has queue `i`.
    workers: u16,
    /// The place where the frames that are being forwarded were received.
    source: Source,
    /// The next turn: a port's number, then the inbox, then the lists for other workers.
    turn: usize,
    /// The progress of the transmit rings for which frames wait.
    progress: TxProgress,
}

/// The steering of all workers, which other threads can read and change under traffic.
#[derive(Debug, Clone)]
pub struct SteeringControl {
    mesh: Arc<Mesh>,
    back: Option<Arc<Mesh>>,
}

impl Steering {
    /// Makes lanes between `config.workers` workers, whose forwarders have the same ports in the same order and a queue
    /// each. Returns an end for each forwarder, and the handle that reads and changes how they steer.
    ///
    /// # Errors
    /// Returns [`MeshError`].
    #[cold]
    pub fn between(config: &MeshConfig) -> Result<(SteeringControl, Vec<Steering>), MeshError> {
        let (mesh, ends) = Mesh::new(config)?;
        let (back, mut backs) = match config.recorded_queue {
            RecordedQueue::Worker => (None, Vec::new()),
            RecordedQueue::Received => {
                let straight = MeshConfig { policy: Policy::None, flow_limit: None, ..config.clone() };
                let (back, backs) = Mesh::new(&straight)?;
                (Some(back), backs)
            }
        };
        let mut backs = backs.drain(..);
        let workers = config.workers as u16;
        let end = |(outbox, inbox)| {
            let (back, source) = (backs.next(), Source::default());
            Steering { outbox, inbox, back, workers, source, turn: 0, progress: TxProgress::default() }
        };
        let ends = ends.into_iter().map(end).collect();
        Ok((SteeringControl { mesh, back }, ends))
    }

    /// This worker's number.
    pub fn worker(&self) -> usize {
        self.outbox.worker()
    }

    /// Returns which other worker transmits the frames that are being forwarded; None for this one.
    #[inline]
    fn transmitter(&self) -> Option<usize> {
        self.back.as_ref()?;
        let owner = usize::from(tx_queue(Some(self.source.queue), 0, self.workers));
        (owner != self.outbox.worker()).then_some(owner)
    }

    /// Returns whether all frames that went back for transmission have been transmitted or dropped.
    #[inline]
    fn is_back_done(&mut self) -> bool {
        self.back.as_mut().is_none_or(|(outbox, _)| outbox.is_finished())
    }

    /// Sends all listed frames and arms the bells. Returns true if frames wait.
    #[cold]
    pub(super) fn arm(&mut self, w: &mut Worker) -> bool {
        self.outbox.flush_all(w);
        self.inbox.bell().arm();
        let mut waiting = self.inbox.waiting();
        if let Some((outbox, inbox)) = &mut self.back {
            outbox.flush_all(w);
            inbox.bell().arm();
            waiting |= inbox.waiting();
        }
        waiting
    }

    /// The descriptors to sleep on.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let back = self.back.iter().map(|(_, inbox)| inbox.bell().as_fd());
        [self.inbox.bell().as_fd()].into_iter().chain(back)
    }

    pub(super) fn disarm(&self) {
        self.inbox.bell().disarm();
        self.back.iter().for_each(|(_, inbox)| inbox.bell().disarm());
    }
}

impl SteeringControl {
    /// The policy, with the list of the workers that it chooses from.
    pub fn policy(&self) -> Policy {
        self.mesh.policy()
    }

    /// Changes the policy. The change loses no frame, and reorders no frames within a flow.
    ///
    /// # Errors
    /// Returns [`PolicyError`] if the policy names a worker that does not exist; nothing has changed then.
    pub fn set_policy(&self, policy: &Policy) -> Result<(), PolicyError> {
        self.mesh.set_policy(policy)
    }

    /// The table of flows' consumers, in which the consumers register. Under [`Policy::Flow`] a flow goes to its
    /// consumer's worker.
    pub fn consumers(&self) -> &FlowConsumers {
        self.mesh.consumers()
    }

    /// Wakes every sleeping worker ([`Idle::Sleep`](super::Idle)), as a packet for it would, so that it soon sees a
    /// request.
    pub fn wake(&self) {
        self.mesh.wake_all();
    }

    /// Each worker's counters, in order.
    pub fn stats(&self) -> Vec<InboxStats> {
        self.mesh.stats()
    }

    /// Frames dropped on their way between workers, by cause, including those lost because a reader was gone.
    pub fn drops(&self) -> HandOffDrops {
        let meshes = [Some(&self.mesh), self.back.as_ref()].into_iter().flatten();
        meshes.flat_map(|mesh| mesh.stats()).fold(HandOffDrops::default(), |all, one| HandOffDrops {
            inbox_full: all.inbox_full + one.drops.inbox_full,
            flow_limit: all.flow_limit + one.drops.flow_limit,
            inbox_gone: all.inbox_gone + one.drops.inbox_gone + one.lost,
        })
    }
}

impl Forwarder {
    /// Shares received frames with the other workers from now on.
    #[cold]
    pub fn set_steering(&mut self, mut steering: Steering) {
        steering.progress = TxProgress::new(self.egresses.len());
        self.steering = Some(Box::new(steering));
    }

    /// Ends this worker's part in steering: its listed frames are sent, and its inbox goes to the worker `heir`, in
    /// order.
    ///
    /// Call it after the forwarder is drained. `heir` must go on polling until all others have retired.
    ///
    /// Without steering this does nothing. If `heir` has itself retired, waiting frames are freed and counted.
    #[cold]
    pub fn retire(&mut self, w: &mut Worker, heir: usize) {
        let Some(steering) = self.steering.take() else { return };
        let Steering { mut outbox, inbox, back, .. } = *steering;
        outbox.flush_all(w);
        drop(inbox.hand_over(heir));
        if let Some((mut outbox, inbox)) = back {
            outbox.flush_all(w);
            drop(inbox.hand_over(heir));
        }
    }

    /// Returns whether no frame waits for transmission, here or on its way back, so that more may be taken in.
    #[inline]
    pub(super) fn is_settled(&mut self) -> bool {
        self.is_clear() && self.steering.as_mut().is_none_or(|steering| steering.is_back_done())
    }

    /// Returns whether other workers are done with all frames that this one received for them, and nothing is listed
    /// for them.
    #[cold]
    pub(super) fn is_handed_over(&mut self) -> bool {
        self.steering.as_mut().is_none_or(|steering| steering.outbox.is_finished())
    }

    /// Sends frames listed for other workers. Returns whether there were any.
    #[cold]
    pub(super) fn send_listed(&mut self, w: &mut Worker) -> bool {
        let Some(steering) = &mut self.steering else { return false };
        let listed = steering.outbox.listed_frames();
        steering.outbox.flush_all(w);
        listed > 0
    }

    /// Returns whether no frame waits for a slot in a transmit ring.
    #[inline]
    fn is_clear(&self) -> bool {
        self.egresses.iter().all(|egress| egress.out.is_empty())
    }

    /// Takes in frames: decided frames first, then frames of the ports and frames that others received, turn by turn
    /// until frames wait for a transmit ring. Returns their number.
    #[inline]
    pub(super) fn receive_steered(&mut self, w: &mut Worker) -> usize {
        if self.must_watch_rings() {
            self.watch_rings(w);
        }
        let mut received = self.take_back(w);
        for _ in 0..self.egresses.len() + 2 {
            if !self.is_clear() {
                return received;
            }
            received += self.take_turn(w);
        }
        // Every turn was taken, so any may be first. With this one, lists leave in the round in which they grew.
        if self.is_clear()
            && let Some(steering) = &mut self.steering
        {
            steering.turn = 0;
        }
        received
    }

    /// Takes the next turn: receives from a port, takes frames out of the inbox, or sends listed frames. Returns the
    /// number of received frames.
    #[inline]
    fn take_turn(&mut self, w: &mut Worker) -> usize {
        let ports = self.egresses.len();
        let Some(steering) = &mut self.steering else { return 0 };
        let turn = steering.turn;
        steering.turn = if turn > ports { 0 } else { turn + 1 };
        match turn.cmp(&ports) {
            Ordering::Less => self.steer(turn, w),
            Ordering::Equal => self.take_in(w),
            Ordering::Greater => {
                steering.outbox.flush(w);
                0
            }
        }
    }

    /// Returns whether frames wait for a slot in a transmit ring, or did at the start of the last round.
    #[inline]
    fn must_watch_rings(&self) -> bool {
        !self.is_clear() || self.steering.as_ref().is_some_and(|steering| steering.progress.is_watching())
    }

    /// Notes the progress of the rings for which frames wait. Drops the frames that wait for a ring that stood still
    /// too long, since nothing is taken in while they wait.
    #[cold]
    #[inline(never)]
    fn watch_rings(&mut self, w: &mut Worker) {
        let now = clock::ticks();
        for port in 0..self.egresses.len() {
            let egress = &self.egresses[port];
            let (waiting, posted) = (egress.out.len(), egress.port.tx_posted());
            let Some(steering) = &mut self.steering else { return };
            steering.progress.look(port, waiting, posted, now);
        }
        let Some(steering) = &mut self.steering else { return };
        steering.progress.end_look();
        for port in 0..self.egresses.len() {
            if self.is_still(port) && !self.egresses[port].out.is_empty() {
                self.give_up(port, Reason::TxFull, w);
            }
        }
    }

    /// Takes a burst off a port, and forwards the frames that are for this worker.
    #[inline]
    fn steer(&mut self, from: usize, w: &mut Worker) -> usize {
        let mut burst = Batch::new();
        self.meters.position.begin(from, Call::Rx);
        self.egresses[from].port.rx(w, &mut burst);
        // Not the port's own number, which may be any.
        let received = burst.len();
        let Some(steering) = &mut self.steering else { return 0 };
        if received == 0 {
            return 0;
        }
        self.meters.received.add(received as u64);
        self.path.strip_received(&mut self.egresses[from], &mut burst, w);
        let source = Source { port: from as u8, queue: steering.worker() as u16 };
        self.decision.handed(source, &burst);
        steering.outbox.steer_or_drop(w, source, &mut burst);
        self.meters.handed.add((received - burst.len()) as u64);
        self.forward_steered(source, &mut burst, w);
        received
    }

    /// Takes frames that other workers received, a turn of each, and forwards them.
    #[inline]
    fn take_in(&mut self, w: &mut Worker) -> usize {
        let mut taken = 0;
        let workers = self.steering.as_ref().map_or(0, |steering| steering.workers);
        for _ in 0..workers {
            if !self.is_settled() {
                break;
            }
            let mut burst = Batch::new();
            let Some(steering) = &mut self.steering else { break };
            let Some(source) = steering.inbox.take(w, &mut burst) else { break };
            taken += burst.len();
            self.meters.taken.add(burst.len() as u64);
            self.forward_steered(source, &mut burst, w);
        }
        taken
    }

    /// Takes frames that others decided about and that leave by this worker's queues.
    #[inline]
    fn take_back(&mut self, w: &mut Worker) -> usize {
        let mut taken = 0;
        while self.is_clear() {
            let mut burst = Batch::new();
            let Some((_, inbox)) = self.steering.as_mut().and_then(|steering| steering.back.as_mut()) else {
                break;
            };
            let Some(source) = inbox.take(w, &mut burst) else { break };
            taken += burst.len();
            self.meters.taken.add(burst.len() as u64);
            self.decision.returned(&burst);
            let port = usize::from(source.port);
            match self.egresses.get_mut(port) {
                Some(egress) => {
                    egress.out.append(&mut burst);
                    self.transmit_or_drop(port, w);
                }
                // The other worker has more ports.
                None => self.lose(None, Reason::NoRoute, &mut burst, w),
            }
        }
        taken
    }

    /// Decides about each frame of a burst, and transmits it or sends it back to the worker that must transmit it.
    #[inline]
    fn forward_steered(&mut self, from: Source, burst: &mut Batch, w: &mut Worker) {
        if burst.is_empty() {
            return;
        }
        let port = usize::from(from.port);
        if port >= self.egresses.len() {
            return self.lose(None, Reason::NoRoute, burst, w);
        }
        self.come_from(from);
        match self.path {
            Path::Frames => self.forward(from, burst, w),
            Path::Packets(_) => self.forward_as_packets(from, burst, w),
        }
        self.leave(w);
    }

    /// Sets where the frames that are forwarded from now on were received. No frames wait for a port.
    #[inline]
    pub(super) fn come_from(&mut self, from: Source) {
        if let Some(steering) = &mut self.steering {
            steering.source = from;
        }
    }

    /// Transmits the frames that wait for ports, or sends them back to the worker that must transmit them.
    #[inline]
    pub(super) fn leave(&mut self, w: &mut Worker) {
        for port in 0..self.egresses.len() {
            if !self.egresses[port].out.is_empty() {
                self.leave_by(port, w);
            }
        }
    }

    /// Transmits the frames that wait for a port, or sends them back to the worker that must transmit them. Returns how
    /// many are left.
    #[inline]
    pub(super) fn leave_by(&mut self, port: usize, w: &mut Worker) -> usize {
        match self.steering.as_ref().and_then(|steering| steering.transmitter()) {
            None => self.transmit_or_drop(port, w),
            Some(worker) => {
                self.send_back(port, worker, w);
                0
            }
        }
    }

    /// Returns whether a port's transmit ring stood still too long.
    #[inline]
    fn is_still(&self, port: usize) -> bool {
        self.steering.as_ref().is_some_and(|steering| steering.progress.is_still(port))
    }

    /// Transmits the frames that wait for a port. If its ring stood still too long and still does, they are dropped.
    /// Returns how many are left.
    #[inline]
    fn transmit_or_drop(&mut self, port: usize, w: &mut Worker) -> usize {
        if self.is_still(port) { self.transmit_if_moving(port, w) } else { self.transmit(port, w) }
    }

    #[cold]
    #[inline(never)]
    fn transmit_if_moving(&mut self, port: usize, w: &mut Worker) -> usize {
        let before = (self.meters.transmitted.get(), self.meters.completed.get());
        let left = self.transmit(port, w);
        if (self.meters.transmitted.get(), self.meters.completed.get()) != before {
            if let Some(steering) = &mut self.steering {
                steering.progress.has_moved(port);
            }
            return left;
        }
        if left > 0 {
            self.give_up(port, Reason::TxFull, w);
        }
        0
    }

    /// Gives the frames that will leave by a port to the worker whose queue they use.
    #[inline]
    fn send_back(&mut self, port: usize, worker: usize, w: &mut Worker) {
        let egress = &mut self.egresses[port];
        self.path.strip_unsent(egress, w);
        let Some(steering) = &mut self.steering else { return };
        let to = Source { port: port as u8, queue: steering.source.queue };
        let Some((outbox, _)) = &mut steering.back else { return };
        self.meters.handed.add(egress.out.len() as u64);
        outbox.hand_off_or_drop(w, worker, to, &mut egress.out);
        outbox.flush_all(w);
    }
}
