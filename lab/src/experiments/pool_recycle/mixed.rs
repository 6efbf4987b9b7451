//! A mix of pages: most come back at once, and a share is kept for long, as by TCP sockets until data are acknowledged.
//! The text doubts that the drivers' trick works then.

use super::held::Outstanding;
use super::trip::{Account, Keeps, Turns, trip};
use super::{KINDS, Kind, OWNER, POOL, QUEUE, Scene, UNKEPT};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::method::round::{Label, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;

/// Pages that are kept at any time: more than the driver's queue has slots.
const KEPT: usize = 1_024;

/// The share of pages that are kept, in percent.
const PERCENT: [u32; 4] = [1, 10, 50, 100];

/// The cost of a mapping: nothing, and a fast IOMMU.
const MAP_NS: [u32; 2] = [0, 100];

/// The pool, the call at the last release, the driver's queue, and no recycling.
const COMPARED: [usize; 4] = [POOL, OWNER, QUEUE, UNKEPT];

/// Measures each share with each cost of a mapping.
pub(super) fn measure(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    for map_ns in MAP_NS {
        for percent in PERCENT {
            if !bench.stopped() {
                group(scene, bench, map_ns, percent)?;
            }
        }
    }
    bench.note(format!(
        "kept_percent: this share of all pages is kept when it goes out, and takes the place of a random one of {KEPT} pages \
         that are out; that one comes back. The others come back at once. So a page is kept for {KEPT} kept pages on \
         average, a few of them much longer. With a small share most pages of the driver's queue are free when their \
         turn comes"
    ));
    Ok(())
}

fn group(scene: &Scene<'_>, bench: &mut Bench<'_>, map_ns: u32, percent: u32) -> Result<(), SetUpError> {
    let kinds = COMPARED.map(|kind| &KINDS[kind]);
    let out = Outstanding { pages: KEPT, kept_percent: Some(percent) };
    let trips = kinds.map(|kind| trip(scene, kind.keeps, map_ns, out));
    let mut trips: Vec<Box<dyn Turns + '_>> = trips.into_iter().collect::<Result<_, _>>()?;
    let variant = |(trip, kind): (_, &&Kind)| -> Box<dyn Variant + '_> {
        let trip: &mut Box<dyn Turns + '_> = trip;
        let label = label(kind.variant, map_ns, percent);
        Box::new(OpLoop::new(label, scene.clock, Box::new(|ops| trip.run(ops))))
    };
    let mut variants: Vec<Box<dyn Variant + '_>> = trips.iter_mut().zip(&kinds).map(variant).collect();
    let beside = |a, b| Comparison { a, b, metric: Metric::NsPerOp };
    // By their place among those compared: the queue over no recycling, and the others over the queue.
    let comparisons = [beside(2, 3), beside(0, 2), beside(1, 2)];
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Same, scene.effort);
    drop(variants);
    series.iter().for_each(|one| bench.row(one, Metric::NsPerOp, None));
    for (trip, kind) in trips.into_iter().zip(kinds) {
        check(bench, kind, trip.settle(), &format!("mapping {map_ns} ns, {percent} % kept"));
    }
    Ok(())
}

/// Checks that every page was allocated, kept its bytes and came back, and stayed mapped where the method keeps pages
/// mapped.
fn check(bench: &mut Bench<'_>, kind: &Kind, account: Account, what: &str) {
    let Account { refused, corrupted, missing, left } = account;
    let mapped = matches!(kind.keeps, Keeps::Queue | Keeps::Nobody) || left == 0;
    bench.check(
        &format!("{}, {what}: every page came whole and was freed", kind.variant),
        refused == 0 && corrupted == 0 && missing == 0 && mapped,
        format!("{refused} refused, {corrupted} not as written, {missing} not freed, {left} unmapped"),
    );
}

/// Without `held`: that is the number of pages that come back in order.
fn label(variant: &str, map_ns: u32, percent: u32) -> Label {
    let mut label = super::label(variant, map_ns, KEPT);
    label.params.remove("held");
    label.params.insert("kept".to_owned(), KEPT.into());
    label.params.insert("kept_percent".to_owned(), percent.into());
    label
}
