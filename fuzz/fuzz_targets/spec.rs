//! Reads any text as a port. Runs the body of `ports/tests/sequences` on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run spec`. Inputs worth keeping go into `corpus/spec`, which `cargo test` replays.

#![no_main]

#[path = "../../ports/tests/sequences/spec.rs"]
mod spec;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| spec::run(bytes));
