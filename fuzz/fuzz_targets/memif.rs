//! A memif server and a client that says and writes anything, and cuts its memory: the body of `tests/sequences`, over what the
//! fuzzer finds.
//!
//! `cargo +nightly fuzz run memif`; what it finds worth keeping goes into `corpus/memif`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/end.rs"]
mod end;
#[path = "../../tests/sequences/memif.rs"]
mod memif;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| memif::run(bytes));
