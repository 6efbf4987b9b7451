//! The sections and keys of a forwarding run at the control socket.

use super::carriers::Carriers;
use super::icmp_registry;
use super::page_registry;
use super::phases::LatestStatus;
use super::plan::{Plan, Source};
use super::report::{PortSource, dropped, state};
use super::steer_registry;
use super::worker_setup::WorkerSetup;
use crate::args::ModeArg;
use crate::control::registry::Registry;
use crate::control::{NO_CARRIER, Record};
use netmem::forward::{Idle, Meters, SteeringControl};
use netmem::page::Memory;
use netmem::pool::{Holder, Pool, PoolStats};
use netmem::port::{Port, PortState};
use netmem_ports::{DeviceSpec, PortSpec};
use serde_json::Value;
use std::sync::Arc;

/// The name for pages of any node.
const ANY_NODE: &str = "any";

/// Makes the registry of all workers over one memory.
pub fn registry(
    memory: &Memory,
    setups: &[WorkerSetup],
    steering: Option<&SteeringControl>,
    (plan, latest_status, carriers): (&Plan, &LatestStatus, &Carriers),
) -> Registry {
    let mut registry = Registry::new();
    sections(&mut registry, memory, setups, steering, (plan, latest_status, carriers));
    steering.iter().for_each(|steering| steer_registry::steer(&mut registry, steering));
    idle_key(&mut registry, setups);
    if plan.mode == ModeArg::Ip {
        icmp_registry::icmp(&mut registry, setups);
    }
    page_registry::keys(&mut registry, memory);
    setups
        .iter()
        .flat_map(WorkerSetup::pools)
        .for_each(|pool| pool_keys(&mut registry, pool, memory.nodes()));
    registry
}

fn sections(
    registry: &mut Registry,
    memory: &Memory,
    setups: &[WorkerSetup],
    steering: Option<&SteeringControl>,
    of_ports: (&Plan, &LatestStatus, &Carriers),
) {
    let pools: Vec<Pool> = setups.iter().flat_map(WorkerSetup::pools).cloned().collect();
    let of = pools.clone();
    registry.section("pools", move || of.iter().map(pool_record).collect());
    ports(registry, setups, of_ports);
    let meters: Vec<_> = setups.iter().map(|setup| setup.forwarder.meters()).collect();
    let (of, between) = (meters.clone(), steering.cloned());
    registry.section("drops", move || {
        vec![Record::default().with("name", "forward").with_all(dropped(&of, between.as_ref()))]
    });
    registry.section("forward", move || {
        let each: Vec<_> = meters.iter().map(|meters| counts(meters)).collect();
        let sum = |i: usize| (each[0][i].0, each.iter().map(|counts| counts[i].1).sum());
        vec![Record::default().with("name", "forward").with_all((0..each[0].len()).map(sum))]
    });
    let workers: Vec<_> = setups.iter().map(|setup| (setup.forwarder.meters(), setup.core)).collect();
    registry.section("workers", move || workers.iter().enumerate().map(worker_record).collect());
    registry.section("holders", move || pools.iter().flat_map(holder_records).collect());
    let of = memory.clone();
    registry.section("pages", move || vec![page_record(&of)]);
}

/// Adds each port of each worker: its state and its posted frames by the latest status of its worker, its queues and the
/// slots of each of their rings, and its counters.
fn ports(
    registry: &mut Registry,
    setups: &[WorkerSetup],
    (plan, latest_status, carriers): (&Plan, &LatestStatus, &Carriers),
) {
    let specs: &[PortSpec] = match &plan.source {
        Source::BuiltIn(_) => &[],
        Source::Ports { ports, .. } => ports,
    };
    let ports = setups.iter().enumerate().flat_map(|(worker, setup)| {
        let port = move |(number, port): (usize, &dyn Port)| Known {
            worker,
            number,
            name: port.name().to_owned(),
            kind: port.kind(),
            queues: queues(specs.get(number), port.name()),
            first: (state(port), port.rx_posted()),
            counters: PortSource::new(port),
        };
        setup.forwarder.ports().enumerate().map(port)
    });
    let (ports, latest_status, ring): (Vec<_>, _, _) = (ports.collect(), latest_status.clone(), plan.ring);
    let carriers = carriers.clone();
    registry.section("ports", move || {
        let seen = latest_status.ports();
        let record = |port: &Known| {
            let seen = seen.get(port.worker).and_then(|ports| ports.get(port.number));
            port.record(ring, seen.unwrap_or(&port.first), carriers.of_port(port.number))
        };
        ports.iter().map(record).collect()
    });
}

/// A port of a worker.
struct Known {
    worker: usize,
    /// Its number in the order of `--port`. Ports may share a name.
    number: usize,
    name: String,
    kind: &'static str,
    /// The numbers of its queues for reception and for transmission.
    queues: (usize, usize),
    /// Its state and its frames posted for reception, before its worker has reported a status.
    first: (PortState, usize),
    counters: PortSource,
}

impl Known {
    fn record(
        &self,
        ring: u32,
        (state, rx_posted): &(PortState, usize),
        has_carrier: Option<bool>,
    ) -> Record {
        let state = match (state, has_carrier) {
            (PortState::Up, Some(false)) => NO_CARRIER.to_owned(),
            (state, _) => state.to_string(),
        };
        Record::default()
            .with("name", self.name.as_str())
            .with("kind", self.kind)
            .with("number", self.number)
            .with("worker", self.worker)
            .with("state", state)
            .with("ring", ring)
            .with("rx_queues", self.queues.0)
            .with("tx_queues", self.queues.1)
            .with("rx_posted", *rx_posted)
            .with_all(self.counters.read())
    }
}

/// Returns the numbers of queues for reception and for transmission of a worker's port with this name.
fn queues(spec: Option<&PortSpec>, name: &str) -> (usize, usize) {
    match spec.map(|spec| &spec.device) {
        // `xdp:eth0:1,3` has two queues, and transmits by the first.
        Some(DeviceSpec::Xdp(_)) => (1 + name.matches(',').count(), 1),
        Some(DeviceSpec::Memif { config, .. }) => (config.queues.into(), config.queues.into()),
        Some(DeviceSpec::Packet(_) | DeviceSpec::Tap { .. } | DeviceSpec::Pcap { .. }) | None => (1, 1),
    }
}

/// Returns the counts of a worker's packets.
fn counts(meters: &Meters) -> [(&'static str, u64); 11] {
    [
        ("received", meters.received.get()),
        ("taken", meters.taken.get()),
        ("handed", meters.handed.get()),
        ("originated", meters.originated.get()),
        ("fragmented", meters.fragmented.get()),
        ("fragments", meters.fragments.get()),
        ("transmitted", meters.transmitted.get()),
        ("completed", meters.completed.get()),
        ("passed", meters.passed.get()),
        ("dropped", meters.drops.total()),
        ("held", meters.held.get()),
    ]
}

/// Returns a worker's number, its core, and its counts.
fn worker_record((number, (meters, core)): (usize, &(Arc<Meters>, Option<usize>))) -> Record {
    let core = core.map_or_else(|| Value::from("any"), Value::from);
    Record::default().with("name", number.to_string()).with("core", core).with_all(counts(meters)).with_all([
        ("rounds", meters.bursts.counted()),
        ("busy_ns", meters.busy_ns.get()),
        ("idle_rounds", meters.idle_rounds.get()),
        ("sleeps", meters.sleeps.get()),
        ("stalls", meters.stalls.get()),
    ])
}

/// Returns the ledger's states, then the counters with page_pool's names.
fn pool_record(pool: &Pool) -> Record {
    let ledger = pool.ledger();
    let sizes = [("limit", pool.frames() as u64), ("total", ledger.total)];
    // The counters are read one after another while frames move. So a term may be a count below 0 for a moment, which
    // wraps. It is shown as 0.
    let states = sizes.into_iter().chain(ledger.iter());
    let states = states.map(|(state, frames)| (state, if frames > i64::MAX as u64 { 0 } else { frames }));
    let PoolStats { alloc, recycle, released, failed, map_failed, .. } = pool.stats();
    let counters = [
        ("alloc_fast", alloc.fast),
        ("alloc_slow", alloc.slow),
        ("alloc_slow_high_order", alloc.slow_high_order),
        ("alloc_empty", alloc.empty),
        ("alloc_refill", alloc.refill),
        ("alloc_waive", alloc.waive),
        ("recycle_cached", recycle.cached),
        ("recycle_cache_full", recycle.cache_full),
        ("recycle_ring", recycle.ring),
        ("recycle_ring_full", recycle.ring_full),
        ("released", released),
        ("failed", failed),
        ("mapped_pages", pool.mapped_pages()),
        ("map_failed", map_failed),
        ("leaving_pages", pool.leaving_pages() as u64),
    ];
    let record = Record::default().with("name", ledger.name.clone()).with_all(states);
    record.with("inflight", pool.inflight()).with_all(counters)
}

/// Returns the holders of the frames that are out. Returns None if the pool does not trace: the holders are not
/// known then, and asking would take the frames that the pool's owner has cached.
fn holder_records(pool: &Pool) -> Vec<Record> {
    let holders = if pool.is_traced() { pool.holders() } else { Vec::new() };
    holders.iter().map(holder_record).collect()
}

fn holder_record(holder: &Holder) -> Record {
    let site = holder.site.map_or_else(|| "taken before tracing was on".to_owned(), ToString::to_string);
    // A frame that was taken before tracing began may have moved since then, which nothing recorded.
    let unmoved = if holder.site.is_some() { "program" } else { "unknown" };
    let state = holder.state.map_or_else(|| unmoved.to_owned(), |state| format!("{state:?}").to_lowercase());
    Record::default()
        .with("name", site)
        .with("frames", holder.frames)
        .with("state", state)
        .with("oldest_ms", u64::try_from(holder.oldest.as_millis()).unwrap_or(u64::MAX))
}

fn page_record(memory: &Memory) -> Record {
    let stats = memory.stats();
    Record::default()
        .with("name", "memory")
        .with("bytes", memory.bytes())
        .with_all([
            ("total", stats.total),
            ("free", stats.free),
            ("cached", stats.cached),
            ("allocated", stats.allocated),
            ("missed", stats.missed),
            ("failed", stats.failed),
            ("guards", memory.guard_pages().0),
            ("guards_refused", memory.guard_pages().1),
        ])
        .with("hardening", memory.hardening().to_string())
}

fn idle_key(registry: &mut Registry, setups: &[WorkerSetup]) {
    let to: Vec<_> = setups.iter().map(|setup| setup.forwarder.idle_control()).collect();
    let of = to.clone();
    let read = move || match of[0].get() {
        Idle::Spin => "spin".to_owned(),
        Idle::Sleep => "sleep".to_owned(),
    };
    let write = move |text: &str| {
        let known = [("spin", Idle::Spin), ("sleep", Idle::Sleep)];
        let idle = known.into_iter().find(|(name, _)| *name == text);
        let (_, idle) = idle.ok_or_else(|| format!("{text:?} is neither spin nor sleep"))?;
        to.iter().for_each(|worker| worker.set(idle));
        Ok(())
    };
    let what = "what workers do while they have no work";
    registry.text("forward.idle", ("spin or sleep", "", what), read, write);
}

fn pool_keys(registry: &mut Registry, pool: &Pool, nodes: usize) {
    let name = pool.name().to_owned();
    let (of, to) = (pool.clone(), pool.clone());
    registry.number(
        format!("pool.{name}.frames"),
        (format!("1 to {}", pool.capacity()), "frames", "how many the pool may have"),
        move || of.frames(),
        move |frames| to.resize(frames),
    );
    let (of, to) = (pool.clone(), pool.clone());
    registry.number(
        format!("pool.{name}.cache"),
        ("0 to 65536", "frames", "how many the owner's cache holds; a smaller cache lowers refill too"),
        move || of.cache().0,
        move |cache| to.set_cache(cache, to.cache().1.clamp(1, cache.max(1))),
    );
    let (of, to) = (pool.clone(), pool.clone());
    registry.switch(
        format!("pool.{name}.trace"),
        "whether frames record which call took them and when; netmem stat holders shows it",
        move || of.is_traced(),
        move |on| to.trace(on),
    );
    let (of, to) = (pool.clone(), pool.clone());
    registry.number(
        format!("pool.{name}.refill"),
        ("1 to the cache", "frames", "how many the owner's cache is refilled to"),
        move || of.cache().1,
        move |refill| to.set_cache(to.cache().0, refill),
    );
    let (of, to) = (pool.clone(), pool.clone());
    let range = if nodes == 1 { "any or 0".to_owned() } else { format!("any or 0 to {}", nodes - 1) };
    registry.text(
        format!("pool.{name}.node"),
        (range, "", "the node of the pool's pages; pages of other nodes leave when their frames are back"),
        move || of.node().map_or_else(|| ANY_NODE.to_owned(), |node| node.to_string()),
        move |text| node(text, nodes).map(|node| to.set_node(node)),
    );
}

fn node(text: &str, nodes: usize) -> Result<Option<usize>, String> {
    if text == ANY_NODE {
        return Ok(None);
    }
    let node = text.parse().map_err(|_| format!("{text:?} is neither a whole number nor {ANY_NODE}"))?;
    if node < nodes { Ok(Some(node)) } else { Err(format!("there is no node {node}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem_ports::port_spec;

    /// Seen: `netmem top` showed a ring that was filled to 800 %, because a port's frames in eight rings were divided by
    /// the slots of one.
    /// Seen: it was a text here, and a number in the summary.
    #[test]
    fn the_core_of_a_worker_is_a_number() {
        let of = |core| worker_record((0, &(Arc::default(), core))).get("core").cloned();
        assert_eq!([of(Some(0)), of(None)], [Some(Value::from(0)), Some(Value::from("any"))]);
    }

    #[test]
    fn a_port_has_as_many_queues_as_its_device() {
        let of = |text: &str, name: &str| queues(Some(&port_spec(text).unwrap()), name);
        assert_eq!(of("xdp:eth0,queues=8", "xdp:eth0:0,2,4,6"), (4, 1));
        assert_eq!(of("fault:drop=0.1/xdp:eth0,queues=2", "fault/xdp:eth0:0,1"), (2, 1));
        assert_eq!(of("xdp:eth0", "xdp:eth0:1"), (1, 1));
        assert_eq!(of("memif:/run/a,queues=3", "memif:/run/a"), (3, 3));
        assert_eq!(of("tap:t0", "tap:t0"), (1, 1));
        assert_eq!(queues(None, "mem:0"), (1, 1));
    }
}
