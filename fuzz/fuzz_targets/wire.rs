//! Header views over any bytes: the body of `tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run wire`; what it finds worth keeping goes into `corpus/wire`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/wire.rs"]
mod wire;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::run(bytes));
