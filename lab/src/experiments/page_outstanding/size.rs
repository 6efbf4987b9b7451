//! Whether a page's cost or its bookkeeping grows with the size of the memory.

use std::cell::Cell;

use netmem::page::{Memory, MemoryConfig};

use super::{Hand, check_pages, label, median_ns};
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::method::round::{Label, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;

/// The memory sizes in MiB. The last has 1 Mi frames of 2 KiB.
const MIB: [usize; 3] = [16, 256, 2_048];
/// Pages allocated at once: past the end of the worker's list, so that the node is accessed too.
const HELD: usize = 1_024;
/// Maximum share of the memory for its bookkeeping.
const BOOKKEEPING_MOST: f64 = 2.0;

/// Measures the same work in memories of several sizes, and the size of their descriptors.
pub(super) fn group(bench: &mut Bench<'_>, effort: Effort) -> Result<(), SetUpError> {
    let (clock, refused) = (bench.clock, Cell::new(0));
    let mut memories = Vec::new();
    for mib in MIB {
        match Memory::new(&MemoryConfig { bytes: mib << 20, ..MemoryConfig::default() }) {
            Ok(memory) => memories.push(memory),
            Err(error) => bench.note(format!("no rows for a memory of {mib} MiB: {error}")),
        }
    }
    let mut variants: Vec<Box<dyn Variant + '_>> = Vec::new();
    for memory in &memories {
        let mut hand = Hand::new(memory, HELD, &refused)?;
        let body = move |ops| hand.one_by_one::<false>(ops);
        variants.push(Box::new(OpLoop::of(HELD as u32, of(memory), &clock, Box::new(body))));
    }
    let last = variants.len().saturating_sub(1);
    let flat = Comparison { a: last, b: 0, metric: Metric::NsPerOp };
    let comparisons = if last > 0 { &[flat][..] } else { &[] };
    let series = bench.measure_with(&mut variants, comparisons, Cores::Same, effort);
    drop(variants);
    for series in &series {
        bench.row(series, Metric::NsPerOp, None);
    }
    for memory in &memories {
        check_pages(bench, &format!("{} MiB", memory.bytes() >> 20), memory, refused.get());
        bookkeeping(bench, memory);
    }
    if let [first, .., last] = &series[..]
        && let (Some(small), Some(large)) = (median_ns(bench, first), median_ns(bench, last))
    {
        bench.note(format!(
            "{HELD} pages out cost {small:.1} ns each in the smallest memory and {large:.1} in the largest"
        ));
    }
    Ok(())
}

fn of(memory: &Memory) -> Label {
    label(
        "netmem",
        &[
            ("order", 0.into()),
            ("lists", "linux-2021".into()),
            ("outstanding", HELD.into()),
            ("memory_mib", (memory.bytes() >> 20).into()),
        ],
    )
}

/// Reports the share of the memory that page descriptors take.
fn bookkeeping(bench: &mut Bench<'_>, memory: &Memory) {
    let share = 100.0 * memory.descriptor_bytes() as f64 / memory.bytes() as f64;
    let mut label = of(memory);
    label.params.insert("of".to_owned(), "descriptors".into());
    bench.figure(label, Metric::Percent, share, None);
    let name = format!("{} MiB: bookkeeping is at most {BOOKKEEPING_MOST} %", memory.bytes() >> 20);
    bench.check(&name, share <= BOOKKEEPING_MOST, format!("{share:.2} % for page descriptors"));
}
