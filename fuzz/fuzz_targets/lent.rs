//! A memif client and a server that says and writes anything: the body of `tests/sequences`, over what the fuzzer finds.
//!
//! `cargo +nightly fuzz run lent`; what it finds worth keeping goes into `corpus/lent`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/end.rs"]
mod end;
#[path = "../../tests/sequences/lent.rs"]
mod lent;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| lent::run(bytes));
