//! Where reports of misuse go, and that none of them waits.

use super::run;
use crate::prefix::{Compiler, command, compiled, good, scratch};
use std::fs;

fn holds(what: &str) {
    assert_eq!(run("tests/c/reports.c", &[what]), format!("{what}: as it should be\n"));
}

/// Seen: 4 of 100 children hung. A thread of the parent had held the lock of Rust's standard error at the fork.
#[test]
fn a_refused_call_in_a_child_that_was_forked_during_a_report_returns() {
    holds("child");
}

/// The allocator of the address sanitizer keeps its lock over fork(2), as other allocators may. Seen: a child waited for it.
#[test]
fn a_refused_call_in_a_child_takes_no_memory() {
    const ASAN: Compiler =
        Compiler { program: "gcc", flags: &["-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined"] };
    let said = good(command(compiled("tests/c/reports.c", &ASAN)).arg("child"));
    assert_eq!(said, "child: as it should be\n");
}

/// Seen: the state of each worker was reported as a leak, because the page that names it is cleared in a child.
#[test]
fn the_leak_sanitizer_finds_nothing_in_a_child_that_ends_by_exit() {
    const LSAN: Compiler =
        Compiler { program: "gcc", flags: &["-std=gnu11", "-O1", "-g", "-fsanitize=address"] };
    let said = good(command(compiled("tests/c/child_exit.c", &LSAN)).env("ASAN_OPTIONS", "detect_leaks=1"));
    assert!(said.starts_with("all as it should be\n") && !said.contains("LeakSanitizer"), "{said}");
}

/// Seen: the line blamed a signal handler, and there was none.
#[test]
fn a_call_after_a_jump_out_of_another_call_is_refused_with_a_line_that_names_the_jump() {
    let said = run("tests/c/left.c", &[]);
    assert!(said.contains("netmem_alloc: reentered: ") && said.contains("a jump left one"), "{said}");
}

/// Seen: the thread stopped at its 656th misuse and never went on.
#[test]
fn misuse_does_not_wait_while_standard_error_is_a_pipe_that_no_process_reads() {
    holds("full");
}

/// Seen: 93 bytes of a report lay in a file that the program had opened as descriptor 2.
#[test]
fn a_function_of_the_program_is_passed_the_reports_and_descriptor_2_none() {
    let file = scratch().join("reports-zone.db");
    let said = run("tests/c/reports.c", &["function", file.to_str().unwrap()]);
    assert_eq!(said, "function: as it should be\n");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("netmem: ") && text.lines().count() == 1, "{text}");
}

/// Seen: each of any number of misuses wrote a line.
#[test]
fn of_many_misuses_some_are_reported_and_the_others_are_counted_in_these_reports() {
    holds("many");
}

/// Seen: the program crashed in netmem_pool_holders, which read the call site in the plug-in.
#[test]
fn the_call_sites_of_a_plug_in_are_known_after_it_was_unloaded() {
    const PLUGIN: Compiler = Compiler { program: "gcc", flags: &["-std=gnu11", "-O2", "-fPIC", "-shared"] };
    let plugin = compiled("tests/c/plugin.c", &PLUGIN);
    assert_eq!(run("tests/c/unloaded.c", &[plugin.to_str().unwrap()]), "all as it should be\n");
}
