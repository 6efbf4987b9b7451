//! Reads any bytes as a request to the broker. Runs the body of `tests/sequences` on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run broker`. Inputs worth keeping go into `corpus/broker`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/broker.rs"]
mod broker;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| broker::run(bytes));
