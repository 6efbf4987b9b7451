//! Frees of objects outside of the active slab: a working set over many slabs, in an order in which the objects of
//! a slab are adjacent, and in one in which no two objects of a bulk share a slab.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ptr::from_ref;

use netmem::page::Memory;
use netmem::slab::{Cache, CacheConfig, Object};
use netmem::sync::Worker;

use super::trip::Way;
use super::{Scene, cpu_slab, label, sheaf};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::experiments::slab_objects::{Account, Block, alloc_bulk, end};
use crate::experiments::slab_windows::{Prepared, Work};
use crate::method::ratio::Interval;
use crate::method::round::Variant;
use crate::metric::Metric;

/// Minimum number of slabs of the working set. A bulk needs one slab for each of its objects.
const SLABS: usize = 64;

/// Slabs that are filled after the working set, so that none of its objects lies in the active slab.
const GUARD_SLABS: usize = 2;

type Bytes = Block<0, 32>;

/// The order in which the objects are freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Slab by slab, with the slabs shuffled.
    Together,
    /// Adjacent objects are from different slabs, and so are all objects of a bulk.
    Apart,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::Together => "slab by slab",
            Self::Apart => "no two of one slab",
        }
    }
}

/// The variant, its layer, its configuration, and how objects are freed.
type Kind = (&'static str, &'static str, fn() -> CacheConfig, Way);

const KINDS: [Kind; 3] = [
    ("netmem/loop", "cpu_slab", cpu_slab, Way::Loop),
    ("netmem/detached", "cpu_slab", cpu_slab, Way::Bulk),
    ("netmem", "sheaf", sheaf, Way::Bulk),
];

/// Detached freelists over the loop in either order, and the default layer over detached freelists.
const COMPARISONS: [Comparison; 4] = [
    Comparison { a: 1, b: 0, metric: Metric::CyclesPerOp },
    Comparison { a: 4, b: 3, metric: Metric::CyclesPerOp },
    Comparison { a: 2, b: 1, metric: Metric::CyclesPerOp },
    Comparison { a: 5, b: 4, metric: Metric::CyclesPerOp },
];

/// The cost of detached freelists over that of the loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paid {
    pub(super) bulk: usize,
    /// The objects of a slab are adjacent.
    pub(super) together: Option<Interval>,
    /// No two objects of a bulk are from one slab.
    pub(super) apart: Option<Interval>,
    /// Bulks in which two objects shared a slab nevertheless.
    pub(super) shared: u64,
}

/// Measures one bulk in both orders. Returns nothing once the run is stopped.
pub(super) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    bulk: usize,
    account: &mut Account,
) -> Result<Option<Paid>, SetUpError> {
    if bench.stopped() {
        return Ok(None);
    }
    let orders = [Order::Together, Order::Apart];
    let cells = orders.into_iter().flat_map(|order| KINDS.map(|kind| (order, kind)));
    let frees = cells.clone().map(|(order, kind)| Frees::new(scene, order, kind, bulk));
    let mut frees: Vec<Frees<'_>> = frees.collect::<Result<_, _>>()?;
    let mut variants: Vec<Box<dyn Variant + '_>> = Vec::new();
    for (frees, (order, (variant, layer, ..))) in frees.iter_mut().zip(cells) {
        let own = [("op", "free".into()), ("order", order.name().into()), ("layer", layer.into())];
        variants.push(Prepared::boxed(label(variant, bulk, false, &own), scene.clock, frees));
    }
    let series = bench.measure_with(&mut variants, &COMPARISONS, Cores::Same, scene.effort);
    drop(variants);
    for one in &series {
        bench.row(one, Metric::CyclesPerOp, None);
        bench.row(one, Metric::NsPerOp, None);
    }
    let shared = frees.iter().map(|frees| frees.shared).sum();
    frees.into_iter().for_each(|frees| account.add(frees.settle()));
    let over = |c: Comparison| bench.over(&series[c.a], &series[c.b]);
    Ok(Some(Paid { bulk, together: over(COMPARISONS[0]), apart: over(COMPARISONS[1]), shared }))
}

/// A working set that is freed in bulks. Allocating it, and ordering it again, is not timed.
struct Frees<'a> {
    worker: &'a RefCell<Worker>,
    cache: Cache<Bytes>,
    slab_bytes: usize,
    order: Order,
    way: Way,
    bulk: usize,
    objects: usize,
    /// The whole working set, while it is put into order.
    set: Vec<Object<Bytes>>,
    /// The working set divided into bulks.
    hands: Vec<Vec<Object<Bytes>>>,
    guard: Vec<Object<Bytes>>,
    account: Account,
    shared: u64,
}

impl<'a> Frees<'a> {
    fn new(scene: &Scene<'a>, order: Order, kind: Kind, bulk: usize) -> Result<Self, SetUpError> {
        let (_, _, config, way) = kind;
        let memory: &Memory = scene.memory;
        let cache = Cache::new(memory, &config()).map_err(SetUpError::at("cache"))?;
        let stats = cache.stats();
        let per_slab = stats.objs_per_slab as usize;
        let objects = SLABS.max(bulk.next_power_of_two()) * per_slab;
        Ok(Self {
            worker: scene.worker,
            slab_bytes: per_slab * stats.slab_size as usize,
            cache,
            order,
            way,
            bulk,
            objects,
            set: Vec::with_capacity(objects),
            hands: (0..objects.div_ceil(bulk)).map(|_| Vec::with_capacity(bulk)).collect(),
            guard: Vec::new(),
            account: Account::default(),
            shared: 0,
        })
    }

    /// Returns the slab, and the offset in it.
    fn place(&self, object: &Object<Bytes>) -> (usize, usize) {
        let address = from_ref::<Bytes>(object).addr();
        (address / self.slab_bytes, address % self.slab_bytes)
    }

    /// Puts the working set into its order and divides it into bulks.
    fn arrange(&mut self) {
        let mut set = std::mem::take(&mut self.set);
        set.sort_unstable_by_key(|object| {
            let (slab, place) = self.place(object);
            // Fibonacci hashing (Knuth, vol. 3, 6.4): a fixed order of the slabs that is not their order in memory.
            let shuffled = slab.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if self.order == Order::Together { (shuffled, place) } else { (place, shuffled) }
        });
        let mut rest = set.drain(..);
        self.hands.iter_mut().for_each(|hand| hand.extend(rest.by_ref().take(self.bulk)));
        drop(rest);
        self.set = set;
    }

    /// Returns the number of bulks with two objects of one slab.
    fn count_shared(&self) -> u64 {
        let shares = |hand: &&Vec<Object<Bytes>>| {
            let slabs: BTreeSet<usize> = hand.iter().map(|object| self.place(object).0).collect();
            slabs.len() < hand.len()
        };
        self.hands.iter().filter(shares).count() as u64
    }

    fn settle(mut self) -> Account {
        let mut worker = self.worker.borrow_mut();
        self.account.freed += self.guard.len() as u64;
        self.cache.free_bulk(&mut worker, &mut self.guard);
        self.account.missing = end(self.cache);
        self.account
    }
}

impl Work for &mut Frees<'_> {
    fn prepare(&mut self) {
        let mut worker = self.worker.borrow_mut();
        self.account.freed += self.guard.len() as u64;
        self.cache.free_bulk(&mut worker, &mut self.guard);
        let guard = GUARD_SLABS * self.slab_bytes / size_of::<Bytes>();
        let made = alloc_bulk(&self.cache, &mut worker, self.objects, &mut self.set, 0)
            && alloc_bulk(&self.cache, &mut worker, guard, &mut self.guard, 0);
        drop(worker);
        self.account.refused += u64::from(!made);
        self.account.allocated += (self.set.len() + self.guard.len()) as u64;
        self.arrange();
        if self.order == Order::Apart && self.account.freed == 0 {
            self.shared = self.count_shared();
        }
    }

    fn run(&mut self) -> u64 {
        let mut worker = self.worker.borrow_mut();
        let mut freed = 0;
        for hand in &mut self.hands {
            freed += hand.len() as u64;
            match self.way {
                Way::Bulk => self.cache.free_bulk(&mut worker, hand),
                Way::Loop => hand.drain(..).for_each(|object| self.cache.free(&mut worker, object)),
            }
        }
        self.account.freed += freed;
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Effort;
    use crate::method::clock::Tsc;
    use netmem::page::MemoryConfig;

    /// Returns the number of bulks with two objects of one slab, and the number of objects that a window freed.
    fn window(order: Order, bulk: usize) -> (u64, u64) {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let worker = RefCell::new(memory.worker().unwrap());
        let effort = Effort { rounds: 1, windows: 1 };
        let scene = Scene { memory: &memory, worker: &worker, clock: &Tsc::new(), effort };
        let mut frees = Frees::new(&scene, order, KINDS[1], bulk).unwrap();
        let mut work = &mut frees;
        work.prepare();
        let (shared, freed) = (work.count_shared(), work.run());
        let account = frees.settle();
        assert_eq!((account.allocated, account.refused + account.missing), (account.freed, 0));
        (shared, freed)
    }

    #[test]
    fn no_two_objects_of_a_bulk_share_a_slab_in_the_worst_order() {
        for bulk in [2, 30, 250] {
            let (shared, freed) = window(Order::Apart, bulk);
            assert_eq!((shared, freed % 32), (0, 0));
        }
    }

    #[test]
    fn objects_of_a_slab_stand_together_in_the_other() {
        let (shared, freed) = window(Order::Together, 32);
        assert_eq!(shared, freed / 32);
    }
}
