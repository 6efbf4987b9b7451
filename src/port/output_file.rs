//! A file that is truncated at the first write and not before, so its content survives a set-up that fails.

use std::fs::{File, OpenOptions, metadata, remove_file};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Returns whether `path` is a named pipe. Opening one would wait until another process opens the other end.
pub(super) fn is_pipe(path: &Path) -> bool {
    metadata(path).is_ok_and(|file| file.file_type().is_fifo())
}

/// A file that is truncated when it is first written to or flushed. If it is dropped before that, it is unchanged; a
/// file that did not exist is removed.
#[derive(Debug)]
pub(super) struct OutputFile {
    file: File,
    is_truncated: bool,
    /// The path, if the file was made here; None if it already existed.
    made: Option<PathBuf>,
    /// Bytes written.
    len: u64,
}

impl OutputFile {
    /// Opens the file for writing, and makes it if it does not exist.
    ///
    /// # Errors
    /// Returns the system's error.
    pub(super) fn open(path: &Path) -> io::Result<OutputFile> {
        let options = |options: &mut OpenOptions| options.write(true).truncate(false).open(path);
        let (file, made) = match options(OpenOptions::new().create_new(true)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (options(OpenOptions::new().create(true))?, None)
            }
            made => (made?, Some(path.to_owned())),
        };
        Ok(OutputFile { file, is_truncated: false, made, len: 0 })
    }

    /// Bytes written.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Truncates the file behind the first `len` bytes written, so that no record stays that a full disk has cut in the
    /// middle. A device has nothing to truncate. Nothing may be written afterwards.
    #[cold]
    pub(super) fn cut(&mut self, len: u64) {
        if self.is_truncated && self.file.metadata().is_ok_and(|file| file.is_file()) {
            // A file that cannot be truncated stays as it is: its reader finds the end.
            let _ = self.file.set_len(len);
        }
        self.len = len;
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn truncate(&mut self) -> io::Result<()> {
        // A pipe or a device has no content to truncate.
        if !self.is_truncated && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.is_truncated = true;
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(path) = self.made.take().filter(|_| !self.is_truncated) {
            // The file may be gone already.
            let _ = remove_file(path);
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.truncate()?;
        let n = self.file.write(bytes)?;
        self.len += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.truncate()?;
        self.file.flush()
    }
}
