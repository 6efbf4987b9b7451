//! The final checks, and the source's findings compared with these.

use netmem::page::Memory;

use super::elsewhere::Paid;
use crate::bench::Bench;
use crate::method::ratio::Interval;

/// From this bulk on, detached freelists must be faster than the loop if the objects of a slab are adjacent.
const PAYS_FROM: usize = 4;

/// Maximum cost of detached freelists over that of the loop if no two objects share a slab.
const LOSS_MAX: f64 = 1.05;

/// Checks that detached freelists are faster where they can be, and not slower where they cannot.
pub(super) fn detached(bench: &mut Bench<'_>, paid: &[Paid]) {
    let list = |of: &dyn Fn(&Paid) -> Option<Interval>| {
        let one = |p: &Paid| Some(format!("{}: {:.2}", p.bulk, of(p)?.median));
        paid.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let beats = |p: &Paid| p.bulk < PAYS_FROM || p.together.is_none_or(|over| over.high < 1.0);
    bench.judge(
        "detached freelists beat the loop in every bulk from 4 on, objects not of the active slab",
        paid.iter().all(beats),
        format!("detached over loop by bulk: {}", list(&|p| p.together)),
    );
    let holds = |p: &Paid| p.apart.is_none_or(|over| over.low <= LOSS_MAX);
    bench.judge(
        "detached freelists lose nothing (1.05 at most) where no two objects share a slab",
        paid.iter().all(holds),
        format!("detached over loop by bulk: {}", list(&|p| p.apart)),
    );
    let shared: u64 = paid.iter().map(|p| p.shared).sum();
    bench.check(
        "the worst case is the worst: no bulk has two objects of one slab",
        shared == 0,
        format!("{shared} bulks have"),
    );
}

/// Explains how to read the rows.
pub(super) fn notes(bench: &mut Bench<'_>, memory: &Memory) {
    bench.note(format!("memory: {}", memory.region().backing()));
    bench.note(
        "cycles are ticks of the time stamp counter; a row is one allocation and one free of an object, with \
         op=free only the free. In objects only the links of freelists are written, except with touch=true: then \
         the first 64 bytes of each",
    );
    bench.note(
        "layer=cpu_slab has slabs of two pages, 32 objects, as in the source: its knee is at the bulk that no \
         longer fits into one slab; layer=sheaf is the default and uses no slab on its path",
    );
    bench.note(
        "merged rows: a neighbour of the same size keeps seven of eight objects of every slab, so a bulk of this \
         cache lies in eight times the slabs; the source measured 48 cycles merged and 20 not merged in a bulk of \
         64",
    );
}
