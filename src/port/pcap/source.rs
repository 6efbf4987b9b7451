//! Where the bytes of a capture come from: a file as it is, or one that gzip compressed (RFC 1952).

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Read, Seek};

/// First bytes of what gzip wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A file that is read from its beginning to its end.
#[derive(Debug)]
pub(super) enum Source {
    /// As it is.
    Plain(File),
    /// Decompressed while it is read; several members are one stream.
    Gzip(Box<MultiGzDecoder<File>>),
}

impl Source {
    /// What `file` is, by its first bytes.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn of(mut file: File) -> io::Result<Source> {
        let mut first = Vec::new();
        (&mut file).take(GZIP.len() as u64).read_to_end(&mut first)?;
        file.rewind()?;
        Ok(if first == GZIP {
            Source::Gzip(Box::new(MultiGzDecoder::new(file)))
        } else {
            Source::Plain(file)
        })
    }

    /// Begins at the first byte again.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        match self {
            Source::Plain(file) => file.rewind(),
            Source::Gzip(decoder) => {
                let mut file = decoder.get_ref().try_clone()?;
                file.rewind()?;
                **decoder = MultiGzDecoder::new(file);
                Ok(())
            }
        }
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        match self {
            Source::Plain(file) => file,
            Source::Gzip(decoder) => decoder.get_ref(),
        }
    }
}

impl Read for Source {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Source::Plain(file) => file.read(into),
            Source::Gzip(decoder) => decoder.read(into),
        }
    }
}
