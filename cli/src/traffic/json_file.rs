//! The file of `--json`, which is opened before the run and written after it.

use crate::failure::Failure;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open file. Dropping it removes the file if it was created here and was not written.
#[derive(Debug)]
pub struct JsonFile {
    file: File,
    to: PathBuf,
    is_to_remove: bool,
}

impl JsonFile {
    /// Opens a file that is written at the end. Its contents stay until then.
    ///
    /// # Errors
    /// [`Failure::Input`] if it cannot be written.
    pub fn open(to: &Path) -> Result<JsonFile, Failure> {
        let (opened, is_new) = match File::options().write(true).create_new(true).open(to) {
            // A link to a missing file exists too, so the file that it leads to is created here.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (File::options().write(true).create(true).truncate(false).open(to), false)
            }
            created => (created, true),
        };
        let failed = |error| Failure::input(format!("--json: cannot write {}: {error}", to.display()));
        Ok(JsonFile { file: opened.map_err(failed)?, to: to.to_owned(), is_to_remove: is_new })
    }

    /// Writes the object in place of the contents.
    ///
    /// # Errors
    /// [`Failure::Run`] with the path.
    pub fn write(&mut self, object: &str) -> Result<(), Failure> {
        self.is_to_remove = false;
        // A pipe has no length.
        let _ = self.file.set_len(0);
        let failed = |error| Failure::run(format!("cannot write {}: {error}", self.to.display()));
        self.file.write_all(object.as_bytes()).map_err(failed)
    }
}

impl Drop for JsonFile {
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

    /// Seen: a generator that was refused left an empty file.
    #[test]
    fn a_file_that_was_made_and_not_written_goes_and_others_stay() {
        let folder = std::env::temp_dir().join(format!("netmem-json-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [new, old, link, written] = ["new", "old", "link", "written"].map(|name| folder.join(name));
        fs::write(&old, "old").unwrap();
        symlink(&old, &link).unwrap();
        for path in [&new, &old, &link] {
            drop(JsonFile::open(path).unwrap());
        }
        assert!(!new.exists() && link.exists());
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
        let mut file = JsonFile::open(&written).unwrap();
        file.write("{}\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&written).unwrap(), "{}\n");
        let replaced = JsonFile::open(&new).unwrap();
        fs::remove_file(&new).unwrap();
        fs::write(&new, "of another program").unwrap();
        drop(replaced);
        assert!(new.exists(), "the file is another one");
        assert!(JsonFile::open(&folder.join("none/new")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }
}
