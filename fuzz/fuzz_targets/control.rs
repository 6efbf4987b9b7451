//! Any bytes as lines of the control socket: the body of `cli/tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run control`; what it finds worth keeping goes into `corpus/control`, which `cargo test` replays.

#![no_main]

#[path = "../../cli/tests/sequences/control.rs"]
mod control;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| control::run(bytes));
