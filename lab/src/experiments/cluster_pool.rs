//! `cluster-pool`: [rizzo02-mbuf]'s eight cells. Packets are forwarded fast or through rules, their head and frame
//! are kept together in a ready pool or not, and the allocators below are used without a lock or under one.
//! Additional variants: as many pairs as a ring holds instead of the source's 50; `max` changed all the time; and
//! the source's own form, one list of pairs, under its caller's lock or a lock of its own.

use std::cell::{Cell, RefCell};

use netmem::limits::{BATCH_MAX, CHUNK_SIZE};
use netmem::packet::{HeadCacheConfig, HeadCacheMode, Locking, ReadyPackets, Reset};
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::PoolConfig;
use netmem::slab::{CacheConfig, Layer, WordForm};

use super::Experiment;
use super::relay::PACKET_BYTES;
use super::router::{self, FarSide, Fate, PacketSetup, Router, Setup};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::{Published, params};
use crate::method::poll::{PollLoop, PollSampler, Shape};
use crate::method::round::{Label, Variant};
use crate::metric::Metric;
use crate::settings::Key;
use crate::sources;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cluster-pool",
    source: sources::MBUF.key,
    question: "Does a pool of ready pairs of buffer and cluster forward more packets, and how much more where the allocators below take a lock?",
    seconds: 10,
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

/// One cell: the forwarding, the allocators, and the pairs that are kept ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Side {
    full: bool,
    locked: bool,
    max: Max,
    /// One common list of pairs: when its lock is taken, and when a pair is reset. None if each worker has its own
    /// pairs.
    list: Option<(Locking, Reset)>,
}

/// Maximum number of pairs that are kept ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Max {
    Pairs(usize),
    /// As many as the rings have slots.
    Ring,
    /// Alternately 0 and the number of slots, changed at every round.
    Changing,
}

/// The figures of the source: kpps by forwarding and system, without pairs and with 50.
const PUBLISHED: [(bool, bool, f64, f64); 4] = [
    (false, true, 276.0, 355.0),
    (false, false, 365.0, 383.0),
    (true, true, 195.0, 227.0),
    (true, false, 142.0, 146.0),
];

/// Chunks of memory for each slot of a ring and each cell: its pool, and heads for what is in flight.
const POOLED: usize = 12;

/// The source's own form: under the lock that the driver holds already, and reset as in its mail of July. Then with a
/// lock of the pairs' own, and then reset when a pair is put, as in its mail of June.
const LISTS: [(Locking, Reset); 3] =
    [(Locking::Caller, Reset::AtGet), (Locking::Each, Reset::AtGet), (Locking::Caller, Reset::AtPut)];

/// The eight cells of the source, then the additional ones, then the source's own form.
fn cells() -> Vec<Side> {
    let sides = PUBLISHED.map(|(full, locked, ..)| (full, locked));
    let of = |max| sides.map(|(full, locked)| Side { full, locked, max, list: None });
    let [none, source, ring] = [Max::Pairs(0), Max::Pairs(ReadyPackets::MAX), Max::Ring].map(of);
    let changing = Side { full: false, locked: true, max: Max::Changing, list: None };
    let lists = LISTS.map(|list| Side { max: Max::Pairs(ReadyPackets::MAX), list: Some(list), ..changing });
    none.into_iter().chain(source).chain(ring).chain([changing]).chain(lists).collect()
}

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
    let series = bench.measure(&mut loops, &comparisons(), Cores::Cross);
    drop(loops);
    for (one, cell) in series.iter().zip(&cells) {
        bench.row(one, Metric::Pps, cell.published());
        bench.row(one, Metric::NsPerPacket, None);
    }
    bench.check_generator(&series);
    let mut worker = worker.into_inner();
    for ((router, far), cell) in routers.into_iter().zip(&cells) {
        router.settle(far, &mut worker, &cell.variant(), bench);
    }
    bench.check("max was changed while packets ran", changes.get() > 0, format!("{} times", changes.get()));
    findings(bench, &memory);
    Ok(())
}

/// Each cell with 50 pairs, then each with a ring's, compared with the same without pairs. The changing maximum, and
/// one list under its caller's lock, compared with the same with 50. A lock for each pair, and the other time of the
/// reset, compared with that list.
fn comparisons() -> Vec<Comparison> {
    let sides = PUBLISHED.len();
    let over = |a, b| Comparison { a, b, metric: Metric::Pps };
    let gains = (sides..3 * sides).map(|place| over(place, place % sides));
    let (changing, list) = (3 * sides, 3 * sides + 1);
    gains
        .chain([over(changing, sides), over(list, sides), over(list + 1, list), over(list + 2, list)])
        .collect()
}

impl Side {
    fn setup(self, ring: usize, rules: usize) -> Setup {
        let usual = PoolConfig::default();
        let heads = if self.locked {
            // Each head is allocated by a call of its own, and its slab's word is changed under a lock.
            let cache = CacheConfig {
                name: self.variant(),
                layer: Layer::CpuSlab,
                word: WordForm::Lock,
                cpu_partial: Some(0),
                merge: false,
                ..CacheConfig::default()
            };
            HeadCacheConfig { cache, mode: HeadCacheMode::Each, ..HeadCacheConfig::default() }
        } else {
            HeadCacheConfig::default()
        };
        let max = self.pairs(ring).unwrap_or(ring);
        let packets =
            PacketSetup { heads, rules: self.full.then_some(rules), pairs: Some(max), list: self.list };
        let cache = (!self.locked).then_some((usual.cache, usual.refill));
        Setup { packets: Some(packets), cache, ..Setup::frames(ring, Fate::Routed) }
    }

    /// Maximum number of kept pairs; `None` if it is changed while packets run.
    fn pairs(self, ring: usize) -> Option<usize> {
        match self.max {
            Max::Pairs(max) => Some(max),
            Max::Ring => Some(ring),
            Max::Changing => None,
        }
    }

    /// `netmem/fast-lock-50`
    fn variant(self) -> String {
        let path = if self.full { "full" } else { "fast" };
        let below = if self.locked { "lock" } else { "free" };
        let max = match self.max {
            Max::Pairs(max) => max.to_string(),
            Max::Ring => "ring".to_owned(),
            Max::Changing => "changing".to_owned(),
        };
        let list = match self.list {
            None => "",
            Some((Locking::Caller, Reset::AtGet)) => "-list",
            Some((Locking::Caller, Reset::AtPut)) => "-list-reset-at-put",
            Some((Locking::Each, _)) => "-list-locked",
        };
        format!("netmem/{path}-{below}-{max}{list}")
    }

    fn label(self, ring: usize) -> Label {
        let mut params = params([
            ("work", "forward".into()),
            ("burst", BATCH_MAX.into()),
            ("cores", "cross".into()),
            ("bytes", PACKET_BYTES.into()),
            ("touch", true.into()),
            ("frames", (2 * ring).into()),
            ("path", if self.full { "full" } else { "fast" }.into()),
            ("below", if self.locked { "under a lock" } else { "without a lock" }.into()),
            ("pairs", self.pairs(ring).map_or("changing".into(), Into::into)),
        ]);
        if let Some((locking, reset)) = self.list {
            let lock = if locking == Locking::Caller {
                "the caller's, for a bulk"
            } else {
                "its own, for each pair"
            };
            params.insert("lock of the list".to_owned(), lock.into());
            params
                .insert("reset".to_owned(), if reset == Reset::AtPut { "at put" } else { "at take" }.into());
        }
        Label { variant: self.variant(), params }
    }

    fn published(self) -> Option<Published> {
        if self.list.is_some() {
            return None;
        }
        let side =
            |&&(full, locked, ..): &&(bool, bool, f64, f64)| (full, locked) == (self.full, self.locked);
        let &(.., without, with) = PUBLISHED.iter().find(side)?;
        let (kpps, pool) = match self.max {
            Max::Pairs(0) => (without, "without the pool"),
            Max::Pairs(_) => (with, "with 50 pairs"),
            Max::Ring | Max::Changing => return None,
        };
        let system = if self.locked { "CURRENT" } else { "STABLE" };
        let of = format!(
            "FreeBSD {system}, mail of 2 July 2002, two em cards polled, fastforwarding {}, {pool}",
            u8::from(!self.full)
        );
        Some(Published { value: kpps * 1_000.0, unit: "pps".to_owned(), of })
    }
}

/// Reports the source's findings, cell by cell, and whether they hold here.
fn findings(bench: &mut Bench<'_>, memory: &Memory) {
    bench.note(format!("memory: {}", memory.region().backing()));
    bench.note(
        "under a lock: the pool's owner has no cache of frames, so every frame passes the pool's lock, and heads \
         are allocated one by one from slabs whose word is changed under a lock; without a lock: the product's \
         defaults. CURRENT of 2002 locked, STABLE did not",
    );
    bench.note("the source prints 195 pps for one cell. Its table shows that this means kpps");
    lists(bench);
    changing(bench);
    for (full, locked, without, with) in PUBLISHED {
        for max in [Max::Pairs(ReadyPackets::MAX), Max::Ring] {
            let [a, b] = [max, Max::Pairs(0)].map(|max| Side { full, locked, max, list: None }.variant());
            let Some(ratio) = bench.reported_ratio(&a, &b) else { continue };
            let (median, low, high) = (ratio.median, ratio.low, ratio.high);
            let verdict = match () {
                () if low > 1.0 => "the pool helps",
                () if high < 1.0 => {
                    "the pool costs more than it saves: what is below is as short as the pool itself"
                }
                () => "no difference that shows: what is below is as short as the pool itself",
            };
            bench.note(format!(
                "{a} forwards {median} ({low} to {high}) times the packets of {b}; the source, with 50: {:.3}; {verdict}",
                with / without
            ));
        }
    }
}

/// Answers the source's questions about the locks, and about the time at which a pair is reset.
fn lists(bench: &mut Bench<'_>) {
    let over = |a: &str, b: &str| {
        let ratio =
            bench.reported_ratio(&format!("netmem/fast-lock-50{a}"), &format!("netmem/fast-lock-50{b}"))?;
        let which = match () {
            () if ratio.low > 1.0 => "more",
            () if ratio.high < 1.0 => "fewer",
            () => "as many, as far as this run can tell",
        };
        Some(format!("{} ({} to {}) times the packets: {which}", ratio.median, ratio.low, ratio.high))
    };
    let all = (over("-list", ""), over("-list-locked", "-list"), over("-list-reset-at-put", "-list"));
    let (Some(list), Some(locked), Some(at_put)) = all else { return };
    bench.note(format!(
        "the source asks which lock the pairs need: one for each CPU, Giant, or the one that the caller holds. One \
         list, whose lock is taken once for a bulk, as by a driver that holds it, forwards {list} than a list for \
         each worker without a lock. With a separate lock for each pair instead, {locked} than that. No other \
         thread needs these locks, so the cost of waiting for Giant is not included"
    ));
    bench.note(format!(
        "a reset when a pair is put, as in the mail of June, forwards {at_put} than a reset when a pair is taken, \
         as in the mail of July"
    ));
}

/// Explains the row of the changing maximum.
fn changing(bench: &mut Bench<'_>) {
    let Some(ratio) = bench.reported_ratio("netmem/fast-lock-changing", "netmem/fast-lock-50") else {
        return;
    };
    let (median, low, high) = (ratio.median, ratio.low, ratio.high);
    bench.note(format!(
        "netmem/fast-lock-changing sets the maximum to 0 and to the ring's size in turn at every poll round, which \
         no administrator does. Each decrease frees all pairs at once, under the locks below, and the next refill \
         makes as many again. The row shows that no packet is lost, and bounds the cost: {median} ({low} to {high}) \
         times the packets of 50 pairs"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_cells_of_the_source_stand_beside_its_figures() {
        let published: Vec<f64> = cells().iter().filter_map(|cell| Some(cell.published()?.value)).collect();
        assert_eq!(published, [276e3, 365e3, 195e3, 142e3, 355e3, 383e3, 227e3, 146e3]);
        let names: std::collections::BTreeSet<String> = cells().iter().map(|cell| cell.variant()).collect();
        assert_eq!(names.len(), cells().len());
        let places = comparisons();
        assert!(places.iter().all(|pair| pair.a < cells().len() && pair.b < cells().len()));
    }
}
