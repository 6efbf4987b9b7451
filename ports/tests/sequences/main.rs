//! Parses any text as a port: here over a corpus and over random bytes, in `fuzz/` over a fuzzer's inputs.
//!
//! `NETMEM_STEPS` sets the total number of random bytes.

#![allow(clippy::unwrap_used)]

#[path = "../../../tests/sequences/corpus.rs"]
#[allow(dead_code)]
mod corpus;
mod spec;

use corpus::{folder, random_of, replay};
use std::fs;

#[test]
fn the_corpus_of_ports_holds() {
    replay("spec", 20, spec::run);
}

#[test]
fn ports_of_the_corpus_are_read_and_others_are_not() {
    let is_read = |name: &str| spec::read(&fs::read(folder("spec").join(name)).unwrap()).is_ok();
    for name in ["xdp-take", "memif", "pcap", "wrapped-twice", "a-slash-in-a-file"] {
        assert!(is_read(name), "{name}");
    }
    assert!(["no-kind", "unknown-key", "nothing", "no-port-within"].iter().all(|name| !is_read(name)));
}

#[test]
fn random_ports_are_read_as_they_are_written_or_refused_in_a_line() {
    random_of(20, 400_000, spec::run);
}
