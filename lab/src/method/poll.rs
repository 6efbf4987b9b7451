//! Windows of a poll loop: one core is measured while another one feeds it.
//!
//! A window counts only if every poll in it found at least one full burst. Otherwise the generator was the slower
//! side, and the window would show the generator's cost instead of the device's. A device that is faster than its
//! generator rests before each window until enough packets are waiting. It rests without polling, so that all of
//! its work is in windows. If a window starves because the machine paused the generator's core, it counts as
//! paused: it lasted far longer than with a slow generator.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::clock::Clock;
use super::pauses::Gaps;
use super::peer::Peer;
use super::round::{Label, Variant};
use super::window::{Window, Windows, empty_cost};

/// A window that lasts longer than this many nanoseconds is ended: the other side has stopped.
const PATIENCE_NS: f64 = 2e9;

/// Maximum part of one step that counts, so that a pause of the machine does not use up the time limit.
const STEP_NS: f64 = 1e6;

/// The first rest after a window that starved, and the longest rest.
const REST_NS: [f64; 2] = [1e3, 256e3];

/// A window that starved for more than this many times the last full window had a pause of the other core.
const PAUSE_FACTOR: u64 = 16;

/// After a full window the rest is shortened by one part in this many.
const REST_SHRINK: u64 = 64;

/// Windows run before the first that counts: the generator's thread is still starting in the first ones.
const WARM_UP: usize = 4;

/// The division of a poll loop into windows.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Packets that a poll must find for its window to count; where windows count in which the device had to wait, those
    /// of a poll that need not wait. The cost of an empty loop is subtracted for each so many packets.
    pub burst: usize,
    /// Packets in a window.
    pub packets: u64,
    /// True if windows count in which the device had to wait. Then the pace of the pair is measured, not the cost
    /// of one side, and the device never rests.
    pub waits: bool,
}

/// Divides a poll loop into windows, and adapts the rest before each.
#[derive(Debug)]
pub struct PollSampler<'a, C: Clock> {
    clock: &'a C,
    shape: Shape,
    /// Ticks of rest before the next window: none at first, doubled by every window that starves, and slightly
    /// reduced after every other one.
    rest: u64,
    /// Ticks of the last full window; 0 before the first.
    typical: u64,
}

/// The result of [`PollSampler::sample`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Polled {
    /// The windows in which every poll found a full burst.
    pub full: Vec<Window>,
    /// Windows dropped because the generator was the slower side.
    pub starved: u64,
    /// Windows dropped because the generator's core was paused.
    pub paused: u64,
    /// The time of those windows, and the part of it that pauses took.
    pub gaps: Gaps,
}

/// The outcome of one window.
enum Outcome {
    Full(Window),
    Starved(Window),
    Stalled,
}

impl<'a, C: Clock> PollSampler<'a, C> {
    /// Makes a sampler that does not rest yet.
    pub fn new(clock: &'a C, shape: Shape) -> Self {
        Self { clock, shape, rest: 0, typical: 0 }
    }

    /// Measures `count` windows of `poll`, which runs one poll round and returns the number of packets that it
    /// found waiting.
    ///
    /// A window that exceeds the time limit ends the sampling. The missing windows then count as starved.
    pub fn sample(&mut self, count: usize, poll: &mut dyn FnMut() -> usize) -> Polled {
        let [rest_first, rest_max] = REST_NS.map(|ns| (ns * self.clock.ticks_per_ns()) as u64);
        let mut polled = Polled::default();
        for taken in 0..count {
            self.clock.wait(self.rest);
            match self.window(poll) {
                Outcome::Full(window) => {
                    self.typical = window.ticks;
                    self.rest -= self.rest / REST_SHRINK;
                    polled.full.push(window);
                }
                Outcome::Starved(window)
                    if self.typical > 0 && window.ticks > PAUSE_FACTOR * self.typical =>
                {
                    polled.paused += 1;
                    polled.gaps.spend(window.ticks, window.ticks - self.typical);
                }
                Outcome::Starved(_) => {
                    self.rest = (self.rest * 2).clamp(rest_first, rest_max);
                    polled.starved += 1;
                }
                Outcome::Stalled => {
                    polled.starved += (count - taken) as u64;
                    break;
                }
            }
        }
        polled
    }

    /// Runs one round: `count` windows of `poll` while `peer` runs on another core. The cost of an empty poll loop
    /// is subtracted.
    pub fn round(
        &mut self,
        count: usize,
        peer_core: Option<usize>,
        poll: &mut dyn FnMut() -> usize,
        peer: &mut (dyn FnMut() + Send),
    ) -> Windows {
        self.round_inside(count, poll, |measured| beside(peer_core, peer, measured))
    }

    /// The same with a peer that stays from round to round.
    pub fn round_with<P>(
        &mut self,
        count: usize,
        peer: &Peer<'_, P>,
        poll: &mut dyn FnMut() -> usize,
    ) -> Windows {
        self.round_inside(count, poll, |measured| peer.beside(measured))
    }

    /// Runs one round. `inside` runs the measurement while the peer runs.
    fn round_inside(
        &mut self,
        count: usize,
        poll: &mut dyn FnMut() -> usize,
        inside: impl FnOnce(&mut dyn FnMut() -> Polled) -> Polled,
    ) -> Windows {
        let Self { clock, shape, .. } = *self;
        let nothing = &mut || black_box(shape.burst);
        let empty = PollSampler::new(clock, shape).sample(count / 4, nothing).full;
        let Polled { full, starved, paused, gaps } = inside(&mut || {
            self.sample(WARM_UP, poll);
            self.sample(count, poll)
        });
        let mut windows = Windows::without_pauses(&full, empty_cost(&empty));
        windows.paused += paused;
        windows.starved = starved;
        windows.gaps.add(gaps);
        windows
    }

    /// Runs a window. It ends after a number of packets, not of polls: however long the device starves, that costs
    /// one window.
    fn window(&self, poll: &mut dyn FnMut() -> usize) -> Outcome {
        let [patience, step_max] = [PATIENCE_NS, STEP_NS].map(|ns| (ns * self.clock.ticks_per_ns()) as u64);
        let mut window = Window { ticks: 0, ops: 0, steps: 0, longest_step: 0 };
        let (mut full, mut waited) = (true, 0);
        let mut before = self.clock.ticks();
        while window.ops < self.shape.packets {
            if waited >= patience {
                return Outcome::Stalled;
            }
            let found = poll();
            let now = self.clock.ticks();
            let step = now.wrapping_sub(before);
            before = now;
            full &= found >= self.shape.burst;
            waited += step.min(step_max);
            window.ticks += step;
            window.ops += found as u64;
            window.steps += 1;
            window.longest_step = window.longest_step.max(step);
        }
        if full || self.shape.waits { Outcome::Full(window) } else { Outcome::Starved(window) }
    }
}

/// Runs `peer` repeatedly on another thread, pinned to `core`, while `measured` runs on this one. `measured` begins
/// when `peer` does.
pub fn beside<R>(core: Option<usize>, peer: &mut (dyn FnMut() + Send), measured: impl FnOnce() -> R) -> R {
    // Relaxed: the flags carry no data. The scope's join orders the peer's writes.
    let [begun, done] = [(); 2].map(|()| AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            // A peer that cannot be pinned adds noise, but no error.
            let _ = core.map(netmem::system::cpu::pin);
            begun.store(true, Ordering::Relaxed);
            while !done.load(Ordering::Relaxed) {
                peer();
            }
        });
        while !begun.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        let _raised_at_exit = Raised(&done);
        measured()
    })
}

/// Sets the flag when dropped, even after a panic, so that the other thread always ends.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A variant that is a poll loop on the core of the caller, fed by a peer on another core.
pub struct PollLoop<'a, C: Clock> {
    label: Label,
    sampler: PollSampler<'a, C>,
    peer_core: Option<usize>,
    poll: Box<dyn FnMut() -> usize + 'a>,
    peer: Box<dyn FnMut() + Send + 'a>,
}

impl<'a, C: Clock> PollLoop<'a, C> {
    /// Takes the device's `poll`, one poll round that gives the packets found waiting, and one turn of the `peer`
    /// that generates and sinks, to run on `peer_core` (`None`: where the system puts it).
    pub fn new(
        label: Label,
        sampler: PollSampler<'a, C>,
        peer_core: Option<usize>,
        poll: Box<dyn FnMut() -> usize + 'a>,
        peer: Box<dyn FnMut() + Send + 'a>,
    ) -> Self {
        Self { label, sampler, peer_core, poll, peer }
    }
}

impl<C: Clock> Variant for PollLoop<'_, C> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        self.sampler.round(windows, self.peer_core, &mut *self.poll, &mut *self.peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::clock::tests::Synthetic;
    use crate::method::quantile::median;
    use std::sync::atomic::AtomicU64;

    const SHAPE: Shape = Shape { burst: 32, packets: 512, waits: false };

    /// Ten windows of a poll loop whose `n`-th poll finds `found(n)` packets and takes `ticks(n)`.
    fn ten_windows(found: impl Fn(u64) -> usize, ticks: impl Fn(u64) -> u64) -> Polled {
        let clock = Synthetic::default();
        let mut polls = 0;
        PollSampler::new(&clock, SHAPE).sample(10, &mut || {
            polls += 1;
            clock.advance(ticks(polls));
            found(polls)
        })
    }

    /// Full windows, starved ones, paused ones.
    fn counts(polled: &Polled) -> (usize, u64, u64) {
        (polled.full.len(), polled.starved, polled.paused)
    }

    #[test]
    fn a_window_ends_after_its_packets() {
        let polled = ten_windows(|_| 32, |_| 640);
        assert_eq!(counts(&polled), (10, 0, 0));
        assert_eq!(polled.full, [Window { ticks: 10_240, ops: 512, steps: 16, longest_step: 640 }; 10]);
    }

    #[test]
    fn where_waiting_counts_a_short_poll_spoils_nothing() {
        let clock = Synthetic::default();
        let mut polls = 0;
        let polled = PollSampler::new(&clock, Shape { waits: true, ..SHAPE }).sample(10, &mut || {
            polls += 1;
            clock.advance(640);
            if polls % 3 == 0 { 0 } else { 32 }
        });
        assert_eq!(counts(&polled), (10, 0, 0));
        assert!(polled.full.iter().all(|window| window.ops == 512 && window.steps > 16), "{polled:?}");
    }

    #[test]
    fn a_poll_that_finds_less_than_a_burst_spoils_its_window_only() {
        let polled = ten_windows(|n| if n == 20 { 31 } else { 32 }, |_| 640);
        assert_eq!(counts(&polled), (9, 1, 0));
    }

    #[test]
    fn a_slow_generator_starves_the_windows() {
        let polled = ten_windows(|n| if n > 16 && n % 4 > 0 { 0 } else { 32 }, |_| 640);
        assert_eq!(counts(&polled), (1, 9, 0));
    }

    #[test]
    fn however_long_the_generator_is_paused_it_costs_one_window() {
        let polled = ten_windows(|n| if (20..5_000).contains(&n) { 0 } else { 32 }, |_| 640);
        assert_eq!(counts(&polled), (9, 0, 1));
    }

    #[test]
    fn a_generator_that_stops_for_good_ends_the_sampling() {
        let polled = ten_windows(|n| if n > 16 { 0 } else { 32 }, |_| 100_000);
        assert_eq!(counts(&polled), (1, 9, 0));
    }

    #[test]
    fn a_pause_does_not_look_like_a_generator_that_stopped() {
        let polled = ten_windows(|_| 32, |n| if n == 20 { 100_000_000_000 } else { 640 });
        assert_eq!(counts(&polled), (10, 0, 0));
    }

    #[test]
    fn a_gap_between_two_polls_does_not_move_the_median() {
        let polled = ten_windows(|_| 32, |n| if n % 50 == 0 { 20_000 } else { 640 });
        let windows = Windows::without_pauses(&polled.full, 0.0);
        assert_eq!((windows.per_op.len(), windows.paused), (7, 3));
        assert_eq!(median(&windows.per_op), Some(20.0));
    }

    #[test]
    fn a_device_quicker_than_its_generator_rests_until_bursts_are_full() {
        let clock = Synthetic::default();
        let mut taken = 0;
        // A packet every 50 ticks comes in, up to 600 wait; the device takes 10 ticks for each.
        let mut poll = || {
            let waiting = (clock.ticks() / 50 - taken).min(600);
            let burst = waiting.min(32);
            taken = clock.ticks() / 50 - waiting + burst;
            clock.advance(burst * 10 + 5);
            burst as usize
        };
        let mut sampler = PollSampler::new(&clock, SHAPE);
        sampler.sample(WARM_UP, &mut poll);
        let polled = sampler.sample(50, &mut poll);
        assert!(polled.full.len() >= 48, "{polled:?}");
    }

    #[test]
    fn the_peer_runs_while_the_device_is_measured_and_not_after() {
        let turns = AtomicU64::new(0);
        let mut peer = || {
            turns.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        };
        beside(None, &mut peer, || {
            while turns.load(Ordering::Relaxed) < 3 {
                thread::yield_now();
            }
        });
        let at_end = turns.load(Ordering::Relaxed);
        assert!(at_end >= 3);
        thread::yield_now();
        assert_eq!(turns.load(Ordering::Relaxed), at_end);
    }
}
