//! Reads any bytes as a capture file, pcap or pcapng, plain or compressed. Runs the body of `tests/sequences` on
//! the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run capture`. Inputs worth keeping go into `corpus/capture`, which `cargo test`
//! replays.

#![no_main]

#[path = "../../tests/sequences/capture.rs"]
mod capture;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| capture::run(bytes));
