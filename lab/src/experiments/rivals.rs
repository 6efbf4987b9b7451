//! `rivals`: the same work by netmem, by DPDK and by the general allocators of the machine in the same rounds:
//! frames, packets, objects, pages, the same across cores, rings alone.

mod crossing;
mod frames;
mod from_c;
mod mempool_ops;
mod packets;
mod packets_from_c;
mod pages;
mod sides;
pub(super) mod target;

use std::cell::RefCell;

use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};
use netmem::sync::Worker;

use super::Experiment;
use super::slab_bulk::{self, general};
use super::slab_objects::Account;
use super::slab_windows::short;
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::json::params;
use crate::method::clock::Tsc;
use crate::method::round::{Label, Series, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;
use crate::rivals::{self, dpdk::Dpdk};
use crate::sources;
use target::Target;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rivals",
    source: sources::PAGES.key,
    question: "What do frames, packets, objects, pages and rings cost beside today's rivals, in the same rounds?",
    seconds: 145,
    keys: &[],
    run,
};

/// Frames, or packets, that are allocated at the same time.
const BURSTS: [usize; 5] = [1, 8, 32, 64, 256];

/// Objects that are allocated at the same time: more than any list holds, and at last 16 MiB, more than most caches
/// of a core.
const OBJECTS_OUTSTANDING: [usize; 3] = [1_024, 8_192, 65_536];

/// Pages that are allocated at the same time: more than any list holds.
const PAGES_OUTSTANDING: [usize; 2] = [1_024, 8_192];

/// Bytes written: one line, which is the whole packet.
const LINE: usize = 64;

/// The value of every byte of it, except for a number.
const STAMP: u8 = 0xa5;

/// Bytes of a frame on both sides, without the bytes that DPDK keeps in front of it.
const FRAME: usize = 2_048;

/// Frames of a pool. The best number for DPDK is one less than a power of two.
const FRAMES: usize = 8_191;

/// Frames in a worker's cache on both sides: DPDK's maximum.
const CACHE: usize = 512;

/// Enough for the pools of a group, their heads and their caches, and for two caches of the most objects, 16 MiB each.
const MEMORY_BYTES: usize = 96 << 20;

/// The shared parts of all groups of the run.
struct Scene<'a> {
    memory: &'a Memory,
    worker: &'a RefCell<Worker>,
    clock: &'a Tsc,
    effort: Effort,
    dpdk: Option<Dpdk>,
}

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let clock = bench.clock;
    // DPDK runs without huge pages here, so netmem does too.
    let config =
        MemoryConfig { bytes: MEMORY_BYTES, backing: BackingPreference::Small, ..MemoryConfig::default() };
    let memory = Memory::new(&config).map_err(SetUpError::at("memory"))?;
    let worker = RefCell::new(memory.worker().map_err(SetUpError::at("worker"))?);
    let dpdk = Dpdk::start();
    note_sides(bench, &memory, &dpdk);
    let effort = short(bench.effort(), 1);
    let scene = Scene { memory: &memory, worker: &worker, clock: &clock, effort, dpdk: dpdk.ok() };
    let mut targets = Vec::new();
    for burst in BURSTS {
        if bench.stopped() {
            break;
        }
        targets.extend(frames::group(&scene, bench, burst, false)?);
        targets.extend(frames::group(&scene, bench, burst, true)?);
        targets.extend(packets::group(&scene, bench, burst)?);
    }
    packets::note(bench);
    from_c::groups(&scene, bench)?;
    packets_from_c::groups(&scene, bench)?;
    targets.extend(mempool_ops::groups(&scene, bench)?);
    targets.extend(blocks(&scene, bench)?);
    match bench.cores.get(1).copied() {
        Some(peer) => targets.extend(crossing::groups(&scene, bench, peer)?),
        None => {
            bench.check("two cores", false, "what crosses needs one to leave and one to reach".to_owned())
        }
    }
    rivals::note_missing(bench);
    rivals::note_queues(bench);
    target::note(bench, &targets);
    Ok(())
}

/// Measures objects and pages, compared with the blocks of general allocators, on one core.
fn blocks(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<Vec<Target>, SetUpError> {
    let Scene { memory, worker, clock, effort, .. } = *scene;
    // A window has many blocks here, so there is time for few windows.
    let few = Effort { windows: effort.windows.div_ceil(4), ..effort };
    let in_bursts = BURSTS.into_iter().flat_map(|burst| [(burst, false), (burst, true)]);
    let groups = in_bursts.map(|group| (group, effort));
    let groups = groups.chain(OBJECTS_OUTSTANDING.map(|burst| ((burst, true), few)));
    let (mut account, mut targets) = (Account::default(), Vec::new());
    for ((burst, touch), effort) in groups {
        if bench.stopped() {
            break;
        }
        let objects = slab_bulk::Scene { memory, worker, clock, effort };
        targets.extend(general::group(&objects, bench, burst, touch, &mut account)?);
        if are_pages_measured(burst) {
            targets.extend(pages::group(&Scene { effort, ..*scene }, bench, burst, touch)?);
        }
    }
    account.check(bench);
    bench.note(format!(
        "objects of 256 bytes and pages of 4 KiB on one core: burst is the number that is allocated at the same \
         time. netmem makes one call for all of them (netmem/loop, netmem/sheaf-loop: one call for each), a general \
         allocator makes one malloc for each, then one free for each, oldest first. Its blocks need not be aligned. \
         {OBJECTS_OUTSTANDING:?} objects and {PAGES_OUTSTANDING:?} pages are only measured written. A window of the \
         most objects is one bulk of more than a millisecond: only a pause of three times its length is dropped, and \
         the median over windows leaves out shorter ones"
    ));
    Ok(targets)
}

/// Returns true for the numbers of pages that are allocated at the same time.
fn are_pages_measured(burst: usize) -> bool {
    BURSTS.contains(&burst) || PAGES_OUTSTANDING.contains(&burst)
}

/// Notes the measured version of each side, or the way to install a missing one.
fn note_sides(bench: &mut Bench<'_>, memory: &Memory, dpdk: &Result<Dpdk, String>) {
    bench.note(format!(
        "netmem: {}, pools of {FRAMES} frames of {FRAME} bytes, {CACHE} in a worker's cache",
        memory.region().backing()
    ));
    match dpdk {
        Ok(dpdk) => bench.note(format!(
            "dpdk: {}, 4 KiB pages (--no-huge), its objects laid out as on huge pages, one core's cache of {CACHE}, \
             its loops in C with the flags of pkg-config",
            dpdk.version()
        )),
        Err(remedy) => bench.note(format!("rival dpdk: {remedy}")),
    }
}

impl Scene<'_> {
    /// Returns a loop on this core. `body` runs the given number of operations, in bursts as the label says.
    fn op_loop<'a>(
        &'a self,
        label: Label,
        burst: usize,
        body: impl FnMut(u32) + 'a,
    ) -> Box<dyn Variant + 'a> {
        Box::new(OpLoop::of(burst as u32, label, self.clock, Box::new(body)))
    }

    /// Returns a pool for a group.
    fn pool(&self) -> Result<Pool, SetUpError> {
        let config = PoolConfig {
            name: "rivals".to_owned(),
            frames: FRAMES,
            frame_size: FRAME,
            cache: CACHE,
            ..PoolConfig::default()
        };
        Pool::new(self.memory, &mut self.worker.borrow_mut(), &config).map_err(SetUpError::at("pool"))
    }

    /// Measures variants on this core, and the ratio of the first to each other one.
    fn measure(&self, bench: &mut Bench<'_>, variants: &mut [Box<dyn Variant + '_>]) -> Vec<Series> {
        let series = bench.measure_with(variants, &over_first(variants.len()), Cores::Same, self.effort);
        rows(bench, &series);
        series
    }
}

fn over_first(variants: usize) -> Vec<Comparison> {
    (1..variants).map(|b| Comparison { a: 0, b, metric: Metric::NsPerOp }).collect()
}

fn rows(bench: &mut Bench<'_>, series: &[Series]) {
    for one in series {
        bench.row(one, Metric::NsPerOp, None);
        bench.row(one, Metric::CyclesPerOp, None);
    }
}

fn label(variant: &str, work: &str, burst: usize, cores: &str, bytes: usize, touch: bool) -> Label {
    let params = params([
        ("work", work.into()),
        ("burst", burst.into()),
        ("cores", cores.into()),
        ("bytes", bytes.into()),
        ("touch", touch.into()),
    ]);
    Label { variant: variant.to_owned(), params }
}

/// Checks that DPDK never failed an allocation and that everything was freed.
fn check_dpdk(bench: &mut Bench<'_>, what: &str, refused: u64, out: u64) {
    bench.check(
        &format!("dpdk, {what}: every object accounted for"),
        refused == 0 && out == 0,
        format!("{refused} refused, {out} still out"),
    );
}

/// Checks that netmem never failed an allocation, that written bytes stayed the same, and that every frame is back
/// in its pool.
fn check_netmem(bench: &mut Bench<'_>, what: &str, refused: u64, corrupted: u64, pool: &Pool) {
    bench.check(
        &format!("netmem, {what}: nothing refused, contents intact"),
        refused == 0 && corrupted == 0,
        format!("{refused} refused, {corrupted} not as written"),
    );
    super::check_all_freed(bench, &format!("netmem, {what}"), pool);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_objects_at_once_fit_twice_beside_what_else_there_is_and_are_not_measured_as_pages() {
        let most = OBJECTS_OUTSTANDING[OBJECTS_OUTSTANDING.len() - 1];
        assert!(2 * most * slab_bulk::BYTES <= MEMORY_BYTES / 2);
        assert!(!are_pages_measured(most) && OBJECTS_OUTSTANDING[..2].iter().all(|n| are_pages_measured(*n)));
    }
}
