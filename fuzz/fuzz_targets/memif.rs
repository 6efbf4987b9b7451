//! Connects a memif server to a client that sends and writes anything, and truncates its memory. Runs the body of
//! `tests/sequences` on the fuzzer's input.
//!
//! Run `cargo +nightly fuzz run memif`. Inputs worth keeping go into `corpus/memif`, which `cargo test` replays.

#![no_main]

#[path = "../../tests/sequences/end.rs"]
mod end;
#[path = "../../tests/sequences/memif.rs"]
mod memif;

use std::{fs, thread};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let before = threads();
    memif::run(bytes);
    // A port closes a peer's descriptors of an unknown kind on a thread of their own. Until the thread has ended, the
    // leak check may report what the thread has not freed yet.
    while threads() > before {
        thread::yield_now();
    }
});

/// Returns the number of threads of the process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
