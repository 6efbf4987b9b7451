//! The object of `--json`; `netmem forward --help` describes it.

use super::report::{PortReport, Report};
use crate::args::ModeArg;
use netmem::pool::Ledger;
use serde::{Serialize, Serializer};

#[derive(Serialize)]
struct Object<'a> {
    seconds: f64,
    pps: Option<f64>,
    ns_per_packet: Option<f64>,
    pps_mean: f64,
    mode: &'static str,
    backing: &'a str,
    windows: Option<Windows>,
    generator: Option<Generator>,
    received: u64,
    transmitted: u64,
    held: u64,
    dropped: Counters<'a>,
    sink: Option<Sink>,
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

#[derive(Serialize)]
struct Sink {
    received: u64,
    corrupt: u64,
    reordered: u64,
    duplicates: u64,
    missing: u64,
}

#[derive(Serialize)]
struct Port<'a> {
    name: &'a str,
    kind: &'a str,
    detail: &'a str,
    #[serde(flatten)]
    counters: Counters<'a>,
}

#[derive(Serialize)]
struct Pool<'a> {
    name: &'a str,
    total: u64,
    free: u64,
    cached: u64,
    ready: u64,
    owned: u64,
    posted: u64,
    queued: u64,
    returning: u64,
    balanced: bool,
}

/// Counters by name, in their order.
struct Counters<'a>(&'a [(&'static str, u64)]);

impl Serialize for Counters<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().copied())
    }
}

/// The object, on one line.
pub fn object(report: &Report) -> String {
    let object = Object {
        seconds: rounded(report.seconds),
        pps: report.pps().map(f64::round),
        ns_per_packet: report.windows.map(|windows| rounded(windows.p50)),
        pps_mean: report.pps_mean().round(),
        mode: match report.mode {
            ModeArg::Ip => "ip",
            ModeArg::CrossConnect => "cross-connect",
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
        transmitted: report.transmitted,
        held: report.held,
        dropped: Counters(&report.dropped),
        sink: report.traveled.map(|traveled| {
            let netmem::forward::traffic::Tally { received, corrupt, reordered, duplicates, missing } =
                traveled.sink;
            Sink { received, corrupt, reordered, duplicates, missing }
        }),
        ports: report.ports.iter().map(port).collect(),
        pools: report.pools.iter().map(pool).collect(),
    };
    // Numbers and strings under fixed names: serializing them cannot fail.
    serde_json::to_string(&object)
        .map_or_else(|error| format!("{{\"error\":\"{error}\"}}\n"), |text| text + "\n")
}

fn port(port: &PortReport) -> Port<'_> {
    Port { name: &port.name, kind: port.kind, detail: &port.detail, counters: Counters(&port.counters) }
}

fn pool(ledger: &Ledger) -> Pool<'_> {
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
        balanced: ledger.balanced(),
    }
}

/// Three digits behind the point.
fn rounded(value: f64) -> f64 {
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
            "\"generator\":{\"sent\":100,\"refused\":3},\"received\":100,\"transmitted\":90,\"held\":2,",
            "\"dropped\":{\"no_route\":0,\"tx_full\":8},\"sink\":{\"received\":90,\"corrupt\":0,",
            "{\"name\":\"mem:1\",\"kind\":\"mem\",\"detail\":\"\",\"rx\":0,\"rx_bytes\":0,\"tx\":0,",
            "\"owned\":0,\"posted\":0,\"queued\":0,\"returning\":4,\"balanced\":true}]",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_interfaces_or_too_few_packets_cannot_tell_is_null() {
        let report = super::Report { traveled: None, windows: None, ..sample() };
        let text = object(&report);
        for name in ["generator", "sink", "pps", "ns_per_packet", "windows"] {
            assert!(text.contains(&format!("\"{name}\":null")), "{name} in {text}");
        }
    }
}
