//! Results that a program must not drop, by each compiler.

use crate::prefix::{command, folder, output, prefix, said};
use std::collections::BTreeSet;
use std::fs;

const SOURCE: &str = "tests/c/dropped.c";

/// The numbers of the lines with a call in a function of the source.
fn lines(function: &str) -> BTreeSet<usize> {
    let source = fs::read_to_string(folder().join(SOURCE)).expect("the source");
    let head = format!("void {function}(void)");
    let numbered = source.lines().enumerate().skip_while(|(_, line)| *line != head);
    let within = numbered.take_while(|(_, line)| *line != "}");
    within.filter(|(_, line)| line.starts_with("    netmem_")).map(|(at, _)| at + 1).collect()
}

/// The numbers of the lines of which a compiler warns.
fn warned(compiler: &str, flags: &[&str]) -> BTreeSet<usize> {
    let mut cc = command(compiler);
    if compiler.starts_with('g') {
        // Otherwise the place of a warning is the macro in the header.
        cc.arg("-ftrack-macro-expansion=0");
    }
    cc.args(flags).args(["-c", "-o", "/dev/null", "-Wall", "-Wextra", "-Wpedantic", "-I"]);
    let out = output(cc.arg(prefix().join("include")).arg(folder().join(SOURCE)));
    let said = said(&out);
    assert!(out.status.success(), "{compiler}: {said}");
    let warnings = said.lines().filter(|line| line.contains(" warning: "));
    let others: Vec<&str> = warnings.filter(|line| !line.contains("ignoring return value")).collect();
    assert!(others.is_empty(), "{compiler}: {others:?}");
    let places = said.lines().filter(|line| line.contains(" warning: "));
    places
        .map(|line| {
            let (_, behind) = line.split_once("dropped.c:").expect("a place in the source");
            behind.split(':').next().and_then(|at| at.parse().ok()).expect("a line")
        })
        .collect()
}

#[test]
fn each_compiler_warns_of_every_dropped_result_that_a_program_needs_and_of_no_other() {
    let (needed, not_needed) = (lines("needed"), lines("not_needed"));
    let header = fs::read_to_string(prefix().join("include/netmem.h")).expect("the header");
    let marked = header.lines().filter(|line| line.starts_with("NETMEM_NODISCARD")).count();
    assert_eq!(marked, needed.len(), "each of them has a line in the source");
    assert!(not_needed.len() > 30);
    for (compiler, flags) in [
        ("gcc", &["-std=c11"][..]),
        ("gcc", &["-std=c2x"]),
        ("clang", &["-std=c11"]),
        ("clang", &["-std=c2x"]),
        ("g++", &["-std=c++17", "-x", "c++"]),
        ("clang++", &["-std=c++17", "-x", "c++"]),
        ("g++", &["-std=c++11", "-x", "c++"]),
    ] {
        assert_eq!(warned(compiler, flags), needed, "{compiler} {flags:?}");
        let off = [flags, &["-DNETMEM_NODISCARD="]].concat();
        assert_eq!(warned(compiler, &off), BTreeSet::new(), "{compiler} {off:?}");
    }
}
