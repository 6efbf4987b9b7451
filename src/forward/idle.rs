//! The behaviour of a worker without work: it spins, or it sleeps until a port has frames. COLD.
//!
//! ```text
//!   IDLE_ROUNDS_MAX rounds without work ─► arm every port ─► one has something ───────────────────► next round
//!                                                  └► all are empty: poll(2), bounded ─► disarm ─┘
//! ```
//! If the next round takes nothing although a port had something, only time can help with that port: the pool is dry, or a
//! packet is not due yet. The same holds while frames wait for a slot of a port that does not send. The worker then
//! sleeps briefly, a little longer each time, up to [`SHORTEST`]. The other ports still wake it. With steering nothing
//! is received while frames wait, and nothing wakes it.
//!
//! No wake-up is lost. An armed port or an inbox either wakes the sleeper or reports that it already has frames
//! ([`Wake::arm`](crate::port::Wake::arm), [`Inbox::waiting`](crate::steer::Inbox::waiting)). Some events wake no
//! sleeper: frames that were sent, frames that return to a dry pool, and the flag that ends the run. They are checked
//! when the sleep ends: after [`SHORTEST`], then after twice as long each time nothing was found, up to [`LONGEST`].

use super::poll::Forwarder;
use super::position::Call;
use crate::port::PortCounters;
use crate::sync::Worker;
use crate::sys::clock;
use crate::sys::event::sleep_until_readable;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::yield_now;
use std::time::Duration;

/// The first sleep, and every sleep while the decision holds frames or the pool is dry.
pub const SHORTEST: Duration = Duration::from_millis(1);
/// The first sleep of a worker whose frames wait for a slot, or whose ports have packets that it cannot receive yet.
const BRIEFEST: Duration = Duration::from_micros(40);
/// No sleep is longer.
pub const LONGEST: Duration = Duration::from_millis(50);

/// The interval at which a worker without work lets its self-tuned lists of free pages shrink, as Linux does with each
/// refresh of its statistics ([`Memory::decay`](crate::page::Memory::decay)).
const DECAY: Duration = Duration::from_secs(1);

/// The mode of a worker without work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Idle {
    /// Polls again and again, and lets other threads run in between: no packet waits, and a core is busy.
    #[default]
    Spin,
    /// Sleeps after 64 rounds without work: a packet that comes then waits for a wake-up, and the core is free.
    Sleep,
}

/// The [`Idle`] mode of a worker; any thread can read and change it while the worker runs.
#[derive(Debug, Clone, Default)]
pub struct IdleControl(Arc<AtomicBool>);

impl IdleControl {
    /// The current mode.
    pub fn get(&self) -> Idle {
        if self.0.load(Relaxed) { Idle::Sleep } else { Idle::Spin }
    }

    /// Changes the mode. A sleep that has begun ends first.
    pub fn set(&self, idle: Idle) {
        self.0.store(idle == Idle::Sleep, Relaxed);
    }
}

impl Forwarder {
    #[cfg(feature = "comparisons")]
    /// Checks completions as soon as `frames` are in flight. 1: in each round, as drivers do that clean up at each poll.
    /// For comparison only: the usual number, 256, costs less.
    pub fn set_reap(&mut self, frames: usize) {
        self.reap = frames;
    }

    /// Sets the mode for rounds without work.
    pub fn set_idle(&mut self, idle: Idle) {
        self.idle.set(idle);
    }

    /// The handle that reads and changes the mode.
    pub fn idle_control(&self) -> IdleControl {
        self.idle.clone()
    }

    /// Rests once, after `rounds` rests that brought nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn rest(&mut self, rounds: u32, w: &mut Worker) {
        self.meters.idle_rounds.add(1);
        self.meters.position.begin(0, Call::Rest);
        (0..self.egresses.len()).for_each(|port| self.forget_stranded(port, w));
        self.decay(w);
        match self.idle.get() {
            Idle::Spin => yield_now(),
            Idle::Sleep => self.sleep(rounds, w),
        }
    }

    /// Gives back free pages that the worker's lists hold beyond need, at most once a second.
    fn decay(&mut self, w: &mut Worker) {
        let now = clock::ticks();
        if now.wrapping_sub(self.decayed) as f64 > DECAY.as_nanos() as f64 * clock::ticks_per_ns() {
            self.decayed = now;
            self.pool.memory().decay(w);
        }
    }

    fn sleep(&mut self, rounds: u32, w: &mut Worker) {
        let has_unsent = !self.is_settled();
        if has_unsent && self.steering.is_some() {
            return self.sleep_until(brief(rounds), &[], false);
        }
        // All ports, also those behind one that is ready: each is disarmed below.
        let quiet: Vec<bool> = self.egresses.iter_mut().map(|egress| !egress.port.arm()).collect();
        let waiting = self.steering.as_mut().is_some_and(|steering| steering.arm(w));
        let is_ready = waiting || quiet.contains(&false);
        let has_taken = is_ready && self.has_discarded();
        let vain = if rounds == 0 || has_taken { 0 } else { self.vain };
        self.vain = if is_ready { vain.saturating_add(1) } else { 0 };
        match self.vain {
            0 if has_unsent => self.sleep_until(brief(rounds), &quiet, true),
            0 => self.sleep_until(self.longest(rounds), &quiet, true),
            1 => {}
            times => self.sleep_until(brief(times - 1), &quiet, !waiting),
        }
        self.egresses.iter_mut().for_each(|egress| egress.port.disarm());
        self.steering.iter().for_each(|steering| steering.disarm());
    }

    /// Sleeps until one of the `quiet` ports has something, or an inbox if `inboxes`, but at most for this time.
    fn sleep_until(&self, at_most: Duration, quiet: &[bool], inboxes: bool) {
        let ports = self.egresses.iter().zip(quiet).filter(|(_, quiet)| **quiet);
        let ports = ports.filter_map(|(egress, _)| egress.port.wakeup_fd());
        let steering = self.steering.iter().filter(|_| inboxes);
        let inboxes = steering.flat_map(|steering| steering.descriptors());
        self.meters.sleeps.add(1);
        sleep_until_readable(&ports.chain(inboxes).collect::<Vec<_>>(), at_most);
    }

    /// The longest sleep of a worker whose ports are all quiet, after `rounds` rests that brought nothing.
    fn longest(&self, rounds: u32) -> Duration {
        let waits = self.meters.held.get() > 0 || self.short;
        if waits { SHORTEST } else { (SHORTEST * (1 << rounds.min(6))).min(LONGEST) }
    }

    /// Returns whether a port has taken packets since the last call that it does not pass on: control traffic that is
    /// left to the kernel, or packets that are too long. There may be more behind them.
    fn has_discarded(&mut self) -> bool {
        let of = |counters: &PortCounters| {
            [&counters.rx_kernel, &counters.rx_too_long, &counters.rx_dropped].map(|count| count.get())
        };
        let all = self.egresses.iter().flat_map(|egress| of(&egress.port.counters()));
        let before = self.discarded;
        self.discarded = all.fold(0, u64::wrapping_add);
        self.discarded != before
    }
}

/// The time of a sleep in which only time can help, after `times` such sleeps.
fn brief(times: u32) -> Duration {
    (BRIEFEST * (1 << times.min(5))).min(SHORTEST)
}
