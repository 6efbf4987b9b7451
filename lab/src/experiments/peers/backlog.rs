//! Windows within a backlog that the device under test works off.

use std::cell::RefCell;

use netmem::forward::traffic::StreamConfig;
use netmem::limits::BATCH_MAX;

use super::{Ends, Middle};
use crate::bench::{Bench, SetUpError};
use crate::experiments::check_home;
use crate::method::clock::{Clock, Tsc};
use crate::method::quantile::median;
use crate::method::round::{Label, Variant};
use crate::method::window::{Window, Windows};

/// Packets of a backlog before its window begins, and those that are left when it ends: more than any device's burst,
/// with as many again under way behind it.
const MARGIN: usize = 4 * BATCH_MAX;

/// Windows before the first that counts.
const WARM_UP: usize = 4;

/// How long a backlog may take, no step counted with more than [`STEP_NS`]: the machine may stand still meanwhile.
const PATIENCE_NS: f64 = 2e9;
const STEP_NS: f64 = 1e6;

/// How long a device may take to begin, at first, in looks of [`LOOK_NS`] each.
const LOOKS: usize = 4_000;
const LOOK_NS: f64 = 5e6;

/// Two looks further apart than this have a pause of the machine between them: a full burst by system calls takes a quarter.
const GAP_NS: f64 = 100_000.0;

/// A look that gives no more than so many, which were all there was, comes no later than one look behind the last of them.
const FEW: usize = 16;

/// How long the receiver rests when it found nothing: a look takes the line of the ring's index from the device's core.
const REST_NS: f64 = 100.0;

/// Whose time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiments) enum Costs {
    /// That of the device, on its core: the sender writes into memory.
    Device,
    /// That of the sender's core while it sends, and then that of the device's: the kernel carries a packet to the device,
    /// and from it, on the core of whoever sends it.
    SenderAndDevice,
    /// That of the sender's core alone: there is no process between the two, and the kernel does all of it there.
    Sender,
}

/// A path under test.
pub(in crate::experiments) struct Backlog {
    label: Label,
    clock: Tsc,
    ends: Ends,
    middle: Option<Middle>,
    costs: Costs,
    /// Packets of one backlog.
    packets: usize,
    /// Nanoseconds per packet of the sender's core and of the device's, of every window that both count in.
    parts: Vec<[f64; 2]>,
    /// Why there is nothing more to measure.
    broken: Option<String>,
}

/// What a backlog gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worked {
    /// A window of the device.
    Window(Window),
    /// None: the machine paused the receiver, and the device went on.
    Paused,
    /// None: the receiver did not keep up.
    Starved,
}

/// The window within a backlog, as it is seen by who receives.
#[derive(Debug)]
struct Span {
    /// Packets that come before it, and with which it ends.
    first: usize,
    last: usize,
    /// When it began, and how many had come.
    begun: Option<(u64, usize)>,
    before: u64,
    seen: Window,
    /// There when it is over.
    window: Option<Window>,
}

impl Span {
    fn new(first: usize, last: usize) -> Span {
        let seen = Window { ticks: 0, ops: 0, steps: 0, longest_step: 0 };
        Span { first, last, begun: None, before: 0, seen, window: None }
    }

    /// At `now` so many have come. A window begins and ends where the receiver `kept_up`: the time is the device's then,
    /// however much slower the receiver was meanwhile.
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
    /// A path with `middle` between both ends, or with the kernel alone; waits until packets come through.
    ///
    /// # Errors
    /// When none does.
    pub(in crate::experiments) fn new(
        label: Label,
        (ends, middle): (Ends, Option<Middle>),
        costs: Costs,
        packets: usize,
        stream: &StreamConfig,
    ) -> Result<Backlog, SetUpError> {
        let clock = Tsc::new();
        let mut path =
            Backlog { label, clock, ends, middle, costs, packets, parts: Vec::new(), broken: None };
        path.begin().map_err(SetUpError::at("first packets through the device"))?;
        path.ends.forget(stream.clone())?;
        path.hold()?;
        Ok(path)
    }

    /// Makes the device stand still.
    fn hold(&mut self) -> Result<(), SetUpError> {
        self.middle.as_mut().map_or(Ok(()), Middle::hold).map_err(SetUpError::at("hold the device"))
    }

    /// Sends until a burst has come through whole.
    fn begin(&mut self) -> Result<(), String> {
        let mut up = Ok(());
        for _ in 0..LOOKS {
            if let Some(error) = self.middle.as_mut().and_then(Middle::ended) {
                return Err(error.to_string());
            }
            up = self.ends.are_up();
            if up.is_ok() {
                self.ends.post();
                self.ends.write(BATCH_MAX);
                self.ends.send();
            }
            let come = self.collect(BATCH_MAX, LOOK_NS);
            self.ends.complete();
            if come >= BATCH_MAX {
                // What was sent before may still come; it shall not come into what is counted.
                while self.collect(usize::MAX, 10.0 * LOOK_NS) > 0 {}
                self.ends.complete();
                return Ok(());
            }
        }
        Err(up.err().unwrap_or_else(|| "no packet comes out of it".to_owned()))
    }

    /// Receives until `n` packets have come, or none comes for `ns`; how many came whole.
    fn collect(&mut self, n: usize, ns: f64) -> usize {
        let mut waited = Patience::new(&self.clock, (ns * self.clock.ticks_per_ns()) as u64);
        let (mut come, mut whole) = (0, 0);
        while come < n && !waited.is_over(&self.clock) {
            let got = self.ends.receive();
            self.ends.kick();
            if got > 0 {
                come += got;
                whole += self.ends.judge();
                self.ends.post();
                waited = Patience::new(&self.clock, (ns * self.clock.ticks_per_ns()) as u64);
            }
        }
        whole
    }

    /// One backlog.
    fn work_off(&mut self) -> Result<Worked, String> {
        let said = |error: std::io::Error| error.to_string();
        self.middle.as_mut().map_or(Ok(()), Middle::hold).map_err(said)?;
        self.ends.post();
        let (sending, mut come) = self.fill();
        let sent = sending.ops as usize;
        self.middle.as_mut().map_or(Ok(()), Middle::release).map_err(said)?;
        let (worked, gap) = self.watch(sent, &mut come);
        self.middle.as_mut().map_or(Ok(()), Middle::hold).map_err(said)?;
        self.ends.complete();
        self.ends.judge();
        if come < sent {
            return Err(format!("{come} of {sent} packets of a backlog came out"));
        }
        Ok(match self.costs {
            Costs::Sender => Worked::Window(sending),
            Costs::Device => worked.map_or(self.without(gap), Worked::Window),
            Costs::SenderAndDevice => worked.map_or(self.without(gap), |worked| {
                let ns = |of: &Window| of.ticks as f64 / of.ops.max(1) as f64 / self.clock.ticks_per_ns();
                self.parts.push([ns(&sending), ns(&worked)]);
                Worked::Window(after(&sending, &worked))
            }),
        })
    }

    /// Why there is no window, if two looks of the receiver lay so far apart.
    fn without(&self, gap: u64) -> Worked {
        if gap as f64 > GAP_NS * self.clock.ticks_per_ns() { Worked::Paused } else { Worked::Starved }
    }

    /// Sends a backlog, or as much of it as there is room for: the time that sending took, without what the two ends have
    /// to do besides; and how many packets came already.
    fn fill(&mut self) -> (Window, usize) {
        let mut sending = Window { ticks: 0, ops: 0, steps: 0, longest_step: 0 };
        let mut come = 0;
        while (sending.ops as usize) < self.packets {
            if self.ends.write(self.packets - sending.ops as usize) == 0 {
                break;
            }
            let before = self.clock.ticks();
            let sent = self.ends.send();
            let ticks = self.clock.ticks().wrapping_sub(before);
            if sent == 0 {
                break;
            }
            sending.ticks += ticks;
            sending.ops += sent as u64;
            sending.steps += 1;
            sending.longest_step = sending.longest_step.max(ticks);
            if self.costs != Costs::Device {
                self.ends.complete();
                come += self.ends.receive();
            }
        }
        (sending, come)
    }

    /// Reads the clock as `sent` packets come: the window of a device that the receiver kept up with, if one lies within, and
    /// the longest time between two looks.
    ///
    /// Where the port tells how many have come they are received behind the window: the receiver is no slower than a look.
    fn watch(&mut self, sent: usize, come: &mut usize) -> (Option<Window>, u64) {
        let rest = (REST_NS * self.clock.ticks_per_ns()) as u64;
        let mut span = Span::new(MARGIN, sent.saturating_sub(MARGIN));
        let mut patience = Patience::new(&self.clock, (PATIENCE_NS * self.clock.ticks_per_ns()) as u64);
        let (taken, mut looks, mut waited) = (*come, 0_u32, false);
        let (mut before, mut gap) = (patience.now, 0);
        while *come < sent && !patience.is_over(&self.clock) {
            let (got, kept_up) = match self.ends.waiting() {
                Some(waiting) => ((taken + waiting).saturating_sub(*come), true),
                None => {
                    let got = self.ends.receive();
                    (got, waited || got <= FEW)
                }
            };
            *come += got;
            gap = gap.max(patience.now.wrapping_sub(before));
            before = patience.now;
            if got > 0 {
                span.look(patience.now, *come, kept_up);
            } else {
                self.clock.wait(rest);
            }
            waited = got == 0;
            looks += 1;
            // A port that asks for a call in each round gets one now and then.
            if looks.is_multiple_of(64) {
                self.ends.kick();
            }
        }
        while self.ends.receive() > 0 {}
        (span.window, gap)
    }

    /// Checks that every packet came whole and once, and that all frames are home, when the path is taken away.
    pub(in crate::experiments) fn settle(self, bench: &mut Bench<'_>) {
        let Backlog { label, ends, middle, parts, broken, .. } = self;
        let (name, sent, tally) = (label.variant, ends.sent(), ends.arrivals().tally());
        let foreign = ends.arrivals().foreign();
        let lost = sent.saturating_sub(tally.distinct());
        bench.check(
            &format!("{name}: every packet accounted for"),
            lost == 0 && tally.duplicates == 0 && broken.is_none(),
            format!(
                "{sent} sent, {} came whole, {lost} lost, {} twice, {foreign} foreign frames{}",
                tally.distinct(),
                tally.duplicates,
                broken.map_or_else(String::new, |why| format!("; {why}")),
            ),
        );
        let (corrupt, reordered) = (tally.corrupt, tally.reordered);
        bench.check(
            &format!("{name}: contents and order intact"),
            corrupt == 0 && reordered == 0,
            format!("{corrupt} corrupt, {reordered} behind later ones"),
        );
        let [sender, device] =
            [0, 1].map(|part| median(&parts.iter().map(|ns| ns[part]).collect::<Vec<_>>()));
        if let (Some(sender), Some(device)) = (sender, device) {
            bench.note(format!(
                "{name}: of the last set-up {sender:.0} ns of a packet are the sender's core's, {device:.0} ns the device's"
            ));
        }
        let tools = ends.close();
        drop(middle);
        check_home(bench, &name, &tools.pool);
    }
}

/// A window of the device with what it took to send as many packets before.
fn after(sending: &Window, worked: &Window) -> Window {
    let share = |of: u64| (of as f64 * worked.ops as f64 / sending.ops.max(1) as f64) as u64;
    Window {
        ticks: worked.ticks + share(sending.ticks),
        ops: worked.ops,
        steps: worked.steps + share(sending.steps),
        longest_step: worked.longest_step.max(sending.longest_step),
    }
}

impl Variant for Backlog {
    fn label(&self) -> &Label {
        &self.label
    }

    /// Backlogs that were gone before the receiver had caught up would show the receiver's cost under the device's name: they
    /// count as starved.
    fn round(&mut self, windows: usize) -> Windows {
        let (mut taken, mut paused, mut starved) = (Vec::with_capacity(windows), 0, 0);
        for turn in 0..WARM_UP + windows {
            if self.broken.is_some() {
                break;
            }
            match self.work_off() {
                Err(why) => self.broken = Some(why),
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

/// A path that outlives the measurement, so that it can be settled.
pub(in crate::experiments) struct Borrowed<'a>(pub(in crate::experiments) &'a RefCell<Backlog>, Label);

impl<'a> Borrowed<'a> {
    /// The path as one of several variants.
    pub(in crate::experiments) fn new(path: &'a RefCell<Backlog>) -> Borrowed<'a> {
        let label = path.borrow().label.clone();
        Borrowed(path, label)
    }
}

impl Variant for Borrowed<'_> {
    fn label(&self) -> &Label {
        &self.1
    }

    fn round(&mut self, windows: usize) -> Windows {
        self.0.borrow_mut().round(windows)
    }
}

/// A bounded wait, in which a pause of the machine counts for little.
struct Patience {
    left: u64,
    step_max: u64,
    /// The clock at the last look.
    now: u64,
}

impl Patience {
    fn new(clock: &Tsc, ticks: u64) -> Patience {
        Patience { left: ticks, step_max: (STEP_NS * clock.ticks_per_ns()) as u64, now: clock.ticks() }
    }

    /// Looks at the clock; whether the time is up.
    #[inline]
    fn is_over(&mut self, clock: &Tsc) -> bool {
        let now = clock.ticks();
        self.left = self.left.saturating_sub(now.wrapping_sub(self.now).min(self.step_max));
        self.now = now;
        self.left == 0
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

    #[test]
    fn what_sending_took_counts_for_as_many_packets_as_the_window_has() {
        let sending = Window { ticks: 1_000, ops: 100, steps: 4, longest_step: 300 };
        let worked = Window { ticks: 70, ops: 50, steps: 10, longest_step: 9 };
        assert_eq!(after(&sending, &worked), Window { ticks: 570, ops: 50, steps: 12, longest_step: 300 });
    }
}
