//! Windows within a backlog that the device under test processes alone, seen at the sink.

use netmem::limits::BATCH_MAX;

use super::Path;
use crate::bench::Bench;
use crate::method::clock::Clock;
use crate::method::round::{Label, Variant};
use crate::method::window::{Window, Windows};

/// Packets of a backlog before its window begins, and packets that are left when it ends. This is more than any
/// device's burst, and as many again in flight.
const MARGIN: usize = 4 * BATCH_MAX;

/// Windows before the first that counts.
const WARM_UP: usize = 4;

/// If a check finds at most this many packets, and they were all there were, it comes no later than one check after
/// the last of them.
const FEW: usize = 16;

/// The receiver's rest when it found nothing: a check takes the cache line of the ring's index from the device's
/// core.
const REST_NS: f64 = 100.0;

/// A path on which only the device costs anything: the sender writes into memory.
pub(in crate::experiments) struct Backlog {
    path: Path,
    /// Packets of one backlog.
    packets: usize,
}

/// The result of a backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worked {
    /// A window of the device.
    Window(Window),
    /// No window: the machine paused the receiver, and the device went on.
    Paused,
    /// No window: the receiver did not keep up.
    Starved,
}

/// The window within a backlog, as the receiver sees it.
#[derive(Debug)]
struct Span {
    /// Number of packets that come before it, and number with which it ends.
    first: usize,
    last: usize,
    /// The time at which it began, and the number of packets until then.
    begun: Option<(u64, usize)>,
    before: u64,
    seen: Window,
    /// Set when it is over.
    window: Option<Window>,
}

impl Span {
    fn new(first: usize, last: usize) -> Span {
        let seen = Window { ticks: 0, ops: 0, steps: 0, longest_step: 0 };
        Span { first, last, begun: None, before: 0, seen, window: None }
    }

    /// Records that `come` packets have come at `now`. A window begins and ends only when the receiver `kept_up`.
    /// Its time is then the device's, even if the receiver was slower in between.
    fn look(&mut self, now: u64, come: usize, kept_up: bool) {
        match self.begun {
            None if kept_up && come >= self.first => (self.begun, self.before) = (Some((now, come)), now),
            Some((then, so_far)) if self.window.is_none() => {
                self.seen.steps += 1;
                self.seen.longest_step = self.seen.longest_step.max(now.wrapping_sub(self.before));
                self.before = now;
                if kept_up && come >= self.last {
                    (self.seen.ticks, self.seen.ops) = (now.wrapping_sub(then), (come - so_far) as u64);
                    self.window = Some(self.seen).filter(|window| window.ops > 0);
                }
            }
            _ => {}
        }
    }
}

impl Backlog {
    /// Makes backlogs of `packets` packets on `path`.
    pub(in crate::experiments) fn new(path: Path, packets: usize) -> Backlog {
        Backlog { path, packets }
    }

    /// Runs one backlog.
    fn work_off(&mut self) -> Result<Worked, String> {
        self.path.hold()?;
        self.path.ends.post();
        let sent = self.fill();
        self.path.release()?;
        let (come, window, gap) = self.watch(sent);
        self.path.hold()?;
        self.path.ends.complete();
        self.path.ends.judge();
        if come < sent {
            return Err(format!("{come} of {sent} packets of a backlog came out"));
        }
        let without = if self.path.is_gap(gap) { Worked::Paused } else { Worked::Starved };
        Ok(window.map_or(without, Worked::Window))
    }

    /// Sends a backlog, as far as there is room. Returns the number of packets.
    fn fill(&mut self) -> usize {
        let mut sent = 0;
        while sent < self.packets && self.path.ends.write(self.packets - sent) > 0 {
            match self.path.ends.send() {
                0 => break,
                n => sent += n,
            }
        }
        sent
    }

    /// Reads the clock while `sent` packets come. Returns the number that came, the longest time between two
    /// checks, and the window of the device, if the receiver kept up with one.
    ///
    /// If the port reports how many packets have come, they are received after the window: the receiver is then no
    /// slower than a check.
    fn watch(&mut self, sent: usize) -> (usize, Option<Window>, u64) {
        let Path { clock, ends, .. } = &mut self.path;
        let rest = (REST_NS * clock.ticks_per_ns()) as u64;
        let mut span = Span::new(MARGIN, sent.saturating_sub(MARGIN));
        let mut patience = Path::patience(clock);
        let (mut come, mut looks, mut waited) = (0, 0_u32, false);
        let (mut before, mut gap) = (patience.now, 0);
        while come < sent && !patience.is_over(clock) {
            let (got, kept_up) = match ends.waiting() {
                Some(waiting) => (waiting.saturating_sub(come), true),
                None => {
                    let got = ends.receive();
                    (got, waited || got <= FEW)
                }
            };
            come += got;
            gap = gap.max(patience.now.wrapping_sub(before));
            before = patience.now;
            if got > 0 {
                span.look(patience.now, come, kept_up);
            } else {
                clock.wait(rest);
            }
            waited = got == 0;
            looks += 1;
            // A port that needs a call in each round gets one now and then.
            if looks.is_multiple_of(64) {
                ends.kick();
            }
        }
        while ends.receive() > 0 {}
        (come, span.window, gap)
    }

    /// Checks and closes the path.
    pub(in crate::experiments) fn settle(self, bench: &mut Bench<'_>) {
        self.path.settle(bench);
    }
}

impl Variant for Backlog {
    fn label(&self) -> &Label {
        &self.path.label
    }

    /// A backlog that was finished before the receiver had caught up would show the receiver's cost instead of the
    /// device's. It counts as starved.
    fn round(&mut self, windows: usize) -> Windows {
        let (mut taken, mut paused, mut starved) = (Vec::with_capacity(windows), 0, 0);
        for turn in 0..WARM_UP + windows {
            if self.path.broken.is_some() {
                break;
            }
            match self.work_off() {
                Err(why) => self.path.broken = Some(why),
                Ok(_) if turn < WARM_UP => {}
                Ok(Worked::Window(window)) => taken.push(window),
                Ok(Worked::Paused) => paused += 1,
                Ok(Worked::Starved) => starved += 1,
            }
        }
        let mut windows = Windows::without_pauses(&taken, 0.0);
        windows.paused += paused;
        windows.starved = starved;
        windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_and_ends_where_the_receiver_kept_up() {
        let mut span = Span::new(100, 300);
        for (now, come, kept_up) in [
            (10, 64, true),
            (20, 128, false),
            (30, 150, true),
            (45, 214, false),
            (50, 278, true),
            (60, 342, false),
            (70, 350, true),
            (80, 400, true),
        ] {
            span.look(now, come, kept_up);
        }
        assert_eq!(span.window, Some(Window { ticks: 40, ops: 200, steps: 4, longest_step: 15 }));
    }

    #[test]
    fn a_receiver_that_never_caught_up_gives_no_window() {
        let mut span = Span::new(100, 300);
        (1..=10).for_each(|look| span.look(look, 64 * look as usize, false));
        assert_eq!(span.window, None);
    }
}
