//! The object of `--json`, which `netmem forward --help` describes.

use super::report::{FilterReport, PortReport, Report, SteerReport, WorkerReport};
use super::retention::{LocalQueueReport, MirrorReport};
use crate::args::PathArg;
use netmem::packet::ReadyPacketsStats;
use netmem::pool::Ledger;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

#[derive(Serialize)]
struct Object<'a> {
    seconds: f64,
    pps: Option<f64>,
    ns_per_packet: Option<f64>,
    pps_mean: f64,
    mode: &'static str,
    path: &'static str,
    backing: &'a str,
    windows: Option<Windows>,
    generator: Option<Generator>,
    received: u64,
    originated: u64,
    fragmented: u64,
    fragments: u64,
    transmitted: u64,
    held: u64,
    passed: u64,
    dropped: Counters<'a>,
    icmp: Icmp<'a>,
    local_queue: Option<Counters<'a>>,
    mirror: Option<Counters<'a>>,
    filter: Option<Filter<'a>>,
    ready_packets: Option<Counters<'a>>,
    sink: Option<Sink>,
    steer: Option<Steer<'a>>,
    workers: Vec<Worker>,
    ports: Vec<Port<'a>>,
    pools: Vec<Pool<'a>>,
}

#[derive(Serialize)]
struct Windows {
    counted: u64,
    dropped: u64,
    p10: f64,
    p90: f64,
}

#[derive(Serialize)]
struct Generator {
    sent: u64,
    refused: u64,
}

/// ICMP errors by message, and dropped packets without an error by reason.
#[derive(Serialize)]
struct Icmp<'a> {
    sent: Counters<'a>,
    suppressed: Counters<'a>,
}

#[derive(Serialize)]
struct Sink {
    received: u64,
    corrupt: u64,
    reordered: u64,
    duplicates: u64,
    late: u64,
    lost: u64,
}

#[derive(Serialize)]
struct Steer<'a> {
    policy: &'a str,
    tx_queue: &'a str,
    workers: Vec<Counters<'a>>,
}

#[derive(Serialize)]
struct Worker {
    core: Option<usize>,
    received: u64,
    taken: u64,
    handed: u64,
    originated: u64,
    fragmented: u64,
    fragments: u64,
    transmitted: u64,
    dropped: u64,
    held: u64,
    passed: u64,
    idle_rounds: u64,
    sleeps: u64,
    stalls: u64,
    ns_per_packet: Option<f64>,
}

/// A port and its counters.
#[derive(Serialize)]
pub struct Port<'a> {
    worker: usize,
    name: &'a str,
    kind: &'a str,
    detail: &'a str,
    #[serde(flatten)]
    counters: Counters<'a>,
}

/// The place of one pool's frames.
#[derive(Serialize)]
pub struct Pool<'a> {
    name: &'a str,
    total: u64,
    free: u64,
    cached: u64,
    ready: u64,
    owned: u64,
    posted: u64,
    queued: u64,
    returning: u64,
    miscounted: u64,
    balanced: bool,
}

#[derive(Serialize)]
struct Filter<'a> {
    unmatched: u64,
    rules: Vec<Rule>,
    protocols: Counters<'a>,
}

#[derive(Serialize)]
struct Rule {
    rule: String,
    packets: u64,
    bytes: u64,
}

/// Counters by name, in order.
pub struct Counters<'a>(pub Cow<'a, [(&'static str, u64)]>);

impl Serialize for Counters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// Returns the object on one line.
pub fn object(report: &Report) -> String {
    let object = Object {
        seconds: rounded(report.seconds),
        pps: report.pps().map(f64::round),
        ns_per_packet: report.windows.map(|windows| rounded(windows.p50)),
        pps_mean: report.pps_mean().round(),
        mode: report.mode.name(),
        path: match report.path {
            PathArg::Fast => "fast",
            PathArg::Full => "full",
        },
        backing: &report.backing,
        windows: report.windows.map(|q| Windows {
            counted: q.windows,
            dropped: q.dropped,
            p10: rounded(q.p10),
            p90: rounded(q.p90),
        }),
        generator: report.traveled.map(|t| Generator { sent: t.sent, refused: t.refused }),
        received: report.received,
        originated: report.icmp.originated,
        fragmented: report.fragmented(),
        fragments: report.fragments(),
        transmitted: report.transmitted,
        held: report.held,
        passed: report.passed,
        dropped: Counters((&report.dropped).into()),
        icmp: Icmp {
            sent: Counters((&report.icmp.sent).into()),
            suppressed: Counters((&report.icmp.suppressed).into()),
        },
        local_queue: report.local_queue.map(local_queue),
        mirror: report.mirror.map(mirror),
        filter: report.filter.as_ref().map(filter),
        ready_packets: report.ready.map(ready_packets),
        sink: report.traveled.map(|traveled| {
            let netmem_traffic::Tally { received, corrupt, reordered, duplicates, late, missing } =
                traveled.sink;
            Sink { received, corrupt, reordered, duplicates, late, lost: missing }
        }),
        steer: report.steer.as_ref().map(steer),
        workers: report.workers.iter().map(worker).collect(),
        ports: report.ports.iter().map(port).collect(),
        pools: report.pools.iter().map(pool).collect(),
    };
    line(&object)
}

/// Returns an object of numbers and strings on one line.
pub fn line(object: &impl Serialize) -> String {
    // The names are fixed, so serializing cannot fail.
    serde_json::to_string(object)
        .map_or_else(|error| format!("{{\"error\":\"{error}\"}}\n"), |text| text + "\n")
}

fn local_queue(local_queue: LocalQueueReport) -> Counters<'static> {
    let LocalQueueReport { taken, freed, kept } = local_queue;
    Counters(vec![("taken", taken), ("freed", freed), ("kept", kept)].into())
}

fn mirror(mirror: MirrorReport) -> Counters<'static> {
    let MirrorReport { taken, missed, kept } = mirror;
    Counters(vec![("taken", taken), ("missed", missed), ("kept", kept)].into())
}

fn filter(filter: &FilterReport) -> Filter<'_> {
    let rules = filter.rules.iter().map(|count| Rule {
        rule: count.rule.to_string(),
        packets: count.packets,
        bytes: count.bytes,
    });
    let protocols = Counters((&filter.protocols).into());
    Filter { unmatched: filter.unmatched, rules: rules.collect(), protocols }
}

fn ready_packets(stats: ReadyPacketsStats) -> Counters<'static> {
    let ReadyPacketsStats { now, max, taken, kept, missed, passed, released, .. } = stats;
    let counts = [
        ("now", now),
        ("max", max),
        ("taken", taken),
        ("kept", kept),
        ("missed", missed),
        ("passed", passed),
        ("released", released),
    ];
    Counters(counts.to_vec().into())
}

fn steer(steer: &SteerReport) -> Steer<'_> {
    let workers = steer.workers.iter().map(|counts| Counters(counts.into())).collect();
    Steer { policy: &steer.policy, tx_queue: steer.tx_queue, workers }
}

fn worker(worker: &WorkerReport) -> Worker {
    Worker {
        core: worker.core,
        received: worker.received,
        taken: worker.taken,
        handed: worker.handed,
        originated: worker.originated,
        fragmented: worker.fragmented,
        fragments: worker.fragments,
        transmitted: worker.transmitted,
        dropped: worker.dropped,
        held: worker.held,
        passed: worker.passed,
        idle_rounds: worker.idle_rounds,
        sleeps: worker.sleeps,
        stalls: worker.stalls,
        ns_per_packet: worker.windows.map(|windows| rounded(windows.p50)),
    }
}

/// Returns a port for the object.
pub fn port(port: &PortReport) -> Port<'_> {
    Port {
        worker: port.worker,
        name: &port.name,
        kind: port.kind,
        detail: &port.detail,
        counters: Counters((&port.counters).into()),
    }
}

/// Returns a pool for the object.
pub fn pool(ledger: &Ledger) -> Pool<'_> {
    Pool {
        name: &ledger.name,
        total: ledger.total,
        free: ledger.free,
        cached: ledger.cached,
        ready: ledger.ready,
        owned: ledger.owned,
        posted: ledger.posted,
        queued: ledger.queued,
        returning: ledger.returning,
        miscounted: ledger.miscounted,
        balanced: ledger.balanced(),
    }
}

/// Rounds to three decimals.
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::object;
    use crate::forward::report::sample;

    #[test]
    fn the_object_has_its_keys_in_their_order_on_one_line() {
        let text = object(&sample());
        let start =
            "{\"seconds\":2.0,\"pps\":20000000.0,\"ns_per_packet\":50.0,\"pps_mean\":50.0,\"mode\":\"ip\",";
        assert!(text.starts_with(start) && text.ends_with("}\n") && text.lines().count() == 1, "{text}");
        for part in [
            "\"generator\":{\"sent\":100,\"refused\":3},\"received\":100,\"originated\":3,\"fragmented\":1,\"fragments\":3,\"transmitted\":93,\"held\":4,\"passed\":0,",
            "\"dropped\":{\"no_route\":0,\"tx_full\":8},\"icmp\":{\"sent\":{\"time_exceeded\":3},\"suppressed\":{\"limited\":5}},\"local_queue\":null,\"mirror\":null,\"filter\":null,\"ready_packets\":null,\"sink\":{\"received\":93,\"corrupt\":0,\"reordered\":0,\"duplicates\":0,\"late\":0,\"lost\":0},",
            "\"steer\":null,\"workers\":[{\"core\":1,\"received\":100,\"taken\":0,\"handed\":0,\"originated\":3,\"fragmented\":1,\"fragments\":3,\"transmitted\":93,\"dropped\":8,\"held\":4,\"passed\":0,\"idle_rounds\":5,\"sleeps\":1,\"stalls\":0,\"ns_per_packet\":50.0}],",
            "{\"worker\":0,\"name\":\"mem:1\",\"kind\":\"mem\",\"detail\":\"\",\"rx\":0,\"rx_bytes\":0,\"tx\":0,",
            "\"owned\":0,\"posted\":0,\"queued\":0,\"returning\":4,\"miscounted\":0,\"balanced\":true}]",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn each_place_of_a_pool_stands_under_its_own_name() {
        let ledger = super::Ledger {
            name: "rx".into(),
            total: 28,
            free: 1,
            cached: 2,
            ready: 3,
            owned: 4,
            posted: 5,
            queued: 6,
            returning: 7,
            miscounted: 8,
        };
        assert_eq!(
            super::line(&super::pool(&ledger)),
            "{\"name\":\"rx\",\"total\":28,\"free\":1,\"cached\":2,\"ready\":3,\"owned\":4,\"posted\":5,\"queued\":6,\
             \"returning\":7,\"miscounted\":8,\"balanced\":false}\n"
        );
    }

    #[test]
    fn figures_that_interfaces_or_too_few_packets_cannot_give_are_null() {
        let mut report = super::Report { traveled: None, windows: None, ..sample() };
        report.workers[0].windows = None;
        let text = object(&report);
        for name in ["generator", "sink", "pps", "ns_per_packet", "windows"] {
            assert!(text.contains(&format!("\"{name}\":null")), "{name} in {text}");
        }
    }
}
