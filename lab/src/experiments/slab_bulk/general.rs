//! The default layer compared with the general allocators of the machine: one object, or many allocated at once,
//! written or not.

use std::cell::Cell;

use super::trip::{Trip, Way};
use super::{BYTES, Scene, label, published, sheaf};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::experiments::rivals::target::Target;
use crate::experiments::slab_objects::Account;
use crate::method::round::{Label, Series, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;
use crate::rivals::{self, Held, Rival};

/// One object, and the bulk of the targets, written or not.
pub(super) const GROUPS: [(usize, bool); 4] = [(1, true), (1, false), (BULK, true), (BULK, false)];

/// The bulk of the target, and the allocator with whose loop it is compared.
const BULK: usize = 64;
const BULK_RIVAL: &str = "mimalloc";

/// From so many objects at once on, none is to take longer than the fastest allocator's.
const MANY: usize = 1_024;
const MANY_AT_MOST: f64 = 1.0;

/// Measures one bulk.
pub(in crate::experiments) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    bulk: usize,
    touch: bool,
    account: &mut Account,
) -> Result<Vec<Target>, SetUpError> {
    if touch {
        measured::<8, 24>(scene, bench, bulk, touch, account)
    } else {
        measured::<0, 32>(scene, bench, bulk, touch, account)
    }
}

fn measured<const WRITTEN: usize, const REST: usize>(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    bulk: usize,
    touch: bool,
    account: &mut Account,
) -> Result<Vec<Target>, SetUpError> {
    let mut ours: Trip<WRITTEN, REST> = Trip::new(scene.memory, &sheaf(), bulk)?;
    let mut looped: Trip<WRITTEN, REST> = Trip::new(scene.memory, &sheaf(), bulk)?;
    let refused = Cell::new(0);
    let named = |variant: &str| label(variant, bulk, touch, &[("order", "in turn".into())]);
    let way = if bulk == 1 { Way::Loop } else { Way::Bulk };
    let mut variants = vec![of_trip(scene, named("netmem"), &mut ours, way)];
    if bulk > 1 {
        variants.push(of_trip(scene, named("netmem/sheaf-loop"), &mut looped, Way::Loop));
    }
    for rival in rivals::all() {
        variants.push(of_rival(scene, named(rival.name), rival, bulk, touch, &refused));
    }
    let over_first = |b| Comparison { a: 0, b, metric: Metric::NsPerOp };
    let comparisons: Vec<Comparison> = (1..variants.len()).map(over_first).collect();
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Same, scene.effort);
    drop(variants);
    for one in &series {
        bench.row(one, Metric::NsPerOp, None);
        let source = one.label.variant == "netmem" && bulk == 1 && !touch;
        bench.row(one, Metric::CyclesPerOp, source.then(published::single));
    }
    let mut worker = scene.worker.borrow_mut();
    account.add(ours.settle(&mut worker));
    account.add(looped.settle(&mut worker));
    account.refused += refused.get();
    Ok(if touch { targets(bench, &series, bulk) } else { Vec::new() })
}

fn of_trip<'a, const WRITTEN: usize, const REST: usize>(
    scene: &'a Scene<'_>,
    label: Label,
    trip: &'a mut Trip<WRITTEN, REST>,
    way: Way,
) -> Box<dyn Variant + 'a> {
    let bulk = trip.bulk();
    let body = move |ops| trip.run(&mut scene.worker.borrow_mut(), way, ops);
    Box::new(OpLoop::of(bulk as u32, label, scene.clock, Box::new(body)))
}

fn of_rival<'a>(
    scene: &'a Scene<'_>,
    label: Label,
    rival: &'static Rival,
    bulk: usize,
    touch: bool,
    refused: &'a Cell<u64>,
) -> Box<dyn Variant + 'a> {
    let mut held = Held::new(bulk);
    let body = move |ops| {
        let lost = match bulk {
            1 => rival.single(BYTES, touch, ops),
            _ => rival.bulk(&mut held, BYTES, touch, ops),
        };
        refused.set(refused.get() + lost);
    };
    Box::new(OpLoop::of(bulk as u32, label, scene.clock, Box::new(body)))
}

/// Returns the targets of the written rows. The first series is netmem's.
fn targets(bench: &Bench<'_>, series: &[Series], bulk: usize) -> Vec<Target> {
    let Some((ours, others)) = series.split_first() else { return Vec::new() };
    let others: Vec<&Series> = others.iter().collect();
    if bulk == 1 {
        let what = "an object of 256 bytes, 64 of them written,";
        return Target::over_fastest(bench, what, 0.5, ours, &others).into_iter().collect();
    }
    if bulk >= MANY {
        let what = format!("an object of {bulk} at once");
        let rivals: Vec<&Series> = others.into_iter().filter(|one| !is_ours(one)).collect();
        return Target::over_fastest(bench, &what, MANY_AT_MOST, ours, &rivals).into_iter().collect();
    }
    let at_most = |other: &Series| match (bulk, other.label.variant.as_str()) {
        (BULK, BULK_RIVAL) => Some(0.3),
        (BULK, "netmem/sheaf-loop") => Some(0.5),
        _ => None,
    };
    let what = "an object of a bulk of 64";
    let target = |other| Target::over_fastest(bench, what, at_most(other)?, ours, &[other]);
    others.into_iter().filter_map(target).collect()
}

fn is_ours(series: &Series) -> bool {
    series.label.variant.starts_with("netmem")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;
    use crate::experiments::rivals::target;
    use crate::json::Params;

    #[test]
    fn many_objects_at_once_are_held_against_the_fastest_allocator_and_not_against_the_loop() {
        let series = |(variant, ticks): (&str, f64)| {
            let label = Label { variant: variant.to_owned(), params: Params::new() };
            let (rounds, setups) = (vec![Some(ticks); 9], (1..9).collect());
            Series { rounds, setups, per_op: vec![ticks; 9], ..Series::new(label) }
        };
        let all =
            [("netmem", 6.0), ("netmem/sheaf-loop", 4.0), ("glibc", 9.0), ("mimalloc", 5.0)].map(series);
        let report = report_of(false, |bench| {
            let targets = targets(bench, &all, 65_536);
            target::note(bench, &targets);
        });
        assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
        assert!(report.notes[0].contains("an object of 65536 at once of mimalloc's time: at most 1"));
        assert!(report.notes[0].ends_with("1.20 (1.20 to 1.20): missed"), "{:?}", report.notes);
    }
}
