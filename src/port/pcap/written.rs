//! COLD: the files that a port writes: one, or several in turn, so that a capture that runs for months takes a bounded
//! part of the disk.

use super::format::{HEADER, header};
use crate::port::output_file::OutputFile;
use std::io::{self, Write};

/// The files of an output. All of them are open from the start: a worker may not be allowed to open files.
#[derive(Debug)]
pub(super) struct WrittenFiles {
    /// Never empty, each with its name for messages.
    files: Vec<(OutputFile, String)>,
    /// The file that is written.
    current: usize,
    /// Maximum number of bytes of each.
    bytes_max: u64,
}

impl WrittenFiles {
    /// Takes at least one file, each with its name. Several are written in turn, each up to `bytes_max`.
    pub(super) fn new(files: Vec<(OutputFile, String)>, bytes_max: u64) -> WrittenFiles {
        WrittenFiles { files, current: 0, bytes_max }
    }

    /// The file that is written.
    pub(super) fn current(&mut self) -> &mut OutputFile {
        &mut self.files[self.current].0
    }

    /// The name of the file that is written.
    pub(super) fn name(&self) -> &str {
        &self.files[self.current].1
    }

    /// Writes the header to each file. Each is then a capture, of which an earlier run has left nothing.
    ///
    /// # Errors
    /// The file system's error of a file, which is the current one then.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        // The first file comes last, and is the current one then.
        for i in (0..self.files.len()).rev() {
            self.current = i;
            self.current().write_all(&header())?;
        }
        Ok(())
    }

    /// Goes on to the next file, whose packets are the oldest, and discards them, if the current one has packets and no room
    /// for `bytes` more.
    ///
    /// # Errors
    /// The file system's error.
    pub(super) fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        let len = self.current().len();
        if len <= HEADER as u64 || len + bytes as u64 <= self.bytes_max {
            return Ok(());
        }
        self.current = (self.current + 1) % self.files.len();
        self.current().begin_again()?;
        self.current().write_all(&header())
    }
}
