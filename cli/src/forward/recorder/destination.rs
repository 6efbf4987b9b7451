//! Where a recording is written: into a file beside the planned one, which then takes its name.
//!
//! Others may be able to write to the folder. So whatever has the name of the new file is removed and not opened: a link
//! would lead to another file, and a pipe would be waited for.

use crate::recorded::{Capture, Recorded};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The permissions of a new file: packets are for its owner alone.
const PRIVATE: u32 = 0o600;

/// Checks that a recording can be written to this path, as far as that can be seen now.
///
/// # Errors
/// The system's error.
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
/// The system's error. The file that was there stays.
pub fn write(packets: impl Iterator<Item = Recorded>, path: &Path) -> io::Result<usize> {
    match replaced(path)? {
        Some(path) => replace(packets, &path),
        None => write_all(packets, File::options().write(true).open(path)?),
    }
}

/// Returns the path of the file that is replaced: of a link, that of the file to which it leads. None if nothing is
/// replaced, because a pipe or device is there.
fn replaced(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(existing) if !existing.is_file() => Ok(None),
        Ok(_) => path.canonicalize().map(Some),
        // A link may lead to a file that does not exist yet.
        Err(error) => end_of(path).map_or(Err(error), |end| Ok(Some(end))),
    }
}

/// Follows links to the path that none is at. Returns None if there are more links than the kernel follows.
fn end_of(path: &Path) -> Option<PathBuf> {
    const LINKS_MAX: usize = 40;
    let mut end = path.to_owned();
    for _ in 0..=LINKS_MAX {
        let Ok(next) = fs::read_link(&end) else { return Some(end) };
        end = end.parent().unwrap_or(Path::new("")).join(next);
    }
    None
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

fn replace(packets: impl Iterator<Item = Recorded>, path: &Path) -> io::Result<usize> {
    let part = part_of(path);
    let file = create(&part)?;
    let written = keep_permissions(&file, path)
        .and_then(|()| write_all(packets, file))
        .and_then(|packets| fs::rename(&part, path).map(|()| packets));
    if written.is_err() {
        // The error to report is that of the write.
        let _ = fs::remove_file(&part);
    }
    written
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

fn write_all(packets: impl Iterator<Item = Recorded>, file: File) -> io::Result<usize> {
    let (mut capture, mut written) = (Capture::new(BufWriter::new(file))?, 0);
    for packet in packets {
        capture.write(&packet)?;
        written += 1;
    }
    capture.to().flush()?;
    let file = capture.to().get_ref();
    // A pipe or device has nothing to synchronize, and says so by an error.
    if file.metadata()?.is_file() {
        file.sync_all()?;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::empty;
    use std::os::unix::fs::symlink;
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
                std::os::unix::fs::chown(&to, user, group).unwrap();
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
}
