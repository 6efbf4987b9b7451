//! The JSON file of a run.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::LabError;
use crate::report::files;

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

    /// Returns true if the file has contents.
    pub(crate) fn has_contents(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.len() > 0)
    }

    /// Replaces the contents of the file with `content`. An earlier report stays whole until the new one takes its name:
    /// the disk may be full, or the process be killed.
    ///
    /// # Errors
    /// [`LabError::Output`] if it cannot be written.
    pub fn write<T: Serialize>(self, content: &T) -> Result<(), LabError> {
        let Self { path, mut file } = self;
        let refused = |source| LabError::Output { path: path.clone(), source };
        let text = text(content).map_err(refused)?;
        if file.metadata().map_err(refused)?.is_file() {
            match files::write(&path, &text) {
                Err(LabError::Output { source, .. }) if has_no_place_beside(&source) => {}
                written => return written,
            }
            file.set_len(0).map_err(refused)?;
        }
        file.write_all(text.as_bytes()).map_err(refused)
    }
}

/// Returns the text of the file.
fn text<T: Serialize>(content: &T) -> io::Result<String> {
    Ok(serde_json::to_string_pretty(content)? + "\n")
}

/// Returns true for the error of a folder in which no other file may be made, or of a file that is a mount point, as in a
/// container. Such a file is open already and is written over: hours of measurement would be lost otherwise.
fn has_no_place_beside(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, ResourceBusy};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | ResourceBusy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder of its own with an earlier report, and a second name of that file.
    fn earlier(name: &str) -> (PathBuf, PathBuf, PathBuf) {
        let folder = std::env::temp_dir().join(format!("netmem-lab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let (path, other) = (folder.join("report.json"), folder.join("other-name"));
        fs::write(&path, "earlier").unwrap();
        fs::hard_link(&path, &other).unwrap();
        (folder, path, other)
    }

    /// Found in a review: the earlier report was cut to nothing before the new one was written, so a full disk or a kill
    /// lost both.
    #[test]
    fn an_earlier_report_is_whole_until_the_new_one_takes_its_name() {
        let (folder, path, other) = earlier("whole");
        let output = Output::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        output.write(&["new"]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "[\n  \"new\"\n]\n");
        assert_eq!(fs::read_to_string(&other).unwrap(), "earlier", "it was not written over");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Seen: a report of mode 0600 had mode 0644 after the next run, also by the name of a link.
    #[test]
    fn the_new_report_has_the_mode_of_the_earlier_one() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let (folder, path, _) = earlier("mode");
        let link = folder.join("link");
        symlink(&path, &link).unwrap();
        for mode in [0o600, 0o640] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Output::open(&link).unwrap().write(&["new"]).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
        }
        assert!(fs::read_link(&link).is_ok());
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Found in a review: the same, for a report that could not be written at all.
    #[test]
    fn an_earlier_report_stays_if_the_new_one_cannot_be_written() {
        let (folder, path, _) = earlier("stays");
        // JSON has no keys that are lists.
        let no_json = std::collections::BTreeMap::from([([1], 1)]);
        let refused = Output::open(&path).unwrap().write(&no_json);
        assert!(matches!(refused, Err(LabError::Output { .. })), "{refused:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        fs::remove_dir_all(&folder).unwrap();
    }
}
