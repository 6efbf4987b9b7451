//! Sends frames through a router that answers with ICMP errors. Runs the body of `router/tests/sequences` on the
//! fuzzer's input.
//!
//! Run `cargo +nightly fuzz run icmp`. Inputs worth keeping go into `corpus/icmp`, which `cargo test` replays.

#![no_main]

#[path = "../../router/tests/sequences/icmp.rs"]
mod icmp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| icmp::run(bytes));
