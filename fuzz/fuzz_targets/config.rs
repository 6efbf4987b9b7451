//! Reads any text as a configuration. Runs the body of `cli/tests/sequences` on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run config`. Inputs worth keeping go into `corpus/config`, which `cargo test` replays.

#![no_main]

#[path = "../../cli/tests/sequences/config.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| config::run(bytes));
