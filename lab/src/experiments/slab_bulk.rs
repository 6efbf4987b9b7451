//! `slab-bulk`: objects of 256 bytes, allocated and freed one by one or in bulk: the loop, detached freelists,
//! their worst case, caches merged or not, and the default layer compared with general allocators.

mod elsewhere;
mod findings;
pub(super) mod general;
mod merged;
mod published;
mod trip;
mod turn;

use std::cell::RefCell;

use netmem::page::{Memory, MemoryConfig};
use netmem::slab::{CacheConfig, Layer};
use netmem::sync::Worker;
use serde_json::Value;

use super::Experiment;
use super::rivals::target;
use super::slab_objects::{Account, check_pages};
use super::slab_windows::short;
use crate::bench::{Bench, Effort, SetUpError};
use crate::json::params;
use crate::method::clock::Tsc;
use crate::method::round::Label;
use crate::rivals;
use crate::sources;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "slab-bulk",
    source: sources::BULK.key,
    question: "What does an object cost in a bulk of 1 to 250, and when do detached freelists pay?",
    seconds: 60,
    keys: &[],
    run,
};

/// Bytes of an object: the packet head of the source.
pub(super) const BYTES: usize = 256;

/// The slabs of the source: two pages, 32 objects.
const ORDER: u8 = 1;

/// The bulks that the source measured.
const BULKS: [usize; 14] = [1, 2, 3, 4, 8, 16, 30, 32, 34, 48, 64, 128, 158, 250];

/// Enough for every working set of a group, merged neighbours included.
const MEMORY_BYTES: usize = 64 << 20;

/// The shared parts of all groups of the run.
pub(super) struct Scene<'a> {
    pub(super) memory: &'a Memory,
    pub(super) worker: &'a RefCell<Worker>,
    pub(super) clock: &'a Tsc,
    pub(super) effort: Effort,
}

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let clock = bench.clock;
    let config = MemoryConfig { bytes: MEMORY_BYTES, ..MemoryConfig::default() };
    let memory = Memory::new(&config).map_err(SetUpError::at("memory"))?;
    let worker = RefCell::new(memory.worker().map_err(SetUpError::at("worker"))?);
    let scene = Scene { memory: &memory, worker: &worker, clock: &clock, effort: short(bench.effort(), 1) };
    let mut account = Account::default();
    let (mut paid, mut targets) = (Vec::new(), Vec::new());
    for bulk in BULKS {
        turn::group(&scene, bench, bulk, &mut account)?;
    }
    for bulk in BULKS {
        paid.extend(elsewhere::group(&scene, bench, bulk, &mut account)?);
    }
    for bulk in merged::BULKS {
        merged::group(&scene, bench, bulk, &mut account)?;
    }
    for (bulk, touch) in general::GROUPS {
        targets.extend(general::group(&scene, bench, bulk, touch, &mut account)?);
    }
    account.check(bench);
    check_pages(bench, &memory);
    findings::detached(bench, &paid);
    findings::notes(bench, &memory);
    target::note(bench, &targets);
    rivals::note_missing(bench);
    Ok(())
}

/// The source's cache: freelists of slabs, a worker's active slab, nothing merged.
fn cpu_slab() -> CacheConfig {
    CacheConfig { layer: Layer::CpuSlab, order: Some(ORDER), merge: false, ..CacheConfig::default() }
}

/// The default cache, not merged: each variant has its own.
pub(super) fn sheaf() -> CacheConfig {
    CacheConfig { merge: false, ..CacheConfig::default() }
}

fn label(variant: &str, bulk: usize, touch: bool, own: &[(&str, Value)]) -> Label {
    let mut params = params([
        ("work", "object".into()),
        ("burst", bulk.into()),
        ("cores", "same".into()),
        ("bytes", BYTES.into()),
        ("touch", touch.into()),
    ]);
    params.extend(own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Label { variant: variant.to_owned(), params }
}
