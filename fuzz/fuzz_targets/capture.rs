//! Any bytes as a captured file, pcap or pcapng, plain or compressed: the body of `tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run capture`; what it finds worth keeping goes into `corpus/capture`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/capture.rs"]
mod capture;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| capture::run(bytes));
