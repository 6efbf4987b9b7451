//! A measurement that the experiment `rivals` also uses: a page passed one at a time over the bare ring, at the
//! pace of the pair.

use netmem::page::Memory;

use super::items::{Numbers, Pages};
use super::{Asked, Asking, Passing, Policy};
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::experiments::rivals::target::Target;
use crate::method::clock::Tsc;
use crate::metric::Metric;

/// The policy of both sides, with its name.
const POLICIES: [(Policy, &str); 2] = [(Policy::Spin, "spinning"), (Policy::BackOff, "backing off")];

/// Slots in the ring.
const SLOTS: usize = 1_024;

/// The maximum multiple of the bare ring's time. The source measured 6.8.
const AT_MOST: f64 = 2.0;

/// Measures untouched pages of `memory`, for which it uses two workers, and the bare ring.
pub(in crate::experiments) fn measure(
    bench: &mut Bench<'_>,
    (memory, clock): (&Memory, &Tsc),
    peer_core: usize,
    effort: Effort,
) -> Result<Vec<Target>, SetUpError> {
    let pages = || {
        let worker = memory.worker().map_err(SetUpError::at("worker"))?;
        Ok::<_, SetUpError>(Pages::<false> { memory, worker })
    };
    let (page, number) = ([("work", "page".into())], [("work", "ring".into()), ("bytes", 4.into())]);
    let passings = [
        Passing::new("netmem", &page, SLOTS, (pages()?, pages()?)),
        Passing::new("limit", &number, SLOTS, (Numbers, Numbers)),
    ];
    let asking = |(policy, _)| {
        passings.each_ref().map(|one| Asking::boxed(one, Asked::Pair(policy), clock, (SLOTS, peer_core)))
    };
    let mut variants: Vec<_> = POLICIES.into_iter().flat_map(asking).collect();
    let over_ring = |a| Comparison { a, b: a + 1, metric: Metric::NsPerOp };
    let series = bench.measure_with(&mut variants, &[0, 2].map(over_ring), Cores::Cross, effort);
    drop(variants);
    series.iter().for_each(|one| bench.row(one, Metric::NsPerOp, None));
    passings.into_iter().for_each(|passing| passing.settle(bench));
    let target = |(pair, (_, how)): (&[_], (Policy, &str))| {
        let [page, ring] = pair else { return None };
        let what = format!("a page passed one at a time, both sides {how},");
        Target::over_fastest(bench, &what, AT_MOST, page, &[ring])
    };
    Ok(series.chunks(2).zip(POLICIES).filter_map(target).collect())
}
