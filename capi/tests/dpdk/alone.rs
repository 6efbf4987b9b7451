//! The ops, compiled without the source of the library.

use crate::faults::{built, lines};
use crate::prefix::{command, folder, good, output, said, scratch};
use crate::{Dpdk, dpdk};
use std::fs;

/// Seen: a host with the Debian packages could not get the ops, since the Makefile builds the library too.
#[test]
fn the_command_of_the_guide_compiles_the_ops_with_an_installed_library() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let guide = fs::read_to_string(folder().join("../docs/guide/c.md")).expect("the guide");
    let line =
        guide.lines().find(|line| line.starts_with("gcc ") && line.contains("librte_mempool_netmem.so"));
    let ops = scratch().join("librte_mempool_netmem.so");
    let line = line.expect("a command").replace("/tmp/librte_mempool_netmem.so", &ops.display().to_string());
    good(command("sh").current_dir(folder().join("dpdk")).args(["-ec", &line]));
    let dpdk = Dpdk { ops, ..dpdk };
    let (mut program, folder) = dpdk.program(built("tests/dpdk/planted.c"));
    let out = output(program.args(["--", "0", "left"]));
    let _ = fs::remove_dir_all(folder);
    assert_eq!(lines(&said(&out), "netmem: mempool planted at the program's end").len(), 1, "{}", said(&out));
}
