//! The source of a capture's bytes: a file or a pipe, plain or compressed by gzip (RFC 1952).

mod members;

use members::Members;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek};
use std::mem;
use std::sync::Arc;

/// The first bytes of gzip output.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Maximum number of compressed bytes that one read takes. The decoder would go on as long as they stand for no data.
const COMPRESSED_MAX: usize = 512 << 10;

/// A file that is read from start to end, or a pipe.
#[derive(Debug)]
pub(super) enum Source {
    /// A pipe whose first bytes have not all come; it holds those that have.
    Unread(Begun),
    /// Not compressed.
    Plain(Begun),
    /// Decompressed during reading; several members are one stream.
    Gzip(Box<Members>),
}

/// A file of which some bytes were read for inspection and will be returned again.
#[derive(Debug)]
pub(super) struct Begun {
    file: Arc<File>,
    first: Vec<u8>,
    /// Number of bytes that may still be read before the decoder must return.
    left: usize,
}

impl From<Arc<File>> for Begun {
    fn from(file: Arc<File>) -> Begun {
        Begun { file, first: Vec::new(), left: usize::MAX }
    }
}

impl Read for Begun {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.first.is_empty() {
            let n = into.len().min(self.left);
            if n == 0 && !into.is_empty() {
                let why = format!("{COMPRESSED_MAX} compressed bytes stand for no data");
                return Err(io::Error::new(ErrorKind::WouldBlock, why));
            }
            let n = (&*self.file).read(&mut into[..n])?;
            self.left -= n;
            return Ok(n);
        }
        let n = self.first.len().min(into.len());
        into[..n].copy_from_slice(&self.first[..n]);
        self.first.drain(..n);
        Ok(n)
    }
}

impl Source {
    /// Detects the format of `file` by its first bytes.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub(super) fn of(mut file: File) -> io::Result<Source> {
        let mut first = Vec::new();
        (&mut file).take(GZIP.len() as u64).read_to_end(&mut first)?;
        file.rewind()?;
        Ok(Source::begun(first == GZIP, Arc::new(file).into()))
    }

    /// Wraps a pipe, whose format is detected when its first bytes come. A read that would have to wait for more bytes
    /// fails with [`WouldBlock`](ErrorKind::WouldBlock), and can be repeated.
    pub(super) fn of_pipe(pipe: File) -> Source {
        Source::Unread(Arc::new(pipe).into())
    }

    fn begun(is_compressed: bool, from: Begun) -> Source {
        if is_compressed { Source::Gzip(Box::new(Members::of(from))) } else { Source::Plain(from) }
    }

    /// Goes back to the first byte.
    ///
    /// # Errors
    /// Returns the file system's error. A pipe always returns an error.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        match self {
            Source::Unread(from) | Source::Plain(from) => (&*from.file).rewind(),
            Source::Gzip(members) => {
                let file = Arc::clone(members.file());
                (&*file).rewind()?;
                **members = Members::of(file.into());
                Ok(())
            }
        }
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        match self {
            Source::Unread(from) | Source::Plain(from) => &from.file,
            Source::Gzip(members) => members.file(),
        }
    }
}

impl Read for Source {
    /// Also fails with [`WouldBlock`](ErrorKind::WouldBlock), and can be repeated, if very many compressed bytes stand
    /// for no data.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let from = match self {
            Source::Plain(from) => return from.read(into),
            Source::Gzip(members) => {
                members.allow(COMPRESSED_MAX);
                return members.read(into);
            }
            Source::Unread(from) => from,
        };
        while from.first.len() < GZIP.len() {
            let mut one = [0];
            if (&*from.file).read(&mut one)? == 0 {
                break;
            }
            from.first.extend(one);
        }
        let begun = Begun { first: mem::take(&mut from.first), ..Begun::from(Arc::clone(&from.file)) };
        *self = Source::begun(begun.first == GZIP, begun);
        self.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, GzBuilder};
    use std::io::Write;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    static NUMBER: AtomicU32 = AtomicU32::new(0);

    fn member(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzBuilder::new().write(Vec::new(), Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    /// Seen: one read of a file with five million empty members took seconds, and nothing could end the run.
    #[test]
    fn a_read_of_compressed_bytes_that_stand_for_nothing_ends_and_can_be_repeated() {
        let name = std::env::temp_dir().join(format!("netmem-pcap-empty-{}", std::process::id()));
        let empty = member(b"").repeat(100_000);
        std::fs::write(&name, [member(b"first"), empty.clone(), member(b"last")].concat()).unwrap();
        let mut source = Source::of(File::open(&name).unwrap()).unwrap();
        std::fs::remove_file(&name).unwrap();
        let (mut data, mut again, mut room) = (Vec::new(), 0, [0; 64]);
        loop {
            match source.read(&mut room) {
                Ok(0) => break,
                Ok(n) => data.extend(&room[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => again += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((data.as_slice(), again), (&b"firstlast"[..], empty.len() / COMPRESSED_MAX));
    }

    /// Reads a file to its end, however often it has to be asked.
    fn read_all(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let number = NUMBER.fetch_add(1, Relaxed);
        let name = std::env::temp_dir().join(format!("netmem-pcap-zeros-{}-{number}", std::process::id()));
        std::fs::write(&name, bytes)?;
        let mut source = Source::of(File::open(&name)?)?;
        std::fs::remove_file(&name)?;
        let (mut data, mut room) = (Vec::new(), [0; 64]);
        loop {
            match source.read(&mut room) {
                Ok(0) => return Ok(data),
                Ok(n) => data.extend(&room[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Seen: a good capture that a tape or a copy of whole blocks had padded was a failed run.
    #[test]
    fn zeros_behind_the_last_member_are_the_end_and_other_bytes_are_damage() {
        let (one, two) = (member(b"first"), member(b"last"));
        for zeros in [1, 9, 10, 512, 3 * COMPRESSED_MAX] {
            let padded = [&one[..], &two, &vec![0; zeros]].concat();
            assert_eq!(read_all(&padded).unwrap(), b"firstlast", "{zeros}");
        }
        for behind in [&[1][..], &[0, 0, 1], &[[0; 3].as_slice(), &two].concat(), b"other bytes"] {
            assert!(read_all(&[&one[..], behind].concat()).is_err(), "{behind:?}");
        }
    }
}
