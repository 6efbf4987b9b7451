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
    /// What the file system says; what was kept and is not all in the file is lost then, and counted.
    #[cold]
    pub(super) fn write_behind(&mut self, counters: &PortCounters) -> Result<(), String> {
        let mut written = 0;
        let done = self.begin().and_then(|()| write_all(&mut self.file, &self.behind, &mut written));
        if done.is_err() {
            counters.tx_lost.add(cut_off(&self.behind, written));
        }
        self.behind.clear();
        done.map_err(|error| format!("write {}: {error}", self.path))
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
fn write_all(file: &mut impl Write, bytes: &[u8], written: &mut usize) -> io::Result<()> {
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

/// How many of the packets in `behind` do not end within its first `written` bytes.
#[cold]
fn cut_off(behind: &[u8], written: usize) -> u64 {
    let (mut at, mut packets) = (0, 0);
    while let Some(len) = behind.get(at + LENGTH..).and_then(|rest| rest.first_chunk()) {
        at += RECORD + u32::from_ne_bytes(*len) as usize;
        packets += u64::from(at > written);
    }
    packets
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
        for (room, lost) in [(0, 3), (75, 3), (76, 2), (91, 2), (92, 1), (207, 1), (208, 0)] {
            let mut written = 0;
            let done = write_all(&mut Full(room), &behind, &mut written);
            assert_eq!((done.is_err(), written), (room < behind.len(), room));
            assert_eq!(cut_off(&behind, written), lost, "{room}");
        }
    }
}
