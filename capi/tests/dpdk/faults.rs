//! A program of DPDK in which faults were planted: an mbuf that is freed twice, seven that are lost.

use crate::prefix::{Compiler, command, good, linked, output, said};
use crate::{Dpdk, dpdk};
use std::fs;
use std::path::PathBuf;

/// With names for the functions that reports are to name. DPDK's headers are not for -Wpedantic.
const COMPILER: Compiler = Compiler { program: "gcc", flags: &["-std=gnu11", "-O2", "-g", "-rdynamic"] };

/// A program of DPDK, compiled.
pub fn built(source: &str) -> PathBuf {
    let flags =
        good(command("pkg-config").args(["--cflags", "--libs", "libdpdk"])).replace("-I", "-isystem ");
    linked(source, &COMPILER, flags.split_whitespace())
}

/// What the program says with so many places in each lcore's cache.
fn run(dpdk: &Dpdk, cache: &str, freed: bool) -> String {
    let (mut program, folder) = dpdk.program(built("tests/dpdk/planted.c"));
    program.args(["--", cache]).args(freed.then_some("freed"));
    let out = output(&mut program);
    let _ = fs::remove_dir_all(folder);
    assert!(out.status.success(), "{}", said(&out));
    said(&out)
}

/// The lines that contain this.
pub fn lines<'a>(said: &'a str, what: &str) -> Vec<&'a str> {
    said.lines().filter(|line| line.contains(what)).collect()
}

#[test]
fn without_caches_a_double_free_and_a_leak_are_named_where_they_were_made() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    for freed in [false, true] {
        let said = run(&dpdk, "0", freed);
        let [double] = lines(&said, ": freed_twice: ")[..] else { panic!("{said}") };
        let (call, before) = double.split_once("; last given back at ").unwrap_or_default();
        assert!(call.contains(" at ") && call.contains("+0x"), "{said}");
        assert!(call.contains("of planted") && before.contains("+0x"), "{said}");
        // The function that made the call, whether or not the compiler put DPDK's own into it.
        let (_, calls) = said.split_once("the calls on the way there").expect(&said);
        let calls: Vec<&str> = calls.lines().take(4).collect();
        assert!(calls.iter().any(|line| line.contains("(frees_it_again+0x")), "{said}");
        let [leak] = lines(&said, " objects are out ")[..] else { panic!("{said}") };
        assert!(leak.contains("planted: 7 objects") && leak.contains("(loses_some+0x"), "{said}");
    }
}

#[test]
fn with_caches_both_are_found_at_a_flush_without_a_place() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    for freed in [false, true] {
        let said = run(&dpdk, "256", freed);
        let [double] = lines(&said, ": freed_twice: ")[..] else { panic!("{said}") };
        assert!(
            double.contains("netmem_stock_give: freed_twice: object") && !double.contains(" at "),
            "{said}"
        );
        let [leak] = lines(&said, " objects are out ")[..] else { panic!("{said}") };
        assert!(leak.contains("planted: 7 objects") && leak.contains("an unknown place"), "{said}");
    }
}
