//! `forward-bulk-free`: one core forwards one flow of the smallest IPv4 packets between two `mem` ports; sent
//! packets are freed one by one, or in bulk at TX completion. Beside both, the bare relay.

use std::cell::RefCell;

use netmem::forward::Free;
use netmem::limits::{BATCH_MAX, CHUNK_SIZE};
use netmem::page::{Memory, MemoryConfig};

use super::Experiment;
use super::relay::{PACKET_BYTES, Relay};
use super::router::{Fate, Router, Setup};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::{Published, params};
use crate::method::poll::{PollLoop, PollSampler, Shape};
use crate::method::round::{Label, Series, Variant};
use crate::metric::Metric;
use crate::settings::Key;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "forward-bulk-free",
    source: "000_d9894a511132eb4b.txt",
    question: "Does freeing packets in bulk at TX completion forward more packets than freeing one by one?",
    seconds: 5,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[
    Key {
        name: "ring",
        what: "places in each ring of the wires (rounded up to a power of two)",
        min: 256,
        max: 16_384,
        full: 2_048,
        quick: 2_048,
    },
    Key { name: "packets", what: "packets per window", min: 64, max: 16_384, full: 1_536, quick: 1_536 },
];

const BASE: usize = 0;
const BULK: usize = 1;
const LIMIT: usize = 2;

const COMPARISONS: &[Comparison] = &[
    Comparison { a: BULK, b: BASE, metric: Metric::Pps },
    Comparison { a: BULK, b: LIMIT, metric: Metric::NsPerPacket },
    Comparison { a: BASE, b: LIMIT, metric: Metric::NsPerPacket },
];

/// Chunks of memory for each place in a ring: two routers' pools, the relay's, and some to spare.
const POOLED: usize = 24;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&peer_core) = bench.cores.get(1) else {
        bench.check("two cores", false, "the device needs one and its far side another".to_owned());
        return Ok(());
    };
    let clock = bench.clock;
    let ring = (bench.setting("ring") as usize).next_power_of_two();
    let shape = Shape { burst: BATCH_MAX, packets: bench.setting("packets"), waits: false };
    let config = MemoryConfig { bytes: POOLED * ring * CHUNK_SIZE, ..MemoryConfig::default() };
    let memory = Memory::new(&config).map_err(SetUpError::at("memory"))?;
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
    let setup = |free| Setup { ring, fate: Fate::Routed, free };
    let (mut base, mut base_far) = Router::new(&memory, &mut worker, setup(Free::Single))?;
    let (mut bulk, mut bulk_far) = Router::new(&memory, &mut worker, setup(Free::Bulk))?;
    let (mut relay, mut relay_far) = Relay::new(&memory, &mut worker, 2 * ring)?;

    let worker = RefCell::new(worker);
    let poll_loop = |label, poll, far| -> Box<dyn Variant> {
        Box::new(PollLoop::new(label, PollSampler::new(&clock, shape), Some(peer_core), poll, far))
    };
    let mut variants = [
        poll_loop(
            label("netmem/base", "forward", ring, &[("free", "single"), ("mode", "ip")]),
            Box::new(|| base.poll(&mut worker.borrow_mut())),
            Box::new(|| base_far.turn()),
        ),
        poll_loop(
            label("netmem/bulk", "forward", ring, &[("free", "bulk"), ("mode", "ip")]),
            Box::new(|| bulk.poll(&mut worker.borrow_mut())),
            Box::new(|| bulk_far.turn()),
        ),
        poll_loop(
            label("limit", "relay", ring, &[]),
            Box::new(|| relay.poll(BATCH_MAX)),
            Box::new(|| relay_far.turn()),
        ),
    ];
    let series = bench.measure(&mut variants, COMPARISONS, Cores::Cross);
    drop(variants);
    rows(bench, &series);
    let mut worker = worker.into_inner();
    base.settle(base_far, &mut worker, "netmem/base", bench);
    bulk.settle(bulk_far, &mut worker, "netmem/bulk", bench);
    relay.settle(relay_far, &mut worker, bench);
    findings(bench, &memory);
    Ok(())
}

fn rows(bench: &mut Bench<'_>, series: &[Series]) {
    for (one, published) in series.iter().zip([Some(published_base()), Some(published_bulk()), None]) {
        bench.row(one, Metric::Pps, published);
        bench.row(one, Metric::NsPerPacket, None);
    }
    bench.check_generator(series);
}

/// What the source found, and whether it holds here.
fn findings(bench: &mut Bench<'_>, memory: &Memory) {
    bench.note(format!("memory: {}", memory.region().backing()));
    bench.note(
        "the base frees each packet by a call of its own, on the frame pool; the source's base is a slab layer with \
         a small partial list, so the sizes of the two gains are not the same question",
    );
    bench.note(
        "a quick device rests before a window until enough packets wait; it frees what was sent meanwhile inside \
         the window",
    );
    let Some(ratio) = bench.reported_ratio("netmem/bulk", "netmem/base") else { return };
    let (median, low, high) = (ratio.median, ratio.low, ratio.high);
    let verdict = if low > 1.0 { "holds here" } else { "does not show here" };
    bench.note(format!(
        "the source: bulk free forwards 1.023 times the packets; here {median} ({low} to {high}): the gain {verdict}",
    ));
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

fn published_base() -> Published {
    published(2_043_575.0, "one kmem_cache_free() per packet")
}

fn published_bulk() -> Published {
    published(2_090_522.0, "bulk free at TX completion with detached freelists")
}

fn published(pps: f64, what: &str) -> Published {
    let of = format!(
        "Linux 4.1.0-mmotm, one core of an i7-4790K at 4 GHz, IPv4 forwarding of one UDP flow, {what}"
    );
    Published { value: pps, unit: "pps".to_owned(), of }
}
