//! Packets that lie about what is left to be done to them: the body of `router/tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run offload`; what it finds worth keeping goes into `corpus/offload`, which `cargo test` replays.

#![no_main]

#[path = "../../router/tests/sequences/offload.rs"]
mod offload;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| offload::run(bytes));
