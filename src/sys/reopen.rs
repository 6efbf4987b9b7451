//! Opens the file of a descriptor once more.

use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;

/// Opens the file or pipe of a descriptor once more for reading. A read that would have to wait fails with
/// [`WouldBlock`](io::ErrorKind::WouldBlock). Other users of the descriptor do not notice. A file is read from its
/// first byte.
///
/// # Errors
/// The error of open(2); a socket cannot be opened in this way.
#[cfg(feature = "pcap")]
pub fn reopen_nonblocking(descriptor: impl AsFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd());
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
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
    // A terminal does not become that of the process.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options().write(true).custom_flags(flags.bits() as i32).open(path)
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
