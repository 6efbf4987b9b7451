//! Two caches of the same objects, merged or not. The neighbour keeps seven objects for each one of this cache,
//! allocated in turn, so that only an eighth of a merged slab belongs to this cache.

use netmem::slab::{Cache, CacheConfig, Object};

use super::trip::{Trip, Way};
use super::{Scene, cpu_slab, label, published};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::experiments::slab_objects::{Account, Block, alloc, end};
use crate::method::round::Variant;
use crate::method::window::OpLoop;
use crate::metric::Metric;

/// The bulks that the source measured with merging.
pub(super) const BULKS: [usize; 4] = [64, 128, 158, 250];

/// Objects of this cache while the neighbour allocates its own. They are freed afterwards, so this is also the number of
/// free slots between the neighbour's objects.
const OURS: usize = 1_024;

/// The neighbour's objects for each object of this cache.
const SHARE: usize = 7;

type Bytes = Block<0, 32>;

const KINDS: [(&str, Way, bool); 4] = [
    ("netmem/loop", Way::Loop, false),
    ("netmem/detached", Way::Bulk, false),
    ("netmem/merged-loop", Way::Loop, true),
    ("netmem/merged-detached", Way::Bulk, true),
];

/// Merged over not merged, and detached freelists over the loop with merged caches.
const COMPARISONS: [Comparison; 2] = [
    Comparison { a: 3, b: 1, metric: Metric::CyclesPerOp },
    Comparison { a: 3, b: 2, metric: Metric::CyclesPerOp },
];

/// Measures one bulk.
pub(super) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    bulk: usize,
    account: &mut Account,
) -> Result<(), SetUpError> {
    let pairs = KINDS.iter().map(|&(_, _, merge)| Pair::new(scene, bulk, merge));
    let mut pairs: Vec<Pair> = pairs.collect::<Result<_, _>>()?;
    let variant = |(pair, &(variant, way, merge)): (_, &(&str, Way, bool))| -> Box<dyn Variant + '_> {
        let trip: &mut Trip<0, 32> = pair;
        let own = [("order", "in turn".into()), ("layer", "cpu_slab".into()), ("merge", merge.into())];
        let body = move |ops| trip.run(&mut scene.worker.borrow_mut(), way, ops);
        Box::new(OpLoop::of(bulk as u32, label(variant, bulk, false, &own), scene.clock, Box::new(body)))
    };
    let trips = pairs.iter_mut().map(|pair| &mut pair.trip);
    let mut variants: Vec<Box<dyn Variant + '_>> = trips.zip(&KINDS).map(variant).collect();
    let series = bench.measure_with(&mut variants, &COMPARISONS, Cores::Same, scene.effort);
    drop(variants);
    for (one, &(_, way, merge)) in series.iter().zip(&KINDS) {
        let figure = match (way, merge) {
            (Way::Loop, false) => published::fallback(bulk),
            (Way::Loop, true) => None,
            (Way::Bulk, false) => published::detached(bulk),
            (Way::Bulk, true) => published::merged(bulk),
        };
        bench.row(one, Metric::CyclesPerOp, figure);
        bench.row(one, Metric::NsPerOp, None);
    }
    // Merged caches are one cache: none can end before all objects of all of them are freed.
    pairs.iter_mut().for_each(|pair| pair.give_back(scene, account));
    pairs.into_iter().for_each(|pair| pair.settle(scene, account));
    Ok(())
}

/// This cache and its neighbour.
struct Pair {
    trip: Trip<0, 32>,
    neighbour: Cache<Bytes>,
    theirs: Vec<Object<Bytes>>,
}

impl Pair {
    fn new(scene: &Scene<'_>, bulk: usize, merge: bool) -> Result<Self, SetUpError> {
        let config = |name: &str| CacheConfig { name: name.to_owned(), merge, ..cpu_slab() };
        let mut trip = Trip::new(scene.memory, &config("ours"), bulk)?;
        let neighbour = Cache::new(scene.memory, &config("theirs")).map_err(SetUpError::at("cache"))?;
        let worker = &mut scene.worker.borrow_mut();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..OURS {
            trip.take(worker, &mut ours);
            theirs.extend((0..SHARE).filter_map(|_| alloc(&neighbour, worker, 0)));
        }
        trip.give(worker, ours);
        Ok(Self { trip, neighbour, theirs })
    }

    /// Frees the neighbour's objects.
    fn give_back(&mut self, scene: &Scene<'_>, account: &mut Account) {
        let out = self.theirs.len() as u64;
        let refused = (OURS * SHARE) as u64 - out;
        self.neighbour.free_bulk(&mut scene.worker.borrow_mut(), &mut self.theirs);
        account.add(Account { allocated: out, freed: out, refused, ..Account::default() });
    }

    fn settle(self, scene: &Scene<'_>, account: &mut Account) {
        account.add(self.trip.settle(&mut scene.worker.borrow_mut()));
        account.missing += end(self.neighbour);
    }
}
