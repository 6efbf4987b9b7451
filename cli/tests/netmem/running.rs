//! Waits for what a process does.

// Each test program uses its part of this.
#![allow(dead_code)]

use std::io::Read;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen. It guards against hangs, nothing else.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `what` has happened, which the process does while it runs.
///
/// # Panics
/// If it ends before, with its output as far as nobody else reads that.
#[track_caller]
pub fn wait_while_it_runs(child: &mut Child, what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        if let Some(status) = child.try_wait().expect("wait") {
            panic!("waited in vain until {what}: {}", last_words(child, status));
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// How the process ended, and its output.
fn last_words(child: &mut Child, status: ExitStatus) -> String {
    let mut said = String::new();
    // Output that is not UTF-8 is left out.
    child.stdout.take().map(|mut stdout| stdout.read_to_string(&mut said).ok());
    child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said).ok());
    format!("it ended, {status}: {said}")
}
