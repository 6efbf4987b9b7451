//! Connects a memif server to a client that sends and writes anything, and truncates its memory. Runs the body of
//! `tests/sequences` on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run memif`. Inputs worth keeping go into `corpus/memif`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/end.rs"]
mod end;
#[path = "../../tests/sequences/memif.rs"]
mod memif;
#[path = "../threads.rs"]
mod threads;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| threads::until_ended(|| memif::run(bytes)));
