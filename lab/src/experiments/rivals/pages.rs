//! Order-0 pages on one core, one or many allocated at once, compared with blocks of 4 KiB of general allocators.

use std::cell::Cell;

use netmem::limits::PAGE_SIZE;

use super::target::Target;
use super::{Scene, label};
use crate::bench::{Bench, SetUpError};
use crate::experiments::pages::{Hand, rival_loop};
use crate::experiments::slab_objects::check_pages;
use crate::method::round::Series;
use crate::rivals;

/// At most this share of the fastest general allocator's time.
const AT_MOST: f64 = 0.4;

/// Measures one number of pages that are out at once, written or not.
pub(super) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    burst: usize,
    touch: bool,
) -> Result<Option<Target>, SetUpError> {
    let refused = Cell::new(0);
    let named = |variant| label(variant, "page", burst, "same", PAGE_SIZE, touch);
    let mut hands = [Hand::new(scene.memory, burst, &refused)?, Hand::new(scene.memory, burst, &refused)?];
    let [bulk, singly] = &mut hands;
    let mut variants = vec![scene.op_loop(named("netmem"), burst, |ops| match (burst, touch) {
        (1, true) => bulk.one::<true>(ops),
        (1, false) => bulk.one::<false>(ops),
        (_, true) => bulk.in_bulk::<true>(ops),
        (_, false) => bulk.in_bulk::<false>(ops),
    })];
    if burst > 1 {
        variants.push(scene.op_loop(named("netmem/loop"), burst, |ops| match touch {
            true => singly.one_by_one::<true>(ops),
            false => singly.one_by_one::<false>(ops),
        }));
    }
    for rival in rivals::all() {
        let body = rival_loop(rival, PAGE_SIZE, burst, touch, &refused);
        variants.push(scene.op_loop(named(rival.name), burst, body));
    }
    let series = scene.measure(bench, &mut variants);
    drop(variants);
    drop(hands);
    let what = format!("pages by {burst}{}", if touch { ", written" } else { "" });
    let refused = refused.get();
    bench.check(&format!("{what}: every allocation succeeded"), refused == 0, format!("{refused} refused"));
    check_pages(bench, scene.memory);
    Ok(target(bench, burst, touch, &series))
}

fn target(bench: &Bench<'_>, burst: usize, touch: bool, series: &[Series]) -> Option<Target> {
    let (ours, rivals) = series.split_first().filter(|_| burst == 1)?;
    let what = if touch { "a page, 64 bytes of it written," } else { "a page" };
    Target::over_fastest(bench, what, AT_MOST, ours, &rivals.iter().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Effort, tests::report_of};
    use crate::method::clock::Tsc;
    use netmem::page::{Memory, MemoryConfig};
    use std::cell::RefCell;

    #[test]
    fn every_allocator_is_a_row_and_a_ratio_and_every_page_is_freed() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let worker = RefCell::new(memory.worker().unwrap());
        let (clock, effort) = (Tsc::new(), Effort { rounds: 5, windows: 8 });
        let scene = Scene { memory: &memory, worker: &worker, clock: &clock, effort, dpdk: None };
        for (burst, own) in [(1, 1), (64, 2)] {
            let mut target = None;
            let report = report_of(false, |bench| target = group(&scene, bench, burst, true).unwrap());
            assert!(report.ok(), "{:?}", report.checks);
            // Nanoseconds and cycles of each.
            assert_eq!(report.rows.len(), 2 * (own + rivals::all().len()));
            assert_eq!(report.ratios.len(), own - 1 + rivals::all().len());
            assert_eq!(target.is_some(), burst == 1 && !rivals::all().is_empty());
        }
    }
}
