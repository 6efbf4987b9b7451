//! Steers frames between workers in any order, and reads any text as a policy. Runs the body of `tests/sequences`
//! on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run steer`. Inputs worth keeping go into `corpus/steer`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/steer.rs"]
mod steer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| steer::run(bytes));
