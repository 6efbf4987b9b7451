//! Messages about refused calls name a remedy that the program can carry out. A newcomer to the library met each of these cases.

use super::run;
use crate::prefix::{GCC, compiled, output, prefix, said};
use crate::testbed::{Testbed, Wiring};

fn holds(what: &str) {
    assert_eq!(run("tests/c/remedies.c", &[what]), format!("{what}: as it should be\n"));
}

/// Seen: "netmem_detach there, netmem_attach here", which take no lane.
#[test]
fn a_misuse_of_a_lane_without_joining_it_is_reported_with_netmem_lane_join_and_not_netmem_detach() {
    holds("lane");
}

/// Seen: -ESTALE, "it was closed, or never opened", of a port that was open.
#[test]
fn another_workers_port_is_not_said_to_be_closed_while_it_is_open() {
    holds("port");
}

/// Seen: bytes were copied, and nothing said so.
#[test]
fn a_port_that_is_to_lend_a_memory_which_no_peer_can_map_is_refused() {
    holds("lend");
}

/// Seen: of a burst { made up, freed twice } -EBADF, with the line of the second.
#[test]
fn the_line_that_is_kept_of_a_burst_is_of_the_word_whose_errno_is_returned() {
    holds("burst");
}

/// Seen: "drop one, or configure more".
#[test]
fn opening_one_worker_too_many_is_reported_with_netmem_worker_close() {
    holds("workers");
}

/// Seen: 1000 was taken, though netmem.h says a power of two.
#[test]
fn a_ring_of_1000_places_is_refused() {
    holds("ring");
}

/// Seen: "ready_size 4097" and "ready_free 4294967295", which are no fields of netmem_heads_config.
#[test]
fn an_option_of_heads_that_is_refused_is_named_as_the_field_of_the_configuration() {
    holds("heads");
}

/// Seen: "no 8589934592 free segments of 2 GiB are left for another region: drop a memory first".
#[test]
fn a_lent_range_that_is_longer_than_the_addresses_is_refused_with_a_remedy_that_c_has() {
    holds("too much");
}

/// Seen: a range that wraps around the address space was lent, and the first write to a frame in it ended the program.
#[test]
fn a_lent_range_that_wraps_around_the_addresses_is_refused() {
    holds("around");
}

/// Seen: "netmem never gave out this word", of a handle that ctypes had passed as an int.
#[test]
fn a_handle_whose_upper_half_is_missing_is_reported_as_such() {
    holds("cut");
}

/// Seen: -EINVAL, "this port cannot wake a sleeping thread: poll it", of a port whose interface was down.
#[test]
fn a_port_that_is_down_and_has_no_descriptor_says_why_it_is_down() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let program = compiled("tests/c/remedies.c", &GCC);
    let mut remedies = bed.dut.command("timeout");
    remedies.arg("300").arg(program).arg("down").env("LD_LIBRARY_PATH", prefix().join("lib"));
    let out = output(&mut remedies);
    assert_eq!(said(&out), "down: as it should be\n");
}
