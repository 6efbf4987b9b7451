//! Frames through a router that answers: the body of `router/tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run icmp`; what it finds worth keeping goes into `corpus/icmp`, which `cargo test` replays.

#![no_main]

#[path = "../../router/tests/sequences/icmp.rs"]
mod icmp;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| icmp::run(bytes));
