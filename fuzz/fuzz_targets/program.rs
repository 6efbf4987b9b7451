//! Runs programs of safe code over the whole public interface. Runs the body of `tests/sequences` on the fuzzer's
//! input.
//!
//! Run `cargo +nightly fuzz run program`. Inputs worth keeping go into `corpus/program`, which `cargo test`
//! replays.

#![no_main]

#[path = "../../tests/sequences/program/mod.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| program::run(bytes));
