//! `cluster-pool`: [rizzo02-mbuf]'s eight cells. Packets are forwarded fast or through rules, their head and frame
//! are kept together in a ready pool or not, and the allocators below are used without a lock or under one.
//!
//! The source's driver is polled, and frees what it sent in each poll. This forwarder completes 256 packets at once, so
//! that 50 pairs serve a fifth of all. So the cells that are comparable with the source's keep 256 pairs. Additional variants: the source's 50; as many pairs as a ring holds; `max` changed all the time; and the
//! source's own form, one list of pairs, under its caller's lock or a lock of its own.

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
use crate::method::ratio::{BesideOne, TOO_FEW};
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

/// Pairs that suffice for nearly all packets: as many as the forwarder usually completes at once.
const ALL: usize = 4 * BATCH_MAX;

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

/// The source's own form: under the lock that the driver holds already, and reset as in its mail of July, with 256
/// pairs and with 50. Then with a lock of the pairs' own, and then reset when a pair is put, as in its mail of June.
const LISTS: [(usize, Locking, Reset); 4] = [
    (ALL, Locking::Caller, Reset::AtGet),
    (ReadyPackets::MAX, Locking::Caller, Reset::AtGet),
    (ReadyPackets::MAX, Locking::Each, Reset::AtGet),
    (ReadyPackets::MAX, Locking::Caller, Reset::AtPut),
];

/// The source's cells without pairs, with 256 pairs, and with 50, then the additional ones, then the
/// source's own form.
fn cells() -> Vec<Side> {
    let sides = PUBLISHED.map(|(full, locked, ..)| (full, locked));
    let of = |max| sides.map(|(full, locked)| Side { full, locked, max, list: None });
    let by_max = [Max::Pairs(0), Max::Pairs(ALL), Max::Pairs(ReadyPackets::MAX), Max::Ring].map(of);
    let changing = Side { full: false, locked: true, max: Max::Changing, list: None };
    let lists = LISTS.map(|(max, locking, reset)| Side {
        max: Max::Pairs(max),
        list: Some((locking, reset)),
        ..changing
    });
    by_max.into_iter().flatten().chain([changing]).chain(lists).collect()
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
    let served: Vec<Option<f64>> = routers.iter().map(|(router, _)| router.served()).collect();
    for ((router, far), cell) in routers.into_iter().zip(&cells) {
        router.settle(far, &mut worker, &cell.variant(), bench);
    }
    served_rows(bench, ring, &cells, &served);
    let (changed, detail) = (changes.get() > 0, format!("{} times", changes.get()));
    bench.check_done("max was changed while packets ran", changed, true, detail);
    findings(bench, &memory);
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
        "packets that were taken as ready ones instead of made: {}. 256 packets are completed at once, so that 50 pairs \
         cannot serve all; the source's driver frees in each poll what it sent",
        list.join(", ")
    ));
}

/// Each cell with pairs over the same without. The changing maximum over 50. One list under its caller's lock over no
/// pairs, and over a list for each worker without a lock. A lock for each pair, and the other time of the reset, over
/// that list.
fn comparisons() -> Vec<Comparison> {
    let sides = PUBLISHED.len();
    let over = |a, b| Comparison { a, b, metric: Metric::Pps };
    let gains = (sides..4 * sides).map(|place| over(place, place % sides));
    let (all, fifty, changing) = (sides, 2 * sides, 4 * sides);
    let (all_list, list) = (changing + 1, changing + 2);
    let others = [
        over(changing, fifty),
        over(all_list, 0),
        over(all_list, all),
        over(list, 0),
        over(list, fifty),
        over(list + 1, list),
        over(list + 2, list),
    ];
    gains.chain(others).collect()
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
            // The source's number of pairs, which serve a smaller share of the packets here.
            Max::Pairs(50) => {
                (with, "with 50 pairs, which a driver that is polled fills again after each poll")
            }
            Max::Pairs(_) | Max::Ring | Max::Changing => return None,
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
        for max in [Max::Pairs(ALL), Max::Pairs(ReadyPackets::MAX), Max::Ring] {
            let [a, b] = [max, Max::Pairs(0)].map(|max| Side { full, locked, max, list: None }.variant());
            let Some(ratio) = bench.reported_ratio(&a, &b) else { continue };
            let (median, low, high) = (ratio.median, ratio.low, ratio.high);
            let verdict = match ratio.beside_one() {
                BesideOne::TooFew => TOO_FEW,
                BesideOne::Above => "the pool helps",
                BesideOne::Below => {
                    "the pool costs more than it saves: what is below is as short as the pool itself"
                }
                BesideOne::Around => "no difference that shows: what is below is as short as the pool itself",
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
        let [a, b] = [a, b].map(|end| format!("netmem/fast-lock-{end}"));
        let ratio = bench.reported_ratio(&a, &b)?;
        let which = match ratio.beside_one() {
            BesideOne::TooFew => "more, fewer or as many packets (too few set-ups or rounds to tell) than",
            BesideOne::Above => "more packets than",
            BesideOne::Below => "fewer packets than",
            BesideOne::Around => "as many packets, as far as this run can tell, as",
        };
        Some(format!("{which} {b}: {} ({} to {}) times", ratio.median, ratio.low, ratio.high))
    };
    let own = (over("256-list", "0"), over("256-list", "256"));
    let all =
        (over("50-list", "50"), over("50-list-locked", "50-list"), over("50-list-reset-at-put", "50-list"));
    let ((Some(none), Some(by_worker)), (Some(list), Some(locked), Some(at_put))) = (own, all) else {
        return;
    };
    bench.note(format!(
        "the source's own form, one list whose lock is taken once for a bulk, as by a driver that holds it, with 256 \
         pairs: it forwards {none}; and {by_worker}, which has a list for each worker without a lock"
    ));
    bench.note(format!(
        "the source asks which lock the pairs need: one for each CPU, Giant, or the one that the caller holds. With 50 \
         pairs, one list under its caller's lock forwards {list}. A separate lock for each pair forwards {locked}. No \
         other thread needs these locks, so the cost of waiting for Giant is not included"
    ));
    bench.note(format!(
        "a reset when a pair is put, as in the mail of June, instead of when it is taken, as in the mail of July, \
         forwards {at_put}"
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
    use crate::bench::tests::{ratio, report_of};

    /// Seen: a run that was stopped after a set-up said where the pool helps.
    #[test]
    fn that_the_pool_helps_or_a_list_forwards_more_is_noted_only_of_enough_set_ups() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let pairs = [
            ("256", "0"),
            ("256-list", "0"),
            ("256-list", "256"),
            ("50-list", "50"),
            ("50-list-locked", "50-list"),
            ("50-list-reset-at-put", "50-list"),
        ];
        for too_few in [false, true] {
            let report = report_of(false, |bench| {
                for (a, b) in pairs {
                    let [a, b] = [a, b].map(|end| format!("netmem/fast-lock-{end}"));
                    bench.report_ratio(ratio(&a, &b, (1.1, 1.2), too_few));
                }
                findings(bench, &memory);
            });
            let noted = |what: &str| report.notes.iter().filter(|note| note.contains(what)).count();
            assert_eq!(
                [noted("the pool helps"), noted("it forwards more packets than")],
                [usize::from(!too_few); 2]
            );
            assert_eq!(noted(TOO_FEW) > 0, too_few, "{:?}", report.notes);
        }
    }

    #[test]
    fn the_eight_cells_of_the_source_stand_beside_its_figures() {
        let published: Vec<f64> = cells().iter().filter_map(|cell| Some(cell.published()?.value)).collect();
        let with = [355e3, 383e3, 227e3, 146e3];
        assert_eq!(published, [[276e3, 365e3, 195e3, 142e3], with].concat());
        let names: std::collections::BTreeSet<String> = cells().iter().map(|cell| cell.variant()).collect();
        assert_eq!(names.len(), cells().len());
        let places = comparisons();
        assert!(places.iter().all(|pair| pair.a < cells().len() && pair.b < cells().len()));
    }
}
