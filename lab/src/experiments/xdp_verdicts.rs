//! `xdp-verdicts`: the cost of a packet that is dropped, sent back, redirected to a second device, or passed to a
//! local queue that keeps it and frees it on another worker. The memory is the same in each case. Only the place
//! where it is freed differs.

use std::cell::RefCell;

use netmem::limits::{BATCH_MAX, CHUNK_SIZE};
use netmem::page::{Memory, MemoryConfig};

use super::Experiment;
use super::relay::{PACKET_BYTES, Relay};
use super::router::{self, FarSide, Fate, Router, Setup};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::{Published, params};
use crate::method::poll::{PollLoop, PollSampler, Shape};
use crate::method::round::{Label, Series, Variant};
use crate::metric::Metric;
use crate::settings::Key;
use crate::sources;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "xdp-verdicts",
    source: sources::PAGES.key,
    question: "What does a packet cost when its page stays mapped and is freed here, by a second device, or by a local queue?",
    seconds: 9,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[
    router::RING,
    router::PACKETS,
    Key {
        name: "kept",
        what: "packets that the second local_queue keeps",
        min: 1,
        max: 65_536,
        full: 4_096,
        quick: 4_096,
    },
];

/// The verdicts, by their index among the variants. The bare relay comes last.
const DROP: usize = 0;
const TX: usize = 1;
const REDIRECT: usize = 2;
const ROUTE: usize = 3;
const PASS: usize = 4;
const KEPT: usize = 5;
const CROSS: usize = 6;
const LIMIT: usize = 7;

const COMPARISONS: &[Comparison] = &[
    Comparison { a: TX, b: DROP, metric: Metric::NsPerPacket },
    Comparison { a: REDIRECT, b: DROP, metric: Metric::NsPerPacket },
    Comparison { a: CROSS, b: TX, metric: Metric::NsPerPacket },
    Comparison { a: ROUTE, b: CROSS, metric: Metric::NsPerPacket },
    Comparison { a: ROUTE, b: TX, metric: Metric::NsPerPacket },
    Comparison { a: PASS, b: REDIRECT, metric: Metric::NsPerPacket },
    Comparison { a: KEPT, b: PASS, metric: Metric::NsPerPacket },
    Comparison { a: ROUTE, b: LIMIT, metric: Metric::NsPerPacket },
];

/// The variants of the verdicts, each with the fate of its packets.
fn verdicts(kept: usize) -> [(&'static str, Fate); LIMIT] {
    [
        ("netmem/drop", Fate::Dropped),
        ("netmem/tx", Fate::Reflected),
        ("netmem/redirect", Fate::Redirected),
        ("netmem/route", Fate::Routed),
        ("netmem/pass", Fate::Kept(0)),
        ("netmem/pass-kept", Fate::Kept(kept)),
        ("netmem/cross", Fate::Crossed),
    ]
}

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&peer_core) = bench.cores.get(1) else {
        bench.check("two cores", false, "the device needs one and its far side another".to_owned());
        return Ok(());
    };
    let (clock, kept) = (bench.clock, bench.setting("kept") as usize);
    let ring = (bench.setting("ring") as usize).next_power_of_two();
    let shape = Shape { burst: BATCH_MAX, packets: bench.setting("packets"), waits: false };
    // The pools of seven routers and of the relay, and some spare chunks.
    let bytes = (64 * ring + 2 * kept) * CHUNK_SIZE;
    let memory = Memory::new(&MemoryConfig { bytes, workers: 3, ..MemoryConfig::default() });
    let memory = memory.map_err(SetUpError::at("memory"))?;
    let worker = RefCell::new(memory.worker().map_err(SetUpError::at("worker"))?);
    let verdicts = verdicts(kept);
    let routers =
        verdicts.map(|(_, fate)| Router::new(&memory, &mut worker.borrow_mut(), &Setup::frames(ring, fate)));
    let mut routers: Vec<(Router, FarSide)> = routers.into_iter().collect::<Result<_, _>>()?;
    let (mut relay, mut relay_far) = Relay::new(&memory, &mut worker.borrow_mut(), 2 * ring)?;

    let poll_loop = |label, poll, far| -> Box<dyn Variant> {
        Box::new(PollLoop::new(label, PollSampler::new(&clock, shape), Some(peer_core), poll, far))
    };
    let mut variants: Vec<Box<dyn Variant + '_>> = Vec::new();
    for ((router, far), (variant, fate)) in routers.iter_mut().zip(verdicts) {
        let poll = Box::new(|| router.poll(&mut worker.borrow_mut()));
        variants.push(poll_loop(label(variant, fate, ring), poll, Box::new(|| far.turn())));
    }
    let poll = Box::new(|| relay.poll(BATCH_MAX));
    variants.push(poll_loop(relay_label(ring), poll, Box::new(|| relay_far.turn())));
    let series = bench.measure(&mut variants, COMPARISONS, Cores::Cross);
    drop(variants);
    rows(bench, &series);
    let mut worker = worker.into_inner();
    for ((router, far), (variant, _)) in routers.into_iter().zip(verdicts) {
        router.settle(far, &mut worker, variant, bench);
    }
    relay.settle(relay_far, &mut worker, bench);
    findings(bench, &memory);
    Ok(())
}

fn rows(bench: &mut Bench<'_>, series: &[Series]) {
    for (place, one) in series.iter().enumerate() {
        let published = match place {
            DROP => Some(published(17e6, "XDP_DROP")),
            TX => Some(published(10e6, "XDP_TX")),
            _ => None,
        };
        bench.row(one, Metric::Pps, published);
        bench.row(one, Metric::NsPerPacket, None);
    }
    bench.check_generator(series);
}

/// Reports the source's findings, and what the source could not measure.
fn findings(bench: &mut Bench<'_>, memory: &Memory) {
    bench.note(format!("memory: {}", memory.region().backing()));
    bench.note(
        "the source had only DROP and TX, on a card of 50 Gbit/s whose driver kept its pages mapped. Its rates \
         include a card's work and PCI, and these include a link inside the process: compare their order, not their \
         size",
    );
    bench.note(
        "drop, redirect and pass read no byte, tx, cross and route write the header's line: cross swaps the MAC \
         addresses, as tx does; redirect, cross and route go to a second device, whose completions free the frames; pass goes through a queue to a local_queue on the other \
         core, whose frees use the remote free queue",
    );
    let said = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|variant| format!("netmem/{variant}"));
        bench
            .reported_ratio(&a, &b)
            .map(|ratio| format!("{} ({} to {})", ratio.median, ratio.low, ratio.high))
    };
    let [tx, cross, route] = [("tx", "drop"), ("cross", "tx"), ("route", "tx")].map(|(a, b)| said(a, b));
    if let (Some(tx), Some(cross), Some(route)) = (tx, cross, route) {
        bench.note(format!(
            "the source: a packet sent back costs 1.7 times one that is dropped; here {tx}. The source did not \
             measure a second device that completes later. The same packet sent by it costs {cross} of sending back; \
             with the check of its header and the look-up of its route {route}",
        ));
    }
    bench.note(
        "one worker polls both devices, and its pool gets the frames back, as the source demands of XDP: no page \
         changes core, and a mapping costs nothing. The source's hard case is a page that another core sends and \
         frees: handoff (netmem/routed-handed) has it in batches, and page-cross-worker (netmem/frame) one at a \
         time. Its budget is 67.2 ns a packet",
    );
}

fn label(variant: &str, fate: Fate, ring: usize) -> Label {
    let kept = if let Fate::Kept(kept) = fate { kept } else { 0 };
    let touch = matches!(fate, Fate::Reflected | Fate::Crossed | Fate::Routed);
    let fate = match fate {
        Fate::Routed => "route",
        Fate::Redirected => "redirect",
        Fate::Reflected => "tx",
        Fate::Crossed => "cross",
        Fate::Dropped => "drop",
        Fate::Kept(_) => "pass",
    };
    labelled(variant, "forward", ring, touch, &[("verdict", fate.into()), ("kept", kept.into())])
}

fn relay_label(ring: usize) -> Label {
    labelled("limit", "relay", ring, true, &[])
}

fn labelled(variant: &str, work: &str, ring: usize, touch: bool, own: &[(&str, serde_json::Value)]) -> Label {
    let mut params = params([
        ("work", work.into()),
        ("burst", BATCH_MAX.into()),
        ("cores", "cross".into()),
        ("bytes", PACKET_BYTES.into()),
        ("touch", touch.into()),
        ("frames", (2 * ring).into()),
    ]);
    params.extend(own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Label { variant: variant.to_owned(), params }
}

fn published(pps: f64, what: &str) -> Published {
    let of = format!("Linux of about 4.9, {what} on one core, mlx5 at 50 Gbit/s, size of packets not told");
    Published { value: pps, unit: "pps".to_owned(), of }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: the cost of a second device was that of a route over tx, which is mostly routing.
    #[test]
    fn a_packet_that_leaves_by_another_device_is_held_against_the_same_one_sent_back() {
        let fates = verdicts(0);
        assert_eq!((fates[CROSS], fates[TX].1), (("netmem/cross", Fate::Crossed), Fate::Reflected));
        assert!(COMPARISONS.iter().any(|one| (one.a, one.b) == (CROSS, TX)));
        assert_eq!(fates.len(), LIMIT);
    }
}
