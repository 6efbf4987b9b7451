//! Opens files without waiting, by their path or the file of a descriptor once more.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
#[cfg(feature = "pcap")]
use std::path::Path;

/// Opening does not wait for another process, and neither does reading or writing a device. A terminal does not become
/// that of the process.
fn at_once(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32)
}

/// Opens a file as `options` say. This never waits, whatever the path names.
///
/// # Errors
/// The error of open(2): `NXIO` for a pipe to write that nobody reads.
#[cfg(feature = "pcap")]
pub fn open_at_once(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    at_once(options).open(path)
}

/// Opens the file or pipe of a descriptor once more for reading. A read that would have to wait fails with
/// [`WouldBlock`](io::ErrorKind::WouldBlock). Other users of the descriptor do not notice. A file is read from its
/// first byte.
///
/// # Errors
/// The error of open(2); a socket cannot be opened in this way.
#[cfg(feature = "pcap")]
pub fn reopen_nonblocking(descriptor: impl AsFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
    at_once(File::options().read(true)).open(path)
}

/// The pipe or terminal behind a descriptor, opened once more to be written: a write that would have to wait fails with
/// [`WouldBlock`](io::ErrorKind::WouldBlock), and nobody who shares the descriptor notices. A file is not opened once more, so what was
/// written to it stays and what others write follows.
///
/// # Errors
/// What open(2) says; a socket cannot be opened so.
pub fn reopen_to_write(descriptor: impl AsFd) -> io::Result<File> {
    let same = File::from(descriptor.as_fd().try_clone_to_owned()?);
    if same.metadata()?.is_file() {
        return Ok(same);
    }
    let path = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
    at_once(File::options().write(true)).open(path)
}

/// A terminal for tests: the end of whoever sits at it, and the path of the device.
#[cfg(all(test, feature = "pcap"))]
pub fn terminal() -> (File, std::path::PathBuf) {
    let (unlocked, mut number): (libc::c_int, libc::c_int) = (0, 0);
    let end = at_once(File::options().read(true).write(true)).open("/dev/ptmx").expect("a pseudo-terminal");
    // SAFETY: TIOCSPTLCK reads a number, which lives during the call.
    let done = unsafe { libc::ioctl(end.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    // SAFETY: TIOCGPTN writes a number, which lives during the call.
    let done = unsafe { libc::ioctl(end.as_raw_fd(), libc::TIOCGPTN, &raw mut number) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
    (end, format!("/dev/pts/{number}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Write};

    #[cfg(feature = "pcap")]
    #[test]
    fn a_pipe_opened_once_more_does_not_wait_and_the_first_reader_still_does() {
        use std::io::Read;
        let (mut from, mut to) = io::pipe().unwrap();
        let mut again = reopen_nonblocking(&from).unwrap();
        let mut bytes = [0; 2];
        assert_eq!(again.read(&mut bytes).unwrap_err().kind(), ErrorKind::WouldBlock);
        to.write_all(&[1, 2, 3]).unwrap();
        assert_eq!((again.read(&mut bytes).unwrap(), bytes), (2, [1, 2]));
        assert_eq!((from.read(&mut bytes).unwrap(), bytes[0]), (1, 3));
        drop(to);
        assert_eq!(again.read(&mut bytes).unwrap(), 0);
    }

    #[test]
    fn a_pipe_to_write_does_not_wait_and_a_file_goes_on_where_it_is() {
        let (_from, to) = io::pipe().unwrap();
        let mut again = reopen_to_write(&to).unwrap();
        let full = (0..1000).find_map(|_| again.write(&[0; 4096]).err());
        assert_eq!(full.unwrap().kind(), ErrorKind::WouldBlock);
        let path = std::env::temp_dir().join(format!("netmem-reopen-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(b"before ").unwrap();
        reopen_to_write(&file).unwrap().write_all(b"after").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"before after");
        std::fs::remove_file(&path).unwrap();
    }
}
