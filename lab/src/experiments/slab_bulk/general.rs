//! The default layer beside the general allocators of the machine: one object, and bulks of 64, written or not.

use std::cell::Cell;

use super::trip::{Trip, Way};
use super::{BYTES, Scene, label, published, sheaf};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::experiments::slab_objects::Account;
use crate::method::ratio::Interval;
use crate::method::round::{Label, Series, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;
use crate::rivals::{self, Held, Rival};

/// One object, and the bulk of the table of what to reach, written or not.
pub(super) const GROUPS: [(usize, bool); 4] = [(1, true), (1, false), (64, true), (64, false)];

/// The allocator whose loop a bulk is held against.
const BULK_RIVAL: &str = "mimalloc";

/// What a group has to reach: at most this share of somebody's time.
#[derive(Debug, Clone)]
pub(super) struct Target {
    what: String,
    rival: String,
    at_most: f64,
    reached: Interval,
}

/// Measures one bulk.
pub(super) fn group(
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
    Ok(if touch { targets(&series, bulk, bench.setting("seed")) } else { Vec::new() })
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

/// What the written rows are held against; the first series is ours.
fn targets(series: &[Series], bulk: usize, seed: u64) -> Vec<Target> {
    let Some((ours, others)) = series.split_first() else { return Vec::new() };
    let target = |other: &Series, at_most| {
        let rival = other.label.variant.clone();
        let what = if bulk == 1 { "one object".to_owned() } else { format!("bulk {bulk}, per object") };
        Some(Target { what, rival, at_most, reached: ours.over(other, seed)? })
    };
    let time = |one: &&Series| one.at(0.5).unwrap_or(f64::INFINITY);
    if bulk == 1 {
        let fastest = others.iter().min_by(|a, b| time(a).total_cmp(&time(b)));
        return fastest.and_then(|fastest| target(fastest, 0.5)).into_iter().collect();
    }
    let at_most = |other: &Series| match other.label.variant.as_str() {
        BULK_RIVAL => Some(0.3),
        "netmem/sheaf-loop" => Some(0.5),
        _ => None,
    };
    others.iter().filter_map(|other| target(other, at_most(other)?)).collect()
}

/// Says of each target whether it is reached.
pub(super) fn note_targets(bench: &mut Bench<'_>, targets: &[Target]) {
    for Target { what, rival, at_most, reached } in targets {
        let Interval { median, low, high, .. } = reached;
        let verdict = if median <= at_most { "reached" } else { "missed" };
        bench.note(format!(
            "to reach, 256 bytes, 64 of them written, {what}: at most {at_most} of {rival}'s time; here {median:.2} \
             ({low:.2} to {high:.2}): {verdict}",
        ));
    }
    rivals::note_missing(bench);
}
