//! `cluster-pool`: [rizzo02-mbuf]'s eight cells. Packets are forwarded fast or through rules, their head and frame
//! are kept together in a ready pool or not, and the allocators below are used without a lock or under one.
//!
//! The text does not tell how many packets a clean-up of its driver returned. The cells that stand beside its figures
//! check completions in each round, and keep its 50 pairs. Additional variants: two sides that differ in a lock alone;
//! the product's forwarder, which completes 256 packets at once, so that 50 pairs serve a fifth of all, with 50, with
//! 256, and with as many as a ring holds; `max` changed all the time; and the source's own form, one list of pairs,
//! under its caller's lock or a lock of its own.

mod cells;
mod findings;

use std::cell::{Cell, RefCell};

use netmem::limits::{BATCH_MAX, CHUNK_SIZE};
use netmem::page::{Memory, MemoryConfig};

use super::Experiment;
use super::router::{self, FarSide, Router};
use crate::bench::{Bench, Cores, SetUpError};
use crate::method::poll::{PollLoop, PollSampler, Shape};
use crate::method::round::Variant;
use crate::metric::Metric;
use crate::settings::Key;
use crate::sources;
use cells::{Max, Side, cells, comparisons};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cluster-pool",
    source: sources::MBUF.key,
    question: "Does a pool of ready pairs of buffer and cluster forward more packets, and how much more where the allocators below take a lock?",
    seconds: 16,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[
    router::RING,
    router::PACKETS,
    Key {
        name: "rules",
        what: "rules on the full path, none of which matches",
        min: 1,
        max: 1_024,
        full: 8,
        quick: 8,
    },
];

/// Chunks of memory for each slot of a ring and each cell: its pool, and heads for what is in flight.
const POOLED: usize = 12;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&peer_core) = bench.cores.get(1) else {
        bench.check("two cores", false, "the device needs one and its far side another".to_owned());
        return Ok(());
    };
    let (clock, rules) = (bench.clock, bench.setting("rules") as usize);
    let ring = (bench.setting("ring") as usize).next_power_of_two();
    let shape = Shape { burst: BATCH_MAX, packets: bench.setting("packets"), waits: false };
    let cells = cells();
    let bytes = cells.len() * POOLED * ring * CHUNK_SIZE;
    let memory = Memory::new(&MemoryConfig { bytes, ..MemoryConfig::default() });
    let memory = memory.map_err(SetUpError::at("memory"))?;
    let worker = RefCell::new(memory.worker().map_err(SetUpError::at("worker"))?);
    let routers =
        cells.iter().map(|cell| Router::new(&memory, &mut worker.borrow_mut(), &cell.setup(ring, rules)));
    let mut routers: Vec<(Router, FarSide)> = routers.collect::<Result<_, _>>()?;
    let changes = Cell::new(0_usize);

    let mut loops: Vec<Box<dyn Variant + '_>> = Vec::new();
    for ((router, far), cell) in routers.iter_mut().zip(&cells) {
        let changing = (cell.max == Max::Changing).then(|| router.pairs().cloned()).flatten();
        let changes = &changes;
        let worker = &worker;
        let poll = Box::new(move || {
            if let Some(pairs) = &changing {
                changes.set(changes.get() + 1);
                pairs.set_max(if changes.get().is_multiple_of(2) { 0 } else { ring });
            }
            router.poll(&mut worker.borrow_mut())
        });
        let sampler = PollSampler::new(&clock, shape);
        loops.push(Box::new(PollLoop::new(
            cell.label(ring),
            sampler,
            Some(peer_core),
            poll,
            Box::new(|| far.turn()),
        )));
    }
    let series = bench.measure(&mut loops, &comparisons(&cells), Cores::Cross);
    drop(loops);
    for (one, cell) in series.iter().zip(&cells) {
        bench.row(one, Metric::Pps, cell.published());
        bench.row(one, Metric::NsPerPacket, None);
    }
    bench.check_generator(&series);
    let mut worker = worker.into_inner();
    let served: Vec<Option<f64>> = routers.iter().map(|(router, _)| router.served()).collect();
    for ((router, far), cell) in routers.into_iter().zip(&cells) {
        router.settle(far, &mut worker, &cell.variant(), bench);
    }
    served_rows(bench, ring, &cells, &served);
    let (changed, detail) = (changes.get() > 0, format!("{} times", changes.get()));
    bench.check_done("max was changed while packets ran", changed, true, detail);
    findings::notes(bench, &memory);
    Ok(())
}

/// The share of packets that each cell took as ready ones, in this set-up.
fn served_rows(bench: &mut Bench<'_>, ring: usize, cells: &[Side], served: &[Option<f64>]) {
    let mut list = Vec::new();
    for (cell, served) in cells.iter().zip(served) {
        let (Some(served), false) = (served, cell.max == Max::Pairs(0)) else { continue };
        let mut label = cell.label(ring);
        label.params.insert("of".to_owned(), "packets taken ready".into());
        bench.figure(label, Metric::Percent, *served, None);
        list.push(format!("{} {served:.0} %", cell.variant()));
    }
    bench.note(format!(
        "packets that were taken as ready ones instead of made: {}. If completions are checked in each round (by-round), \
         about as many are completed at once as a round has, at most 64; otherwise 256, of which 50 pairs serve a \
         fifth. The text does not tell how many its driver's clean-up returned",
        list.join(", ")
    ));
}
