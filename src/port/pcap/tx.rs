//! HOT, except for writing: packets into a file.

use super::format::{PACKET_MAX, RECORD, header, record};
use super::written::WrittenFiles;
use crate::pool::Frame;
use crate::port::PortCounters;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of bytes kept for writing.
pub(super) const BEHIND: usize = 2 * (PACKET_MAX + RECORD);

/// Offset of the captured length in a record header.
const LENGTH: usize = 8;

/// How long a pipe's reader may take nothing while the port closes. After that the port gives it up.
const DEAF: Duration = Duration::from_secs(2);

/// The target of the output.
#[derive(Debug)]
pub(super) enum Target {
    /// Files that belong to the port alone.
    Files(WrittenFiles),
    /// Standard output: a file that others write to as well, or a pipe, which takes the bytes it has room for.
    Standard(File),
}

impl Target {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Target::Files(files) => files.current(),
            Target::Standard(file) => file,
        }
    }

    fn name(&self) -> &str {
        match self {
            Target::Files(files) => files.name(),
            Target::Standard(_) => "standard output",
        }
    }
}

/// A file with deferred writes.
#[derive(Debug)]
pub(super) struct Output {
    target: Target,
    /// Maximum number of bytes of a packet that are written.
    snap: usize,
    /// Bytes to write: the rest of a packet of which a pipe took a part, then whole packets. It grows at most to
    /// [`BEHIND`].
    behind: Vec<u8>,
    /// Bytes of that rest.
    rest: usize,
    /// The header is written.
    begun: bool,
    /// The recording time of the last packet that kept its time.
    recorded: Option<Duration>,
}

impl Output {
    /// Makes an output. The file stays as it is until a round ends, or until a sent packet is written.
    pub(super) fn new(target: Target, snap: usize) -> Output {
        Output { target, snap, behind: Vec::with_capacity(BEHIND), rest: 0, begun: false, recorded: None }
    }

    /// Keeps as many of `frames` for writing as there is room for. Returns their number. Each is written with the time
    /// at which it was recorded, if it kept that time. A packet without it, such as one made by a router, gets the time
    /// of the packet before. If no packet kept its time, those of a burst get the time of transmission.
    #[inline]
    pub(super) fn send(&mut self, frames: &[Frame]) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (i, frame) in frames.iter().enumerate() {
            let written = &frame.data()[..frame.len().min(self.snap)];
            if RECORD + written.len() > BEHIND - self.behind.len() {
                return i;
            }
            self.recorded = frame.timestamp().or(self.recorded);
            self.behind.extend(record(self.recorded.unwrap_or(now), written.len(), frame.len()));
            self.behind.extend_from_slice(written);
        }
        frames.len()
    }

    /// Returns whether kept bytes are not written yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Writes the kept bytes, after the header. Bytes for which a pipe has no room stay kept.
    ///
    /// # Errors
    /// Returns the file system's error. Kept packets that are not completely in the file are lost then, and counted.
    /// The file ends with the last complete packet, unless it is standard output.
    #[cold]
    pub(super) fn write_behind(&mut self, counters: &PortCounters) -> Result<(), String> {
        let mut written = 0;
        let ready = self.begin().and_then(|()| self.make_room());
        let done = ready.and_then(|()| write_all(self.target.writer(), &self.behind, &mut written));
        match done {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.keep_behind(written);
                return Ok(());
            }
            Err(_) => self.give_up(written, counters),
            Ok(()) => {}
        }
        self.behind.clear();
        self.rest = 0;
        done.map_err(|error| format!("write {}: {error}", self.target.name()))
    }

    /// Writes the kept bytes, as far as the reader takes them in time. Packets that it does not take are lost, and
    /// counted.
    #[cold]
    pub(super) fn close(&mut self, counters: &PortCounters) {
        let mut taken = (Instant::now(), self.behind.len());
        // There is no caller left to report the cause to.
        while self.is_behind() && self.write_behind(counters).is_ok() && taken.0.elapsed() < DEAF {
            if self.behind.len() < taken.1 {
                taken = (Instant::now(), self.behind.len());
            }
            if self.is_behind() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        if self.is_behind() {
            self.give_up(0, counters);
            self.behind.clear();
        }
    }

    /// Removes the first `written` bytes of the kept bytes.
    fn keep_behind(&mut self, written: usize) {
        self.rest = match written.checked_sub(self.rest) {
            None => self.rest - written,
            Some(beyond) => {
                let packets = &self.behind[self.rest..];
                let (whole, _) = cut_off(packets, beyond);
                // The bytes of the packet in which the write ends.
                beyond
                    .checked_sub(whole)
                    .filter(|&part| part > 0)
                    .map_or(0, |part| size_at(packets, whole) - part)
            }
        };
        self.behind.drain(..written);
    }

    /// Counts the kept packets that are not completely written, and ends a file behind the last complete packet.
    fn give_up(&mut self, written: usize, counters: &PortCounters) {
        let (whole, lost) = cut_off(&self.behind[self.rest..], written.saturating_sub(self.rest));
        counters.tx_lost.add(lost + u64::from(written < self.rest));
        if let Target::Files(files) = &mut self.target {
            let file = files.current();
            let before = file.len() - written as u64;
            // A part of a header is not a header.
            file.cut(if before >= header().len() as u64 { before + whole as u64 } else { 0 });
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        match &mut self.target {
            Target::Files(files) => files.begin()?,
            // All of it or nothing: it is shorter than the size that a pipe takes at once.
            Target::Standard(file) => file.write_all(&header())?,
        }
        self.begun = true;
        Ok(())
    }

    /// Goes on to the next file if the current one has no room for the kept packets.
    fn make_room(&mut self) -> io::Result<()> {
        match &mut self.target {
            Target::Files(files) => files.make_room(self.behind.len()),
            Target::Standard(_) => Ok(()),
        }
    }
}

/// Number of bytes of the packet that begins at `at`, with its record header.
fn size_at(behind: &[u8], at: usize) -> usize {
    let len = behind.get(at + LENGTH..).and_then(|rest| rest.first_chunk());
    RECORD + len.map_or(0, |len| u32::from_ne_bytes(*len) as usize)
}

/// Writes `bytes`, and adds the bytes written to `written`, also if the rest cannot be written.
pub(in crate::port) fn write_all(
    file: &mut (impl Write + ?Sized),
    bytes: &[u8],
    written: &mut usize,
) -> io::Result<()> {
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

/// Returns the number of bytes of the packets in `behind` that end within its first `written` bytes, and the number of
/// packets that do not.
#[cold]
pub(in crate::port) fn cut_off(behind: &[u8], written: usize) -> (usize, u64) {
    let (mut at, mut whole, mut packets) = (0, 0, 0);
    while at < behind.len() {
        at += size_at(behind, at);
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
    use crate::sys::reopen::reopen_to_write;
    use std::io::Read;

    /// Takes that many bytes, a few at a time, and no more.
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
            behind.extend(record(Duration::from_secs(1), len, len));
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

    /// Returns an output to a pipe with 400 packets to write, the pipe's other end, and all bytes that must come out.
    fn piped() -> (Output, io::PipeReader, Vec<u8>) {
        let (from, to) = io::pipe().unwrap();
        let target = Target::Standard(reopen_to_write(&to).unwrap());
        let mut output = Output::new(target, usize::MAX);
        for i in 0..400 {
            output.behind.extend(record(Duration::from_secs(1), i * 3, i * 3));
            output.behind.resize(output.behind.len() + i * 3, i as u8);
        }
        let all = [&header()[..], &output.behind].concat();
        (output, from, all)
    }

    #[test]
    fn a_pipe_gets_what_it_has_room_for_and_each_byte_once() {
        let (mut output, mut from, all) = piped();
        let (counters, mut got, mut rounds) = (PortCounters::default(), Vec::new(), 0);
        while output.is_behind() {
            output.write_behind(&counters).unwrap();
            let whole = &output.behind[output.rest..];
            assert_eq!(cut_off(whole, whole.len()), (whole.len(), 0), "whole packets behind the rest of one");
            let mut some = [0; 7_777];
            let n = from.read(&mut some).unwrap();
            got.extend_from_slice(&some[..n]);
            rounds += 1;
        }
        drop(output);
        from.read_to_end(&mut got).unwrap();
        assert!(got == all && rounds > 10, "{} of {} bytes in {rounds} rounds", got.len(), all.len());
        assert_eq!(counters.tx_lost.get(), 0);
    }

    #[test]
    fn packets_that_a_reader_leaves_behind_are_lost_and_counted() {
        for goes in [true, false] {
            let (mut output, from, all) = piped();
            let counters = PortCounters::default();
            output.write_behind(&counters).unwrap();
            let written = all.len() - output.behind.len() - header().len();
            let (_, missing) = cut_off(&all[header().len()..], written);
            if goes {
                drop(from);
                assert!(output.write_behind(&counters).unwrap_err().starts_with("write standard output: "));
            } else {
                // The reader exists and takes nothing.
                output.close(&counters);
            }
            assert!(missing > 100 && counters.tx_lost.get() == missing, "{} lost", counters.tx_lost.get());
            assert!(!output.is_behind());
        }
    }
}
