//! A file for a report, which is opened before the run and written after it.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open file. Dropping it removes the file if it was created here and was not written.
#[derive(Debug)]
pub struct ReportFile {
    file: File,
    to: PathBuf,
    is_to_remove: bool,
}

impl ReportFile {
    /// Opens a file that is written at the end. Its contents stay until then.
    ///
    /// # Errors
    /// The system's error if it cannot be written.
    pub fn open(to: &Path) -> io::Result<ReportFile> {
        let (file, is_to_remove) = match File::options().write(true).create_new(true).open(to) {
            // A link to a missing file exists too, so the file that it leads to is created here.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (File::options().write(true).create(true).truncate(false).open(to)?, false)
            }
            created => (created?, true),
        };
        Ok(ReportFile { file, to: to.to_owned(), is_to_remove })
    }

    /// Writes the report in place of the contents. If there is no room for it, the contents stay.
    ///
    /// # Errors
    /// The system's error.
    pub fn write(&mut self, report: &str) -> io::Result<()> {
        let there = self.file.metadata()?;
        if there.is_file() {
            self.reserve(there.len(), report)?;
            self.file.rewind()?;
        }
        self.file.write_all(report.as_bytes())?;
        self.is_to_remove = false;
        if there.is_file() { self.file.set_len(report.len() as u64) } else { Ok(()) }
    }

    /// Takes room for the report after the contents. No file beside this one could take its name: without privileges the
    /// process may have no permission in the folder.
    fn reserve(&mut self, len: u64, report: &str) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(len))?;
        let written = self.file.write_all(report.as_bytes());
        if written.is_err() {
            // The first error is the one to report.
            let _ = self.file.set_len(len);
        }
        written
    }
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if !self.is_to_remove {
            return;
        }
        // Another program may have put another file there.
        let is_same = |(own, there): (fs::Metadata, fs::Metadata)| {
            own.is_file() && (own.dev(), own.ino()) == (there.dev(), there.ino())
        };
        if self.file.metadata().ok().zip(fs::symlink_metadata(&self.to).ok()).is_some_and(is_same) {
            // The failure that ends the run is reported. An empty file is no reason for another line.
            let _ = fs::remove_file(&self.to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Seen: a generator that was refused left an empty file. A measurement that failed removed the device `/dev/null`, and
    /// an empty file of the user.
    #[test]
    fn a_file_that_was_made_and_not_written_goes_and_others_stay() {
        let folder = std::env::temp_dir().join(format!("netmem-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [new, old, link, written] = ["new", "old", "link", "written"].map(|name| folder.join(name));
        fs::write(&old, "old").unwrap();
        symlink(&old, &link).unwrap();
        for path in [&new, &old, &link] {
            drop(ReportFile::open(path).unwrap());
        }
        assert!(!new.exists() && link.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        let mut file = ReportFile::open(&written).unwrap();
        file.write("{}\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&written).unwrap(), "{}\n");
        let mut shorter = ReportFile::open(&old).unwrap();
        shorter.write("2\n").unwrap();
        drop(shorter);
        assert_eq!(fs::read_to_string(&old).unwrap(), "2\n");
        ReportFile::open(Path::new("/dev/null")).unwrap().write("{}\n").unwrap();
        let replaced = ReportFile::open(&new).unwrap();
        fs::remove_file(&new).unwrap();
        fs::write(&new, "of another program").unwrap();
        drop(replaced);
        assert!(new.exists(), "the file is another one");
        assert!(ReportFile::open(&folder.join("none/new")).is_err());
        fs::write(&old, "").unwrap();
        for path in [&old, Path::new("/dev/null")] {
            drop(ReportFile::open(path).unwrap());
        }
        assert!(old.exists() && Path::new("/dev/null").exists());
        fs::remove_dir_all(folder).unwrap();
    }
}
