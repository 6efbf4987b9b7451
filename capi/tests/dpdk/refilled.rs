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
    // All are back in the first. Those of the second are not lost: DPDK freed their memory. Seen: of a mempool that was freed as it
    // should be there was a line, 3,000 in a loop.
    assert!(
        ["refilled", "failed"].iter().all(|pool| lines(&said, &format!("mempool {pool} ")).is_empty()),
        "{said}"
    );
    // DPDK puts every object that it places into the mempool: each of these was there already.
    assert!(
        end("twice").contains(": 8 objects: 8 free,") && lines(&said, ": freed_twice: ").len() == 8,
        "{said}"
    );
    assert!(lines(&said, " objects are out ").is_empty(), "{said}");
}
