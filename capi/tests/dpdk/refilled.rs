//! A program of DPDK that populates a mempool again.

use crate::dpdk;
use crate::faults::{built, lines};
use crate::prefix::{output, said};
use std::fs;

/// Seen: after a populate that failed, 12,249 of the 20,000 objects of the next one were refused as made up, because the
/// stock still had the objects whose memory DPDK had freed.
#[test]
fn a_mempool_that_is_populated_again_after_a_failure_has_all_its_objects() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let (mut program, folder) = dpdk.program(built("tests/dpdk/refilled.c"));
    let out = output(&mut program);
    let _ = fs::remove_dir_all(folder);
    let said = said(&out);
    assert!(out.status.success() && said.contains("done\n"), "{}\n{said}", out.status);
    assert!(lines(&said, ": made_up: ").is_empty(), "{said}");
    let end = |pool: &str| {
        let [line] = lines(&said, &format!("mempool {pool} at its end"))[..] else { panic!("{said}") };
        line.to_owned()
    };
    let refilled = end("refilled");
    assert!(refilled.contains(": 20000 objects: 20000 free, 0 in caches, 0 out;"), "{said}");
    assert!(refilled.contains(" 0 freed twice, 0 made up"), "{said}");
    // Its objects are not lost: DPDK freed their memory.
    assert!(end("failed").contains(": 0 objects: 0 free, 0 in caches, 0 out;"), "{said}");
    // DPDK puts every object that it places into the mempool: each of these was there already.
    assert!(
        end("twice").contains(": 8 objects: 8 free,") && lines(&said, ": freed_twice: ").len() == 8,
        "{said}"
    );
    assert!(lines(&said, " objects are out ").is_empty(), "{said}");
}
