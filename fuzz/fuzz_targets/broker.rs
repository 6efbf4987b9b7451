//! Any bytes as a request of the broker: the body of `tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run broker`; what it finds worth keeping goes into `corpus/broker`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/broker.rs"]
mod broker;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| broker::run(bytes));
