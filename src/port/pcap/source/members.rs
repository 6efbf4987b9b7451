//! The members of gzip output (RFC 1952), one after the other. Zeros may follow the last one.

use super::Begun;
use flate2::bufread::GzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::Arc;

/// Decompresses a file of members, which are one stream.
#[derive(Debug)]
pub(in crate::port::pcap) struct Members {
    file: Arc<File>,
    /// The member that is read. None only while the next one takes its place.
    member: Option<GzDecoder<BufReader<Begun>>>,
    /// All of the member was read.
    is_over: bool,
    /// Zeros have followed a member.
    is_padded: bool,
}

impl Members {
    pub(super) fn of(from: Begun) -> Members {
        let file = Arc::clone(&from.file);
        let member = Some(GzDecoder::new(BufReader::new(from)));
        Members { file, member, is_over: false, is_padded: false }
    }

    /// The file.
    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Sets how many compressed bytes may be read before a read fails with [`WouldBlock`](ErrorKind::WouldBlock).
    pub(super) fn allow(&mut self, bytes: usize) {
        if let Some(member) = &mut self.member {
            member.get_mut().get_mut().left = bytes;
        }
    }

    /// Returns whether another member follows. Zeros up to the end of the file are padding, of a tape or a disk image,
    /// which gzip(1) ignores too.
    fn is_followed(&mut self) -> io::Result<bool> {
        let Some(member) = &mut self.member else { return Ok(false) };
        let rest = member.get_mut();
        loop {
            let bytes = rest.fill_buf()?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            if zeros < bytes.len() {
                let why = "zeros and then other bytes follow the compressed data";
                let is_padded = self.is_padded || zeros > 0;
                return if is_padded { Err(io::Error::new(ErrorKind::InvalidData, why)) } else { Ok(true) };
            }
            self.is_padded = true;
            rest.consume(zeros);
        }
    }
}

impl Read for Members {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            if !self.is_over {
                let n = member.read(into)?;
                if n > 0 || into.is_empty() {
                    return Ok(n);
                }
                self.is_over = true;
            }
            if !self.is_followed()? {
                break;
            }
            self.member = self.member.take().map(|member| GzDecoder::new(member.into_inner()));
            self.is_over = false;
        }
        Ok(0)
    }
}
