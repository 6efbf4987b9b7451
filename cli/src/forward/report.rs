//! The results of a run.

use super::network::Traveled;
use super::retention::{LocalQueueReport, MirrorReport};
use crate::args::{LOST_BETWEEN, ModeArg, PathArg};
use netmem::forward::Reason;
use netmem::forward::filter::{FilterControl, RuleCount};
use netmem::forward::{Meters, Protocols, SteeringControl};
use netmem::packet::ReadyPacketsStats;
use netmem::pool::{Ledger, StillOut};
use netmem::port::{Port, PortCounters, PortState, WrapCounters};
use netmem::stats::Quantiles;
#[cfg(test)]
use netmem::stats::Writer;
use netmem::steer::{InboxStats, MeshConfig, RecordedQueue};
use netmem_router::icmp::IcmpCounters;
use std::fmt;
use std::sync::Arc;

/// The data for the summary, the JSON object and the checks.
#[derive(Debug, Clone)]
pub struct Report {
    pub mode: ModeArg,
    pub path: PathArg,
    /// From the first packet until the generator, or the forwarder, stopped.
    pub seconds: f64,
    /// Each worker by itself.
    pub workers: Vec<WorkerReport>,
    /// The core that the network was pinned to.
    pub network_core: Option<usize>,
    /// None with interfaces.
    pub traveled: Option<Traveled>,
    pub received: u64,
    /// ICMP errors. They are made of frames that count as dropped.
    pub icmp: IcmpReport,
    pub transmitted: u64,
    pub held: u64,
    pub passed: u64,
    /// None where nothing is passed.
    pub local_queue: Option<LocalQueueReport>,
    /// None without a mirror.
    pub mirror: Option<MirrorReport>,
    /// Frames that the forwarders got back after transmission, before the ports were closed.
    pub completed: u64,
    /// None on the fast path.
    pub filter: Option<FilterReport>,
    /// None without ready packets.
    pub ready: Option<ReadyPacketsStats>,
    /// Every reason, including those without a drop.
    pub dropped: Vec<(&'static str, u64)>,
    /// The forwarders' time per packet; None before the first window was full.
    pub windows: Option<Quantiles>,
    /// None if each worker forwards its own packets.
    pub steer: Option<SteerReport>,
    pub ports: Vec<PortReport>,
    /// Read when the ports were closed.
    pub pools: Vec<Ledger>,
    /// The holders of a pool whose frames were not all freed.
    pub still_out: Option<StillOut>,
    /// Bytes of memory, and its backing.
    pub bytes: usize,
    pub backing: String,
    /// Bytes of the other memories, which ports have for pools of their own.
    pub own_bytes: usize,
}

/// The counts of ICMP errors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IcmpReport {
    /// All errors. These frames were not received from any port.
    pub originated: u64,
    /// By message.
    pub sent: Vec<(&'static str, u64)>,
    /// Dropped packets about which an error could have been sent and was not, by reason.
    pub suppressed: Vec<(&'static str, u64)>,
}

impl IcmpReport {
    /// Returns the sum of all workers' counts.
    pub fn new(counters: &[Arc<IcmpCounters>]) -> IcmpReport {
        let of = |icmp: &IcmpCounters| IcmpReport {
            originated: icmp.originated(),
            sent: icmp.messages().map(|(message, count)| (message.name(), count)).collect(),
            suppressed: icmp.suppressed().map(|(why, count)| (why.name(), count)).collect(),
        };
        let add = |mut all: IcmpReport, its: IcmpReport| {
            all.originated += its.originated;
            all.sent.iter_mut().zip(its.sent).for_each(|(sum, (_, count))| sum.1 += count);
            all.suppressed.iter_mut().zip(its.suppressed).for_each(|(sum, (_, count))| sum.1 += count);
            all
        };
        counters.iter().map(|icmp| of(icmp)).reduce(add).unwrap_or_default()
    }
}

/// The counts of the hooks on the full path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterReport {
    /// Packets that no rule matched.
    pub unmatched: u64,
    pub rules: Vec<RuleCount>,
    /// Packets by protocol.
    pub protocols: Vec<(&'static str, u64)>,
}

impl FilterReport {
    /// Returns the sum with the counts of another worker's hooks, which have the same rules.
    pub fn with(mut self, other: FilterReport) -> FilterReport {
        self.unmatched += other.unmatched;
        for (mine, its) in self.rules.iter_mut().zip(other.rules) {
            (mine.packets, mine.bytes) = (mine.packets + its.packets, mine.bytes + its.bytes);
        }
        for (mine, its) in self.protocols.iter_mut().zip(other.protocols) {
            mine.1 += its.1;
        }
        self
    }

    /// Returns the current counts.
    pub fn new(control: &FilterControl, protocols: &Protocols) -> FilterReport {
        FilterReport {
            unmatched: control.unmatched(),
            rules: control.rules(),
            protocols: protocols.iter().collect(),
        }
    }
}

/// Returns the drops of all forwarders by reason, and the drops between workers.
pub fn dropped(meters: &[Arc<Meters>], steering: Option<&SteeringControl>) -> Vec<(&'static str, u64)> {
    let count = |reason| meters.iter().map(|meters| meters.drops.get(reason)).sum();
    let forwarders = Reason::ALL.iter().map(|&reason| (reason.name(), count(reason)));
    let between = steering.map(SteeringControl::drops).into_iter().flat_map(|drops| {
        LOST_BETWEEN.into_iter().zip([drops.inbox_full, drops.flow_limit, drops.inbox_gone])
    });
    forwarders.chain(between).collect()
}

/// The counts of packets shared between workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SteerReport {
    /// The policy at the end.
    pub policy: String,
    /// The worker whose queue transmitted: `rx-worker` or `fwd-worker`, as the key `tx-queue` of `--steer` names it.
    pub tx_queue: &'static str,
    /// The packets that came for each worker, and those that it kept.
    pub workers: Vec<Vec<(&'static str, u64)>>,
}

impl SteerReport {
    /// Returns the current counts of the workers of a mesh.
    pub fn new(steering: &SteeringControl, mesh: &MeshConfig) -> SteerReport {
        let tx_queue = match mesh.recorded_queue {
            RecordedQueue::Received => "rx-worker",
            RecordedQueue::Worker => "fwd-worker",
        };
        let workers = steering.stats().iter().map(|stats| steer_counts(stats).to_vec()).collect();
        SteerReport { policy: steering.policy().to_string(), tx_queue, workers }
    }
}

/// Returns a worker's counters of packets between workers, by name.
pub fn steer_counts(stats: &InboxStats) -> [(&'static str, u64); 12] {
    [
        ("kept", stats.kept),
        ("enqueued", stats.enqueued),
        ("dequeued", stats.dequeued),
        ("inbox_full", stats.drops.inbox_full),
        ("flow_limit", stats.drops.flow_limit),
        ("inbox_gone", stats.drops.inbox_gone),
        ("lost", stats.lost),
        ("waiting", stats.waiting),
        ("wakeups", stats.wakeups),
        ("flow_moves", stats.flow_moves),
        ("adopted", stats.adopted),
        ("postponed", stats.postponed),
    ]
}

/// The results of one worker's forwarder.
#[derive(Debug, Clone, Copy)]
pub struct WorkerReport {
    /// The core it was pinned to.
    pub core: Option<usize>,
    pub received: u64,
    /// Frames from other workers' inboxes, and to them.
    pub taken: u64,
    pub handed: u64,
    /// ICMP errors.
    pub originated: u64,
    /// Packets that were fragmented, or segmented for a port without offloads.
    pub fragmented: u64,
    /// The fragments and segments of those.
    pub fragments: u64,
    pub transmitted: u64,
    pub dropped: u64,
    pub held: u64,
    pub passed: u64,
    /// Rounds without work, from the 65th in a row on, and the number of sleeps.
    pub idle_rounds: u64,
    pub sleeps: u64,
    /// Number of times that it did not come round in time.
    pub stalls: u64,
    /// Its time per packet, or None before its first window was full.
    pub windows: Option<Quantiles>,
}

impl WorkerReport {
    /// Returns the current counters of a forwarder.
    pub fn new(core: Option<usize>, meters: &Meters) -> WorkerReport {
        WorkerReport {
            core,
            received: meters.received.get(),
            taken: meters.taken.get(),
            handed: meters.handed.get(),
            originated: meters.originated.get(),
            fragmented: meters.fragmented.get(),
            fragments: meters.fragments.get(),
            transmitted: meters.transmitted.get(),
            dropped: meters.drops.total(),
            held: meters.held.get(),
            passed: meters.passed.get(),
            idle_rounds: meters.idle_rounds.get(),
            sleeps: meters.sleeps.get(),
            stalls: meters.stalls.get(),
            windows: meters.windows.quantiles(),
        }
    }
}

/// One port.
#[derive(Debug, Clone)]
pub struct PortReport {
    /// The number of its worker.
    pub worker: usize,
    pub name: String,
    pub kind: &'static str,
    pub detail: String,
    /// Its state before it was closed.
    pub state: PortState,
    /// Problems other than its state.
    pub complaint: Option<String>,
    /// Every counter, including those of the ports wrapped around it.
    pub counters: Vec<(&'static str, u64)>,
    source: PortSource,
}

/// The counters of a port. They can be read at any time, even after the port is gone.
#[derive(Clone)]
pub struct PortSource {
    counters: Arc<PortCounters>,
    wraps: Vec<Arc<dyn WrapCounters>>,
}

impl PortSource {
    /// Returns the counters of a port and the ports wrapped around it.
    pub fn new(port: &dyn Port) -> PortSource {
        PortSource { counters: port.counters(), wraps: port.wrap_counters() }
    }

    /// Returns all current counters. Counters with the same name, of nested ports of one kind, are added.
    pub fn read(&self) -> Vec<(&'static str, u64)> {
        let mut all: Vec<_> = self.counters.iter().collect();
        for (name, count) in self.wraps.iter().flat_map(|wrap| wrap.counts()) {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => all.push((name, count)),
            }
        }
        all
    }
}

impl fmt::Debug for PortSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.read()).finish()
    }
}

impl Report {
    /// Returns the frames dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().map(|(_, frames)| frames).sum()
    }

    /// Returns the packets that were fragmented, of all workers.
    pub fn fragmented(&self) -> u64 {
        self.workers.iter().map(|worker| worker.fragmented).sum()
    }

    /// Returns the fragments of these packets.
    pub fn fragments(&self) -> u64 {
        self.workers.iter().map(|worker| worker.fragments).sum()
    }

    /// Returns the packets per second while there is work: the rate at the median time per packet, summed over the
    /// workers.
    pub fn pps(&self) -> Option<f64> {
        let each = self.workers.iter().filter_map(|worker| Some(1e9 / worker.windows?.p50));
        each.reduce(|sum, pps| sum + pps)
    }

    /// Returns the packets per second of the whole run, including idle time and pauses.
    pub fn pps_mean(&self) -> f64 {
        self.received as f64 / self.seconds
    }
}

/// Returns the state of a port, with the remedy if it is down for good.
pub fn state(port: &dyn Port) -> PortState {
    match port.state() {
        PortState::Down(reason) if port.is_failed() => {
            PortState::Down(format!("{reason}; the port stays down until netmem is started again"))
        }
        state => state,
    }
}

/// Returns a line if a port is down.
pub fn down(name: &str, state: &PortState) -> Option<String> {
    let PortState::Down(reason) = state else { return None };
    Some(format!("port {name} is down: {reason}"))
}

impl PortReport {
    /// Returns the current state of a worker's port.
    pub fn new(worker: usize, port: &dyn Port, detail: String) -> PortReport {
        let source = PortSource::new(port);
        let counters = source.read();
        PortReport {
            worker,
            name: port.name().into(),
            kind: port.kind(),
            detail,
            state: state(port),
            complaint: port.complaint(),
            counters,
            source,
        }
    }

    /// Reads the counters again.
    pub fn read_counters(&mut self) {
        self.counters = self.source.read();
    }

    /// Returns one counter, or 0 if there is none of that name.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }

    /// Returns the frames that reached the device and not the forwarder.
    pub fn rx_drops(&self) -> u64 {
        self.source.counters.rx_drops()
    }
}

/// Makes a run of the built-in network without a failed check, for tests of output made from a report.
#[cfg(test)]
pub fn sample() -> Report {
    use netmem::port::mem::{MemConfig, MemPort};
    use netmem_traffic::Tally;
    let port = |name| {
        MemPort::pair(name, &MemConfig::default()).map(|(port, _far)| PortReport::new(0, &port, "".into()))
    };
    let sink = Tally { received: 93, ..Tally::default() };
    let windows = Some(Quantiles { p10: 40.0, p50: 50.0, p90: 60.0, windows: 7, dropped: 1 });
    let worker = WorkerReport {
        core: Some(1),
        received: 100,
        taken: 0,
        handed: 0,
        originated: 3,
        fragmented: 1,
        fragments: 3,
        transmitted: 93,
        dropped: 8,
        held: 4,
        passed: 0,
        idle_rounds: 5,
        sleeps: 1,
        stalls: 0,
        windows,
    };
    let (sent, suppressed) = (vec![("time_exceeded", 3)], vec![("limited", 5)]);
    let icmp = IcmpReport { originated: 3, sent, suppressed };
    let mut report = Report {
        mode: ModeArg::Ip,
        path: PathArg::Fast,
        seconds: 2.0,
        workers: vec![worker],
        network_core: None,
        traveled: Some(Traveled { sent: 100, refused: 3, sink, first_fault: None }),
        received: 100,
        icmp,
        transmitted: 93,
        held: 4,
        passed: 0,
        local_queue: None,
        mirror: None,
        completed: 93,
        filter: None,
        ready: None,
        dropped: vec![("no_route", 0), ("tx_full", 8)],
        windows,
        steer: None,
        ports: vec![port("0").unwrap(), port("1").unwrap()],
        pools: vec![Ledger { name: "rx".into(), total: 64, free: 60, returning: 4, ..Ledger::default() }],
        still_out: None,
        bytes: 2 << 20,
        own_bytes: 0,
        backing: "4 KiB pages".into(),
    };
    let counters = Writer::<PortCounters>::default();
    counters.add(|counters| &counters.completed, 93);
    report.ports[1].source.counters = counters.reader();
    report.ports.iter_mut().for_each(PortReport::read_counters);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Wrap(u64);

    impl WrapCounters for Wrap {
        fn counts(&self) -> Vec<(&'static str, u64)> {
            vec![("fault_dropped", self.0)]
        }
    }

    #[test]
    fn counters_of_two_ports_of_one_kind_around_a_port_are_summed() {
        let wraps: Vec<Arc<dyn WrapCounters>> = vec![Arc::new(Wrap(3)), Arc::new(Wrap(4))];
        let source = PortSource { counters: Arc::default(), wraps };
        let dropped: Vec<_> =
            source.read().into_iter().filter(|(name, _)| *name == "fault_dropped").collect();
        assert_eq!(dropped, [("fault_dropped", 7)]);
    }
}
