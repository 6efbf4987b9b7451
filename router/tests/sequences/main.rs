//! Sequences of operations, each a body over bytes: here over a corpus and over random bytes, in `fuzz/` over what a
//! fuzzer finds.
//!
//! `NETMEM_STEPS` says how many random bytes are run in all.

#![allow(clippy::unwrap_used)]

mod icmp;

#[path = "../../../tests/sequences/corpus.rs"]
mod corpus;

use corpus::{folder, random, replay};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::fs;

#[test]
fn the_corpus_of_frames_for_a_router_that_answers_holds() {
    replay("icmp", 12, icmp::run);
}

#[test]
fn frames_of_the_icmp_corpus_are_answered() {
    let folder = folder("icmp");
    let said = |name: &str| icmp::said(&fs::read(folder.join(name)).unwrap());
    assert_eq!(["ttl-1", "full-path", "too-long", "an-error"].map(said), [2, 2, 2, 0]);
    // Seen: it was longer than its link carries.
    assert_eq!(said("link-local-over-a-small-link"), 1);
}

/// Seen: hardly any random frame was an IP packet, and none got as far as what is tested here.
#[test]
fn many_random_frames_that_are_made_packets_are_answered() {
    let mut runner = TestRunner::deterministic();
    let frames = prop::collection::vec(any::<u8>(), 60 * 8);
    let mut answered = 0;
    for how in [0x0a, 0x1a, 0x0f, 0x1f].repeat(8) {
        let random = frames.new_tree(&mut runner).unwrap().current();
        answered += icmp::said(&[&[how, 60], &random[..]].concat());
    }
    assert!((8..=32).contains(&answered), "{answered} of 32");
}

#[test]
fn random_frames_for_a_router_that_answers_hold() {
    random(100_000, icmp::run);
}
