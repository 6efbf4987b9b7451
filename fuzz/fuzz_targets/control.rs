//! Reads any bytes as lines of the control socket. Runs the body of `cli/tests/sequences` on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run control`. Inputs worth keeping go into `corpus/control`, which `cargo test`
//! replays.

#![no_main]

#[path = "../../cli/tests/sequences/control.rs"]
mod control;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| control::run(bytes));
