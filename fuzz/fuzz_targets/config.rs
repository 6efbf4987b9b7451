//! Any text as a configuration: the body of `cli/tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run config`; what it finds worth keeping goes into `corpus/config`, which `cargo test` replays.

#![no_main]

#[path = "../../cli/tests/sequences/config.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| config::run(bytes));
