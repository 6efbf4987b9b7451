//! Sends packets with invalid offload requests. Runs the body of `router/tests/sequences` on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run offload`. Inputs worth keeping go into `corpus/offload`, which `cargo test`
//! replays.

#![no_main]

#[path = "../../router/tests/sequences/offload.rs"]
mod offload;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| offload::run(bytes));
