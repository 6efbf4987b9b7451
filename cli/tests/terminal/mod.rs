//! A terminal that is not read until a test reads it.

// Each test file uses its part of this.
#![allow(dead_code)]

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// Returns a terminal that is not read, and the path of its other end.
pub fn terminal() -> (File, String) {
    let reader = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&reader).expect("grantpt(3)");
    unlockpt(&reader).expect("unlockpt(3)");
    let name = ptsname(&reader, Vec::new()).expect("ptsname(3)");
    (reader.into(), name.into_string().expect("a path"))
}

/// Returns the watchdog's line about a worker that waits for this terminal in its trace of a file. `said` has the lines of
/// the run. A worker that was not given a core may be named elsewhere, and then the terminal is read until it goes on.
pub fn stalled_in_trace(said: &mut impl Iterator<Item = String>, terminal: &File) -> String {
    loop {
        let line = said.next().expect("a line about the worker");
        if line.contains("it is in kick of port trace/pcap:") {
            return line;
        }
        if line.contains("has not finished a round") {
            let goes_on = AtomicBool::new(false);
            thread::scope(|scope| {
                let read = || {
                    let mut terminal = terminal;
                    // More comes until the worker stands still again.
                    // Each read waits for output.
                    while !goes_on.load(Relaxed) {
                        if !terminal.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {
                            break;
                        }
                    }
                };
                scope.spawn(read);
                let line = said.find(|line| line.contains("goes on, after"));
                goes_on.store(true, Relaxed);
                assert!(line.is_some(), "the run ended by itself");
            });
        }
    }
}
