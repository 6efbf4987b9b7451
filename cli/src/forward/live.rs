//! Standard error during a run: a line that is rewritten, if that is a terminal, and a line for every port that
//! goes down or comes up again.

use super::worker_setup::WorkerSetup;
use crate::bucket::Bucket;
use crate::log::{self, Level};
use crate::output::thousands;
use netmem::forward::Meters;
use netmem::pool::{Ledger, Pool};
use netmem::port::{Port, PortCounters, PortState};
use netmem::stats::Windows;
use netmem::system::stderr;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interval at which the line is rewritten.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of changes of a port that are printed at once. After that the newest is printed once in each
/// [`INTERVAL`]. The reason why a port is down may be a peer's text.
const CHANGES: u32 = 8;

/// The line and its data.
pub struct Live {
    workers: Vec<Watched>,
    ports: Vec<WatchedPort>,
    on: bool,
    begun: Instant,
    /// The time at which the line was last written, and the number of packets received until then.
    last: (Instant, u64),
    /// Width of the written line in characters.
    width: usize,
}

/// The watched data of one worker.
struct Watched {
    meters: Arc<Meters>,
    counters: Vec<Arc<PortCounters>>,
    pool: Pool,
}

/// The watched data of one port. Each worker may have a part of it.
struct WatchedPort {
    name: String,
    /// Its number among the ports of each of `workers`.
    number: usize,
    workers: Vec<usize>,
    /// The last printed state. A port without a printed state is up.
    said: PortState,
    /// It has been up before.
    was_up: bool,
    /// The last problems of its parts, other than their states, each of which was printed.
    complaints: Vec<String>,
    /// The changes that may be printed.
    changes: Bucket,
}

impl WatchedPort {
    fn new(number: usize, port: &dyn Port) -> WatchedPort {
        WatchedPort {
            name: port.name().to_owned(),
            number,
            workers: Vec::new(),
            said: PortState::Up,
            was_up: port.state() == PortState::Up,
            complaints: Vec::new(),
            changes: Bucket::new(CHANGES, INTERVAL, Instant::now()),
        }
    }

    /// Returns the ports of all workers. Parts of one port have its name and number.
    fn of_all(setups: &[WorkerSetup]) -> Vec<WatchedPort> {
        let mut ports: Vec<WatchedPort> = Vec::new();
        for (worker, setup) in setups.iter().enumerate() {
            for (number, port) in setup.forwarder.ports().enumerate() {
                let is_known = |of: &WatchedPort| of.number == number && of.name == port.name();
                let at = ports.iter().position(is_known).unwrap_or_else(|| {
                    ports.push(WatchedPort::new(number, port));
                    ports.len() - 1
                });
                ports[at].workers.push(worker);
            }
        }
        ports
    }

    /// Returns the entries of its parts in a table of all workers' ports. A worker that has not reported has none.
    fn parts<'a, T>(&self, table: &'a [Vec<T>]) -> impl Iterator<Item = &'a T> + use<'_, 'a, T> {
        self.workers.iter().filter_map(|&worker| table.get(worker)?.get(self.number))
    }

    /// Returns its state in a table of all workers' ports: it is down if a part of it is.
    fn state<'a>(&self, states: &'a [Vec<PortState>]) -> Option<&'a PortState> {
        let down = self.parts(states).find(|state| **state != PortState::Up);
        down.or_else(|| self.parts(states).next())
    }

    /// Records a change, and returns the line about it.
    fn change(&mut self, state: &PortState) -> (Level, String) {
        let name = &self.name;
        let line = match state {
            PortState::Up if self.was_up => (Level::Info, format!("port {name} is up again")),
            PortState::Up => (Level::Info, format!("port {name} is up")),
            PortState::Down(reason) => (Level::Warning, format!("port {name} is down: {reason}")),
        };
        self.was_up |= *state == PortState::Up;
        self.said = state.clone();
        line
    }
}

impl Watched {
    fn new(setup: &WorkerSetup) -> Watched {
        let WorkerSetup { forwarder, owner, .. } = setup;
        let counters = forwarder.ports().map(|port| port.counters()).collect();
        Watched { meters: forwarder.meters(), counters, pool: owner.pool.clone() }
    }

    fn drops(&self) -> u64 {
        self.meters.drops.total() + self.counters.iter().map(|of| of.rx_drops()).sum::<u64>()
    }

    fn free_frames(&self) -> u64 {
        available(&self.pool.ledger())
    }
}

/// Returns the frames that can be allocated. The sum is at most `u64::MAX`: a count below 0 wraps, and the sum must not
/// overflow.
fn available(ledger: &Ledger) -> u64 {
    sum([ledger.free, ledger.cached, ledger.returning].into_iter())
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

impl Live {
    /// Makes a line about all workers. There is none unless `wanted` is true and standard error is a terminal.
    pub fn new(setups: &[WorkerSetup], wanted: bool) -> Live {
        let now = Instant::now();
        Live {
            workers: setups.iter().map(Watched::new).collect(),
            ports: WatchedPort::of_all(setups),
            on: wanted && io::stderr().is_terminal(),
            begun: now,
            last: (now, 0),
            width: 0,
        }
    }

    /// Prints what is due. Call it often.
    pub fn tick(&mut self, states: &[Vec<PortState>]) {
        log::catch_up();
        self.changes(states).iter().for_each(|(level, line)| self.say(*level, line));
        let now = Instant::now();
        if self.on && now.duration_since(self.last.0) >= INTERVAL {
            let line = self.line(now);
            self.write(&line);
        }
    }

    /// Erases the line.
    pub fn clear(&mut self) {
        if self.width > 0 {
            self.write("");
            self.width = 0;
            // A terminal that is gone, or does not read, is ignored.
            let _ = stderr::offer(b"\r");
        }
    }

    /// Returns the lines about the ports whose states are others than those printed last.
    fn changes(&mut self, states: &[Vec<PortState>]) -> Vec<(Level, String)> {
        let (mut lines, now) = (Vec::new(), Instant::now());
        for port in &mut self.ports {
            let Some(state) = port.state(states).filter(|state| port.said != **state) else { continue };
            if port.changes.take(now) {
                lines.push(port.change(state));
            }
        }
        lines
    }

    /// Prints the problems of ports other than their states, each once. Call it often.
    pub fn complain(&mut self, complaints: &[Vec<Option<String>>]) {
        self.new_complaints(complaints).iter().for_each(|line| self.say(Level::Warning, line));
    }

    /// Returns the lines about problems that were not there in the last call.
    fn new_complaints(&mut self, complaints: &[Vec<Option<String>>]) -> Vec<String> {
        let mut lines = Vec::new();
        for port in &mut self.ports {
            let mut now: Vec<String> = port.parts(complaints).flatten().cloned().collect();
            now.sort_unstable();
            now.dedup();
            let new = now.iter().filter(|complaint| !port.complaints.contains(complaint));
            lines.extend(new.map(|complaint| format!("port {}: {complaint}", port.name)));
            port.complaints = now;
        }
        lines
    }

    /// Prints a separate line.
    pub fn say(&mut self, level: Level, line: &str) {
        self.clear();
        log::say(level, format_args!("netmem: {line}"));
    }

    /// Returns the line. Packets per second are those since the last line, and nanoseconds are the median of recent
    /// windows.
    fn line(&mut self, now: Instant) -> String {
        let received = self.workers.iter().map(|worker| worker.meters.received.get()).sum();
        let (then, before) = std::mem::replace(&mut self.last, (now, received));
        let pps = (received - before) as f64 / now.duration_since(then).as_secs_f64();
        let windows = Windows::quantiles_of_all(self.workers.iter().map(|worker| &worker.meters.windows));
        let busy = windows.map_or_else(|| "-".into(), |q| format!("{:.1}", q.p50));
        format!(
            "{:>4} s  {} packets/s  {busy} ns/packet  drops {}  frames available {}",
            now.duration_since(self.begun).as_secs(),
            thousands(pps as u64),
            thousands(sum(self.workers.iter().map(Watched::drops))),
            thousands(sum(self.workers.iter().map(Watched::free_frames))),
        )
    }

    /// Overwrites the written line.
    fn write(&mut self, line: &str) {
        let width = self.width.max(line.len());
        // A terminal that does not read gets the next one.
        if stderr::offer(format!("\r{line:<width$}").as_bytes()).is_ok() {
            self.width = line.len();
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::args::{FrameSize, ModeArg};
    use crate::forward::offer::Offer;
    use crate::forward::plan::{Plan, Source};
    use crate::forward::set_up::{self, Dataplane};
    use crate::sandbox::SandboxPlan;
    use crate::stop::Asked;
    use netmem::forward::{Free, Idle};
    use netmem::stats::Writer;

    /// Returns two workers with two ports of the built-in network each.
    pub fn dataplane() -> Dataplane {
        let offer = Offer { generators: 2, flows: 1, size: 64, packets: None, pause: true };
        let source = Source::BuiltIn(offer);
        let (packets, local_queue, free) = (None, None, Free::Bulk);
        let (mode, time) = (ModeArg::Ip, None);
        let plan = Plan {
            workers: 2,
            idle: Idle::Spin,
            steer: None,
            source,
            queues: Vec::new(),
            mode,
            packets,
            local_queue,
            mirror: None,
            packets_alone: true,
            icmp: netmem_router::icmp::IcmpLimit::default(),
            allow: netmem_router::Allow::default(),
            reverse_path: Vec::new(),
            free,
            frames: 64,
            frame_size: FrameSize::default(),
            hardening: Default::default(),
            ring: 32,
            time,
            live: true,
            control: None,
            metrics: None,
            recorder: None,
            fix: None,
            config: None,
            written: Default::default(),
            sandbox: SandboxPlan {
                on: false,
                user: None,
                interfaces: Vec::new(),
                listening: Vec::new(),
                made: Vec::new(),
                undoes: false,
                peers: Vec::new(),
                locks_again: false,
            },
            watchdog: None,
            wait: Duration::ZERO,
        };
        set_up::open(&plan, Asked::default()).unwrap()
    }

    /// Seen: a peer that connected and disconnected repeatedly caused 50 lines a second, each with text of its own.
    #[test]
    fn a_port_that_flaps_has_a_few_lines_at_once_and_then_one_in_a_while() {
        let dataplane = dataplane();
        let mut port = WatchedPort::of_all(&dataplane.setups).remove(0);
        let begun = Instant::now();
        let said =
            |port: &mut WatchedPort, at: Duration| (0..50).filter(|_| port.changes.take(begun + at)).count();
        assert_eq!(said(&mut port, Duration::ZERO), CHANGES as usize);
        assert_eq!(said(&mut port, INTERVAL / 2), 0);
        assert_eq!(said(&mut port, INTERVAL), 1);
        assert_eq!(said(&mut port, 100 * INTERVAL), CHANGES as usize);
    }

    /// Found by reasoning: frames that move are counted at different moments, and a count below 0 wraps. The sum then
    /// overflowed and ended the program, as that of `netmem top` once did.
    #[test]
    fn a_count_below_0_of_a_pool_does_not_overflow_the_line() {
        let mut ledger = dataplane().setups[0].owner.pool.ledger();
        (ledger.free, ledger.cached, ledger.returning) = (14, u64::MAX - 3, 2);
        assert_eq!(available(&ledger), u64::MAX);
        assert_eq!(sum([available(&ledger), 5].into_iter()), u64::MAX);
        ledger.cached = 4;
        assert_eq!(available(&ledger), 20);
    }

    #[test]
    fn packets_per_second_are_those_since_the_last_line() {
        let mut dataplane = dataplane();
        let mut live = Live::new(&dataplane.setups, true);
        let begun = live.begun;
        for WorkerSetup { forwarder, owner, .. } in &mut dataplane.setups {
            forwarder.poll(&mut owner.worker);
        }
        let meters = [(); 2].map(|()| Writer::<Meters>::default());
        for (watched, meters) in live.workers.iter_mut().zip(&meters) {
            watched.meters = meters.reader();
            meters.add(|meters| &meters.received, 2_500);
        }
        let first = live.line(begun + 2 * INTERVAL);
        assert!(first.contains(" 2 s  2,500 packets/s  - ns/packet  drops 0  frames available 0"), "{first}");
        meters[1].add(|meters| &meters.received, 100);
        let second = live.line(begun + 3 * INTERVAL);
        assert!(second.contains(" 3 s  100 packets/s"), "{second}");
    }

    /// Seen: "is up again" for a memif port without any connection before.
    #[test]
    fn a_port_is_up_again_only_if_it_was_up_before() {
        let dataplane = dataplane();
        let mut live = Live::new(&dataplane.setups, true);
        let port = &mut live.ports[0];
        (port.was_up, port.name) = (false, "memif:/m.sock".into());
        let down = PortState::Down("no peer has connected".into());
        let said = [&down, &PortState::Up, &down, &PortState::Up].map(|state| port.change(state).1);
        assert_eq!(
            said,
            [
                "port memif:/m.sock is down: no peer has connected",
                "port memif:/m.sock is up",
                "port memif:/m.sock is down: no peer has connected",
                "port memif:/m.sock is up again",
            ]
        );
    }

    /// A line about two workers, each of which has a part of port 0, which has this name.
    fn of_a_shared_port(name: &str) -> Live {
        let mut live = Live::new(&dataplane().setups, true);
        live.ports.truncate(1);
        (live.ports[0].name, live.ports[0].workers) = (name.into(), vec![0, 1]);
        live
    }

    /// Seen: a line for each worker about an interface that went down.
    #[test]
    fn a_port_of_several_workers_has_one_line_when_it_goes_down_and_one_when_all_of_it_is_up() {
        let mut live = of_a_shared_port("xdp:eth9");
        let (up, down) = (vec![PortState::Up], vec![PortState::Down("interface eth9 is down".into())]);
        let mut lines = |first: &[PortState], second: &[PortState]| -> Vec<String> {
            live.changes(&[first.to_vec(), second.to_vec()]).into_iter().map(|(_, line)| line).collect()
        };
        // The first worker has not reported its status yet.
        assert_eq!(lines(&[], &up), [""; 0]);
        assert_eq!(lines(&up, &down), ["port xdp:eth9 is down: interface eth9 is down"]);
        assert_eq!(lines(&down, &down), [""; 0]);
        assert_eq!(lines(&down, &up), [""; 0]);
        assert_eq!(lines(&up, &up), ["port xdp:eth9 is up again"]);
    }

    #[test]
    fn a_problem_is_printed_once_whichever_workers_have_it_and_again_if_it_comes_back() {
        let mut live = of_a_shared_port("memif:/m.sock");
        let (none, problem) = (vec![None], vec![Some("the peer sends frames that are too long".to_owned())]);
        let mut lines = |first: &[_], second: &[_]| live.new_complaints(&[first.to_vec(), second.to_vec()]);
        let line = "port memif:/m.sock: the peer sends frames that are too long";
        assert_eq!(lines(&none, &problem), [line]);
        assert_eq!(lines(&problem, &problem), [""; 0]);
        assert_eq!(lines(&problem, &none), [""; 0]);
        assert_eq!(lines(&none, &none), [""; 0]);
        assert_eq!(lines(&problem, &none), [line]);
    }
}
