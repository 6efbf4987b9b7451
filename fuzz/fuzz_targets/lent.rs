//! Connects a memif client to a server that sends and writes anything. Runs the body of `tests/sequences` on the
//! fuzzer's input.
//!
//! Run `cargo +nightly fuzz run lent`. Inputs worth keeping go into `corpus/lent`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/end.rs"]
mod end;
#[path = "../../tests/sequences/lent.rs"]
mod lent;
#[path = "../threads.rs"]
mod threads;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| threads::until_ended(|| lent::run(bytes)));
