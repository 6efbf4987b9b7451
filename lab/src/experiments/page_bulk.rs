//! `page-bulk`: 1 to 128 order-0 pages at once, with one call for all or one call for each.

use std::cell::Cell;

use netmem::page::{Memory, MemoryConfig};

use super::Experiment;
use super::pages::{Hand, SOURCE, check_pages, cycles, label, note_memory};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::Published;
use crate::method::clock::Tsc;
use crate::method::ratio::{Interval, TOO_FEW};
use crate::method::round::Variant;
use crate::method::window::OpLoop;
use crate::metric::Metric;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "page-bulk",
    source: SOURCE,
    question: "What does a page cost that is allocated and freed in bulk, by an array or by a loop?",
    seconds: 15,
    keys: &[],
    run,
};

/// The bulks, with the kernel's cycles for one page by array.
const BULKS: [(usize, f64); 9] = [
    (1, 202.0),
    (2, 144.0),
    (3, 134.0),
    (4, 128.0),
    (8, 120.0),
    (16, 116.0),
    (32, 113.0),
    (64, 110.0),
    (128, 110.0),
];

/// The kernel's cycles for one page by one call.
const SINGLE: f64 = 199.0;

const KERNEL: &str = "the patches of March 2021 that Linux 5.13 has, [brouer21-arrays], alloc and free of one order-0 page (the source has no results for bulk)";

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let memory = Memory::new(&MemoryConfig::default()).map_err(SetUpError::at("memory"))?;
    let (clock, refused) = (bench.clock, Cell::new(0));
    let mut ratios = Vec::new();
    for (bulk, published) in BULKS {
        ratios.push((bulk, measure(bench, &clock, &memory, &refused, (bulk, published))?));
    }
    check_pages(bench, "netmem", &memory, refused.get());
    note_memory(bench, &memory);
    bench.note(
        "netmem fills an array by one call; netmem/loop makes one call for each page, and allocates all before the \
         first is freed. With touch the first 64 bytes of each page are written. These lines are all in one set of \
         the first-level cache, which holds 8 or 12 of them",
    );
    bench.note(
        "the source has no results for bulk. [brouer21-arrays] measured the kernel's loop for one page only. Its \
         array form is faster from 2 pages on: 199 cycles alone, 110 in bulks of 64 and more",
    );
    bench.note(finding(&ratios));
    Ok(())
}

/// Measures one bulk. Returns the array's time divided by the loop's, for untouched pages.
fn measure(
    bench: &mut Bench<'_>,
    clock: &Tsc,
    memory: &Memory,
    refused: &Cell<u64>,
    (bulk, published): (usize, f64),
) -> Result<Option<Interval>, SetUpError> {
    let named = |variant, touch: bool| label(variant, &[("burst", bulk.into()), ("touch", touch.into())]);
    let hand = || Hand::new(memory, bulk, refused);
    let [mut array, mut each, mut written_array, mut written_each] = [hand()?, hand()?, hand()?, hand()?];
    let variant = |name, touch, body| -> Box<dyn Variant + '_> {
        Box::new(OpLoop::of(bulk as u32, named(name, touch), clock, body))
    };
    let mut variants = [
        variant("netmem", false, Box::new(|ops| array.in_bulk::<false>(ops))),
        variant("netmem/loop", false, Box::new(|ops| each.one_by_one::<false>(ops))),
        variant("netmem", true, Box::new(|ops| written_array.in_bulk::<true>(ops))),
        variant("netmem/loop", true, Box::new(|ops| written_each.one_by_one::<true>(ops))),
    ];
    let array_over_loop = [(0, 1), (2, 3)].map(|(a, b)| Comparison { a, b, metric: Metric::NsPerOp });
    let series = bench.measure_with(&mut variants, &array_over_loop, Cores::Same, bench.effort());
    drop(variants);
    let single = (bulk == 1).then_some((SINGLE, "by one call"));
    for (series, published) in series.iter().zip([Some((published, "by array")), single, None, None]) {
        let published: Option<Published> = published.map(|(c, way)| cycles(c, &format!("{KERNEL}, {way}")));
        bench.row(series, Metric::NsPerOp, None);
        bench.row(series, Metric::CyclesPerOp, published);
    }
    Ok(bench.over(&series[0], &series[1]))
}

/// Returns the bulk from which on the array is certainly faster, and its maximum gain.
fn finding(ratios: &[(usize, Option<Interval>)]) -> String {
    let kernel = BULKS[BULKS.len() - 1].1 / SINGLE;
    let decided = ratios.iter().filter_map(|&(bulk, ratio)| Some((bulk, ratio?)));
    let too_few = decided.clone().filter(|(_, ratio)| ratio.too_few).count();
    if too_few > 0 {
        return format!("from which bulk on the array pays is not told: {too_few} bulks have {TOO_FEW}");
    }
    let slower = decided.clone().filter(|(_, ratio)| ratio.high >= 1.0).map(|(bulk, _)| bulk).max();
    let best = decided.clone().min_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let from = decided.clone().map(|(bulk, _)| bulk).find(|bulk| slower.is_none_or(|last| *bulk > last));
    match (best, from) {
        (Some((bulk, ratio)), Some(from)) => format!(
            "the array pays from bulks of {from} on; at best, with {bulk}, a page costs {:.2} of what it costs by \
             the loop (the kernel: {kernel:.2} of its single call)",
            ratio.median
        ),
        (Some((bulk, ratio)), None) => {
            format!("the array does not pay here: {:.2} of the loop at best, with {bulk}", ratio.median)
        }
        (None, _) => "no bulk was measured".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(bulk: usize, median: f64) -> (usize, Option<Interval>) {
        let (low, high) = (median - 0.02, median + 0.02);
        (bulk, Some(Interval { median, low, high, count: 9, setups: 9, too_few: false }))
    }

    #[test]
    fn the_array_pays_from_the_first_bulk_behind_the_last_that_does_not() {
        let text = finding(&[ratio(1, 1.1), ratio(2, 0.9), ratio(3, 0.99), ratio(4, 0.6), ratio(8, 0.5)]);
        assert!(
            text.starts_with("the array pays from bulks of 4 on; at best, with 8, a page costs 0.50"),
            "{text}"
        );
    }

    /// Seen: a run that was stopped after a set-up said from which bulk on the array pays.
    #[test]
    fn bulks_of_too_few_set_ups_do_not_tell_where_the_array_pays() {
        let mut few = ratio(2, 0.9);
        few.1 = few.1.map(|ratio| Interval { too_few: true, ..ratio });
        let text = finding(&[ratio(1, 1.1), few, ratio(3, 0.6)]);
        assert!(text.ends_with("is not told: 1 bulks have too few set-ups or rounds to tell"), "{text}");
    }

    #[test]
    fn an_array_that_is_never_quicker_is_not_praised() {
        assert!(finding(&[ratio(1, 1.1), ratio(2, 1.0)]).starts_with("the array does not pay here: 1.00"));
        assert_eq!(finding(&[(1, None)]), "no bulk was measured");
    }
}
