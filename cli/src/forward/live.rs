//! What is said on standard error while packets are forwarded: a line that is rewritten, where that is a
//! terminal, and a line for every port that goes down or comes up again.

use netmem::forward::{Forwarder, Meters};
use netmem::pool::Pool;
use netmem::port::{PortCounters, PortState};
use netmem_lab::table::thousands;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the line is rewritten.
const INTERVAL: Duration = Duration::from_secs(1);

/// The line and what it is made of.
pub struct Live {
    meters: Arc<Meters>,
    ports: Vec<(String, Arc<PortCounters>, PortState)>,
    pool: Pool,
    on: bool,
    begun: Instant,
    /// When the line was last written, and how many packets had been received then.
    last: (Instant, u64),
    /// Characters of the line that stands there.
    width: usize,
}

impl Live {
    /// A line about `forwarder`; none unless it is `wanted` and standard error is a terminal.
    pub fn new(forwarder: &Forwarder, pool: &Pool, wanted: bool) -> Live {
        let ports = forwarder.ports().map(|port| (port.name().to_owned(), port.counters(), PortState::Up));
        let now = Instant::now();
        Live {
            meters: forwarder.meters(),
            ports: ports.collect(),
            pool: pool.clone(),
            on: wanted && io::stderr().is_terminal(),
            begun: now,
            last: (now, 0),
            width: 0,
        }
    }

    /// Says what there is to say now; call it often.
    pub fn tick(&mut self, states: &[PortState]) {
        self.say_changes(states);
        let now = Instant::now();
        if self.on && now.duration_since(self.last.0) >= INTERVAL {
            let line = self.line(now);
            self.write(&line);
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.width > 0 {
            self.write("");
            self.width = 0;
            // Nothing to be done about a terminal that is gone.
            let _ = write!(io::stderr(), "\r");
        }
    }

    fn say_changes(&mut self, states: &[PortState]) {
        for (i, state) in states.iter().enumerate() {
            let Some((name, _, known)) = self.ports.get_mut(i).filter(|(.., known)| known != state) else {
                continue;
            };
            let line = match state {
                PortState::Up => format!("port {name} is up again"),
                PortState::Down(reason) => format!("port {name} is down: {reason}"),
            };
            *known = state.clone();
            self.clear();
            let _ = writeln!(io::stderr(), "netmem: {line}");
        }
    }

    /// Packets per second are those of the time since the last line, nanoseconds the median of recent
    /// windows.
    fn line(&mut self, now: Instant) -> String {
        let received = self.meters.received.get();
        let (then, before) = std::mem::replace(&mut self.last, (now, received));
        let pps = (received - before) as f64 / now.duration_since(then).as_secs_f64();
        let busy = self.meters.windows.quantiles().map_or_else(|| "-".into(), |q| format!("{:.1}", q.p50));
        let drops =
            self.meters.drops.total() + self.ports.iter().map(|(_, port, _)| port.rx_drops()).sum::<u64>();
        let ledger = self.pool.ledger();
        format!(
            "{:>4} s  {} packets/s  {busy} ns/packet  drops {}  free frames {}",
            now.duration_since(self.begun).as_secs(),
            thousands(pps as u64),
            thousands(drops),
            thousands(ledger.free + ledger.cached + ledger.returning),
        )
    }

    /// Writes over what stands there.
    fn write(&mut self, line: &str) {
        let width = self.width.max(line.len());
        let mut out = io::stderr().lock();
        let _ = write!(out, "\r{line:<width$}").and_then(|()| out.flush());
        self.width = line.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ModeArg;
    use crate::forward::plan::{Offer, Plan, Source};
    use crate::forward::set_up::{self, Dataplane};
    use netmem::forward::Free;

    fn dataplane() -> Dataplane {
        let offer = Offer { flows: 1, size: 64, packets: None, pause: true };
        let source = Source::BuiltIn(offer);
        let (packets, hold, free) = (None, None, Free::Bulk);
        let (mode, time) = (ModeArg::Ip, None);
        let plan = Plan {
            source,
            mode,
            packets,
            hold,
            tap: None,
            free,
            frames: 64,
            ring: 32,
            time,
            live: true,
            control: None,
        };
        set_up::open(&plan).unwrap()
    }

    #[test]
    fn packets_per_second_are_those_since_the_last_line() {
        let mut dataplane = dataplane();
        let mut live = Live::new(&dataplane.forwarder, &dataplane.pool, true);
        dataplane.forwarder.poll(&mut dataplane.worker);
        let begun = live.begun;
        dataplane.forwarder.meters().received.add(5_000);
        let first = live.line(begun + 2 * INTERVAL);
        assert!(first.contains(" 2 s  2,500 packets/s  - ns/packet  drops 0  free frames 0"), "{first}");
        dataplane.forwarder.meters().received.add(100);
        let second = live.line(begun + 3 * INTERVAL);
        assert!(second.contains(" 3 s  100 packets/s"), "{second}");
    }

    #[test]
    fn a_port_that_goes_down_or_comes_up_is_known_by_its_last_state() {
        let dataplane = dataplane();
        let mut live = Live::new(&dataplane.forwarder, &dataplane.pool, true);
        let down = PortState::Down("interface eth9 is down".into());
        for states in [[PortState::Up, down.clone()], [PortState::Up, PortState::Up]] {
            live.tick(&states);
            let known = live.ports.iter().map(|(.., state)| state.clone()).collect::<Vec<_>>();
            assert_eq!(known, states);
        }
    }
}
