//! HOT: the poll loop.
//!
//! ```text
//!   rx ─► verdict ─┬─ redirect, tx ─► that port's batch ─► tx      each round, per port
//!                  ├─ pass ─► the local queue
//!                  ├─ wait ─► the decision's own queue               until something changes
//!                  ├─ fragment ─► the decision cuts it ─► a verdict for each piece
//!                  └─ drop ─► counted ─► free in bulk
//!   complete ─► free in bulk       when enough is in flight, something is short, or nothing came
//!   refill the fill ring, kick     each round
//! ```
//! With [`Steering`], received frames go to other workers between rx and verdict (`steered.rs`).

use super::decide::{Decide, Verdicts};
use super::egress::Egress;
use super::error::{self, ForwardError};
use super::free::Free;
use super::idle::IdleControl;
use super::latency::Probe;
use super::local_queue::LocalQueue;
use super::meters::Meters;
use super::mirror::{Mirror, Mirrors};
use super::packets::PacketPath;
use super::path::Path;
use super::position::Call;
use super::round_clock::RoundClock;
use super::steered::Steering;
use super::verdict::{Drops, Reason, Verdict};
use crate::limits::BATCH_MAX;
use crate::packet::InFlightHeads;
use crate::pool::{Batch, Drain, Pool};
use crate::port::Port;
use crate::stats::{Stopwatch, Windows};
use crate::steer::Source;
use crate::sync::Worker;
use crate::sys::clock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Number of rounds without work before the worker rests, according to [`Idle`](super::Idle).
const IDLE_ROUNDS_MAX: u32 = 64;

/// Number of frames in flight from which completions are checked while there is other work: several batches at once
/// cost one look at the device's index. A round always checks if it receives nothing, or lacks frames or room to
/// transmit.
const REAP: usize = 4 * BATCH_MAX;

/// Ports, a pool for what they receive, and a decision: forwards on one worker.
pub struct Forwarder {
    pub(super) egresses: Vec<Egress>,
    pub(super) pool: Pool,
    pub(super) decision: Box<dyn Decide>,
    pub(super) free: Free,
    pub(super) idle: IdleControl,
    /// The form of frames here: frames, or packets.
    pub(super) path: Path,
    /// The destination of passed frames; without one they are dropped.
    pub(super) local_queue: Option<LocalQueue>,
    /// The exchange of frames with other workers; None if frames stay.
    pub(super) steering: Option<Box<Steering>>,
    /// Number of frames that wait with the decision.
    pub(super) waiting: usize,
    /// The decision reported a change, and has not yet been asked for all frames that need not wait any more.
    pub(super) has_changed: bool,
    /// The verdicts of replies are being carried out: a drop among them is not answered.
    pub(super) is_answering: bool,
    mirrors: Mirrors,
    pub(super) meters: Arc<Meters>,
    watch: Stopwatch,
    /// Measures the duration of rounds.
    clock: RoundClock,
    /// Times packets; None if that was not requested.
    pub(super) probe: Option<Box<Probe>>,
    /// Number of frames in flight from which completions are checked.
    pub(super) reap: usize,
    /// Number of frames that a port may have posted for reception, so that no port takes frames that another needs.
    share: usize,
    /// The last round left a fill ring short of its share.
    pub(super) short: bool,
    /// The time when the worker's lists of free pages could last shrink, in ticks.
    pub(super) decayed: u64,
    /// Number of rests in a row in which a port reported packets that the rounds between did not receive.
    pub(super) vain: u32,
    /// Number of packets that the ports had taken and not passed on when a port was last found ready.
    pub(super) discarded: u64,
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports: Vec<&str> = self.egresses.iter().map(|egress| egress.port.name()).collect();
        f.debug_struct("Forwarder")
            .field("ports", &ports)
            .field("pool", &self.pool.name())
            .finish_non_exhaustive()
    }
}

impl Forwarder {
    /// Makes a forwarder over `ports`. It keeps their fill rings full from `pool`, and calls `decision` for each burst.
    ///
    /// # Errors
    /// Returns [`ForwardError`] if there is no port or more than 255, if a port cannot receive into the pool's frames, or
    /// if the decision does not support that many ports or has too many reasons of its own.
    #[cold]
    pub fn new(
        ports: Vec<Box<dyn Port>>,
        pool: Pool,
        decision: Box<dyn Decide>,
    ) -> Result<Forwarder, ForwardError> {
        error::check(&ports, &pool, &*decision)?;
        let share = (pool.frames() / ports.len()).max(1);
        let mut egresses: Vec<_> = ports.into_iter().map(Egress::new).collect();
        if decision.takes_offloads() {
            Forwarder::keep_offloads(&mut egresses);
        }
        let meters = Meters { drops: Drops::with_own(decision.reasons()), ..Meters::default() };
        let (meters, watch) = (Arc::new(meters), Windows::stopwatch());
        let (free, idle, path, local_queue) = (Free::Bulk, IdleControl::default(), Path::Frames, None);
        Ok(Forwarder {
            egresses,
            pool,
            decision,
            free,
            idle,
            path,
            local_queue,
            steering: None,
            waiting: 0,
            has_changed: false,
            is_answering: false,
            mirrors: Mirrors::default(),
            meters,
            watch,
            clock: RoundClock::new(),
            probe: None,
            reap: REAP,
            share,
            short: false,
            decayed: clock::ticks(),
            vain: 0,
            discarded: 0,
        })
    }

    /// Chooses how frames are freed.
    pub fn set_free(&mut self, free: Free) {
        self.free = free;
    }

    /// Times packets from now on: the clock is read twice a round, and once when frames are completed. Frames that are in
    /// flight already are not timed.
    #[cold]
    pub fn measure_latency(&mut self) {
        let in_flight = self.egresses.iter().map(|egress| egress.port.tx_posted() as u64);
        self.probe = Some(Box::new(Probe::new(in_flight)));
    }

    /// Makes packets of frames from now on. Frames that are out without heads are freed as frames.
    #[cold]
    pub fn set_packet_path(&mut self, mut path: PacketPath) {
        path.tell_overruled(self.decision.sees_overruled());
        for egress in &mut self.egresses {
            egress.flight = InFlightHeads::new(self.pool.frames());
            egress.filling = InFlightHeads::new(self.pool.frames());
        }
        self.path = Path::Packets(Box::new(path));
    }

    /// Adds a mirror, which gets all frames that are given to a port from now on and sent; if there is one already, also
    /// those that ports have now. A mirrored frame is not kept as a ready packet. Every round checks completions from now
    /// on.
    #[cold]
    pub fn add_mirror(&mut self, mirror: Mirror) {
        self.mirrors.add(mirror);
        self.reap = 0; // otherwise one port's frames could come rounds before those of another
    }

    /// Sets the destination of frames with the verdict [`Verdict::Pass`]. An earlier one is dropped.
    pub fn set_local_queue(&mut self, local_queue: LocalQueue) {
        self.local_queue = Some(local_queue);
    }

    /// The counters, readable from any thread.
    pub fn meters(&self) -> Arc<Meters> {
        Arc::clone(&self.meters)
    }

    /// The ports, in order.
    pub fn ports(&self) -> impl Iterator<Item = &dyn Port> {
        self.egresses.iter().map(|egress| &*egress.port)
    }

    /// Runs one round over all ports. Returns how many frames were received, from ports or other workers.
    #[inline]
    pub fn poll(&mut self, w: &mut Worker) -> usize {
        if let Some(probe) = &mut self.probe {
            probe.begin(clock::ticks());
        }
        let received = self.round(w);
        if received > 0 {
            self.meters.bursts.add(received as u64, 1);
        }
        if let Some(probe) = &mut self.probe {
            probe.end(clock::ticks(), &self.meters.latency);
        }
        received
    }

    #[inline(always)]
    fn round(&mut self, w: &mut Worker) -> usize {
        if self.decision.refresh() {
            self.resume(w);
        }
        let mut received = 0;
        if self.steering.is_some() {
            received = self.receive_steered(w);
        } else {
            for from in 0..self.egresses.len() {
                received += self.receive(from, w);
            }
        }
        if self.has_changed {
            self.resume(w);
        }
        let (mut held, mut short) = (0, false);
        for port in 0..self.egresses.len() {
            held += self.transmit(port, w);
            if received == 0 || self.short || self.egresses[port].port.tx_posted() >= self.reap {
                self.complete(port, w);
            }
            let egress = &mut self.egresses[port];
            self.meters.position.begin(port, Call::Fill);
            self.path.refill(egress, &self.pool, self.share, w);
            short |= egress.port.rx_posted() < self.share && egress.port.fill_room() > 0;
            self.meters.position.begin(port, Call::Kick);
            egress.port.kick();
        }
        if !self.mirrors.is_empty() {
            self.mirrors.offer(self.free, w);
        }
        self.path.end_round(w);
        self.short = short;
        self.meters.held.set(self.waiting.saturating_add(held) as u64);
        received
    }

    /// Gives a port the frames that will leave by it. Returns how many frames must wait.
    #[inline]
    pub(super) fn transmit(&mut self, port: usize, w: &mut Worker) -> usize {
        match self.send(port, w) {
            0 => 0,
            _ => self.transmit_again(port, w),
        }
    }

    /// Handles a full transmit ring, or frames that the port can never carry: takes completed frames out of the ring,
    /// drops the frames that cannot be carried, and tries once more.
    #[cold]
    #[inline(never)]
    fn transmit_again(&mut self, port: usize, w: &mut Worker) -> usize {
        self.complete(port, w);
        self.refuse_unfit(port, w);
        self.send(port, w)
    }

    /// Gives the port the frames that will leave by it, as far as it takes them. Returns how many are left.
    #[inline]
    fn send(&mut self, port: usize, w: &mut Worker) -> usize {
        let egress = &mut self.egresses[port];
        if !egress.out.is_empty() {
            self.meters.position.begin(port, Call::Tx);
            let had = egress.out.len();
            if !self.mirrors.is_empty() {
                self.mirrors.note(&egress.out);
            }
            egress.port.tx(w, &mut egress.out);
            let sent = had.saturating_sub(egress.out.len()); // the port's own number may be any
            self.meters.transmitted.add(sent as u64);
            if let Some(probe) = &mut self.probe {
                probe.entered(port, sent);
            }
            if sent == 0 && !egress.port.can_retry_tx() {
                self.refuse(port, w);
            }
        }
        self.egresses[port].out.len()
    }

    /// Frees frames that a port has sent.
    #[inline]
    fn complete(&mut self, port: usize, w: &mut Worker) {
        let mut sent = Batch::new();
        self.meters.position.begin(port, Call::Complete);
        loop {
            self.egresses[port].port.complete(w, &mut sent);
            // Not the port's own number: with one that is too high, this loop might not end.
            let n = sent.len();
            self.meters.completed.add(n as u64);
            if let Some(probe) = &mut self.probe {
                probe.left(port, n, clock::ticks(), &self.meters.latency);
            }
            if self.mirrors.is_empty() {
                self.path.free_sent(&mut self.egresses[port], &mut sent, self.free, w);
            } else {
                self.mirror_sent(port, &mut sent, w);
            }
            // Fewer than requested means that these were all. Another look would only fetch the device's index.
            if n < BATCH_MAX {
                return;
            }
        }
    }

    /// Keeps the frames that a port has sent for the mirrors, which get them at the end of the round.
    #[cold]
    #[inline(never)]
    fn mirror_sent(&mut self, port: usize, sent: &mut Batch, w: &mut Worker) {
        self.path.detach_sent(&mut self.egresses[port], sent, w);
        self.mirrors.take(sent);
        self.free(sent, w);
    }

    /// Takes a burst off a port and decides about each frame.
    #[inline]
    fn receive(&mut self, from: usize, w: &mut Worker) -> usize {
        let mut burst = Batch::new();
        self.meters.position.begin(from, Call::Rx);
        self.egresses[from].port.rx(w, &mut burst);
        let received = burst.len(); // the port's own number may be any
        if received > 0 {
            self.meters.received.add(received as u64);
            let source = Source { port: from as u8, queue: from as u16 };
            match &mut self.path {
                Path::Frames => self.forward(source, &mut burst, w),
                Path::Packets(_) => self.forward_received(source, &mut burst, w),
            }
        }
        received
    }

    /// Decides about each frame of a burst.
    #[inline(always)]
    pub(super) fn forward(&mut self, from: Source, burst: &mut Batch, w: &mut Worker) {
        let (mut verdicts, received) = (Verdicts::new(), burst.len());
        self.decision.decide_burst(from, burst, &mut verdicts);
        if burst.len() != received {
            self.count_changed(received, burst.len());
        }
        self.carry_out(&verdicts, from, burst, w);
    }

    /// Carries out the verdict of each frame of a burst.
    #[inline(always)]
    pub(super) fn carry_out(&mut self, verdicts: &Verdicts, from: Source, burst: &mut Batch, w: &mut Worker) {
        let received = burst.len();
        // Frames move on in runs of equal verdicts, in order.
        let mut drain = burst.drain();
        for (verdict, n) in verdicts.runs(received) {
            match verdict {
                Verdict::Redirect(to) => self.redirect(usize::from(to), &mut drain, n, w),
                Verdict::Tx => self.redirect(usize::from(from.port), &mut drain, n, w),
                Verdict::Drop(reason) => self.discard(from, reason, &mut drain, n, w),
                Verdict::Pass => self.pass(&mut drain, n, w),
                Verdict::Wait => self.wait(from, &mut drain, n, w),
                Verdict::Fragment => self.fragment(from, &mut drain, n, w),
            }
        }
    }

    /// Puts the next `n` frames of a burst into a port's batch; when it is full, sends it.
    #[inline]
    pub(super) fn redirect(&mut self, to: usize, burst: &mut Drain<'_>, n: usize, w: &mut Worker) {
        if to >= self.egresses.len() {
            return self.discard_untold(Reason::NoRoute, burst, n, w);
        }
        if self.egresses[to].wants_complete {
            return self.redirect_complete(to, burst, n, w);
        }
        self.redirect_all(to, burst, n, w);
    }

    /// As [`redirect`](Self::redirect), for frames that the port carries as they are.
    #[inline]
    pub(super) fn redirect_all(&mut self, to: usize, burst: &mut Drain<'_>, mut n: usize, w: &mut Worker) {
        loop {
            n -= burst.move_to(&mut self.egresses[to].out, n);
            if n == 0 {
                return;
            }
            if self.leave_by(to, w) == BATCH_MAX {
                self.give_up(to, Reason::TxFull, w);
            }
        }
    }

    /// Drops the next `n` frames of a burst, and has them answered if the decision answers drops for that reason.
    #[inline(never)]
    fn discard(&mut self, from: Source, reason: Reason, burst: &mut Drain<'_>, n: usize, w: &mut Worker) {
        let mut dropped = Batch::new();
        burst.move_to(&mut dropped, n);
        self.meters.drops.add(reason, dropped.len() as u64);
        if self.decision.answers(reason) {
            self.answer(from, reason, &mut dropped, w);
        }
        self.free(&mut dropped, w);
    }

    /// Gives the next `n` frames of a burst to the local queue. Frames that do not fit are dropped.
    #[inline(never)]
    fn pass(&mut self, burst: &mut Drain<'_>, n: usize, w: &mut Worker) {
        let mut passed = Batch::new();
        burst.move_to(&mut passed, n);
        self.hold(&mut passed, w);
    }

    /// Gives frames to the local queue. Frames that do not fit are dropped.
    pub(super) fn hold(&mut self, passed: &mut Batch, w: &mut Worker) {
        let reason = match &mut self.local_queue {
            Some(local_queue) if local_queue.is_read() => {
                self.meters.passed.add(local_queue.put(w, passed) as u64);
                Reason::LocalQueueFull
            }
            _ => Reason::NoLocalQueue,
        };
        if !passed.is_empty() {
            self.lose(None, reason, passed, w);
        }
    }

    #[inline]
    pub(super) fn free(&self, batch: &mut Batch, w: &mut Worker) {
        self.free.batch(batch, w);
    }

    /// Polls until `stop` is set, and rests between rounds without work. The time per frame goes into the meters'
    /// windows.
    pub fn run(&mut self, w: &mut Worker, stop: &AtomicBool) {
        let mut idle = 0_u32;
        self.clock.begin(clock::ticks());
        while !stop.load(Relaxed) {
            let completed = self.meters.completed.get();
            let received = self.poll(w);
            let worked = received > 0 || self.meters.completed.get() != completed;
            let now = clock::ticks();
            self.meters.windows.mark(&mut self.watch, now, worked.then_some(received as u64));
            if worked {
                let unsent = self.meters.held.get().saturating_sub(self.waiting as u64);
                self.clock.end(now, received as u64, unsent, &self.meters);
            }
            self.clock.begin(now);
            idle = if worked { 0 } else { idle.saturating_add(1) };
            if idle > IDLE_ROUNDS_MAX {
                self.rest(idle - IDLE_ROUNDS_MAX - 1, w);
                let now = clock::ticks();
                self.meters.windows.mark(&mut self.watch, now, None);
                self.clock.begin(now);
            }
        }
    }

    /// Returns whether nothing will ever be received any more, and all received frames have left. That means: every
    /// port is finished ([`Rx::rx_finished`](crate::port::Rx::rx_finished)), no frame waits for transmission, all
    /// transmitted frames are completed, and the other workers are done with the frames given to them.
    #[cold]
    pub fn is_over(&mut self) -> bool {
        let is_over = |port: &dyn Port| port.rx_finished() && port.tx_posted() == 0;
        self.ports().all(is_over) && self.meters.held.get() == 0 && self.is_settled() && self.is_handed_over()
    }

    /// Polls until nothing has come in and nothing is in flight for `rounds` rounds, or until `until` returns true; it
    /// is called before each round, also before the first. Frames listed for other workers are sent, however long they
    /// may linger.
    ///
    /// It goes on receiving. Under traffic that does not stop there is always something in flight, so `until` must set
    /// a time limit.
    ///
    /// At the end each port looks at its interface, so that its state is that of the end.
    pub fn drain(&mut self, w: &mut Worker, rounds: u32, mut until: impl FnMut(&Forwarder) -> bool) {
        let mut quiet = 0;
        while quiet < rounds && !until(self) {
            let received = self.poll(w);
            // In every round, also while other work is left: frames that wait for an answer may wait until `until` ends the rounds.
            let listed = self.send_listed(w);
            let busy = listed
                || received > 0
                || self.meters.held.get() > 0
                || !self.is_settled()
                || self.ports().any(|port| port.tx_posted() > 0);
            quiet = if busy { 0 } else { quiet + 1 };
            std::thread::yield_now();
        }
        self.send_listed(w);
        for egress in &mut self.egresses {
            // The worker does not sleep: a port brings its counters up to date when it is armed.
            let _has_frames = egress.port.arm();
            egress.port.disarm();
        }
    }
}
