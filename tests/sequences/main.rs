//! Sequences of operations, each a body over bytes: here over a corpus and over random bytes, in `fuzz/` over what a
//! fuzzer finds.
//!
//! `NETMEM_STEPS` says how many random bytes are run in all (an operation takes four).

mod packet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::path::Path;

const BYTES_EACH: usize = 1_600;

#[test]
fn the_corpus_of_packet_sequences_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/packet");
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 8, "{} holds {} sequences", folder.display(), files.len());
    for file in files {
        println!("{}", file.display());
        packet::run(&fs::read(&file).unwrap());
    }
}

#[test]
fn random_packet_sequences_hold() {
    let bytes = std::env::var("NETMEM_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(100_000);
    let cases = (bytes / BYTES_EACH).max(1) as u32;
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(cases) });
    let sequences = prop::collection::vec(any::<u8>(), 0..2 * BYTES_EACH);
    runner
        .run(&sequences, |bytes| {
            packet::run(&bytes);
            Ok(())
        })
        .unwrap();
}
