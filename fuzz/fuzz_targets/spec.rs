//! Any text as a port: the body of `ports/tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run spec`; what it finds worth keeping goes into `corpus/spec`, which `cargo test` replays.

#![no_main]

#[path = "../../ports/tests/sequences/spec.rs"]
mod spec;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| spec::run(bytes));
