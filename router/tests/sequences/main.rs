//! Sequences of operations, decoded from bytes: here from a corpus and from random bytes, in `fuzz/` from a fuzzer.
//!
//! `NETMEM_STEPS` sets the total number of random bytes.

#![allow(clippy::unwrap_used)]

mod icmp;
mod offload;

#[path = "../../../tests/sequences/corpus.rs"]
mod corpus;

use corpus::{folder, random, replay};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::fs;

#[test]
fn the_corpus_of_frames_for_a_router_with_icmp_errors_passes() {
    replay("icmp", 12, icmp::run);
}

#[test]
fn frames_of_the_icmp_corpus_are_answered() {
    let folder = folder("icmp");
    let said = |name: &str| icmp::said(&fs::read(folder.join(name)).unwrap());
    assert_eq!(["ttl-1", "full-path", "too-long", "an-error"].map(said), [2, 2, 2, 0]);
    // Seen: the error was longer than its link's MTU.
    assert_eq!(said("link-local-over-a-small-link"), 1);
}

/// Seen: hardly any random frame was an IP packet, and none reached the code under test.
#[test]
fn many_random_frames_that_are_repaired_to_packets_are_answered() {
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
fn random_frames_for_a_router_with_icmp_errors_pass() {
    random(100_000, icmp::run);
}

#[test]
fn the_corpus_of_packets_with_false_offload_requests_passes() {
    replay("offload", 24, offload::run);
}

#[test]
fn packets_of_the_offload_corpus_have_the_outcome_of_their_names() {
    let folder = folder("offload");
    let outcome = |name: &str| offload::outcome(&fs::read(folder.join(name)).unwrap());
    let left = |left| offload::Outcome { left, ..Default::default() };
    let gso_seg = |gso_seg| offload::Outcome { gso_seg, ..Default::default() };
    for segments in ["tcp-of-ten-segments", "tcp-v6-of-ten-segments", "udp-of-ten-segments", "full-path"] {
        assert_eq!(outcome(segments), left(10), "{segments}");
    }
    assert_eq!(outcome("nothing-left"), left(1));
    assert_eq!(outcome("checksum-alone"), left(1));
    assert_eq!(outcome("goes-on-whole"), left(1));
    for outside in ["checksum-begins-outside", "checksum-stands-outside", "checksum-by-one-byte-outside"] {
        assert_eq!(outcome(outside), gso_seg(1), "{outside}");
    }
    for other in ["tcp-cut-as-udp", "udp-cut-as-tcp", "v6-cut-as-v4", "tcp-header-beyond-the-end"] {
        assert_eq!(outcome(other), gso_seg(1), "{other}");
    }
    for none in ["unknown-kind", "segments-of-no-bytes"] {
        assert_eq!(outcome(none), offload::Outcome { refused: 1, ..Default::default() }, "{none}");
    }
    // More segments than a sender intends.
    assert_eq!(outcome("segments-of-one-byte"), gso_seg(1));
    // A packet for which a port has no room is dropped, and not segmented first.
    let many = outcome("more-segments-than-room");
    assert!(many.left > 0 && many.dropped > 0 && many.gso_seg == 0, "{many:?}");
}

#[test]
fn random_packets_with_false_offload_requests_pass() {
    random(100_000, offload::run);
}

/// Seen: hardly any random bytes were a valid offload request.
#[test]
fn many_random_packets_with_offload_requests_are_segmented_or_dropped() {
    let mut runner = TestRunner::deterministic();
    let packets = prop::collection::vec(any::<u8>(), 200 * 8);
    let (mut left, mut bad) = (0, 0);
    for how in (0..=0x2f).map(|how| how | 1) {
        let packet = packets.new_tree(&mut runner).unwrap().current();
        let header =
            [1, [1, 4, 5][usize::from(packet[0]) % 3], 0, 0, packet[1], 0, 34 + 20 * (how >> 1 & 1), 0, 6, 0];
        let outcome = offload::outcome(&[&header[..], &[how, 200], &packet].concat());
        (left, bad) = (left + outcome.left, bad + outcome.gso_seg);
    }
    assert!(left > 100 && bad > 5, "{left} left, {bad} could not be cut");
}
