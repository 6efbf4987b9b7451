//! Packets by the calls of libnetmem, as in a C program, compared with the library's own and DPDK's mbufs.

use std::cell::{Cell, RefCell};

use netmem::packet::{HeadCache, ReadyPackets};

use super::packets::{Trip, rivals};
use super::{CACHE, FRAME, FRAMES, LINE, STAMP, Scene, check_dpdk, check_netmem, label, rows};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::metric::Metric;
use crate::rivals::libnetmem::BURST_MAX;
use crate::rivals::libnetmem::packets::{LibnetmemPackets, Source};

/// Measures one packet at a time, and bursts.
pub(super) fn groups(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let library = match LibnetmemPackets::open(FRAMES as u32, FRAME as u32, CACHE as u32) {
        Ok(library) => RefCell::new(library),
        Err(remedy) => {
            bench.note(format!("netmem/c, packets: {remedy}"));
            return Ok(());
        }
    };
    bench.note(
        "packets from C: in netmem/c a frame and a head are put together at each use, as in netmem/attach by the \
         library's own calls; in netmem/c-ready they stay together, as in netmem; the addresses of a burst's lines are \
         got by one call (netmem_packet_put_each), a single packet's by netmem_packet_put"
            .to_owned(),
    );
    for burst in [1, BURST_MAX] {
        if !bench.stopped() {
            group(scene, bench, &library, burst)?;
        }
    }
    Ok(())
}

fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    library: &RefCell<LibnetmemPackets>,
    burst: usize,
) -> Result<(), SetUpError> {
    let named = |variant| label(variant, "packet from C", burst, "same", LINE, true);
    let (pool, plain) = (scene.pool()?, scene.pool()?);
    let heads = || HeadCache::new(scene.memory).map_err(SetUpError::at("heads"));
    let mut ready = Trip::new(ReadyPackets::new(&pool, &heads()?, CACHE), burst);
    let mut attach = Trip::new((plain.clone(), heads()?), burst);
    let mut theirs = rivals(scene, burst)?;
    let (refused, refused_theirs) = (Cell::new(0), Cell::new(0));
    let from_c = |from, ops| refused.set(refused.get() + library.borrow_mut().run(from, burst, STAMP, ops));
    let mut variants = vec![
        scene.op_loop(named("netmem/c"), burst, |ops| from_c(Source::Fresh, ops)),
        scene.op_loop(named("netmem/c-ready"), burst, |ops| from_c(Source::Ready, ops)),
        scene.op_loop(named("netmem/attach"), burst, |ops| attach.run(&mut scene.worker.borrow_mut(), ops)),
        scene.op_loop(named("netmem"), burst, |ops| ready.run(&mut scene.worker.borrow_mut(), ops)),
    ];
    variants.extend(theirs.iter_mut().map(|(variant, packets)| {
        let run = |ops| refused_theirs.set(refused_theirs.get() + packets.run(burst, ops));
        scene.op_loop(named(variant), burst, run)
    }));
    let own = [(0, 2), (1, 3)];
    let beside = (4..variants.len()).flat_map(|theirs| [(0, theirs), (1, theirs)]);
    let comparisons: Vec<_> =
        own.into_iter().chain(beside).map(|(a, b)| Comparison { a, b, metric: Metric::NsPerOp }).collect();
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Same, scene.effort);
    rows(bench, &series);
    drop(variants);
    let what = format!("packets from C by {burst}");
    let mut w = scene.worker.borrow_mut();
    let corrupted = [ready.corrupted(&mut w), attach.corrupted(&mut w)];
    ready.way.drain(&mut w);
    check_netmem(bench, &what, ready.refused, corrupted[0], &pool);
    check_netmem(bench, &format!("attached {what}"), attach.refused, corrupted[1], &plain);
    let corrupted = library.borrow_mut().corrupted(burst);
    let out = library.borrow().out();
    bench.check(
        &format!("netmem/c, {what}: nothing refused, contents intact, every packet accounted for"),
        refused.get() + corrupted + out == 0,
        format!("{} refused, {corrupted} not as written, {out} still out", refused.get()),
    );
    for (variant, packets) in &mut theirs {
        packets.give_back();
        check_dpdk(bench, &format!("{what} ({variant})"), refused_theirs.get(), packets.out());
    }
    Ok(())
}
