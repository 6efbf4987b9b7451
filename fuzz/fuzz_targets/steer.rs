//! Workers that steer frames to each other in any order, and any text as a policy: the body of `tests/sequences`, over what
//! the fuzzer finds.
//!
//! `cargo +nightly fuzz run steer`; what it finds worth keeping goes into `corpus/steer`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/steer.rs"]
mod steer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| steer::run(bytes));
