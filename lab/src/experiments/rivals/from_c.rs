//! Frames allocated and freed by the calls of libnetmem, as in a C program, compared with the library's own frames
//! and a mempool's objects.

use std::cell::RefCell;

use super::frames::Trip;
use super::{CACHE, FRAME, FRAMES, Scene, check_dpdk, check_netmem, rows};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::params;
use crate::method::round::Label;
use crate::metric::Metric;
use crate::rivals::libnetmem::{BURST_MAX, Handles, LibnetmemPool};

/// Measures one frame at a time, and bursts.
pub(super) fn groups(scene: &Scene<'_>, bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let open = || LibnetmemPool::open(FRAMES as u32, FRAME as u32, CACHE as u32);
    let library = match open() {
        Ok(library) => RefCell::new(library),
        Err(remedy) => {
            bench.note(format!("netmem/c: {remedy}"));
            return Ok(());
        }
    };
    bench.note(format!(
        "netmem/c: libnetmem {}, opened by dlopen, with handles that are checked; netmem/c-raw uses handles that \
         nothing checks, and in netmem/c-raw-pool the free also names their pool, as DPDK's does; the library's own \
         calls are in the same rounds",
        library.borrow().version
    ));
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
    library: &RefCell<LibnetmemPool>,
    burst: usize,
) -> Result<(), SetUpError> {
    let mut ours = Trip::new(scene.pool()?, burst);
    let mut theirs = match scene.dpdk {
        Some(dpdk) => Some(dpdk.frames(FRAMES, FRAME, CACHE).map_err(SetUpError::at("mempool"))?),
        None => None,
    };
    let (mut refused, mut refused_raw, mut refused_of_pool, mut refused_theirs) = (0, 0, 0, 0);
    let mut variants = vec![
        scene.op_loop(label("netmem/c", burst), burst, |ops| {
            refused += library.borrow_mut().run(Handles::Checked, burst, ops);
        }),
        scene.op_loop(label("netmem/c-raw", burst), burst, |ops| {
            refused_raw += library.borrow_mut().run(Handles::Raw, burst, ops);
        }),
        scene.op_loop(label("netmem/c-raw-pool", burst), burst, |ops| {
            refused_of_pool += library.borrow_mut().run(Handles::RawOfPool, burst, ops);
        }),
        scene.op_loop(label("netmem", burst), burst, |ops| {
            ours.run(&mut scene.worker.borrow_mut(), false, ops);
        }),
    ];
    let mut pairs = vec![(0, 1), (0, 3), (2, 3)];
    if let Some(frames) = &mut theirs {
        variants.push(
            scene.op_loop(label("dpdk", burst), burst, |ops| refused_theirs += frames.run(burst, false, ops)),
        );
        pairs.extend([(0, 4), (1, 4), (2, 4), (3, 4)]);
    }
    let comparisons: Vec<_> =
        pairs.iter().map(|&(a, b)| Comparison { a, b, metric: Metric::NsPerOp }).collect();
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Same, scene.effort);
    rows(bench, &series);
    drop(variants);
    let what = format!("frames from C by {burst}");
    check_netmem(bench, &what, ours.refused, 0, &ours.pool);
    let out = library.borrow().out();
    bench.check(
        &format!("netmem/c, {what}: every frame accounted for"),
        refused + refused_raw + refused_of_pool + out == 0,
        format!("{refused}, {refused_raw} and {refused_of_pool} refused, {out} still out"),
    );
    if let Some(frames) = &theirs {
        check_dpdk(bench, &what, refused_theirs, frames.out());
    }
    Ok(())
}

fn label(variant: &str, burst: usize) -> Label {
    let params = params([
        ("work", "frame from C".into()),
        ("burst", burst.into()),
        ("cores", "same".into()),
        ("bytes", FRAME.into()),
        ("touch", false.into()),
    ]);
    Label { variant: variant.to_owned(), params }
}
