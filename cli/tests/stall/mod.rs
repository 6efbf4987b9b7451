//! A run whose worker stands still in a write of its trace, as on a disk that does not answer. No file that a user can
//! make does that at a test's will, so a small library in C takes the place of write(2).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What holds the writes of a run's trace.
pub struct Stall {
    library: PathBuf,
    path: PathBuf,
    file: File,
}

impl Stall {
    /// Makes one in this folder, which holds writes from the start if it `is_held`.
    pub fn new(folder: &Path, is_held: bool) -> Stall {
        let (library, path) = (folder.join("write.so"), folder.join("stall"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stall/write.c");
        let made = Command::new("cc").args(["-shared", "-fPIC", "-O1", source, "-o"]).arg(&library).status();
        assert!(made.expect("a C compiler").success());
        let file = File::create(&path).expect("a file");
        let stall = Stall { library, path, file };
        stall.hold(is_held);
        stall
    }

    /// Has the writes of this run held.
    pub fn within<'a>(&self, run: &'a mut Command) -> &'a mut Command {
        run.env("LD_PRELOAD", &self.library).env("NETMEM_STALL", &self.path)
    }

    /// Holds the writes from here on, or lets them go on.
    pub fn hold(&self, is_held: bool) {
        self.file.write_all_at(&[is_held.into()], 0).expect("a file");
    }

    /// Returns the watchdog's line about a worker that stands still in its trace of a file. `said` has the lines of the run. A
    /// worker that was not given a core may be named elsewhere, and then it goes on first.
    // Each test file uses its part of this.
    #[allow(dead_code)]
    pub fn line(&self, said: &mut impl Iterator<Item = String>) -> String {
        loop {
            let line = said.next().expect("a line about the worker");
            if line.contains("it is in kick of port trace/pcap:") {
                return line;
            }
            if line.contains("has not finished a round") {
                self.hold(false);
                assert!(said.any(|line| line.contains("goes on, after")), "the run ended by itself");
                self.hold(true);
            }
        }
    }
}
