//! A mempool's objects with netmem's mempool ops and with DPDK's own, in otherwise equal mempools.

use super::target::Target;
use super::{CACHE, FRAME, FRAMES, Scene, check_dpdk, over_first, rows};
use crate::bench::{Bench, Cores, SetUpError};
use crate::json::params;
use crate::method::round::{Label, Series};
use crate::rivals::dpdk::{BURST, Dpdk};
use crate::rivals::mempool_ops::{NETMEM, RING, adopt};

/// With a cache for each lcore the ops are not in this loop. They may take as long as DPDK's own, within this factor,
/// which one core can decide.
const CACHED: f64 = 1.05;

/// Measures one object at a time, and bursts, with DPDK's cache for each lcore and without.
pub(super) fn groups(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<Vec<Target>, SetUpError> {
    let mut targets = Vec::new();
    let adopted = match scene.dpdk {
        Some(dpdk) => adopt(dpdk).map(|()| dpdk),
        None => Err("there is no DPDK to have them".to_owned()),
    };
    let dpdk = match adopted {
        Ok(dpdk) => dpdk,
        Err(remedy) => {
            bench.note(format!("netmem/ops: {remedy}"));
            return Ok(targets);
        }
    };
    bench.note(format!(
        "netmem/ops: mempools with the ops of librte_mempool_netmem.so, dpdk: with its ring_mp_mc; both have \
         {FRAMES} objects of {FRAME} bytes. With a cache of {CACHE} for the lcore none of these loops calls the \
         ops. Without a cache each call is one of the ops"
    ));
    for cache in [CACHE, 0] {
        for burst in [1, BURST] {
            if !bench.stopped() {
                targets.extend(group(scene, bench, dpdk, cache, burst)?);
            }
        }
    }
    Ok(targets)
}

fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    dpdk: Dpdk,
    cache: usize,
    burst: usize,
) -> Result<Option<Target>, SetUpError> {
    let open = |ops| dpdk.objects(ops, FRAMES, FRAME, cache).map_err(SetUpError::at("mempool"));
    let (mut ours, mut theirs) = (open(NETMEM)?, open(RING)?);
    let (mut refused, mut refused_theirs) = (0, 0);
    let mut variants = vec![
        scene.op_loop(label("netmem/ops", cache, burst), burst, |ops| refused += ours.run(burst, false, ops)),
        scene.op_loop(label("dpdk", cache, burst), burst, |ops| {
            refused_theirs += theirs.run(burst, false, ops);
        }),
    ];
    let series = bench.measure_with(&mut variants, &over_first(2), Cores::Same, scene.effort);
    rows(bench, &series);
    drop(variants);
    let what = format!("mempool by {burst}, cache {cache}");
    check_dpdk(bench, &format!("{what}, netmem's ops"), refused, ours.out());
    check_dpdk(bench, &what, refused_theirs, theirs.out());
    Ok(target(bench, &what, cache, &series))
}

fn target(bench: &Bench<'_>, what: &str, cache: usize, series: &[Series]) -> Option<Target> {
    let (ours, rivals) = series.split_first()?;
    let rivals: Vec<_> = rivals.iter().collect();
    (cache > 0).then(|| Target::over_fastest(bench, what, CACHED, ours, &rivals))?
}

fn label(variant: &str, cache: usize, burst: usize) -> Label {
    let params = params([
        ("work", "mempool".into()),
        ("burst", burst.into()),
        ("cache", cache.into()),
        ("cores", "same".into()),
        ("bytes", FRAME.into()),
        ("touch", false.into()),
    ]);
    Label { variant: variant.to_owned(), params }
}
