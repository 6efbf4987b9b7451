//! `page-order`: blocks of 1 to 1,024 pages: the cost of a block and of each of its 4 KiB. Also the memory that a
//! block pins if 64 bytes of it are kept.

use std::cell::Cell;

use netmem::limits::{ORDER_MAX, PAGE_SIZE};
use netmem::page::{Memory, MemoryConfig, Page};

use super::Experiment;
use super::pages::{
    Hand, LINE, SOURCE, check_pages, label, line_is_written, median_ns, note_memory, rival_loop, write_line,
};
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::method::clock::Tsc;
use crate::method::round::{Series, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;
use crate::rivals;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "page-order",
    source: SOURCE,
    question: "What does a larger order cost, in all and for each 4 KiB, and what does a fragment of it pin?",
    seconds: 10,
    keys: &[],
    run,
};

/// Room for [`FRAGMENTS`] blocks of the largest order, with a reserve.
const MEMORY_BYTES: usize = 128 << 20;

/// Number of blocks of which a fragment is kept.
const FRAGMENTS: usize = 16;

/// The last order at which the source considered the curve good.
const GOOD_ORDER: usize = 3;

/// The good part of a curve ends before its steepest step, if that step is at least this factor.
const STEP: f64 = 1.5;

/// Blocks whose accesses to the node are counted.
const COUNTED: u32 = 64;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let config = MemoryConfig { bytes: MEMORY_BYTES, ..MemoryConfig::default() };
    let memory = Memory::new(&config).map_err(SetUpError::at("memory"))?;
    let (clock, refused) = (bench.clock, Cell::new(0));
    let effort = bench.effort().shared_by(2);
    let mut costs = Vec::new();
    for order in 0..=ORDER_MAX {
        costs.push(measure(bench, &clock, &memory, &refused, order, effort)?);
    }
    for order in 0..=ORDER_MAX {
        pin(bench, &memory, order)?;
    }
    check_pages(bench, "netmem", &memory, refused.get());
    note_memory(bench, &memory);
    if let Some(costs) = costs.into_iter().collect::<Option<Vec<f64>>>() {
        bench.note(curve(&costs));
    }
    bench.note(
        "a fragment keeps its whole block allocated: the source's reason against dividing large orders into packets",
    );
    rivals::note_missing(bench);
    Ok(())
}

/// Measures one order, compared with the rivals' blocks of the same size. Returns the median in nanoseconds.
fn measure(
    bench: &mut Bench<'_>,
    clock: &Tsc,
    memory: &Memory,
    refused: &Cell<u64>,
    order: u8,
    effort: Effort,
) -> Result<Option<f64>, SetUpError> {
    let bytes = PAGE_SIZE << order;
    let own = [("order", order.into()), ("bytes", bytes.into()), ("per", "block".into())];
    let mut hand = Hand::new(memory, 0, refused)?;
    let body = move |ops| hand.one_of::<false>(order, ops);
    let mut variants: Vec<Box<dyn Variant + '_>> =
        vec![Box::new(OpLoop::new(label("netmem", &own), clock, Box::new(body)))];
    for rival in rivals::all() {
        let body = rival_loop(rival, bytes, 1, false, refused);
        variants.push(Box::new(OpLoop::new(label(rival.name, &own), clock, body)));
    }
    let over_rival = |b| Comparison { a: 0, b, metric: Metric::NsPerOp };
    let comparisons: Vec<Comparison> = (1..variants.len()).map(over_rival).collect();
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Same, effort);
    drop(variants);
    for series in &series {
        bench.row(series, Metric::NsPerOp, None);
        bench.row(&per_page(series, order), Metric::NsPerOp, None);
    }
    let of = ("of", "node visits per block".into());
    let visits = visits(memory, refused, order)?;
    bench.figure(label("netmem", &[("order", order.into()), of]), Metric::Count, visits, None);
    Ok(median_ns(bench, &series[0]))
}

/// Returns the node accesses of a fresh worker for one block, once its list is full. 0 if a list of the worker serves
/// the order.
fn visits(memory: &Memory, refused: &Cell<u64>, order: u8) -> Result<f64, SetUpError> {
    let mut hand = Hand::new(memory, 0, refused)?;
    hand.one_of::<false>(order, COUNTED);
    let before = memory.stats();
    hand.one_of::<false>(order, COUNTED);
    let after = memory.stats();
    let visits = after.missed - before.missed + after.overflowed - before.overflowed;
    Ok(visits as f64 / f64::from(COUNTED))
}

/// Returns the same windows, for each 4 KiB of the block.
fn per_page(series: &Series, order: u8) -> Series {
    let pages = f64::from(1u32 << order);
    let mut series = series.clone();
    series.label.params.insert("per".to_owned(), "4 KiB".into());
    series.per_op.iter_mut().for_each(|ticks| *ticks /= pages);
    series
}

/// Holds blocks of `order` of which only a fragment is in use, and reads the pinned memory.
fn pin(bench: &mut Bench<'_>, memory: &Memory, order: u8) -> Result<(), SetUpError> {
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
    let out = || {
        let stats = memory.stats();
        stats.total - stats.free - stats.cached
    };
    let before = out();
    let mut blocks: Vec<Page> = (0..FRAGMENTS).map_while(|_| memory.alloc(&mut worker, order)).collect();
    blocks.iter_mut().for_each(write_line);
    let held = blocks.len();
    let pinned = (out() - before) as usize * PAGE_SIZE;
    let whole = blocks.iter().filter(|block| line_is_written(block)).count();
    blocks.into_iter().for_each(|block| memory.free(&mut worker, block));

    let own = [
        ("order", order.into()),
        ("bytes", (PAGE_SIZE << order).into()),
        ("touch", true.into()),
        ("of", format!("pinned by one fragment of {LINE} bytes").into()),
    ];
    bench.figure(label("netmem", &own), Metric::Bytes, pinned as f64 / held.max(1) as f64, None);
    bench.check(
        &format!("order {order}: fragments intact, their blocks pinned, nothing left behind"),
        held == FRAGMENTS && whole == held && pinned == held * (PAGE_SIZE << order) && out() == before,
        format!("{whole} of {held} fragments, {pinned} bytes pinned"),
    );
    Ok(())
}

/// Returns the last order before the steepest step, or the last of all if no step is steep.
fn good_until(costs: &[f64]) -> Option<usize> {
    let steps = costs.windows(2).map(|pair| pair[1] / pair[0]).enumerate();
    match steps.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((order, step)) if step >= STEP => Some(order),
        _ => costs.len().checked_sub(1),
    }
}

fn curve(costs: &[f64]) -> String {
    let Some(good) = good_until(costs) else { return "no cost was measured".to_owned() };
    let verdict = match good.cmp(&GOOD_ORDER) {
        std::cmp::Ordering::Less => "earlier than in the source",
        std::cmp::Ordering::Equal => "where the source has it",
        std::cmp::Ordering::Greater => {
            "later than in the source: a worker has lists of its own for more than order 0, as far as its share of the memory has room for a block (see the node visits per block), which Linux 4.11 had for order 0 alone"
        }
    };
    let last = costs.len() - 1;
    let end = match costs.get(good + 1) {
        Some(next) => format!(
            "here its steepest step is from order {good} ({:.1} ns) to {} ({next:.1} ns), {verdict}",
            costs[good],
            good + 1
        ),
        None => "here it has no steep step".to_owned(),
    };
    format!(
        "the source: a good curve until order {GOOD_ORDER}; {end}. Order 0 costs {:.1} ns, order {last} {:.1} ns or \
         {:.3} ns for each 4 KiB",
        costs[0],
        costs[last],
        costs[last] / (1u64 << last) as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;

    #[test]
    fn the_curve_is_good_until_its_steepest_step() {
        assert_eq!(good_until(&[5.0, 10.0, 10.0, 50.0, 55.0]), Some(2));
        assert_eq!(good_until(&[5.0, 6.0, 7.0]), Some(2));
        assert_eq!(good_until(&[5.0; 11]), Some(10));
        assert_eq!(good_until(&[]), None);
    }

    #[test]
    fn the_note_follows_the_figures() {
        let knee = |at: usize| (0..11).map(|o| if o > at { 50.0 } else { 5.0 }).collect::<Vec<f64>>();
        assert!(curve(&knee(3)).contains("where the source has it"));
        assert!(curve(&knee(1)).contains("earlier than in the source"));
        assert!(curve(&knee(5)).contains("later than in the source"));
        assert!(curve(&knee(10)).contains("no steep step"));
        assert!(curve(&knee(10)).ends_with("0.005 ns for each 4 KiB"));
    }

    #[test]
    fn the_orders_that_a_workers_lists_serve_need_no_visit_to_the_node() {
        let memory = Memory::new(&MemoryConfig { bytes: MEMORY_BYTES, ..Default::default() }).unwrap();
        let refused = Cell::new(0);
        let visits = [0, 3, ORDER_MAX].map(|order| visits(&memory, &refused, order).unwrap());
        assert!(visits[..2] == [0.0, 0.0] && visits[2] >= 1.0, "{visits:?}");
    }

    #[test]
    fn a_fragment_pins_its_whole_block() {
        let memory = Memory::new(&MemoryConfig { bytes: MEMORY_BYTES, ..Default::default() }).unwrap();
        let report = report_of(false, |bench| pin(bench, &memory, 5).unwrap());
        assert!(report.ok(), "{:?}", report.checks);
        assert_eq!((report.rows[0].metric.as_str(), report.rows[0].median), ("bytes", 131_072.0));
    }
}
