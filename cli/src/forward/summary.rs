//! The summary for people.

use super::report::{PortReport, Report, WorkerReport};
use super::retention::{LocalQueueReport, MirrorReport};
use crate::output::thousands;
use netmem::pool::Ledger;
use std::collections::BTreeSet;

/// Returns the whole text.
pub fn text(report: &Report) -> String {
    let names = report.ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
    let mode = report.mode.name();
    let mut text = format!("{names}: {mode} mode, {:.2} s{}\n\n", report.seconds, cores(report));
    text += &packets(report);
    text += &workers(report);
    text += &hooks(report);
    text += &rates(report);
    text.push_str("\nports\n");
    report.ports.iter().for_each(|port| text += &port_line(port));
    text.push_str("\nframes, after the ports were closed\n");
    report.pools.iter().for_each(|pool| text += &pool_line(pool));
    text += &format!("\nmemory\n  {} MiB on {}\n", report.bytes >> 20, report.backing);
    if report.own_bytes > 0 {
        let own = report.own_bytes >> 20;
        text += &format!("  {own} MiB beside it, of the pools that ports lend peers of other users\n");
    }
    text
}

/// `, forwarder on core 1, generator and sink on core 0`
fn cores(report: &Report) -> String {
    let cores: Vec<_> = report.workers.iter().filter_map(|worker| worker.core).collect();
    let distinct: BTreeSet<_> = cores.iter().collect();
    let mut text = match (&cores[..], report.workers.len()) {
        ([core], 1) => format!(", forwarder on core {core}"),
        (_, 1) => String::new(),
        ([], workers) => format!(", {workers} workers on any core"),
        (_, workers) if workers > distinct.len() => {
            format!(", {workers} workers on {} cores: they take turns", distinct.len())
        }
        (_, workers) => format!(", {workers} workers"),
    };
    text +=
        &report.network_core.map_or_else(String::new, |core| format!(", generator and sink on core {core}"));
    text
}

/// Returns each worker by itself, if there are several.
fn workers(report: &Report) -> String {
    let line = |(number, worker): (usize, &WorkerReport)| {
        let core = worker.core.map_or_else(String::new, |core| format!("on core {core}  "));
        let counts = [
            ("received", worker.received),
            ("taken", worker.taken),
            ("handed", worker.handed),
            ("originated", worker.originated),
            ("fragments", worker.fragments),
            ("transmitted", worker.transmitted),
            ("dropped", worker.dropped),
        ];
        let more = [("held", worker.held), ("passed", worker.passed), ("fragmented", worker.fragmented)];
        let counts = listed(counts.into_iter().chain(more));
        let busy = worker.windows.map_or_else(String::new, |q| format!("  {:.1} ns per packet", q.p50));
        format!("  {number}  {core}{counts}{busy}\n")
    };
    let lines: String = report.workers.iter().enumerate().map(line).collect();
    if report.workers.len() == 1 {
        return String::new();
    }
    let steered = report.steer.as_ref().map_or_else(String::new, |steer| {
        format!(", steered by {}, transmitted by the queue of the {}", steer.policy, steer.tx_queue)
    });
    format!("\nworkers{steered}\n{lines}")
}

/// Returns the counts of all packets.
fn packets(report: &Report) -> String {
    let mut lines = Vec::new();
    if let Some(traveled) = &report.traveled {
        let waited = format!("{} of them had to wait until a ring had room", thousands(traveled.refused));
        lines.push(("sent", traveled.sent, waited));
    }
    let rx_drops: u64 = report.ports.iter().map(PortReport::rx_drops).sum();
    lines.push(("rx drops", rx_drops, "at the devices: no free buffer, or ring full".into()));
    let (icmp, has_cut) = (&report.icmp, report.fragmented() > 0);
    let sum = [
        if icmp.originated > 0 { "+ originated " } else { "" },
        if has_cut { "+ fragments " } else { "" },
        "= transmitted + dropped + held + passed",
        if has_cut { " + fragmented" } else { "" },
    ];
    lines.push(("received", report.received, sum.concat()));
    if icmp.originated > 0 {
        let said = format!("ICMP errors: {}", listed(icmp.sent.iter().copied()));
        lines.push(("originated", icmp.originated, said));
    }
    if has_cut {
        lines.push(("fragmented", report.fragmented(), "longer than the next link carries".into()));
        lines.push(("fragments", report.fragments(), "made of those".into()));
    }
    lines.push(("transmitted", report.transmitted, String::new()));
    lines.push(("dropped", report.dropped_total(), listed(report.dropped.iter().copied())));
    lines.push(("held", report.held, String::new()));
    if let Some(LocalQueueReport { freed, kept, .. }) = report.local_queue {
        let note =
            format!("to the local queue, which freed {} and kept {}", thousands(freed), thousands(kept));
        lines.push(("passed", report.passed, note));
    }
    if let Some(traveled) = &report.traveled {
        lines.push((
            "sink",
            traveled.sink.received,
            format!("verified, {} corrupt", thousands(traveled.sink.corrupt)),
        ));
    }
    if let Some(MirrorReport { taken, missed, kept }) = report.mirror {
        let note = format!("of what was sent, {} missed, {} clones kept", thousands(missed), thousands(kept));
        lines.push(("mirrored", taken, note));
    }
    let width = lines.iter().map(|(_, count, _)| thousands(*count).len()).max().unwrap_or(0);
    let line = |(name, count, note): &(&str, u64, String)| {
        format!("  {name:<12} {:>width$}  {note}", thousands(*count)).trim_end().to_owned() + "\n"
    };
    "packets\n".to_owned() + &lines.iter().map(line).collect::<String>()
}

/// Returns the counts of rules and statistics of the full path, and the ready packets.
fn hooks(report: &Report) -> String {
    let mut text = String::new();
    if let Some(filter) = &report.filter {
        text.push_str("\nrules\n");
        for count in &filter.rules {
            let (packets, bytes) = (thousands(count.packets), thousands(count.bytes));
            text += &format!("  {}  {packets} packets, {bytes} bytes\n", count.rule);
        }
        text += &format!("  no rule  {} packets\n", thousands(filter.unmatched));
        text += &format!("  carried  {}\n", listed(filter.protocols.iter().copied()));
    }
    if let Some(ready) = report.ready {
        let counts = [("taken", ready.taken), ("kept", ready.kept), ("missed", ready.missed)];
        text += &format!("\nready packets\n  at most {}: {}\n", ready.max, listed(counts.into_iter()));
    }
    text
}

/// Returns the rates.
fn rates(report: &Report) -> String {
    let mean = match report.pps_mean() {
        few if few < 100.0 => format!("{few:.1}"),
        many => thousands(many.round() as u64),
    };
    let mut text =
        format!("\nrate\n  {mean} packets/s over the whole run: received / seconds, pauses included\n");
    match (report.windows, report.pps()) {
        (Some(q), Some(pps)) => {
            let each = if report.workers.len() > 1 { ", for each worker" } else { "" };
            text += &format!(
                "  {} packets/s is the capacity while busy: 1 / {:.1} ns per packet, the median of {} windows{each}\n",
                thousands(pps.round() as u64),
                q.p50,
                thousands(q.windows),
            );
            text += &format!(
                "  one window in ten is below {:.1} ns, one above {:.1} ns; {} with a pause in them do not count\n",
                q.p10,
                q.p90,
                thousands(q.dropped),
            );
        }
        _ => text += "  too few packets for a window of 256: no time per packet\n",
    }
    text
}

/// Returns a port with its counters.
pub fn port_line(port: &PortReport) -> String {
    let detail = if port.detail.is_empty() { String::new() } else { format!("  ({})", port.detail) };
    format!("  {}  {}{detail}\n", port.name, listed(port.counters.iter().copied()))
}

/// Returns the states of a pool's frames.
pub fn pool_line(pool: &Ledger) -> String {
    let verdict = if pool.balanced() { "balanced" } else { "NOT BALANCED" };
    format!("  {}  {} = {}  {verdict}\n", pool.name, thousands(pool.total), listed(pool.iter()))
}

/// `rx 12, tx 12`: the counts that are not 0.
pub fn listed(counts: impl Iterator<Item = (&'static str, u64)>) -> String {
    let counts = counts.filter(|(_, count)| *count > 0);
    let texts = counts.map(|(name, count)| format!("{name} {}", thousands(count))).collect::<Vec<_>>();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::report::sample;

    #[test]
    fn the_sum_of_the_packets_names_errors_and_fragments_where_there_are_any() {
        let mut report = sample();
        let lines = |report: &Report| packets(report).lines().map(str::to_owned).collect::<Vec<_>>();
        let all = lines(&report);
        let sum = "  received     100  + originated + fragments = transmitted + dropped + held + passed + fragmented";
        let found = all.iter().position(|line| line == sum).expect("the sum");
        assert_eq!(
            all[found + 1..found + 4],
            [
                "  originated     3  ICMP errors: time_exceeded 3",
                "  fragmented     1  longer than the next link carries",
                "  fragments      3  made of those",
            ]
        );
        report.workers[0].fragmented = 0;
        report.icmp.originated = 0;
        let sum = "  received     100  = transmitted + dropped + held + passed";
        assert!(lines(&report).iter().any(|line| line == sum), "{}", packets(&report));
    }

    /// Seen: a port with `lend=yes,peer=any` has a memory of its own, which no line counted.
    #[test]
    fn the_memory_of_a_pool_that_is_lent_stands_beside_that_of_the_others() {
        let mut report = sample();
        assert!(text(&report).ends_with("\nmemory\n  2 MiB on 4 KiB pages\n"));
        report.own_bytes = 32 << 20;
        let lent = "  32 MiB beside it, of the pools that ports lend peers of other users\n";
        assert!(text(&report).ends_with(&format!("\nmemory\n  2 MiB on 4 KiB pages\n{lent}")));
    }
}
