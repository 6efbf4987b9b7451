//! Reads reports from files, and writes the page to a file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use crate::error::LabError;
use crate::input;
use crate::json::Report;

/// Reads the reports of `from`, in order: files written by `netmem lab run --json`, and directories, of which each
/// file that ends in `.json` is read, by name. An `out` that cannot be written is an error before that.
///
/// # Errors
/// [`LabError::Input`] for a file that is not a report, [`LabError::NoReports`] if there is none,
/// [`LabError::Output`] if `out` cannot be written, and [`LabError::OutputIsInput`] if it is one of the files.
pub fn read(from: &[PathBuf], out: Option<&Path>) -> Result<Vec<Report>, LabError> {
    if let Some(out) = out {
        may_write(out).map_err(|source| LabError::Output { path: out.to_owned(), source })?;
    }
    let mut reports = Vec::new();
    for path in from {
        for file in files(path)? {
            if let Some(out) = out.filter(|out| is_same(&file, out)) {
                return Err(LabError::OutputIsInput { path: out.to_owned() });
            }
            reports.extend(input::read(&file)?);
        }
    }
    if reports.is_empty() { Err(LabError::NoReports { from: from.to_vec() }) } else { Ok(reports) }
}

/// Returns the file itself, or the JSON files of a directory.
fn files(path: &Path) -> Result<Vec<PathBuf>, LabError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let refused = |error: io::Error| LabError::Input { path: path.to_owned(), cause: error.to_string() };
    let entries = fs::read_dir(path).map_err(refused)?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = paths.map_err(refused)?;
    files.retain(|path| path.extension().is_some_and(|end| end == "json"));
    files.sort();
    Ok(files)
}

fn is_same(file: &Path, out: &Path) -> bool {
    file.canonicalize().is_ok_and(|file| out.canonicalize().is_ok_and(|out| out == file))
}

/// Checks that an existing `out` can be written. One that does not exist is checked when it is written.
fn may_write(out: &Path) -> io::Result<()> {
    match fs::metadata(out) {
        Ok(existing) if existing.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(_) => OpenOptions::new().append(true).open(out).map(drop),
        Err(_) => Ok(()),
    }
}

/// Writes `text` to `path`, whole or not at all: into a file beside it, which then takes its name, and has the mode and owner
/// of an earlier one. A pipe or device is written to directly.
///
/// # Errors
/// [`LabError::Output`] if it cannot be written. An earlier page stays.
pub fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let written = match fs::metadata(path) {
        Ok(existing) if !existing.is_file() => fs::write(path, text),
        Ok(_) => path.canonicalize().and_then(|path| replace(&path, text)),
        Err(_) => replace(path, text),
    };
    written.map_err(|source| LabError::Output { path: path.to_owned(), source })
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(beside);
    let write = || {
        let earlier = fs::metadata(path).ok();
        // Nobody else may read it before it has the mode of the earlier file.
        let mode = if earlier.is_some() { 0o600 } else { 0o666 };
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
        if let Some(earlier) = earlier {
            // Only root may give a file away.
            let _ = fchown(&file, Some(earlier.uid()), Some(earlier.gid()));
            file.set_permissions(earlier.permissions())?;
        }
        file.write_all(text.as_bytes())
    };
    let written = write().and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The partial file is useless. The first error is the one to report.
        let _ = fs::remove_file(&beside);
    }
    written
}
