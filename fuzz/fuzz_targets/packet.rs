//! Compares packets with a model. Runs the body of `tests/sequences` on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run packet`. Inputs worth keeping go into `corpus/packet`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/packet.rs"]
mod packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packet::run(bytes));
