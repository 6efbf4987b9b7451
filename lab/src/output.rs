//! The JSON file of a run.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::LabError;

/// The JSON file, opened before any measurement and filled after.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Opens or creates the file. Its contents stay until [`write`](Self::write).
    ///
    /// # Errors
    /// [`LabError::Output`] if it cannot be opened for writing.
    pub fn open(path: &Path) -> Result<Self, LabError> {
        match OpenOptions::new().write(true).create(true).truncate(false).open(path) {
            Ok(file) => Ok(Self { path: path.to_owned(), file }),
            Err(source) => Err(LabError::Output { path: path.to_owned(), source }),
        }
    }

    /// Replaces the contents of the file with `content`.
    ///
    /// # Errors
    /// [`LabError::Output`] if it cannot be written.
    pub fn write<T: Serialize>(self, content: &T) -> Result<(), LabError> {
        let Self { path, mut file } = self;
        fill(&mut file, content).map_err(|source| LabError::Output { path, source })
    }
}

/// Replaces the contents of the file. A pipe or a terminal is only written to.
fn fill<T: Serialize>(file: &mut File, content: &T) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    let mut text = serde_json::to_vec_pretty(content)?;
    text.push(b'\n');
    file.write_all(&text)
}
