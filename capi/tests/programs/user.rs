//! What a program meets that uses the library for the first time. A user from outside saw each of these cases.

use super::run;
use crate::prefix::{GCC, compiled, good, prefix};
use crate::testbed::{Testbed, Wiring};

fn holds(what: &str) {
    assert_eq!(run("tests/c/user.c", &[what]), format!("{what}: as it should be\n"));
}

/// Seen: `printf("%d %s", netmem_worker_open(...), netmem_last_error())` read freed memory.
#[test]
fn the_text_of_an_error_that_was_read_before_the_next_one_is_not_freed() {
    holds("kept text");
}

/// Seen: `memcpy(netmem_put(worker, frame, 1600), ...)` wrote to NULL for some frames of a default pool.
#[test]
fn every_frame_has_the_room_that_its_pool_says() {
    holds("room");
}

/// Seen: ENOBUFS, "the pool has no more free frames", of a pool with 0 of 4096 frames.
#[test]
fn a_pool_that_could_have_more_frames_says_that_the_memory_is_used_up() {
    holds("used up");
}

/// Seen: only netmem_cache_close gave pages back.
#[test]
fn a_cache_gives_its_free_pages_back_when_it_is_asked_to() {
    holds("shrunk");
}

/// Seen: two memories over the same bytes gave out each frame twice.
#[test]
fn the_same_bytes_are_lent_once() {
    holds("lent twice");
}

/// Seen: netmem_worker_close returned -EBUSY on every further call, and netmem_worker_reclaim freed nothing.
#[test]
fn a_raw_frame_that_is_converted_twice_is_refused_and_its_worker_can_be_closed() {
    holds("converted twice");
}

/// Seen: each call of netmem_port_tx with such a frame returned 0. No call named the reason.
#[test]
fn frames_that_a_port_can_never_carry_are_found() {
    holds("unsendable");
}

#[test]
fn packets_that_a_port_carries_stay_as_they_are_and_are_read_at_any_offset() {
    holds("packets");
}

/// Seen: "the worker belongs to another thread: call netmem_worker_leave there".
#[test]
fn a_worker_that_was_left_is_said_to_belong_to_no_thread() {
    holds("left");
}

/// Seen: "inbox 63 is out of range", "a slab of order 10 holds fewer than 1", "1 workers"; small_pages = 9 was accepted.
#[test]
fn options_that_cannot_be_are_refused_in_the_words_of_the_header() {
    holds("words");
}

/// Seen: -EIO for all of them.
#[test]
fn a_port_that_cannot_be_opened_says_why_by_its_errno() {
    holds("why not");
}

/// Seen: after netmem_memory_open had failed, every child of the process was refused.
#[test]
fn a_call_that_fails_does_not_begin_the_library() {
    holds("child");
}

/// Seen: of a program that kicks its port every 100 ms, the port was up for minutes after its link was down; and its
/// address was the one that its interface had when the port was opened.
#[test]
fn the_state_and_the_address_of_a_port_are_those_of_its_link_now() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let mut program = bed.dut.command(compiled("tests/c/user.c", &GCC).to_str().unwrap());
    program.arg("state").env("LD_LIBRARY_PATH", prefix().join("lib"));
    assert_eq!(good(&mut program), "state: as it should be\n");
}
