//! HOT: the poll loop.
//!
//! ```text
//!   rx ─► verdict ─┬─ redirect ─► that port's batch ─► tx      each round, per port
//!                  └─ drop ─► counted ─► free in bulk
//!   complete ─► free in bulk       when enough is in flight, something is short, or nothing came
//!   refill the fill ring, kick     each round
//! ```

use super::ip::{Interface, forward_ipv4};
use super::meters::Meters;
use super::route::Table;
use super::verdict::{Reason, Verdict};
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Drain, Pool};
use crate::port::Port;
use crate::stats::{Stopwatch, Windows};
use crate::sync::Worker;
use crate::sys::clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Rounds without work before the loop lets other threads run.
const PATIENCE: u32 = 64;

/// Frames in flight from which on completions are looked for while there is other work: several batches at once
/// cost one look at the device's index. A round that receives nothing always looks, and one that is short of frames
/// or of room to transmit.
const REAP: usize = 4 * BATCH_MAX;
/// Frames ahead of the one in work whose headers are asked for.
const AHEAD: usize = 24;

/// How frames find their way.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one to a forwarder, and the table is read in place")]
pub enum Mode {
    /// As an IPv4 router: validation, longest-prefix match, TTL, checksum, link addresses.
    Ip {
        /// The routes.
        table: Table,
        /// The router's end of each port's link, in the order of the ports.
        interfaces: Vec<Interface>,
    },
    /// Frames from port 0 leave by port 1 and the other way round, 2 and 3 likewise, unchanged.
    CrossConnect,
}

/// How sent and dropped frames are freed: for measurements, `Bulk` is what one wants (source 000).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Free {
    /// A batch at once.
    #[default]
    Bulk,
    /// One call for each frame.
    Single,
}

/// Why a forwarder could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ForwardError {
    /// Frames need a port to leave by.
    #[error("{0} ports: give two or more (an even number in cross-connect mode), at most 255")]
    Ports(usize),
    /// Every port needs an interface.
    #[error("{interfaces} interfaces for {ports} ports: give one for each")]
    Interfaces {
        /// Interfaces given.
        interfaces: usize,
        /// Ports given.
        ports: usize,
    },
}

/// Ports, a pool for what they receive, and a mode: forwards on one worker.
pub struct Forwarder {
    lanes: Vec<Lane>,
    pool: Pool,
    mode: Mode,
    free: Free,
    meters: Arc<Meters>,
    watch: Stopwatch,
    /// Frames a port may have posted for reception: no port can take what another needs.
    share: usize,
    /// The last round left a fill ring short of its share.
    short: bool,
}

/// A port and the frames that are to leave by it.
struct Lane {
    port: Box<dyn Port>,
    out: Batch,
}

impl Forwarder {
    /// A forwarder over `ports`, whose fill rings it keeps full from `pool`.
    ///
    /// # Errors
    /// [`ForwardError`] when the ports do not fit the mode.
    #[cold]
    pub fn new(ports: Vec<Box<dyn Port>>, pool: Pool, mode: Mode) -> Result<Forwarder, ForwardError> {
        let n = ports.len();
        let paired = !matches!(mode, Mode::CrossConnect) || n.is_multiple_of(2);
        if !(2..=255).contains(&n) || !paired {
            return Err(ForwardError::Ports(n));
        }
        match &mode {
            Mode::Ip { interfaces, .. } if interfaces.len() != n => {
                return Err(ForwardError::Interfaces { interfaces: interfaces.len(), ports: n });
            }
            _ => {}
        }
        let lanes = ports.into_iter().map(|port| Lane { port, out: Batch::new() }).collect();
        let (meters, watch) = (Arc::default(), Windows::stopwatch());
        let share = (pool.frames() / n).max(1);
        Ok(Forwarder { lanes, pool, mode, free: Free::Bulk, meters, watch, share, short: false })
    }

    /// Chooses how frames are freed.
    pub fn set_free(&mut self, free: Free) {
        self.free = free;
    }

    /// The counters, readable from any thread.
    pub fn meters(&self) -> Arc<Meters> {
        Arc::clone(&self.meters)
    }

    /// The ports, in order.
    pub fn ports(&self) -> impl Iterator<Item = &dyn Port> {
        self.lanes.iter().map(|lane| &*lane.port)
    }

    /// One round over all ports; returns how many frames were received.
    #[inline]
    pub fn poll(&mut self, w: &mut Worker) -> usize {
        let mut received = 0;
        for from in 0..self.lanes.len() {
            received += self.receive(from, w);
        }
        let (mut held, mut short) = (0, false);
        for port in 0..self.lanes.len() {
            held += self.transmit(port, w);
            if received == 0 || self.short || self.lanes[port].port.in_flight() >= REAP {
                self.complete(port, w);
            }
            let lane = &mut self.lanes[port];
            lane.port.refill_to(w, &self.pool, self.share);
            short |= lane.port.filled() < self.share && lane.port.fill_room() > 0;
            lane.port.kick();
        }
        self.short = short;
        self.meters.held.set(held as u64);
        received
    }

    /// Gives a port what is to leave by it; returns how many frames must wait.
    #[inline]
    fn transmit(&mut self, port: usize, w: &mut Worker) -> usize {
        match send(&mut self.lanes[port], w, &self.meters) {
            0 => 0,
            _ => self.transmit_again(port, w),
        }
    }

    /// The transmit ring is full: takes what has been sent out of it and tries once more.
    #[cold]
    #[inline(never)]
    fn transmit_again(&mut self, port: usize, w: &mut Worker) -> usize {
        self.complete(port, w);
        send(&mut self.lanes[port], w, &self.meters)
    }

    /// Frees what a port has sent.
    #[inline]
    fn complete(&mut self, port: usize, w: &mut Worker) {
        let mut sent = Batch::new();
        loop {
            let n = self.lanes[port].port.complete(w, &mut sent);
            self.meters.completed.add(n as u64);
            self.free(&mut sent, w);
            // Fewer than asked for: that was all, and another look would only fetch the device's index.
            if n < BATCH_MAX {
                return;
            }
        }
    }

    /// Takes a burst off a port and decides about each frame.
    #[inline]
    fn receive(&mut self, from: usize, w: &mut Worker) -> usize {
        let mut burst = Batch::new();
        let received = self.lanes[from].port.rx(w, &mut burst);
        if received == 0 {
            return 0;
        }
        self.meters.received.add(received as u64);
        let mut verdicts = [Verdict::Redirect(0); BATCH_MAX];
        self.verdicts(from, &mut burst, &mut verdicts);
        // Frames move on in runs of one verdict, in order.
        let mut drain = burst.drain();
        for run in verdicts[..received].chunk_by(PartialEq::eq) {
            match run[0] {
                Verdict::Redirect(to) => self.redirect(usize::from(to), &mut drain, run.len(), w),
                Verdict::Drop(reason) => self.discard(reason, &mut drain, run.len(), w),
            }
        }
        received
    }

    /// Writes what becomes of each frame of a burst.
    #[inline]
    fn verdicts(&self, from: usize, burst: &mut Batch, verdicts: &mut [Verdict; BATCH_MAX]) {
        match &self.mode {
            Mode::CrossConnect => verdicts.fill(Verdict::Redirect((from ^ 1) as u8)),
            Mode::Ip { table, interfaces } => {
                let ingress = interfaces[from];
                burst.each_data_mut(AHEAD, |i, data| {
                    verdicts[i] = forward_ipv4(data, &ingress, table, interfaces);
                });
            }
        }
    }

    /// Puts the next `n` frames of a burst into a port's batch; when it is full, sends it.
    #[inline]
    fn redirect(&mut self, to: usize, burst: &mut Drain<'_>, mut n: usize, w: &mut Worker) {
        if to >= self.lanes.len() {
            return self.discard(Reason::NoRoute, burst, n, w);
        }
        loop {
            n -= burst.move_to(&mut self.lanes[to].out, n);
            if n == 0 {
                return;
            }
            if self.transmit(to, w) == BATCH_MAX {
                give_up(&mut self.lanes[to], Reason::TxFull, w, &self.meters);
            }
        }
    }

    /// Drops the next `n` frames of a burst.
    #[cold]
    #[inline(never)]
    fn discard(&mut self, reason: Reason, burst: &mut Drain<'_>, n: usize, w: &mut Worker) {
        let mut dropped = Batch::new();
        burst.move_to(&mut dropped, n);
        self.meters.drops.add(reason, dropped.len() as u64);
        self.free(&mut dropped, w);
    }

    #[inline]
    fn free(&self, batch: &mut Batch, w: &mut Worker) {
        match self.free {
            Free::Bulk => batch.free(w),
            Free::Single => batch.drain().for_each(|frame| frame.free(w)),
        }
    }

    /// Polls until `stop` is set; time per frame goes into the meters' windows.
    pub fn run(&mut self, w: &mut Worker, stop: &AtomicBool) {
        let mut idle = 0;
        while !stop.load(Relaxed) {
            let completed = self.meters.completed.get();
            let received = self.poll(w);
            let worked = received > 0 || self.meters.completed.get() != completed;
            self.meters.windows.mark(&mut self.watch, clock::ticks(), worked.then_some(received as u64));
            idle = if worked { 0 } else { idle + 1 };
            if idle > PATIENCE {
                std::thread::yield_now();
            }
        }
    }

    /// Polls until nothing has come in and nothing is in flight for `rounds` rounds, or `until` says to stop.
    pub fn drain(&mut self, w: &mut Worker, rounds: u32, until: impl Fn() -> bool) {
        let mut quiet = 0;
        while quiet < rounds && !until() {
            let received = self.poll(w);
            let busy =
                received > 0 || self.meters.held.get() > 0 || self.ports().any(|port| port.in_flight() > 0);
            quiet = if busy { 0 } else { quiet + 1 };
            std::thread::yield_now();
        }
    }
}

/// Gives a port what is to leave by it, as far as it takes it; returns how many frames are left.
#[inline]
fn send(lane: &mut Lane, w: &mut Worker, meters: &Meters) -> usize {
    if !lane.out.is_empty() {
        let sent = lane.port.tx(w, &mut lane.out);
        meters.transmitted.add(sent as u64);
        if sent == 0 && lane.port.in_flight() == 0 {
            give_up(lane, Reason::TxRefused, w, meters);
        }
    }
    lane.out.len()
}

/// Drops all that waits for a port: its ring stayed full, or it is empty and the port takes nothing (link down).
#[cold]
#[inline(never)]
fn give_up(lane: &mut Lane, reason: Reason, w: &mut Worker, meters: &Meters) {
    meters.drops.add(reason, lane.out.len() as u64);
    lane.out.free(w);
}
