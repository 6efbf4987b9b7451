//! Views any bytes as headers. Runs the body of `tests/sequences` on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run wire`. Inputs worth keeping go into `corpus/wire`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::run(bytes));
