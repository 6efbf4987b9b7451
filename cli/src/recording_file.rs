//! The file that a recording is written to: one beside the planned one, which then takes its name.
//!
//! Others may be able to write to the folder. So whatever has the name of the new file is removed and not opened: a link
//! would lead to another file, and a pipe would be waited for. A link at the planned name is followed by the rule of
//! fs.protected_symlinks (proc_sys_fs(5)), which the kernel cannot apply here, since the file at its end is replaced by name.

use crate::recorded::{Capture, Recorded};
use netmem::system::errno::descriptor_remedy_or;
use netmem::system::own_user;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The permissions of a new file: packets are for its owner alone.
const PRIVATE: u32 = 0o600;
/// The bits of a folder such as /tmp, where every user makes files, and none removes those of others.
const STICKY_AND_WRITABLE: u32 = 0o1002;

/// A recording that is being written. If it is dropped before it has its name, it is removed, and the file that was there
/// stays.
#[derive(Debug)]
pub struct RecordingFile {
    file: File,
    /// Its path now, and the one that it gets. None if it has its name, and for a pipe or device, which is written to directly.
    renamed: Option<(PathBuf, PathBuf)>,
}

impl RecordingFile {
    /// Opens the file for a recording at this path.
    ///
    /// # Errors
    /// The system's error, or `PermissionDenied` with a text for a link that is not followed.
    pub fn open(path: &Path) -> io::Result<RecordingFile> {
        let Some(to) = replaced(path)? else {
            let file = File::options().write(true).open(path)?;
            return Ok(RecordingFile { file, renamed: None });
        };
        let part = part_of(&to);
        let opened = RecordingFile { file: create(&part)?, renamed: Some((part, to)) };
        if let Some((_, to)) = &opened.renamed {
            keep_permissions(&opened.file, to)?;
        }
        Ok(opened)
    }

    /// Gives it its name, in place of the file that has it, when what is written so far is on the disk. What is written
    /// afterwards is appended.
    ///
    /// # Errors
    /// The system's error.
    pub fn replace(&mut self) -> io::Result<()> {
        if let Some((part, to)) = &self.renamed {
            self.file.sync_all()?;
            fs::rename(part, to)?;
            self.renamed = None;
        }
        Ok(())
    }
}

impl Write for RecordingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for RecordingFile {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.renamed {
            // The error to report is that of the write.
            let _ = fs::remove_file(part);
        }
    }
}

/// Checks that a recording can be written to this path, as far as that can be seen now.
///
/// # Errors
/// As for [`RecordingFile::open`].
pub fn check(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    let Some(path) = replaced(path)? else { return Ok(()) };
    let part = part_of(&path);
    create(&part).and_then(|_| fs::remove_file(&part))
}

/// Writes packets to a file that replaces the one at this path. A pipe or device is written to directly. Returns their
/// number.
///
/// # Errors
/// As for [`RecordingFile::open`]. The file that was there stays.
pub fn write(packets: impl Iterator<Item = Recorded>, path: &Path) -> io::Result<usize> {
    let mut capture = Capture::new(BufWriter::new(RecordingFile::open(path)?))?;
    let mut written = 0;
    for packet in packets {
        capture.write(&packet)?;
        written += 1;
    }
    capture.to().flush()?;
    capture.to().get_mut().replace()?;
    Ok(written)
}

/// Returns what to do about an error of [`check`] or [`RecordingFile::open`], as the end of a line.
pub fn remedy_of(error: &io::Error) -> &'static str {
    // Only the error of a link has a text.
    match error.get_ref() {
        Some(_) => ": give the file that it leads to, or one in a folder of your own",
        None => descriptor_remedy_or(error, ": give a file in a folder that exists and can be written to"),
    }
}

/// Returns the path of the file that is replaced: of a link, that of the file to which it leads. None if nothing is
/// replaced, because a pipe or device is there.
fn replaced(path: &Path) -> io::Result<Option<PathBuf>> {
    let end = end_of(path)?;
    match fs::metadata(path) {
        Ok(existing) if !existing.is_file() => Ok(None),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        // A link may lead to a file that does not exist yet.
        _ => Ok(Some(end)),
    }
}

/// Follows links to the path that none is at.
///
/// # Errors
/// That of a link that is not followed, or the system's error.
fn end_of(path: &Path) -> io::Result<PathBuf> {
    const LINKS_MAX: usize = 40;
    let mut end = path.to_owned();
    for _ in 0..=LINKS_MAX {
        // The system returns its error when the file is opened.
        let Some(link) = fs::symlink_metadata(&end).ok().filter(fs::Metadata::is_symlink) else {
            return Ok(end);
        };
        let folder = end.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        check_owner(&end, link.uid(), &fs::metadata(folder)?)?;
        end = folder.join(fs::read_link(&end)?);
    }
    // More links than the kernel follows: it returns the error.
    fs::metadata(path).map(|_| end)
}

/// Refuses a link that another user made in a folder where every user can make links, unless that user owns the folder.
fn check_owner(link: &Path, owner: u32, folder: &fs::Metadata) -> io::Result<()> {
    let is_open = folder.mode() & STICKY_AND_WRITABLE == STICKY_AND_WRITABLE;
    if !is_open || owner == own_user() || owner == folder.uid() {
        return Ok(());
    }
    Err(io::Error::new(
        ErrorKind::PermissionDenied,
        format!(
            "{} is a link of user {owner} in a folder where every user can make links, so it is not followed",
            link.display()
        ),
    ))
}

/// Returns the path of a file that is being written, before it gets its name.
fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// Makes a file that others cannot read. One that a killed run left is removed.
fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path)
}

/// Gives the file the permissions of the one that it replaces, if both belong to one user and group: another user could
/// have put a file there that everyone may read.
fn keep_permissions(file: &File, replaced: &Path) -> io::Result<()> {
    let Ok(before) = fs::symlink_metadata(replaced) else { return Ok(()) };
    let now = file.metadata()?;
    if !before.is_file() || (before.uid(), before.gid()) != (now.uid(), now.gid()) {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(before.mode() & 0o777))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::empty;
    use std::os::unix::fs::{chown, lchown, symlink};
    use std::process::Command;

    /// Returns an empty folder of this test alone, and the path of a recording there.
    fn place(name: &str) -> (PathBuf, PathBuf) {
        let place = std::env::temp_dir().join(format!("netmem-recording-{}-{name}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let to = place.join("to");
        (place, to)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    /// Found in a review: a link at `FILE.part` led to a file that the start of a run emptied, and each recording again.
    #[test]
    fn a_link_with_the_name_of_the_part_does_not_lose_the_file_that_it_leads_to() {
        let (place, to) = place("link");
        let theirs = place.join("theirs");
        fs::write(&theirs, "theirs").unwrap();
        for is_hard in [false, true] {
            let link = || {
                let part = part_of(&to);
                if is_hard { fs::hard_link(&theirs, part) } else { symlink(&theirs, part) }.unwrap();
            };
            link();
            check(&to).unwrap();
            assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs", "at the start");
            link();
            assert_eq!(write(empty(), &to).unwrap(), 0);
            assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs", "at a recording");
            assert!(fs::symlink_metadata(&to).unwrap().is_file() && !part_of(&to).exists());
        }
        fs::remove_dir_all(place).unwrap();
    }

    /// Found in a review: a pipe at `FILE.part` was waited for without end.
    #[test]
    fn a_pipe_with_the_name_of_the_part_is_not_waited_for() {
        let (place, to) = place("pipe");
        let pipe =
            || assert!(Command::new("mkfifo").arg(part_of(&to)).status().is_ok_and(|made| made.success()));
        pipe();
        check(&to).unwrap();
        pipe();
        write(empty(), &to).unwrap();
        assert!(fs::symlink_metadata(&to).unwrap().is_file() && !part_of(&to).exists());
        fs::remove_dir_all(place).unwrap();
    }

    /// Found in a review: the packets could be read by every user, whom the usual umask lets read.
    #[test]
    fn a_recording_is_for_its_owner_alone_unless_the_one_before_was_not() {
        let (place, to) = place("mode");
        write(empty(), &to).unwrap();
        assert_eq!(mode(&to), PRIVATE);
        for kept in [0o640, 0o400] {
            fs::set_permissions(&to, Permissions::from_mode(kept)).unwrap();
            write(empty(), &to).unwrap();
            assert_eq!(mode(&to), kept);
        }
        // Root alone gives files to others.
        if fs::symlink_metadata(&to).unwrap().uid() == 0 {
            for (user, group) in [(Some(65_534), None), (None, Some(65_534))] {
                fs::set_permissions(&to, Permissions::from_mode(0o666)).unwrap();
                chown(&to, user, group).unwrap();
                write(empty(), &to).unwrap();
                assert_eq!(mode(&to), PRIVATE, "it was another user's");
            }
        }
        fs::remove_dir_all(place).unwrap();
    }

    /// Seen: the recording replaced the link.
    #[test]
    fn a_link_that_leads_to_a_file_that_does_not_exist_yet_is_followed() {
        let (place, to) = place("dangling");
        let file = place.join("file");
        symlink("second", &to).unwrap();
        symlink(&file, place.join("second")).unwrap();
        check(&to).unwrap();
        assert!(!file.exists());
        write(empty(), &to).unwrap();
        assert_eq!(fs::read_link(&to).unwrap(), Path::new("second"));
        assert!(fs::symlink_metadata(&file).unwrap().len() > 0, "the link's file has the recording");
        let round = place.join("round");
        symlink("round", &round).unwrap();
        assert!(check(&round).is_err() && write(empty(), &round).is_err());
        assert_eq!(fs::read_link(&round).unwrap(), Path::new("round"));
        fs::remove_dir_all(place).unwrap();
    }

    /// Found in a review: the folder of a link was tried, and that of its file was written to.
    #[test]
    fn the_folder_in_which_a_file_is_replaced_is_the_one_that_is_checked() {
        let (place, to) = place("folder");
        let file = place.join("file");
        fs::write(&file, "").unwrap();
        symlink(&file, &to).unwrap();
        // A folder cannot be removed as a file, not even by root.
        fs::create_dir(part_of(&to)).unwrap();
        check(&to).unwrap();
        write(empty(), &to).unwrap();
        assert_eq!(fs::read_link(&to).unwrap(), file);
        assert!(fs::metadata(&file).unwrap().len() > 0, "the link's file has the recording");
        fs::create_dir(part_of(&file)).unwrap();
        assert!(check(&to).is_err());
        assert!(write(empty(), &to).is_err());
        assert_eq!(check(&place).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert!(check(&place.join("none").join("to")).is_err());
        check(Path::new("/dev/null")).unwrap();
        fs::remove_dir_all(place).unwrap();
    }

    /// Seen: a link that an ordinary user had put into /tmp led the recording of root to a file of root, which the kernel had
    /// refused (fs.protected_symlinks).
    #[test]
    fn a_link_of_another_user_in_a_folder_where_every_user_can_make_links_is_not_followed() {
        const OTHER: u32 = 65_534;
        let (place, to) = place("foreign");
        let (open, own) = (place.join("open"), place.join("own"));
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        let link = open.join("link");
        symlink(&link, &own).unwrap();
        symlink(&to, &link).unwrap();
        let tried = |path: &Path| {
            fs::write(&to, "before").unwrap();
            let results =
                [check(path), RecordingFile::open(path).map(drop), write(empty(), path).map(|_| ())];
            let is_written = fs::read(&to).unwrap() != b"before";
            (results.map(|result| result.err().map(|error| error.to_string())), is_written)
        };
        for path in [&link, &own] {
            assert_eq!(tried(path), ([None, None, None], true), "this user made the link");
        }
        // Root alone gives links to others.
        if fs::symlink_metadata(&to).unwrap().uid() == 0 {
            lchown(&link, Some(OTHER), None).unwrap();
            for path in [&link, &own] {
                let said = format!(
                    "{} is a link of user {OTHER} in a folder where every user can make links, so it is not followed",
                    link.display()
                );
                let said = || Some(said.clone());
                assert_eq!(tried(path), ([said(), said(), said()], false));
            }
            fs::remove_file(&to).unwrap();
            assert!(
                check(&link).is_err() && write(empty(), &link).is_err() && !to.exists(),
                "it leads nowhere"
            );
            symlink("/dev/null", &to).unwrap();
            assert!(check(&link).is_err() && write(empty(), &link).is_err(), "it leads to a device");
            fs::remove_file(&to).unwrap();
            chown(&open, Some(OTHER), None).unwrap();
            assert_eq!(tried(&own), ([None, None, None], true), "the user who made the link owns the folder");
            chown(&open, Some(0), None).unwrap();
            fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
            assert_eq!(tried(&link), ([None, None, None], true), "only root could make it");
        }
        fs::remove_dir_all(place).unwrap();
    }

    /// Seen: `netmem record` on a full disk had emptied the capture that was there, and left a part of the new one.
    #[test]
    fn a_recording_that_is_not_written_to_its_end_leaves_the_one_before() {
        let (place, to) = place("end");
        fs::write(&to, "before").unwrap();
        let mut file = RecordingFile::open(&to).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert!(!part_of(&to).exists());
        assert_eq!(fs::read_to_string(&to).unwrap(), "before");
        let mut file = RecordingFile::open(&to).unwrap();
        file.write_all(b"begun").unwrap();
        file.replace().unwrap();
        file.write_all(b", and on").unwrap();
        file.replace().unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&to).unwrap(), "begun, and on");
        assert!(!part_of(&to).exists());
        fs::remove_dir_all(place).unwrap();
    }
}
