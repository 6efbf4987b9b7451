//! `forward-bulk-free`: one core forwards one flow of the smallest IPv4 packets between two `mem` ports. As in the
//! source, every packet has a head from a slab cache. The heads of sent packets are freed one by one, or in bulk at
//! TX completion, over the source's slab layer in its settings. Variants in addition to these four: frames freed in
//! bulk too, heads taken in bulk too, ready arrays of heads, today's layer, frames without heads, and the bare
//! relay.

mod latency;
mod neighbours;
mod share;
mod variants;

use std::cell::RefCell;

use netmem::forward::Free;
use netmem::limits::{BATCH_MAX, CHUNK_SIZE};
use netmem::page::{Memory, MemoryConfig};
use netmem::sync::Worker;

use super::Experiment;
use super::relay::{self, PACKET_BYTES, Relay};
use super::router::{self, FarSide, Fate, PacketSetup, Router, Setup};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::params;
use crate::method::poll::{PollLoop, PollSampler, Shape};
use crate::method::ratio::{BesideOne, TOO_FEW};
use crate::method::round::{Label, Series, Variant};
use crate::metric::Metric;
use crate::settings::Key;
use crate::sources;
use neighbours::{Density, Neighbours};
use variants::{Kind, VARIANTS};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "forward-bulk-free",
    source: sources::BULK.key,
    question: "Does freeing packets in bulk at TX completion forward more packets than freeing one by one?",
    seconds: 20,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[
    router::RING,
    router::PACKETS,
    Key {
        name: "body",
        what: "0; otherwise only this variant, not timed, for callgrind to watch",
        min: 0,
        max: 64,
        full: 0,
        quick: 0,
    },
];

/// A variant over another, and the gain that the source saw.
const GAINS: [(&str, &str, Option<f64>); 35] = [
    ("netmem/patched", "netmem/base", Some(1.023)),
    ("netmem/tuned", "netmem/base", Some(1.039)),
    ("netmem/nomerge", "netmem/base", Some(1.038)),
    ("netmem/tuned", "netmem/patched", Some(1.016)),
    ("netmem/nomerge", "netmem/patched", Some(1.015)),
    // The same where neighbours hold less of the slabs, and with heads as large as the source's.
    ("netmem/patched-eighth", "netmem/base-eighth", Some(1.023)),
    ("netmem/patched-alone", "netmem/base-alone", Some(1.023)),
    ("netmem/patched-256", "netmem/base-256", Some(1.023)),
    ("netmem/tuned-256", "netmem/patched-256", Some(1.016)),
    ("netmem/nomerge", "netmem/patched-eighth", Some(1.015)),
    ("netmem/nomerge", "netmem/patched-alone", Some(1.015)),
    ("netmem/nomerge-256", "netmem/patched-256", Some(1.015)),
    ("netmem/collected", "netmem/patched", None),
    ("netmem/bulk", "netmem/base", None),
    ("netmem/collected-nomerge", "netmem/collected", None),
    // These differ in the array of heads alone.
    ("netmem/ready-8", "netmem/collected-nomerge", None),
    ("netmem/ready-16", "netmem/collected-nomerge", None),
    ("netmem/ready-128", "netmem/collected-nomerge", None),
    ("netmem/ready-128-8", "netmem/collected-nomerge", None),
    ("netmem/ready-128-16", "netmem/collected-nomerge", None),
    ("netmem/ready-256-8", "netmem/collected-nomerge", None),
    ("netmem/ready-256-16", "netmem/collected-nomerge", None),
    ("netmem/ready-16", "netmem/collected", None),
    ("netmem/ready-8", "netmem/bulk", None),
    ("netmem/ready-16", "netmem/bulk", None),
    ("netmem/ready-32", "netmem/bulk", None),
    ("netmem/ready-128", "netmem/bulk", None),
    ("netmem/ready-16", "netmem/bulk-nomerge", None),
    ("netmem/ready-128", "netmem/bulk-nomerge", None),
    ("netmem/ready-8", "netmem/base", None),
    ("netmem/ready-16", "netmem/base", None),
    ("netmem/ready-32", "netmem/base", None),
    ("netmem/sheaf-bulk", "netmem/sheaf-base", None),
    ("netmem/sheaf-bulk", "netmem/base", None),
    ("netmem/frames-bulk", "netmem/frames-base", None),
];

/// Chunks of memory for each slot of a ring and each router: its pool, and heads for what is in flight.
const POOLED: usize = 12;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    if let Some(variant) =
        (bench.setting("body") as usize).checked_sub(1).and_then(|place| VARIANTS.get(place))
    {
        return share::body(bench, variant);
    }
    let Some(&peer_core) = bench.cores.get(1) else {
        bench.check("two cores", false, "the device needs one and its far side another".to_owned());
        return Ok(());
    };
    let ring = (bench.setting("ring") as usize).next_power_of_two();
    let stages = stages(ring)?;
    let routers = VARIANTS.iter().enumerate().map(|(place, variant)| {
        let Stage { memory, worker, .. } = &stages[stage(place)];
        let packets =
            variant.heads().map(|heads| PacketSetup { heads, rules: None, pairs: None, list: None });
        let setup = Setup { free: variant.free, packets, ..Setup::frames(ring, Fate::Routed) };
        Router::new(memory, &mut worker.borrow_mut(), &setup)
    });
    let mut routers: Vec<(Router, FarSide)> = routers.collect::<Result<_, _>>()?;
    let (mut relay, mut relay_far) =
        Relay::new(&stages[0].memory, &mut stages[0].worker.borrow_mut(), 2 * ring)?;
    let series = measure(bench, peer_core, ring, &stages, &mut routers, (&mut relay, &mut relay_far));
    rows(bench, &series);
    findings(bench, &stages[0].memory);
    latency::at_full_load(bench, ring, &routers);
    latency::at_fixed_rates(bench, (peer_core, ring), &stages, &mut routers, &series);
    for (place, (router, far)) in routers.into_iter().enumerate() {
        router.settle(far, &mut stages[stage(place)].worker.borrow_mut(), VARIANTS[place].name, bench);
    }
    relay.settle(relay_far, &mut stages[0].worker.borrow_mut(), bench);
    for Stage { worker, neighbours, .. } in stages {
        neighbours.settle(&mut worker.into_inner(), bench);
    }
    bench.once(share::run)
}

/// A memory in which neighbours hold some share of the slabs. Caches are merged only within one memory.
struct Stage {
    memory: Memory,
    worker: RefCell<Worker>,
    neighbours: Neighbours,
}

impl Stage {
    fn new(density: Density, routers: usize, ring: usize) -> Result<Self, SetUpError> {
        let config = MemoryConfig { bytes: routers * POOLED * ring * CHUNK_SIZE, ..MemoryConfig::default() };
        let memory = Memory::new(&config).map_err(SetUpError::at("memory"))?;
        let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
        let neighbours = Neighbours::new(&memory, &mut worker, density, &variants::merged())?;
        Ok(Self { memory, worker: RefCell::new(worker), neighbours })
    }
}

/// Makes one memory for all variants beside which every second object is a neighbour's, as always, and one for each
/// other, whose slabs would be shared with the other variants' heads too.
fn stages(ring: usize) -> Result<Vec<Stage>, SetUpError> {
    let half = VARIANTS.iter().filter(|variant| variant.density == Density::Half).count();
    // One more: the relay.
    let first = Stage::new(Density::Half, half + 1, ring);
    let others = VARIANTS.iter().map(|variant| variant.density).filter(|density| *density != Density::Half);
    std::iter::once(first).chain(others.map(|density| Stage::new(density, 2, ring))).collect()
}

/// Returns the stage of the variant at this place.
fn stage(place: usize) -> usize {
    let has_own = |variant: &&Kind| variant.density != Density::Half;
    match &VARIANTS[place] {
        variant if has_own(&variant) => 1 + VARIANTS[..place].iter().filter(has_own).count(),
        _ => 0,
    }
}

/// Measures all variants in the same rounds.
fn measure(
    bench: &mut Bench<'_>,
    peer_core: usize,
    ring: usize,
    stages: &[Stage],
    routers: &mut [(Router, FarSide)],
    (relay, relay_far): (&mut Relay, &mut relay::FarSide),
) -> Vec<Series> {
    let (clock, shape) =
        (bench.clock, Shape { burst: BATCH_MAX, packets: bench.setting("packets"), waits: false });
    let poll_loop = |label, poll, far| -> Box<dyn Variant + '_> {
        Box::new(PollLoop::new(label, PollSampler::new(&clock, shape), Some(peer_core), poll, far))
    };
    let mut loops: Vec<Box<dyn Variant + '_>> = Vec::new();
    for (place, (router, far)) in routers.iter_mut().enumerate() {
        let (variant, worker) = (&VARIANTS[place], &stages[stage(place)].worker);
        let free = if variant.free == Free::Bulk { "bulk" } else { "single" };
        let label =
            label(variant.name, "forward", ring, &[("free", free), ("mode", "ip"), ("heads", variant.what)]);
        let label = Label { params: label.params.into_iter().chain(variant.settings()).collect(), ..label };
        let poll = Box::new(|| router.poll(&mut worker.borrow_mut()));
        loops.push(poll_loop(label, poll, Box::new(|| far.turn())));
    }
    let poll = Box::new(|| relay.poll(BATCH_MAX));
    loops.push(poll_loop(label("limit", "relay", ring, &[]), poll, Box::new(|| relay_far.turn())));
    bench.measure(&mut loops, &comparisons(), Cores::Cross)
}

fn place(name: &str) -> usize {
    VARIANTS.iter().position(|variant| variant.name == name).unwrap_or(VARIANTS.len())
}

/// The gains, and the first and last variants over the bare relay.
fn comparisons() -> Vec<Comparison> {
    let gain =
        |(a, b, _): (&str, &str, Option<f64>)| Comparison { a: place(a), b: place(b), metric: Metric::Pps };
    let cost = |name| Comparison { a: place(name), b: VARIANTS.len(), metric: Metric::NsPerPacket };
    let costs = ["netmem/base", "netmem/sheaf-bulk", "netmem/frames-bulk"].map(cost);
    GAINS.into_iter().map(gain).chain(costs).collect()
}

fn rows(bench: &mut Bench<'_>, series: &[Series]) {
    let published = VARIANTS.iter().map(|variant| variant.published()).chain([None]);
    for (one, published) in series.iter().zip(published) {
        bench.row(one, Metric::Pps, published);
        bench.row(one, Metric::NsPerPacket, None);
    }
    bench.check_generator(series);
}

/// Reports the source's findings, and whether they hold here.
fn findings(bench: &mut Bench<'_>, memory: &Memory) {
    bench.note(format!("memory: {}", memory.region().backing()));
    bench.note(
        "base, patched, tuned, nomerge, collected, bulk, and those that end in -nomerge: heads of one line from the layer that the \
         source tunes, with cpu_partial 13 and min_partial 5, and tuned with 256 and 9. Their slabs are shared with \
         a cache of the same size that is in use, and with the heads of the other merged variants, except for nomerge and those that end in -nomerge. That cache holds \
         every second object of the slabs, every eighth one beside those that end in -eighth, and none beside those \
         that end in -alone; the source does not tell its own share, and what bulk free and unmerged caches gain \
         depends on it. Those that end in -eighth and -alone share slabs with no other variant. Those that end in -256 have heads of the source's size, of which a slab of a page has 16 and \
         not 64",
    );
    bench.note(
        "patched, tuned and nomerge free only heads in bulk, as the source did, and take them one by one; collected \
         also frees frames in bulk; bulk also takes heads in bulk; the ready arrays free frames in bulk too, and their \
         heads are from caches that are not merged, so that they differ from collected-nomerge in the array alone. The \
         source gives no size of the array: ready-8, -16 and -32 have 64 heads, ready-128-… 128, ready-256-… 256, and \
         free half of a full array; ready-128 is Linux's of today, which takes 32 and frees a quarter",
    );
    bench.note(
        "latency: a reading of each set-up, whose interval is over the set-ups: from the start of the round that received a burst to the completion of its last packet, only in \
         rounds; completions are polled every 256 packets, or if no packets came in. The generator is always ahead, so that this \
         is the rate in other units",
    );
    bench.note(
        "latency with the parameter load: packets come at a fixed rate, a quarter and half of what base forwards in this set-up, and \
         each is timed from when it was due to when the far side has it; the median over short rounds of base and patched in turn",
    );
    for (a, b, source) in GAINS {
        let Some(ratio) = bench.reported_ratio(a, b) else { continue };
        let (median, low, high) = (ratio.median, ratio.low, ratio.high);
        let verdict = match ratio.beside_one() {
            BesideOne::TooFew => TOO_FEW,
            BesideOne::Above => "a gain",
            BesideOne::Below => "a loss",
            BesideOne::Around => "no difference that shows",
        };
        let source = source.map_or_else(String::new, |gain| format!("; the source saw {gain}"));
        bench.note(format!(
            "{a} forwards {median} ({low} to {high}) times the packets of {b}: {verdict}{source}"
        ));
    }
}

fn label(variant: &str, work: &str, ring: usize, own: &[(&str, &str)]) -> Label {
    let mut params = params([
        ("work", work.into()),
        ("burst", BATCH_MAX.into()),
        ("cores", "cross".into()),
        ("bytes", PACKET_BYTES.into()),
        ("touch", true.into()),
        ("frames", (2 * ring).into()),
    ]);
    params.extend(own.iter().map(|&(name, value)| (name.to_owned(), value.into())));
    Label { variant: variant.to_owned(), params }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{ratio, report_of};

    /// Seen: a run that was stopped after a set-up said which variants gain.
    #[test]
    fn a_gain_is_noted_only_of_enough_set_ups() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        for (too_few, verdict) in [(false, "a gain"), (true, "too few set-ups or rounds to tell")] {
            let report = report_of(false, |bench| {
                bench.report_ratio(ratio("netmem/bulk", "netmem/base", (1.1, 1.2), too_few));
                findings(bench, &memory);
            });
            let noted = report.notes.iter().find(|note| note.starts_with("netmem/bulk forwards")).unwrap();
            assert!(noted.ends_with(verdict), "{noted}");
        }
    }
}
