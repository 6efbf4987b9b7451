//! Packets against a model: the body of `tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run packet`; what it finds worth keeping goes into `corpus/packet`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/packet.rs"]
mod packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packet::run(bytes));
