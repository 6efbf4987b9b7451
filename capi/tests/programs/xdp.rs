//! What a program in C chooses and reads of its xdp ports, and what ports of one interface have in common.

use crate::prefix::{GCC, compiled, good, prefix};
use crate::testbed::{Namespace, Testbed, Wiring};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// `tests/c/xdp.c`, in a namespace whose interface "one" has two queues.
fn program(dut: &Namespace, case: &str) -> Command {
    let mut program = dut.command(compiled("tests/c/xdp.c", &GCC).to_str().expect("a path in UTF-8"));
    program.arg(case).env("LD_LIBRARY_PATH", prefix().join("lib"));
    program
}

fn holds(case: &str) {
    let Some(bed) = Testbed::lay_with_queues(Wiring::Bridged, 2, &[]) else { return };
    bed.dut.ip("link set dev lo up");
    assert_eq!(good(&mut program(&bed.dut, case)), format!("{case}: as it should be\n"));
}

/// Seen: neither could be chosen or read from C, nor in the string of a port.
#[test]
fn the_mode_of_the_program_and_zero_copy_are_chosen_in_the_string_and_read() {
    holds("keys");
}

/// Seen: the remedy was "over one Umem", which C does not have.
#[test]
fn a_second_memory_on_an_interface_is_refused_in_the_words_of_c() {
    holds("memories");
}

/// Seen: -EIO, with "(punt, take)".
#[test]
fn ports_of_one_interface_that_take_different_packets_are_refused_as_a_fault_of_the_string() {
    holds("rules");
}

/// Seen: -EBUSY of the second process, though no packet could reach either.
#[test]
fn two_processes_that_take_nothing_transmit_beside_each_other_by_one_interface() {
    let Some(bed) = Testbed::lay_with_queues(Wiring::Bridged, 2, &[]) else { return };
    let mut first = program(&bed.dut, "transmit");
    let mut first = first.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
    let mut said = BufReader::new(first.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "open");
    assert_eq!(bed.program("one"), None);
    good(program(&bed.dut, "keys").stdin(Stdio::null()));
    drop(first.stdin.take());
    assert_eq!(said.next().unwrap().unwrap(), "transmit: as it should be");
    assert!(first.wait().unwrap().success());
}
