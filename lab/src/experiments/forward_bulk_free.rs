//! `forward-bulk-free`: one core forwards one flow of the smallest IPv4 packets between two `mem` ports; sent
//! packets are freed one by one, or in bulk at TX completion.

use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};

use super::Experiment;
use super::relay::{PACKET_BYTES, relay};
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
    seconds: 30,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[
    Key { name: "burst", what: "packets per poll", min: 4, max: 64, full: 32, quick: 32 },
    Key { name: "frames", what: "frames in flight", min: 1_024, max: 65_536, full: 2_048, quick: 2_048 },
    Key { name: "packets", what: "packets per window", min: 64, max: 16_384, full: 1_024, quick: 1_024 },
];

const BASE: usize = 0;
const BULK: usize = 1;
const LIMIT: usize = 2;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let [burst, frames, packets] = ["burst", "frames", "packets"].map(|key| bench.setting(key));
    let shape = Shape { burst: burst as usize, packets };
    let clock = bench.clock;
    let Some(&peer_core) = bench.cores.get(1) else {
        bench.check("two cores", false, "one core for the device and one for its peer are needed".to_owned());
        return Ok(());
    };
    let memory = Memory::new(&MemoryConfig::default()).map_err(SetUpError::at("memory"))?;
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
    let config = PoolConfig { name: "relay".to_owned(), frames: frames as usize, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut worker, &config).map_err(SetUpError::at("pool"))?;
    let (mut relay, mut far) = relay(&pool, &mut worker, frames as usize);
    let limit = PollLoop::new(
        label("limit", "relay", frames, burst, &[]),
        PollSampler::new(&clock, shape),
        Some(peer_core),
        Box::new(|| relay.poll(shape.burst)),
        Box::new(|| far.turn()),
    );
    let mut variants: [Box<dyn Variant>; 1] = [Box::new(limit)];
    let series = bench.measure(&mut variants, &[], Cores::Cross);
    drop(variants);
    for one in &series {
        bench.row(one, Metric::NsPerPacket, None);
        bench.row(one, Metric::Pps, None);
        bench.note(format!("paused {} starved {}", one.paused, one.starved));
    }
    bench.check_generator(&series);
    let collected = far.collect(&mut relay, &mut worker);
    bench.check(
        "c",
        collected == frames && far.corrupt == 0,
        format!("{collected} {} {}", far.sent, far.returned),
    );
    bench.check("l", pool.ledger().balanced() && pool.ledger().all_home(), format!("{:?}", pool.ledger()));
    Ok(())
}

fn label(variant: &str, work: &str, frames: u64, burst: u64, own: &[(&str, &str)]) -> Label {
    let mut params = params([
        ("work", work.into()),
        ("burst", burst.into()),
        ("cores", "cross".into()),
        ("bytes", PACKET_BYTES.into()),
        ("touch", true.into()),
        ("frames", frames.into()),
    ]);
    params.extend(own.iter().map(|&(name, value)| (name.to_owned(), value.into())));
    Label { variant: variant.to_owned(), params }
}
