//! The source of a capture's bytes: a file or a pipe, plain or compressed by gzip (RFC 1952).

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek};
use std::mem;

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
    Gzip(Box<MultiGzDecoder<Begun>>),
}

/// A file of which some bytes were read for inspection and will be returned again.
#[derive(Debug)]
pub(super) struct Begun {
    file: File,
    first: Vec<u8>,
    /// Number of bytes that may still be read before the decoder must return.
    left: usize,
}

impl From<File> for Begun {
    fn from(file: File) -> Begun {
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
            let n = self.file.read(&mut into[..n])?;
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
        Ok(if first == GZIP {
            Source::Gzip(Box::new(MultiGzDecoder::new(file.into())))
        } else {
            Source::Plain(file.into())
        })
    }

    /// Wraps a pipe, whose format is detected when its first bytes come. A read that would have to wait for more bytes
    /// fails with [`WouldBlock`](ErrorKind::WouldBlock), and can be repeated.
    pub(super) fn of_pipe(pipe: File) -> Source {
        Source::Unread(pipe.into())
    }

    /// Goes back to the first byte.
    ///
    /// # Errors
    /// Returns the file system's error. A pipe always returns an error.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        match self {
            Source::Unread(from) | Source::Plain(from) => from.file.rewind(),
            Source::Gzip(decoder) => {
                let mut file = decoder.get_ref().file.try_clone()?;
                file.rewind()?;
                **decoder = MultiGzDecoder::new(file.into());
                Ok(())
            }
        }
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        match self {
            Source::Unread(from) | Source::Plain(from) => &from.file,
            Source::Gzip(decoder) => &decoder.get_ref().file,
        }
    }
}

impl Read for Source {
    /// Also fails with [`WouldBlock`](ErrorKind::WouldBlock), and can be repeated, if very many compressed bytes stand
    /// for no data.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let from = match self {
            Source::Plain(from) => return from.read(into),
            Source::Gzip(decoder) => {
                decoder.get_mut().left = COMPRESSED_MAX;
                return decoder.read(into);
            }
            Source::Unread(from) => from,
        };
        while from.first.len() < GZIP.len() {
            let mut one = [0];
            if from.file.read(&mut one)? == 0 {
                break;
            }
            from.first.extend(one);
        }
        let begun = Begun { first: mem::take(&mut from.first), ..Begun::from(from.file.try_clone()?) };
        let is_compressed = begun.first == GZIP;
        *self = if is_compressed {
            Source::Gzip(Box::new(MultiGzDecoder::new(begun)))
        } else {
            Source::Plain(begun)
        };
        self.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, GzBuilder};
    use std::io::Write;

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
}
