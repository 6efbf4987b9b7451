//! The ring between one sender and one receiver, alone: numbers, in bursts or one at a time.

use netmem::ring::ring;

use super::{Crossing, SLOTS, measure};
use crate::bench::{Bench, SetUpError};
use crate::experiments::rivals::sides::Singly;
use crate::experiments::rivals::target::Target;
use crate::experiments::rivals::{Scene, label};
use crate::method::round::Series;
use crate::rivals::dpdk::BURST;

/// The rivals with a target, the fastest way of each, and netmem's maximum share of their time.
const RIVALS: [&[&str]; 2] = [&["dpdk"], &["rtrb", "rtrb/copied"]];
const AT_MOST: f64 = 0.7;

/// Measures rings of numbers. One call passes `burst` numbers: the maximum of a call, or one.
pub(super) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    peer_core: usize,
    burst: usize,
) -> Result<Vec<Target>, SetUpError> {
    let singly = burst == 1;
    let (sends, receives) = ring::<u64>(SLOTS as u32);
    let mut rings = vec![if singly {
        Crossing::new("netmem", Singly(sends), Singly(receives))
    } else {
        Crossing::new("netmem", sends, receives)
    }];
    if let Some(dpdk) = scene.dpdk {
        let (sends, receives) = dpdk.ring(SLOTS, singly).map_err(SetUpError::at("ring"))?;
        rings.push(Crossing::new("dpdk", sends, receives));
    }
    #[cfg(feature = "rivals")]
    rings.extend(super::queues::rings(singly));
    let named = |variant: &str| label(variant, "ring", burst, "cross", size_of::<u64>(), false);
    let what = format!("ring by {burst}");
    let series = measure(scene, bench, peer_core, rings, (&what, &named));
    Ok(if burst == BURST { targets(bench, &series) } else { Vec::new() })
}

fn targets(bench: &Bench<'_>, series: &[Series]) -> Vec<Target> {
    let Some((ours, others)) = series.split_first() else { return Vec::new() };
    let ways = |rival: &[&str]| -> Vec<&Series> {
        others.iter().filter(|other| rival.contains(&other.label.variant.as_str())).collect()
    };
    let what = "the ring alone across cores by 32";
    let target = |rival| Target::over_fastest(bench, what, AT_MOST, ours, &ways(rival));
    RIVALS.into_iter().filter_map(target).collect()
}
