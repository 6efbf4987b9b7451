//! Windows of a running flow, seen at the sink: the time on all cores for the packets that arrived there.
//!
//! ```text
//!   the caller's core   send ── look ── send ── receive, look …  the time within `send` counts: the kernel carries packets there
//!   the device's core   ══════════════════════════════════════  all its time counts: it has a full burst waiting throughout
//!   at the sink                 │◄────── a window ──────►│       opened and closed by how many have come
//! ```
//! A flow begins with a backlog, which is sent while the device is stopped. So a sender that is slower than the device
//! lasts for some windows. If only the kernel is between the two ends, it has done its work when `send` returns. Then a
//! window counts only if the kernel was handed full bursts, and each had come through completely by then.

use netmem::limits::BATCH_MAX;

use super::ksoftirqd::Ksoftirqd;
use super::path::Path;
use crate::bench::Bench;
use crate::method::clock::Clock;
use crate::method::quantile::median;
use crate::method::round::{Label, Variant};
use crate::method::window::{Window, Windows};

/// Packets of a window: some hundred µs for any device that is measured in this way.
const WINDOW: u64 = 6 * BATCH_MAX as u64;

/// Maximum number of windows of one flow.
const WINDOWS: usize = 6;

/// Packets in flight that suffice for a full burst to wait: a burst in the device, one on its way out, one that has
/// come since the last look, and that burst.
const MARGIN: u64 = 4 * BATCH_MAX as u64;

/// Flows before the first that counts.
const WARM_UP: usize = 1;

/// A path that packets flow through without a break.
pub(in crate::experiments) struct Flow {
    path: Path,
    /// Maximum number of packets in flight.
    backlog: u64,
    /// The deferred work of the kernel on the caller's core, if the kernel reports it.
    put_off: Option<Ksoftirqd>,
    /// The shares of each window's time, for each packet.
    shares: Vec<Share>,
}

/// Nanoseconds for a packet.
#[derive(Debug, Clone, Copy)]
struct Share {
    /// Within `send`, and in deferred work.
    sender: f64,
    /// The part of that in deferred work.
    put_off: f64,
    /// On the device's core.
    device: f64,
    /// Between two packets at the sink.
    apart: f64,
}

/// The state when the clock was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Look {
    now: u64,
    /// Sent packets.
    sent: u64,
    /// Packets at the sink, received or not.
    come: u64,
    received: u64,
    /// Ticks spent in sending.
    sending: u64,
}

impl Look {
    fn under_way(&self) -> u64 {
        self.sent - self.come
    }
}

/// A window at the sink that has not ended.
#[derive(Debug)]
struct Span {
    begun: Look,
    put_off: u64,
    before: u64,
    steps: u64,
    longest_step: u64,
    /// The device may have found less than a full burst.
    starved: bool,
}

impl Span {
    fn new(begun: Look, put_off: u64) -> Span {
        Span { begun, put_off, before: begun.now, steps: 0, longest_step: 0, starved: false }
    }

    fn look(&mut self, look: &Look, kept_waiting: bool) {
        self.steps += 1;
        self.longest_step = self.longest_step.max(look.now.wrapping_sub(self.before));
        self.before = look.now;
        self.starved |= !kept_waiting;
    }

    fn is_full(&self, look: &Look) -> bool {
        look.come - self.begun.come >= WINDOW
    }

    /// Returns the core time of the packets that came: the sender's time for the same number of packets, and the time
    /// of the device's core from the first to the last.
    fn close(&self, look: &Look, put_off: u64, has_device: bool) -> Window {
        let (come, sent) = (look.come - self.begun.come, look.sent - self.begun.sent);
        let busy = look.sending - self.begun.sending + put_off;
        let sender = (busy as f64 * come as f64 / sent.max(1) as f64) as u64;
        let device = if has_device { look.now.wrapping_sub(self.begun.now) } else { 0 };
        Window { ticks: sender + device, ops: come, steps: self.steps, longest_step: self.longest_step }
    }
}

/// The results of the windows so far.
#[derive(Debug, Default)]
struct Taken {
    windows: Vec<Window>,
    paused: u64,
    starved: u64,
}

impl Taken {
    fn seen(&self) -> usize {
        self.windows.len() + (self.paused + self.starved) as usize
    }
}

impl Flow {
    /// Makes flows on `path`, whose ends are on `core`, with at most `backlog` packets in flight.
    pub(in crate::experiments) fn new(path: Path, backlog: usize, core: usize) -> Flow {
        let put_off = Ksoftirqd::of(core);
        Flow { path, backlog: backlog as u64, put_off, shares: Vec::new() }
    }

    /// Runs one flow: a backlog, this number of windows, and the packets that are left.
    fn run(&mut self, windows: usize, taken: &mut Taken) -> Result<(), String> {
        let mut look = Look::default();
        self.path.hold()?;
        self.path.ends.post();
        while self.path.has_device() && self.send(&mut look) {}
        self.path.release()?;
        let before = taken.seen();
        self.watch(windows, &mut look, taken);
        let drained = self.drain(&mut look);
        self.path.hold()?;
        self.path.ends.judge();
        if taken.seen() == before {
            taken.paused += 1;
        }
        drained
    }

    /// Sends a burst, if one more may be in flight. Returns whether it did.
    fn send(&mut self, look: &mut Look) -> bool {
        let Path { clock, ends, .. } = &mut self.path;
        if look.under_way() + BATCH_MAX as u64 > self.backlog || ends.write(BATCH_MAX) == 0 {
            return false;
        }
        let before = clock.ticks();
        let sent = ends.send() as u64;
        look.sending += clock.ticks().wrapping_sub(before);
        look.sent += sent;
        ends.complete();
        sent > 0
    }

    /// Receives a burst of the packets that have come.
    fn receive(&mut self, look: &mut Look) {
        self.path.ends.post();
        look.received += self.path.ends.receive() as u64;
    }

    /// Records how many packets have come. Receives a burst of them if there was nothing to send, and after each burst
    /// that only the kernel carried. If the port does not report how many wait, receives a burst in any case.
    fn look(&mut self, look: &mut Look, sent: bool) {
        let tells = self.path.ends.waiting().is_some();
        if !sent || !tells || !self.path.has_device() {
            self.receive(look);
        }
        look.come = look.received + self.path.ends.waiting().unwrap_or(0) as u64;
        look.now = self.path.clock.ticks();
    }

    /// Sends and receives, and closes windows as packets come.
    fn watch(&mut self, windows: usize, look: &mut Look, taken: &mut Taken) {
        let clock = self.path.clock;
        let mut patience = Path::patience(&clock);
        let (mut seen, mut span) = (0, None::<Span>);
        while seen < windows && !patience.is_over(&clock) {
            let sent = self.send(look);
            self.look(look, sent);
            let Some(open) = &mut span else {
                if look.come >= MARGIN {
                    span = Some(Span::new(*look, self.put_off()));
                }
                continue;
            };
            open.look(look, self.kept_waiting(look));
            if open.starved || open.is_full(look) {
                let put_off = self.put_off();
                self.close(open, look, put_off, taken);
                if open.starved && self.path.has_device() {
                    return;
                }
                seen += 1;
                span = Some(Span::new(*look, put_off));
            }
        }
    }

    /// Whether the device has a full burst waiting, or the kernel is done.
    fn kept_waiting(&self, look: &Look) -> bool {
        if self.path.has_device() { look.under_way() >= MARGIN } else { look.under_way() == 0 }
    }

    /// Counts a window, or why it does not count.
    fn close(&mut self, span: &Span, look: &Look, put_off: u64, taken: &mut Taken) {
        if span.starved {
            let paused = self.path.is_gap(span.longest_step);
            *(if paused { &mut taken.paused } else { &mut taken.starved }) += 1;
            return;
        }
        let put_off = put_off.saturating_sub(span.put_off);
        let window = span.close(look, put_off, self.path.has_device());
        let per_packet =
            |ticks: u64| ticks as f64 / self.path.clock.ticks_per_ns() / window.ops.max(1) as f64;
        let apart = look.now.wrapping_sub(span.begun.now);
        let device = if self.path.has_device() { apart } else { 0 };
        self.shares.push(Share {
            sender: per_packet(window.ticks - device),
            put_off: per_packet(put_off),
            device: per_packet(device),
            apart: per_packet(apart),
        });
        taken.windows.push(window);
    }

    /// Returns the ticks that the kernel has spent on deferred work.
    fn put_off(&self) -> u64 {
        let ns = self.put_off.as_ref().map_or(0, Ksoftirqd::ns);
        (ns as f64 * self.path.clock.ticks_per_ns()) as u64
    }

    /// Receives the packets in flight.
    fn drain(&mut self, look: &mut Look) -> Result<(), String> {
        let clock = self.path.clock;
        let mut patience = Path::patience(&clock);
        while look.received < look.sent {
            if patience.is_over(&clock) {
                return Err(format!("{} of {} packets of a flow came out", look.received, look.sent));
            }
            self.receive(look);
            self.path.ends.kick();
        }
        Ok(())
    }

    /// Reports the shares of the time, checks and closes the path.
    pub(in crate::experiments) fn settle(self, bench: &mut Bench<'_>) {
        let Flow { path, shares, .. } = self;
        let share = |of: fn(&Share) -> f64| median(&shares.iter().map(of).collect::<Vec<_>>());
        let all = [share(|s| s.sender), share(|s| s.put_off), share(|s| s.device), share(|s| s.apart)];
        if let [Some(sender), Some(put_off), Some(device), Some(apart)] = all {
            let name = &path.label.variant;
            bench.note(format!(
                "{name}: of the last set-up {sender:.0} ns of a packet are the sender's core's, {put_off:.0} of them put off to \
                 ksoftirqd, {device:.0} ns the device's; at the sink packets came {apart:.0} ns apart"
            ));
        }
        path.settle(bench);
    }
}

impl Variant for Flow {
    fn label(&self) -> &Label {
        &self.path.label
    }

    /// Runs windows within flows. A window counts as starved if the device may have found less than a full burst, or if
    /// the kernel was not done when `send` returned.
    fn round(&mut self, windows: usize) -> Windows {
        let mut taken = Taken::default();
        for flow in 0.. {
            if self.path.broken.is_some() || taken.seen() >= windows {
                break;
            }
            let left = windows - taken.seen();
            self.path.broken = self.run(left.min(WINDOWS), &mut taken).err();
            if flow < WARM_UP {
                taken = Taken::default();
            }
        }
        let mut windows = Windows::without_pauses(&taken.windows, 0.0);
        windows.paused += taken.paused;
        windows.starved = taken.starved;
        windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: Look = Look { now: 1_000, sent: 2_000, come: 1_000, received: 0, sending: 500 };

    #[test]
    fn a_window_has_the_senders_time_for_as_many_packets_as_came_and_the_devices_from_look_to_look() {
        let mut span = Span::new(BEGUN, 40);
        for (now, come) in [(1_300, 1_200), (1_400, 1_383), (1_900, 1_400)] {
            let look = Look { now, come, sent: 2_200, sending: 600, ..BEGUN };
            span.look(&look, true);
            assert_eq!(span.is_full(&look), come >= 1_384);
        }
        let end = Look { now: 1_900, come: 1_400, sent: 2_200, sending: 600, ..BEGUN };
        // Ten ticks of deferred work, and 100 in `send` for 200 packets, while 400 came.
        let window = Window { ticks: 2 * 110 + 900, ops: 400, steps: 3, longest_step: 500 };
        assert_eq!(span.close(&end, 10, true), window);
        assert_eq!(span.close(&end, 10, false), Window { ticks: 220, ..window });
    }

    #[test]
    fn a_poll_without_a_full_burst_invalidates_the_window() {
        let mut span = Span::new(BEGUN, 0);
        span.look(&BEGUN, true);
        assert!(!span.starved);
        span.look(&BEGUN, false);
        span.look(&BEGUN, true);
        assert!(span.starved);
    }
}
