//! Names, units and help of all metrics.

use super::page::{Kind, Labels, Page};
use super::process::Usage;
use crate::forward::carriers::Carriers;
use crate::forward::cuts::{Answer, Cut, Packets};
use crate::forward::outcomes::Outcomes;
use netmem::page::Memory;
use netmem::pool::{Pool, PoolStats};
use netmem::system::broker;
use netmem_rtnetlink::FollowerStats;
use std::time::Duration;

mod packets;
#[cfg(test)]
mod tests;

pub use packets::{icmp, rules, tables};

/// Writes the whole run: whether this is one cut, the drops, and the packets between workers.
pub fn run(page: &mut Page, cut: &Cut, scrapes: u64) {
    let mut family = page.family("netmem_build_info", Kind::Gauge, "The version that runs; always 1.");
    family.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let help = "Scrapes that were answered, this one too.";
    page.family("netmem_scrapes", Kind::Counter, help).sample(&[], scrapes);
    let help = "1 if the broker (netmem-broker) has ended: no neighbour is resolved any more, and a port whose interface goes away stays down until netmem is started again.";
    page.family("netmem_broker_ended", Kind::Gauge, help).sample(&[], u8::from(broker::is_gone()));
    let help = "1 if every worker answered this scrape and every frame was counted while no worker moved frames; otherwise the ages show what is stale.";
    page.family("netmem_cut_whole", Kind::Gauge, help).sample(&[], u8::from(cut.is_whole));
    let mut family =
        page.family("netmem_dropped_packets", Kind::Counter, "Packets dropped, by reason, of all workers.");
    let reasons = cut.workers.first().map_or(0, |(answer, _)| answer.drops.len());
    for at in 0..reasons {
        let reason = cut.workers[0].0.drops[at].0;
        let sum: u64 = cut.workers.iter().map(|(answer, _)| answer.drops[at].1).sum();
        family.sample(&[("reason", reason)], sum);
    }
    cut.between.iter().for_each(|(reason, count)| family.sample(&[("reason", reason)], count));
    let (waiting, ahead) = between(cut);
    let help =
        "Packets on their way between workers: handed over, not taken and not dropped. 0 without steering.";
    page.family("netmem_between_packets", Kind::Gauge, help).sample(&[], waiting);
    let help = "Packets that one worker took and whose handing over is not in the other's last answer yet. 0 in a whole cut.";
    page.family("netmem_between_ahead_packets", Kind::Gauge, help).sample(&[], ahead);
}

/// Writes the start of the process and what it uses, as far as that is known, by the names that all exporters use.
pub fn process(page: &mut Page, started: Duration, usage: &Usage) {
    let help = "When the process was started, in seconds since 1970.";
    page.family("process_start_time_seconds", Kind::Gauge, help).sample(&[], seconds(started));
    let help = "Time of all threads of the process on cores, in the kernel too. Workers with --idle spin are always on one.";
    page.family("process_cpu_seconds", Kind::Counter, help).sample(&[], seconds(usage.cpu));
    if let Some(open) = usage.open_descriptors {
        page.family("process_open_fds", Kind::Gauge, "Open descriptors of the process.").sample(&[], open);
    }
    if let Some(most) = usage.max_descriptors {
        let help = "How many descriptors the process may have open (RLIMIT_NOFILE).";
        page.family("process_max_fds", Kind::Gauge, help).sample(&[], most);
    }
    if let Some(bytes) = usage.resident_bytes {
        let help = "Bytes of the process in memory, without huge pages that were set aside (hugetlbfs). The broker is another process.";
        page.family("process_resident_memory_bytes", Kind::Gauge, help).sample(&[], bytes);
    }
}

/// Writes the outcomes of reloads and recordings.
pub fn outcomes(page: &mut Page, outcomes: &Outcomes) {
    let help = "1 if the last reload of the configuration was taken, or there was none; 0 if it was refused, and the one before holds.";
    let mut family = page.family("netmem_config_last_reload_successful", Kind::Gauge, help);
    family.sample(&[], u8::from(outcomes.is_configuration_taken()));
    let help = "When a configuration was last taken, at the start or by a reload, in seconds since 1970.";
    let mut family = page.family("netmem_config_last_reload_success_timestamp_seconds", Kind::Gauge, help);
    family.sample(&[], seconds(outcomes.taken()));
    let help = "Recordings that could not be written to the file of --record-to.";
    let mut family = page.family("netmem_failed_recordings", Kind::Counter, help);
    family.sample(&[], outcomes.failed_recordings());
}

/// Returns the packets between workers, or, if a worker is stale, by how many the others are ahead of it.
fn between(cut: &Cut) -> (u64, u64) {
    let sum = |pick: fn(&Packets) -> u64| {
        cut.workers.iter().map(|(answer, _)| pick(&answer.packets)).fold(0, u64::wrapping_add)
    };
    let dropped = cut.between.iter().map(|(_, count)| count).sum::<u64>();
    let (handed, ended) = (sum(|of| of.handed), sum(|of| of.taken).wrapping_add(dropped));
    (handed.saturating_sub(ended), ended.saturating_sub(handed))
}

/// A family of workers' metrics: its name, kind, help, and the function that reads it.
type OfWorker = (&'static str, Kind, &'static str, fn(&Answer) -> u64);

const OF_WORKERS: &[OfWorker] = &[
    ("netmem_worker_receive_packets", Kind::Counter, "Packets received from all ports.", |of| {
        of.packets.received
    }),
    ("netmem_worker_take_packets", Kind::Counter, "Packets taken that other workers handed over.", |of| {
        of.packets.taken
    }),
    ("netmem_worker_originate_packets", Kind::Counter, "ICMP errors made of dropped packets.", |of| {
        of.packets.originated
    }),
    ("netmem_worker_fragments", Kind::Counter, "Fragments, and segments of packets with offloads.", |of| {
        of.packets.fragments
    }),
    ("netmem_worker_transmit_packets", Kind::Counter, "Packets that a port took for transmission.", |of| {
        of.packets.transmitted
    }),
    ("netmem_worker_drop_packets", Kind::Counter, "Packets dropped for any reason.", |of| of.packets.dropped),
    ("netmem_worker_pass_packets", Kind::Counter, "Packets that the local queue took.", |of| {
        of.packets.passed
    }),
    (
        "netmem_worker_hand_packets",
        Kind::Counter,
        "Packets handed to other workers, including packets dropped on the way.",
        |of| of.packets.handed,
    ),
    (
        "netmem_worker_fragmented_packets",
        Kind::Counter,
        "Packets that were fragmented, or segmented for a port without offloads.",
        |of| of.packets.fragmented,
    ),
    (
        "netmem_worker_held_packets",
        Kind::Gauge,
        "Packets that wait for a transmit ring or a neighbour.",
        |of| of.packets.held,
    ),
    ("netmem_worker_idle_rounds", Kind::Counter, "Idle polls, counted after 64 in a row.", |of| {
        of.idle_rounds
    }),
    ("netmem_worker_sleeps", Kind::Counter, "How often the worker slept.", |of| of.sleeps),
    (
        "netmem_worker_stalls",
        Kind::Counter,
        "How often the watchdog reported that the worker did not finish a round.",
        |of| of.stalls,
    ),
];

/// Writes each worker, and whether its values are stale.
pub fn workers(page: &mut Page, cut: &Cut) {
    let named: Vec<_> = cut.workers.iter().enumerate().map(|(number, of)| (number.to_string(), of)).collect();
    let help = "1 if the worker did not answer this scrape: its values are those of its last answer.";
    let mut family = page.family("netmem_worker_stale", Kind::Gauge, help);
    for (worker, (_, is_fresh)) in &named {
        family.sample(&[("worker", worker)], u8::from(!is_fresh));
    }
    let mut family =
        page.family("netmem_worker_age_seconds", Kind::Gauge, "How old the worker's values are.");
    for (worker, (answer, _)) in &named {
        family.sample(&[("worker", worker)], seconds(cut.at.saturating_duration_since(answer.at)));
    }
    for &(name, kind, help, read) in OF_WORKERS {
        let mut family = page.family(name, kind, help);
        named.iter().for_each(|(worker, (answer, _))| family.sample(&[("worker", worker)], read(answer)));
    }
    let help = "Time per received packet, over windows with work in them; without idle time.";
    let mut family = page.family("netmem_worker_packet_seconds", Kind::Summary, help);
    for (worker, (answer, _)) in &named {
        if let Some(windows) = &answer.windows {
            let labels = [("worker", worker.as_str())];
            let quantiles = [("0.1", windows.p10), ("0.5", windows.p50), ("0.9", windows.p90)];
            quantiles.into_iter().for_each(|(share, ns)| family.quantile(&labels, share, ns / 1e9));
            family.count(&labels, windows.windows);
        }
    }
    let help = "Time in rounds with work in them: its rate is the share of a core that is busy.";
    let mut family = page.family("netmem_worker_busy_seconds", Kind::Counter, help);
    for (worker, (answer, _)) in &named {
        family.sample(&[("worker", worker)], seconds(Duration::from_nanos(answer.busy_ns)));
    }
    let help = "Packets that a round received, from ports and other workers, of rounds that received some.";
    let mut family = page.family("netmem_worker_burst_packets", Kind::Histogram, help);
    for (worker, (answer, _)) in &named {
        family.histogram(&[("worker", worker)], &answer.bursts, 1.0);
    }
    let help = "Time of packets in the worker, from before it polls a port until a transmit ring, a queue or another worker has them, by \
                the clock of its rounds: an upper bound for each packet.";
    let mut family = page.family("netmem_worker_latency_seconds", Kind::Histogram, help);
    for (worker, (answer, _)) in &named {
        family.histogram(&[("worker", worker)], &answer.latency, 1e9);
    }
}

/// The counters of ports with names of their own. Others have their name in `netmem stat ports`.
const OF_PORTS: &[(&str, &str, &str)] = &[
    ("rx", "netmem_port_receive_packets", "Packets received."),
    ("rx_bytes", "netmem_port_receive_bytes", "Bytes received."),
    ("tx", "netmem_port_transmit_packets", "Packets posted for transmission."),
    ("tx_bytes", "netmem_port_transmit_bytes", "Bytes posted for transmission."),
    ("completed", "netmem_port_complete_packets", "Packets sent and given back."),
];

/// Writes the ports of all workers.
pub fn ports(page: &mut Page, cut: &Cut) {
    // The xdp ports of the workers have names of their own, by their queues: the first worker's is the port's.
    let first = cut.workers.first().map_or(&[][..], |(answer, _)| &answer.ports);
    let all = cut.workers.iter().enumerate().flat_map(|(worker, (answer, _))| {
        answer.ports.iter().enumerate().map(move |(at, port)| {
            let name = &first.get(at).unwrap_or(port).name;
            ([("port", name.clone()), ("worker", worker.to_string()), ("number", at.to_string())], port)
        })
    });
    let all: Vec<_> = all.collect();
    let mut family =
        page.family("netmem_port_up", Kind::Gauge, "1 if the port is up, as its worker last saw it.");
    for (labels, one) in &all {
        let [port, worker, at] = borrowed(labels);
        family.sample(&[port, worker, at, ("kind", one.kind)], u8::from(one.is_up));
    }
    let help = "1 if the port is down for good: it stays down until netmem is started again.";
    let mut family = page.family("netmem_port_failed", Kind::Gauge, help);
    all.iter().for_each(|(labels, one)| family.sample(&borrowed(labels), u8::from(one.is_failed)));
    let help = "How often the port was seen to go down, also if it was up again before the next scrape.";
    let mut family = page.family("netmem_port_downs", Kind::Counter, help);
    all.iter().for_each(|(labels, one)| family.sample(&borrowed(labels), one.downs));
    for &(counter, name, help) in OF_PORTS {
        let mut family = page.family(name, Kind::Counter, help);
        for (labels, one) in &all {
            let count = one.counters.iter().find(|(known, _)| *known == counter);
            count.into_iter().for_each(|(_, count)| family.sample(&borrowed(labels), count));
        }
    }
    let help = "All other counters of the port, by their names in netmem stat ports.";
    let mut family = page.family("netmem_port_events", Kind::Counter, help);
    for (labels, one) in &all {
        let [port, worker, at] = borrowed(labels);
        let rest = one.counters.iter().filter(|(name, _)| OF_PORTS.iter().all(|(known, ..)| known != name));
        rest.for_each(|(name, count)| family.sample(&[port, worker, at, ("event", name)], count));
    }
    let help = "Packets posted for transmission and not back, as sampled about fifty times a second.";
    let mut family = page.family("netmem_port_posted_packets", Kind::Histogram, help);
    all.iter().for_each(|(labels, one)| family.histogram(&borrowed(labels), &one.posted, 1.0));
}

/// Writes the carriers of the ports' interfaces. A port of several workers has one.
pub fn carriers(page: &mut Page, cut: &Cut, carriers: &Carriers) {
    let first = cut.workers.first().map_or(&[][..], |(answer, _)| &answer.ports);
    let named = first.iter().enumerate();
    let all: Vec<_> =
        named.map(|(at, port)| (at, [("port", port.name.clone()), ("number", at.to_string())])).collect();
    let help = "1 if the port's interface has a carrier, as seen once a second; 0 if there is no cable or the other end is down. \
                No sample of a port whose interface is down or gone, or that has none.";
    let mut family = page.family("netmem_port_carrier", Kind::Gauge, help);
    for (at, labels) in &all {
        carriers.of_port(*at).into_iter().for_each(|has| family.sample(&borrowed(labels), u8::from(has)));
    }
    let help = "How often the port's interface was seen to lose its carrier while it was up.";
    let mut family = page.family("netmem_port_carrier_losses", Kind::Counter, help);
    for (at, labels) in &all {
        carriers.losses(*at).into_iter().for_each(|count| family.sample(&borrowed(labels), count));
    }
}

fn borrowed<'a, const N: usize>(labels: &'a [(&'a str, String); N]) -> [(&'a str, &'a str); N] {
    std::array::from_fn(|at| (labels[at].0, &*labels[at].1))
}

/// Writes the state of every frame when it was last counted while no worker moved frames.
pub fn frames(page: &mut Page, cut: &Cut) {
    let seen: Vec<_> = cut.ledgers.iter().flatten().collect();
    let mut family = page.family("netmem_pool_frames", Kind::Gauge, "Frames of a pool, by state.");
    for (ledger, _) in &seen {
        for (state, count) in ledger.iter() {
            family.sample(&[("pool", &ledger.name), ("state", state)], count);
        }
    }
    let help = "Frames that a pool has: the sum over all states.";
    let mut family = page.family("netmem_pool_size_frames", Kind::Gauge, help);
    seen.iter().for_each(|(ledger, _)| family.sample(&[("pool", &ledger.name)], ledger.total));
    let help = "1 if the states add up to the size and no frame is miscounted.";
    let mut family = page.family("netmem_pool_balanced", Kind::Gauge, help);
    seen.iter().for_each(|(of, _)| family.sample(&[("pool", &of.name)], u8::from(of.balanced())));
    let help = "How long ago a pool's frames were counted while no worker moved them; all values of the pool by state are from that time.";
    let mut family = page.family("netmem_pool_age_seconds", Kind::Gauge, help);
    for (ledger, at) in &seen {
        family.sample(&[("pool", &ledger.name)], seconds(cut.at.saturating_duration_since(*at)));
    }
}

/// Writes the counters of pools, which are not part of the cut.
pub fn pools(page: &mut Page, pools: &[Pool]) {
    let stats: Vec<(&str, PoolStats)> = pools.iter().map(|pool| (pool.name(), pool.stats())).collect();
    let mut family =
        page.family("netmem_pool_allocations", Kind::Counter, "Allocations, by how they were served.");
    for (pool, PoolStats { alloc, .. }) in &stats {
        let kinds = [
            ("fast", alloc.fast),
            ("slow", alloc.slow),
            ("slow_high_order", alloc.slow_high_order),
            ("refill", alloc.refill),
        ];
        kinds.into_iter().for_each(|(how, count)| family.sample(&[("pool", pool), ("how", how)], count));
    }
    each(page, "netmem_pool_failed_allocations", "Allocations for which there was no frame.", &stats, |of| {
        of.failed
    });
    let help = "Frames that a pool may have; it makes them of pages as they are needed.";
    let mut family = page.family("netmem_pool_limit_frames", Kind::Gauge, help);
    pools.iter().for_each(|pool| family.sample(&[("pool", pool.name())], pool.frames() as u64));
    each(page, "netmem_pool_released_frames", "Frames that left the pool with their pages.", &stats, |of| {
        of.released
    });
}

fn each(
    page: &mut Page,
    name: &'static str,
    help: &str,
    of: &[(&str, PoolStats)],
    read: fn(&PoolStats) -> u64,
) {
    let mut family = page.family(name, Kind::Counter, help);
    of.iter().for_each(|(pool, stats)| family.sample(&[("pool", pool)], read(stats)));
}

/// Writes the memory's pages, which are not part of the cut.
pub fn memory(page: &mut Page, memory: &Memory) {
    let stats = memory.stats();
    page.family("netmem_memory_bytes", Kind::Gauge, "Bytes of the memory.").sample(&[], memory.bytes());
    let help = "Free pages: of the nodes, and of workers' lists.";
    let mut family = page.family("netmem_memory_free_pages", Kind::Gauge, help);
    let labels = |held: &'static str| -> [(&'static str, &'static str); 1] { [("with", held)] };
    family.sample(&labels("nodes") as &Labels<'_>, stats.free);
    family.sample(&labels("workers") as &Labels<'_>, stats.cached);
    let help = "Allocations of pages that failed.";
    page.family("netmem_memory_failed_allocations", Kind::Counter, help).sample(&[], stats.failed);
}

/// Writes what happened while the kernel's routes were followed, which is not part of the cut.
pub fn netlink(page: &mut Page, counters: &FollowerStats) {
    let help = "Events while the kernel's routes are followed, by their names in netmem stat netlink.";
    let mut family = page.family("netmem_netlink_events", Kind::Counter, help);
    for (event, count) in [
        ("resyncs", counters.resyncs),
        ("failures", counters.failures),
        ("overruns", counters.overruns),
        ("unsettled", counters.unsettled),
        ("malformed", counters.malformed),
        ("forged", counters.forged),
        ("unanswered", counters.unanswered),
        ("neigh_refused", counters.neigh_refused),
    ] {
        family.sample(&[("event", event)], count);
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
