//! `forward-bulk-free`: one core forwards one flow of the smallest IPv4 packets between two `mem` ports; sent
//! packets are freed one by one, or in bulk at TX completion. Beside both, the bare relay.

use std::cell::RefCell;

use netmem::forward::Free;
use netmem::limits::{BATCH_MAX, CHUNK_SIZE};
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};

use super::Experiment;
use super::relay::{PACKET_BYTES, relay};
use super::router::{Router, check_home};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::{Published, params};
use crate::method::poll::{PollLoop, PollSampler, Shape};
use crate::method::round::{Label, Variant};
use crate::metric::Metric;
use crate::settings::Key;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "forward-bulk-free",
    source: "000_d9894a511132eb4b.txt",
    question: "Does freeing packets in bulk at TX completion forward more packets than freeing one by one?",
    seconds: 30,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[
    Key {
        name: "ring",
        what: "places in each ring of the wires (rounded up to a power of two)",
        min: 256,
        max: 16_384,
        full: 1_024,
        quick: 1_024,
    },
    Key { name: "packets", what: "packets per window", min: 64, max: 16_384, full: 512, quick: 512 },
];

const BASE: usize = 0;
const BULK: usize = 1;
const LIMIT: usize = 2;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&peer_core) = bench.cores.get(1) else {
        bench.check("two cores", false, "one core for the device and one for its peer are needed".to_owned());
        return Ok(());
    };
    let clock = bench.clock;
    let ring = (bench.setting("ring") as usize).next_power_of_two();
    let shape = Shape { burst: BATCH_MAX, packets: bench.setting("packets") };
    let bytes = 32 * ring * CHUNK_SIZE;
    let memory =
        Memory::new(&MemoryConfig { bytes, ..Default::default() }).map_err(SetUpError::at("memory"))?;
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;

    let (mut base, mut base_far) = Router::new(&memory, &mut worker, ring, Free::Single)?;
    let (mut bulk, mut bulk_far) = Router::new(&memory, &mut worker, ring, Free::Bulk)?;
    let config = PoolConfig { name: "relay".to_owned(), frames: 4 * ring, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut worker, &config).map_err(SetUpError::at("pool"))?;
    let (mut relay, mut relay_far) = relay(&pool, &mut worker, 2 * ring);
    let worker = RefCell::new(worker);
    let sampler = || PollSampler::new(&clock, shape);
    let mut variants: [Box<dyn Variant>; 3] = [
        Box::new(PollLoop::new(
            label("netmem/base", "forward", ring, &[("free", "single"), ("mode", "ip")]),
            sampler(),
            Some(peer_core),
            Box::new(|| base.poll(&mut worker.borrow_mut())),
            Box::new(|| base_far.turn()),
        )),
        Box::new(PollLoop::new(
            label("netmem/bulk", "forward", ring, &[("free", "bulk"), ("mode", "ip")]),
            sampler(),
            Some(peer_core),
            Box::new(|| bulk.poll(&mut worker.borrow_mut())),
            Box::new(|| bulk_far.turn()),
        )),
        Box::new(PollLoop::new(
            label("limit", "relay", ring, &[]),
            sampler(),
            Some(peer_core),
            Box::new(|| relay.poll(BATCH_MAX)),
            Box::new(|| relay_far.turn()),
        )),
    ];
    let comparisons = [
        Comparison { a: BULK, b: BASE, metric: Metric::Pps },
        Comparison { a: BULK, b: LIMIT, metric: Metric::NsPerPacket },
        Comparison { a: BASE, b: LIMIT, metric: Metric::NsPerPacket },
    ];
    let series = bench.measure(&mut variants, &comparisons, Cores::Cross);
    drop(variants);
    for (one, published) in series.iter().zip([Some(published_base()), Some(published_bulk()), None]) {
        bench.row(one, Metric::Pps, published);
        bench.row(one, Metric::NsPerPacket, None);
        bench.note(format!("paused {} starved {}", one.paused, one.starved));
    }
    bench.check_generator(&series);
    let mut worker = worker.into_inner();
    base.settle(base_far, &mut worker, "netmem/base", bench);
    bulk.settle(bulk_far, &mut worker, "netmem/bulk", bench);
    let collected = relay_far.collect(&mut relay, &mut worker);
    let (sent, corrupt) = (relay_far.sent, relay_far.corrupt);
    bench.check("limit: contents intact", corrupt == 0, format!("{corrupt} of {sent} corrupt"));
    bench.check(
        "limit: every frame accounted for",
        collected == 2 * ring as u64,
        format!("{collected} of {}", 2 * ring),
    );
    check_home(bench, "limit", &pool);
    Ok(())
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
