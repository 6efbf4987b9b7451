//! A bulk is allocated and freed at once: the source's own loop, on its own layer and on the default one.

use netmem::slab::CacheConfig;

use super::trip::{Trip, Way};
use super::{Scene, cpu_slab, label, published, sheaf};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::experiments::slab_objects::Account;
use crate::json::Published;
use crate::method::round::Variant;
use crate::method::window::OpLoop;
use crate::metric::Metric;

struct Kind {
    variant: &'static str,
    layer: &'static str,
    config: fn() -> CacheConfig,
    way: Way,
    published: fn(usize) -> Option<Published>,
}

const KINDS: [Kind; 4] = [
    Kind {
        variant: "netmem/loop",
        layer: "cpu_slab",
        config: cpu_slab,
        way: Way::Loop,
        published: published::fallback,
    },
    Kind {
        variant: "netmem/detached",
        layer: "cpu_slab",
        config: cpu_slab,
        way: Way::Bulk,
        published: published::detached,
    },
    Kind { variant: "netmem/sheaf-loop", layer: "sheaf", config: sheaf, way: Way::Loop, published: |_| None },
    Kind { variant: "netmem", layer: "sheaf", config: sheaf, way: Way::Bulk, published: |_| None },
];

/// Detached freelists over the loop, and the same question on the default layer.
const COMPARISONS: [Comparison; 2] = [
    Comparison { a: 1, b: 0, metric: Metric::CyclesPerOp },
    Comparison { a: 3, b: 2, metric: Metric::CyclesPerOp },
];

/// Measures one bulk.
pub(super) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    bulk: usize,
    account: &mut Account,
) -> Result<(), SetUpError> {
    let trips = KINDS.iter().map(|kind| Trip::<0, 32>::new(scene.memory, &(kind.config)(), bulk));
    let mut trips: Vec<_> = trips.collect::<Result<_, _>>()?;
    let variant = |(trip, kind): (_, &'static Kind)| -> Box<dyn Variant + '_> {
        let trip: &mut Trip<0, 32> = trip;
        let label =
            label(kind.variant, bulk, false, &[("order", "in turn".into()), ("layer", kind.layer.into())]);
        let body = |ops| trip.run(&mut scene.worker.borrow_mut(), kind.way, ops);
        Box::new(OpLoop::of(bulk as u32, label, scene.clock, Box::new(body)))
    };
    let mut variants: Vec<Box<dyn Variant + '_>> = trips.iter_mut().zip(&KINDS).map(variant).collect();
    let series = bench.measure_with(&mut variants, &COMPARISONS, Cores::Same, scene.effort);
    drop(variants);
    for (series, kind) in series.iter().zip(&KINDS) {
        bench.row(series, Metric::CyclesPerOp, (kind.published)(bulk));
        bench.row(series, Metric::NsPerOp, None);
    }
    let mut worker = scene.worker.borrow_mut();
    trips.into_iter().for_each(|trip| account.add(trip.settle(&mut worker)));
    Ok(())
}
