//! Files that hold up no round. A file for output is truncated at the first write and not before, so its content survives
//! a set-up that fails.

use crate::sys::reopen::open_at_once;
use std::fs::{File, Metadata, OpenOptions, metadata, remove_file};
use std::io::{self, ErrorKind, IsTerminal, Seek, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The reason why a path was not opened.
#[derive(Debug)]
pub(super) enum NotOpened {
    /// It is a named pipe.
    Pipe,
    /// It is a terminal.
    Terminal,
    /// The system's error.
    Failed(io::Error),
}

/// Opens a file as `options` say. A pipe or a terminal is refused, since whoever is at its other end could hold up every
/// round. Opening does not wait for that either.
///
/// # Errors
/// Returns [`NotOpened`].
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> Result<File, NotOpened> {
    let is_pipe = |file: Metadata| file.file_type().is_fifo();
    // Opening would wake the process at its other end.
    if metadata(path).is_ok_and(is_pipe) {
        return Err(NotOpened::Pipe);
    }
    let file = open_at_once(path, options).map_err(NotOpened::Failed)?;
    // The path may name another file than before.
    if file.metadata().is_ok_and(is_pipe) {
        return Err(NotOpened::Pipe);
    }
    if file.is_terminal() { Err(NotOpened::Terminal) } else { Ok(file) }
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
    /// Returns [`NotOpened`].
    pub(super) fn open(path: &Path) -> Result<OutputFile, NotOpened> {
        let options = |options: &mut OpenOptions| open(path, options.write(true).truncate(false));
        let (file, made) = match options(OpenOptions::new().create_new(true)) {
            Err(NotOpened::Failed(error)) if error.kind() == ErrorKind::AlreadyExists => {
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

    /// Discards all bytes written, and begins again.
    ///
    /// # Errors
    /// The file system's error.
    #[cold]
    pub(super) fn begin_again(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.len = 0;
        Ok(())
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
