//! Programs of safe code over everything public: the body of `tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run program`; what it finds worth keeping goes into `corpus/program`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/program/mod.rs"]
mod program;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| program::run(bytes));
