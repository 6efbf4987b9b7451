//! Waits for threads that an input has started.

use std::{fs, io, thread};

/// Runs `input`, and waits until every thread that it has started has ended. A port closes a peer's descriptors of an
/// unknown kind on a thread of their own, and until that has ended, the leak check may report what it has not freed
/// yet.
pub fn until_ended(input: impl FnOnce()) {
    let before = threads().expect("the folder of the process's threads");
    input();
    // Without a descriptor to read the folder with, a thread may still hold some.
    while threads().map_or(true, |now| now > before) {
        thread::yield_now();
    }
}

/// Returns the number of threads of the process.
fn threads() -> io::Result<usize> {
    fs::read_dir("/proc/self/task").map(Iterator::count)
}
