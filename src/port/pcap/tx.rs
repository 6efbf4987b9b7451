//! HOT but for the writing behind: packets into a file.

use super::format::{PACKET_MAX, RECORD, header, record};
use crate::pool::Frame;
use crate::port::PortCounters;
use crate::port::anew::Anew;
use std::io::{self, ErrorKind, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes kept to be written at most.
const BEHIND: usize = 2 * (PACKET_MAX + RECORD);

/// Where in what stands before a packet the number of its bytes in the file is.
const LENGTH: usize = 8;

/// A file that is written behind.
#[derive(Debug)]
pub(super) struct Output {
    file: Anew,
    path: String,
    /// What is to be written, in whole packets; grows no further than [`BEHIND`].
    behind: Vec<u8>,
    /// It has its header.
    begun: bool,
}

impl Output {
    /// A file that stays as it is until a round ends, or something that was sent is written.
    pub(super) fn new(file: Anew, path: String) -> Output {
        Output { file, path, behind: Vec::with_capacity(BEHIND), begun: false }
    }

    /// Keeps as many of `frames` as there is room for, to be written; returns how many. Frames of one burst have one
    /// time stamp.
    #[inline]
    pub(super) fn send(&mut self, frames: &[Frame]) -> usize {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (i, frame) in frames.iter().enumerate() {
            if RECORD + frame.len() > BEHIND - self.behind.len() {
                return i;
            }
            self.behind.extend(record(at, frame.len()));
            self.behind.extend_from_slice(frame.data());
        }
        frames.len()
    }

    /// Whether something was kept that is not written yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Writes what was kept, and the header before all else.
    ///
    /// # Errors
    /// What the file system says; what was kept and is not all in the file is lost then, and counted. The file ends with the last
    /// packet that is all in it.
    #[cold]
    pub(super) fn write_behind(&mut self, counters: &PortCounters) -> Result<(), String> {
        let mut written = 0;
        let done = self.begin().and_then(|()| write_all(&mut self.file, &self.behind, &mut written));
        if done.is_err() {
            let (whole, lost) = cut_off(&self.behind, written);
            counters.tx_lost.add(lost);
            let before = self.file.len() - written as u64;
            // Less than a header is none.
            self.file.cut(if self.has_header(before) { before + whole as u64 } else { 0 });
        }
        self.behind.clear();
        done.map_err(|error| format!("write {}: {error}", self.path))
    }

    fn has_header(&self, bytes: u64) -> bool {
        bytes >= header().len() as u64
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        self.file.write_all(&header())
    }
}

/// Writes `bytes`, and counts in `written` those that were, also where the rest cannot be.
pub(in crate::port) fn write_all(file: &mut impl Write, bytes: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < bytes.len() {
        match file.write(&bytes[*written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => *written += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How many bytes the packets in `behind` have that end within its first `written` bytes, and how many packets do not.
#[cold]
pub(in crate::port) fn cut_off(behind: &[u8], written: usize) -> (usize, u64) {
    let (mut at, mut whole, mut packets) = (0, 0, 0);
    while let Some(len) = behind.get(at + LENGTH..).and_then(|rest| rest.first_chunk()) {
        at += RECORD + u32::from_ne_bytes(*len) as usize;
        if at <= written {
            whole = at;
        } else {
            packets += 1;
        }
    }
    (whole, packets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Takes so many bytes, a few at a time, and no more.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.0).min(10);
            self.0 -= n;
            if n == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(n) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn packets_that_a_full_disk_cut_off_are_lost_and_those_before_are_not() {
        let mut behind = Vec::new();
        for len in [60, 0, 100] {
            behind.extend(record(Duration::from_secs(1), len));
            behind.resize(behind.len() + len, 7);
        }
        let cases =
            [(0, 0, 3), (75, 0, 3), (76, 76, 2), (91, 76, 2), (92, 92, 1), (207, 92, 1), (208, 208, 0)];
        for (room, whole, lost) in cases {
            let mut written = 0;
            let done = write_all(&mut Full(room), &behind, &mut written);
            assert_eq!((done.is_err(), written), (room < behind.len(), room));
            assert_eq!(cut_off(&behind, written), (whole, lost), "{room}");
        }
    }
}
