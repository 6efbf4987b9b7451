//! The reports of a generator and a sink. COLD.

use crate::forward::json::{self, Counters, line, rounded};
use crate::forward::report::PortReport;
use crate::forward::summary::{listed, pool_line, port_line};
use crate::output::thousands;
use netmem::pool::Ledger;
use netmem::stats::Histogram;
use netmem_traffic::{Missed, Tally};
use serde::Serialize;

/// The counts of a generator.
pub struct Sent {
    pub seconds: f64,
    pub sent: u64,
    /// Packets that the port accepted and did not send.
    pub unsent: u64,
    /// Of `sent`, the packets that a peer had not acknowledged when its connection ended.
    pub left_unread: u64,
    /// Bytes of the packets that the port accepted.
    pub bytes: u64,
    pub missed: Missed,
    pub flows: usize,
    pub stream: u16,
    pub ports: Vec<PortReport>,
    pub pool: Ledger,
}

/// The counts of a sink.
pub struct Received {
    /// From the first packet to the last.
    pub seconds: f64,
    /// Packets that came with the first one.
    pub first_burst: u64,
    pub tally: Tally,
    pub lost: u64,
    pub foreign: u64,
    /// Flows of which a packet came whole.
    pub flows: usize,
    /// Corrupt packets by fault.
    pub faults: Vec<(&'static str, u64)>,
    pub bytes: u64,
    pub per_second: Vec<u64>,
    /// None if no packet had a usable time.
    pub latency: Option<Latency>,
    pub ports: Vec<PortReport>,
    pub pool: Ledger,
}

/// The latencies of packets, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Latency {
    counted: u64,
    unusable: u64,
    least: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    most: u64,
}

impl Latency {
    /// Returns the quantiles, or None without a latency.
    pub fn of(histogram: &Histogram, unusable: u64) -> Option<Latency> {
        Some(Latency {
            counted: histogram.counted(),
            unusable,
            least: histogram.least()?,
            p50: histogram.quantile(0.5)?,
            p90: histogram.quantile(0.9)?,
            p99: histogram.quantile(0.99)?,
            p999: histogram.quantile(0.999)?,
            most: histogram.most()?,
        })
    }
}

#[derive(Serialize)]
struct SentObject<'a> {
    seconds: f64,
    sent: u64,
    unsent: u64,
    left_unread: u64,
    bytes: u64,
    pps_mean: f64,
    missed_no_room: u64,
    missed_behind: u64,
    missed_port_down: u64,
    flows: usize,
    stream: u16,
    ports: Vec<json::Port<'a>>,
    pools: [json::Pool<'a>; 1],
}

#[derive(Serialize)]
struct ReceivedObject<'a> {
    seconds: f64,
    received: u64,
    distinct: u64,
    lost: u64,
    reordered: u64,
    duplicates: u64,
    late: u64,
    corrupt: u64,
    corrupt_by: Counters<'a>,
    foreign: u64,
    flows: usize,
    bytes: u64,
    pps_mean: Option<f64>,
    per_second: &'a [u64],
    latency_ns: Option<Latency>,
    ports: Vec<json::Port<'a>>,
    pools: [json::Pool<'a>; 1],
}

/// Returns the packets a second, for this many packets in the seconds before the last of them.
fn pps(packets: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| (packets as f64 / seconds).round())
}

impl Sent {
    /// Returns the object, on one line.
    pub fn json(&self) -> String {
        line(&SentObject {
            seconds: rounded(self.seconds),
            sent: self.sent,
            unsent: self.unsent,
            left_unread: self.left_unread,
            bytes: self.bytes,
            pps_mean: self.pps(),
            missed_no_room: self.missed.no_room,
            missed_behind: self.missed.behind,
            missed_port_down: self.missed.port_down,
            flows: self.flows,
            stream: self.stream,
            ports: self.ports.iter().map(json::port).collect(),
            pools: [json::pool(&self.pool)],
        })
    }

    /// Returns the packets a second. The first was sent at the beginning of the time.
    fn pps(&self) -> f64 {
        pps(self.sent.saturating_sub(1), self.seconds).unwrap_or_default()
    }

    /// Returns the text for people.
    pub fn text(&self) -> String {
        let flows =
            if self.flows == 1 { "1 flow".into() } else { format!("{} flows", thousands(self.flows as u64)) };
        // Which packets were not sent is not known, and so not their sizes.
        let (bytes, unsent) = match self.unsent {
            0 => (format!(", {} bytes", thousands(self.bytes)), String::new()),
            n => (String::new(), format!("{} more were taken by the port and not sent\n", thousands(n))),
        };
        let unread = match self.left_unread {
            0 => String::new(),
            n => format!(
                "left unread by the peer when its connection ended: {} (it may have read the last of them)\n",
                thousands(n)
            ),
        };
        format!(
            "sent {} packets of {flows}{bytes}, in {:.2} s: {} packets/s\n{unsent}{unread}{}{}",
            thousands(self.sent),
            self.seconds,
            thousands(self.pps() as u64),
            missed(self.missed),
            places(&self.ports, &self.pool)
        )
    }
}

/// Returns a line about packets that were due and not sent, if there are any.
fn missed(Missed { no_room, behind, port_down, .. }: Missed) -> String {
    let causes = [
        (no_room, "the port had no room for"),
        (port_down, "while the port was down"),
        (behind, "were left out by a generator that did not run in time, or is slower than the rate"),
    ];
    let causes: Vec<_> =
        causes.iter().filter(|(n, _)| *n > 0).map(|(n, why)| format!("{} {why}", thousands(*n))).collect();
    if causes.is_empty() {
        return String::new();
    }
    format!("missed {} that were due: {}\n", thousands(no_room + behind + port_down), causes.join(", "))
}

impl Received {
    /// Returns the object, on one line.
    pub fn json(&self) -> String {
        let Tally { received, corrupt, reordered, duplicates, late, .. } = self.tally;
        line(&ReceivedObject {
            seconds: rounded(self.seconds),
            received,
            distinct: self.tally.distinct(),
            lost: self.lost,
            reordered,
            duplicates,
            late,
            corrupt,
            corrupt_by: Counters((&self.faults).into()),
            foreign: self.foreign,
            flows: self.flows,
            bytes: self.bytes,
            pps_mean: self.pps(),
            per_second: &self.per_second,
            latency_ns: self.latency,
            ports: self.ports.iter().map(json::port).collect(),
            pools: [json::pool(&self.pool)],
        })
    }

    /// Returns the text for people.
    pub fn text(&self) -> String {
        let Tally { received, corrupt, reordered, duplicates, late, .. } = self.tally;
        let counts = [
            ("received", received, self.rates()),
            ("flows", self.flows as u64, String::new()),
            ("lost", self.lost, String::new()),
            ("reordered", reordered, String::new()),
            ("duplicates", duplicates, String::new()),
            ("late", late, String::new()),
            ("corrupt", corrupt, listed(self.faults.iter().copied())),
            ("foreign", self.foreign, String::new()),
        ];
        let mut text = format!("{:.2} s from the first packet to the last\n", self.seconds);
        let width = counts.iter().map(|(_, count, _)| thousands(*count).len()).max().unwrap_or(0);
        for (name, count, note) in counts {
            let row = format!("  {name:<10}  {:>width$}  {note}", thousands(count));
            text += &(row.trim_end().to_owned() + "\n");
        }
        text + &self.times() + &places(&self.ports, &self.pool)
    }

    /// Returns the packets a second. Those of the first burst came before the time began.
    fn pps(&self) -> Option<f64> {
        pps(self.tally.received.saturating_sub(self.first_burst), self.seconds)
    }

    fn rates(&self) -> String {
        let Some(mean) = self.pps() else { return String::new() };
        let mean = thousands(mean as u64);
        // The last second is incomplete.
        let whole = self.per_second.split_last().map(|(_, whole)| whole).unwrap_or_default();
        match (whole.iter().min(), whole.iter().max()) {
            (Some(&least), Some(&most)) => {
                format!("{mean} packets/s, {} to {} in a second", thousands(least), thousands(most))
            }
            _ => format!("{mean} packets/s"),
        }
    }

    fn times(&self) -> String {
        let Some(Latency { unusable, least, p50, p90, p99, p999, most, .. }) = self.latency else {
            return "  latency     no packet from a link had a time of this machine's clock\n".into();
        };
        let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
        let unusable = match unusable {
            0 => String::new(),
            n => format!("; {} times not of this machine's clock", thousands(n)),
        };
        format!(
            "  latency     least {}, p50 {}, p90 {}, p99 {}, p99.9 {}, most {} µs, if both ends are on this machine{unusable}\n",
            us(least),
            us(p50),
            us(p90),
            us(p99),
            us(p999),
            us(most)
        )
    }
}

/// Returns the ports and the states of the frames.
fn places(ports: &[PortReport], pool: &Ledger) -> String {
    let ports: String = ports.iter().map(port_line).collect();
    format!("\nports\n{ports}\nframes, after the ports were closed\n{}", pool_line(pool))
}
