//! A file that is truncated when it is first written to, and not before: what it held outlives a set-up that fails.

use std::fs::{File, OpenOptions, metadata, remove_file};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Whether there is a named pipe, which is not even opened before somebody opens the other end.
pub(super) fn is_pipe(path: &Path) -> bool {
    metadata(path).is_ok_and(|file| file.file_type().is_fifo())
}

/// A file that is truncated when it is first written to or flushed. Dropped before that, it is as it was: not there,
/// if it was not.
#[derive(Debug)]
pub(super) struct OutputFile {
    file: File,
    is_truncated: bool,
    /// Where it was made; None where it was there already.
    made: Option<PathBuf>,
    /// Bytes written.
    len: u64,
}

impl OutputFile {
    /// Opens the file for writing, and makes it where there is none.
    ///
    /// # Errors
    /// What the system says.
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

    /// Cuts off what was written behind the first `len` bytes, so that nothing of what a full disk has cut in the middle is left.
    /// A device has nothing that could be cut off. Nothing is to be written any more.
    #[cold]
    pub(super) fn cut(&mut self, len: u64) {
        if self.is_truncated && self.file.metadata().is_ok_and(|file| file.is_file()) {
            // What the file system does not cut stays as it is: who reads it finds its end.
            let _ = self.file.set_len(len);
        }
        self.len = len;
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn truncate(&mut self) -> io::Result<()> {
        // A pipe or a device holds nothing that could be cut off.
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
            // One that is gone already is gone.
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
