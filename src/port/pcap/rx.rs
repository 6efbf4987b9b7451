//! HOT, except for reading ahead: packets out of a file.

use super::capture::{Bad, Capture, Located, Next};
use super::format::{FormatError, PACKET_MAX, Record};
use super::source::Source;
use super::{PcapConfig, Speed};
use crate::pool::NoRoom;
use crate::port::PortCounters;
use crate::port::copying::RxBuffers;
use crate::wire::ethernet::MacAddr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Maximum number of bytes read ahead: two of the longest packets, with their record headers.
const AHEAD: usize = 2 * (PACKET_MAX + 32);

/// A file that is read ahead.
#[derive(Debug)]
pub(super) struct Input {
    source: Source,
    /// More bytes may come later.
    is_pipe: bool,
    path: String,
    capture: Capture,
    /// Bytes read from the file. Those from `next` to `end` are still to be received.
    ahead: Box<[u8]>,
    next: usize,
    end: usize,
    /// Bytes from `next` on that belong to no packet, including bytes not read yet.
    skip: u64,
    /// Offset of `end` in the file, for reports of damage.
    offset: u64,
    /// All of the file has been read ahead.
    read: bool,
    /// The reason why the file cannot be read on. It is reported after the bytes read ahead have been received.
    broken: Option<String>,
    /// The file will not be read again.
    over: bool,
    /// Number of times that the file is to be read again; None forever.
    again: Option<u64>,
    /// Packets received since reading began at the start of the file.
    received: u64,
    /// Packets skipped that are not Ethernet frames, and not counted yet.
    other_link: u64,
    speed: Speed,
    /// The destination MAC address that unicast packets get.
    destination: Option<MacAddr>,
    /// Each packet keeps the time at which it was recorded.
    recorded_timestamps: bool,
    /// The time when the first packet that has a time was received, and the time when it was recorded.
    begun: Option<(Instant, Duration)>,
}

impl Input {
    /// Makes an input for a capture that is read from its first byte.
    pub(super) fn new(source: Source, path: String, mut capture: Capture, config: &PcapConfig) -> Input {
        let skip = capture.begin();
        Input {
            is_pipe: matches!(source, Source::Unread(_)),
            source,
            path,
            capture,
            skip,
            ahead: vec![0; AHEAD].into_boxed_slice(),
            next: 0,
            end: 0,
            offset: 0,
            read: false,
            broken: None,
            over: config.times == Some(0),
            again: config.times.map(|times| times.saturating_sub(1)),
            received: 0,
            other_link: 0,
            speed: config.speed,
            destination: config.destination,
            recorded_timestamps: config.recorded_timestamps,
            begun: None,
        }
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        self.source.file()
    }

    /// Checks whether the first packet can be forwarded, if it has been read ahead.
    ///
    /// # Errors
    /// Returns [`FormatError`]. Damage is reported when reading reaches it.
    pub(super) fn look_ahead(&mut self) -> Result<(), FormatError> {
        // A read error is reported when the file is read again.
        let _ = self.read_ahead();
        match self.locate() {
            Err(Bad::Format(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Receives the due packets into `rooms`, from the first on, and counts them in `n`.
    ///
    /// # Errors
    /// Returns an error if the file is damaged. Packets before the damage are received.
    #[inline]
    pub(super) fn receive(
        &mut self,
        rooms: &mut RxBuffers<'_>,
        n: &mut usize,
        counters: &PortCounters,
    ) -> Result<(), String> {
        let now = (self.speed == Speed::Recorded).then(Instant::now);
        while let Some(mut room) = rooms.get(*n) {
            let Some(Located { record, start, size }) = self.peek()? else { break };
            if now.is_some_and(|now| !self.due(&record, now)) {
                break;
            }
            let packet = &self.ahead[self.next + start..][..record.len as usize];
            // An empty packet has no time to keep.
            let keeps_time = self.recorded_timestamps && record.len > 0;
            let len = packet.len();
            match if keeps_time { room.put_for_timestamp(len) } else { room.put(len) } {
                Ok(bytes) => {
                    bytes.copy_from_slice(packet);
                    if let Some(mac) = self.destination {
                        redirect(bytes, mac);
                    }
                    if keeps_time {
                        room.set_timestamp(record.at).map_err(|no| {
                            // Trimming to 0 bytes always succeeds.
                            let _ = room.trim(0);
                            self.no_room_for_timestamps(no)
                        })?;
                    }
                    *n += 1;
                    counters.rx_snapped.add((record.len < record.original).into());
                }
                Err(_) => counters.rx_too_long.add(1),
            }
            self.skip = size;
            self.capture.pass_packet(size);
            self.received += 1;
        }
        Ok(())
    }

    /// Returns the next packet, or None until all of its bytes have been read.
    ///
    /// # Errors
    /// Returns the reason why there is no packet, now or later.
    #[inline]
    fn peek(&mut self) -> Result<Option<Located>, String> {
        self.locate().map_err(|bad| match bad {
            Bad::Format(error) => format!("{}: {error}", self.path),
            Bad::Damaged(what) => self.damage(&what),
        })
    }

    /// Skips bytes that belong to no packet, up to the next packet.
    #[inline]
    fn locate(&mut self) -> Result<Option<Located>, Bad> {
        loop {
            let passed = self.skip.min((self.end - self.next) as u64);
            self.next += passed as usize;
            self.skip -= passed;
            if self.skip > 0 {
                return Ok(None);
            }
            match self.capture.next(&self.ahead[self.next..self.end])? {
                Next::Packet(packet) => return Ok(Some(packet)),
                Next::Skip(bytes) => self.skip = bytes,
                Next::OtherLink(bytes) => {
                    self.other_link += 1;
                    self.skip = bytes;
                }
                Next::More => return Ok(None),
            }
        }
    }

    /// Returns whether a packet is due at `now`: at its recorded distance from the first one that has a time, and at once
    /// if it has none. A program that knows no time writes 0, and the packets behind such a one would be due in decades.
    #[inline]
    fn due(&mut self, record: &Record, now: Instant) -> bool {
        let Some(at) = record.at.filter(|at| !at.is_zero()) else { return true };
        let (begun, first) = *self.begun.get_or_insert((now, at));
        now.duration_since(begun) >= at.saturating_sub(first)
    }

    /// Returns whether the next packet is there, or the next round reads on in a file. The packet may not be due yet: no
    /// descriptor becomes readable when it is.
    pub(super) fn has_next(&mut self) -> bool {
        let reads_on = !self.is_pipe && !self.over;
        // The caller must see an error.
        reads_on || self.peek().map_or(true, |next| next.is_some())
    }

    /// The descriptor that becomes readable when more can be read ahead. None if the input is always readable, or no
    /// more is to be read.
    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        let is_wanted = self.is_pipe && !self.read && !self.over && self.end - self.next <= AHEAD / 2;
        is_wanted.then(|| self.source.file().as_fd())
    }

    /// Counts the packets that were skipped.
    #[cold]
    pub(super) fn count_skipped(&mut self, counters: &PortCounters) {
        counters.rx_other_link.add(mem::take(&mut self.other_link));
    }

    /// Returns whether nothing more will come.
    pub(super) fn is_at_end(&self) -> bool {
        self.over && self.next == self.end
    }

    /// Reads on, once, when half of the bytes read ahead has been received.
    ///
    /// # Errors
    /// Returns the file system's error, or an error if the file ends within a packet. It is returned only after all
    /// packets up to there have been received.
    #[cold]
    pub(super) fn read_ahead(&mut self) -> Result<(), String> {
        if self.over || self.end - self.next > AHEAD / 2 {
            return Ok(());
        }
        if self.broken.is_some() {
            return if self.peek()?.is_some() { Ok(()) } else { self.broken.take().map_or(Ok(()), Err) };
        }
        if self.read {
            return match self.peek()? {
                Some(_) => Ok(()),
                None if matches!(self.capture, Capture::Unread) => {
                    Err(format!("{}: {}", self.path, FormatError::Short(self.end - self.next)))
                }
                None if self.is_between() => self.begin_again(),
                None => Err(self.damage("ends within a packet")),
            };
        }
        let left = self.end - self.next;
        self.ahead.copy_within(self.next..self.end, 0);
        (self.next, self.end) = (0, left);
        match self.source.read(&mut self.ahead[left..]) {
            Ok(n) => {
                self.end += n;
                self.offset += n as u64;
                self.read = n == 0;
                Ok(())
            }
            // The pipe has no more bytes at the moment.
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(()),
            Err(error) => {
                self.broken = Some(format!("read {}: {error}", self.path));
                Ok(())
            }
        }
    }

    /// Returns whether all bytes read were received, and end with a whole element.
    fn is_between(&self) -> bool {
        self.next == self.end && self.skip == 0 && self.capture.is_between()
    }

    /// Handles the end of the file: begins again at the first packet, or ends for good.
    fn begin_again(&mut self) -> Result<(), String> {
        // A file without packets is not read forever.
        if self.again == Some(0) || self.received == 0 {
            self.over = true;
            return Ok(());
        }
        self.again = self.again.map(|times| times - 1);
        (self.received, self.begun, self.offset, self.read) = (0, None, 0, false);
        self.skip = self.capture.begin();
        self.source.rewind().map_err(|error| format!("read {} again: {error}", self.path))
    }

    #[cold]
    fn no_room_for_timestamps(&self, no: NoRoom) -> String {
        format!(
            "{}: a timestamp finds no room in the frames ({no}): give their pool a headroom of 18 bytes",
            self.path
        )
    }

    #[cold]
    fn damage(&self, what: &str) -> String {
        let at = self.offset - (self.end - self.next) as u64;
        format!("{} {what}, at byte {at}: it is damaged", self.path)
    }
}

/// Sets the destination of a unicast packet to `mac`.
fn redirect(packet: &mut [u8], mac: MacAddr) {
    if let Some(destination) = packet.first_chunk_mut::<6>()
        && !MacAddr::new(*destination).is_multicast()
    {
        *destination = mac.bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::conformance::Fixture;
    use crate::port::pcap::format::{Format, header, record};
    use crate::sys::reopen::reopen_nonblocking;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    /// A directory can be opened but not read.
    #[test]
    fn what_was_read_before_a_file_could_not_be_read_on_is_received() {
        let folder = File::open(std::env::temp_dir()).unwrap();
        let format = Format::of(&header()).unwrap();
        let capture = Capture::Classic(format);
        let mut input = Input::new(
            Source::Plain(Arc::new(folder).into()),
            "folder".into(),
            capture,
            &PcapConfig::default(),
        );
        input.skip = 0;
        let ahead = [&record(Duration::ZERO, 60, 60)[..], &[7; 60], &record(Duration::ZERO, 9, 9)].concat();
        input.ahead[..ahead.len()].copy_from_slice(&ahead);
        input.end = ahead.len();
        assert_eq!((input.read_ahead(), input.read_ahead(), input.is_at_end()), (Ok(()), Ok(()), false));
        let mut fixture = Fixture::new(64);
        let mut frames =
            [fixture.pool.alloc(&mut fixture.w).unwrap(), fixture.pool.alloc(&mut fixture.w).unwrap()];
        let mut n = 0;
        input.receive(&mut RxBuffers::of(&mut frames), &mut n, &PortCounters::default()).unwrap();
        assert_eq!((n, frames[0].data()), (1, &[7; 60][..]));
        let reason = input.read_ahead().unwrap_err();
        assert!(reason.starts_with("read folder: "), "{reason}");
    }

    /// Receives all packets that can be read ahead now. Returns their number.
    fn receive_now(fixture: &mut Fixture, input: &mut Input) -> Result<usize, String> {
        let mut received = 0;
        loop {
            input.read_ahead()?;
            let mut frames = [fixture.pool.alloc(&mut fixture.w).unwrap()];
            let mut n = 0;
            input.receive(&mut RxBuffers::of(&mut frames), &mut n, &PortCounters::default())?;
            received += n;
            frames.into_iter().for_each(|frame| frame.free(&mut fixture.w));
            if n == 0 {
                return Ok(received);
            }
        }
    }

    fn piped() -> (Input, File) {
        let (from, to) = std::io::pipe().unwrap();
        let source = Source::of_pipe(reopen_nonblocking(from).unwrap());
        (Input::new(source, "pipe".into(), Capture::Unread, &PcapConfig::default()), OwnedFd::from(to).into())
    }

    #[test]
    fn a_pipe_gives_each_packet_when_its_last_byte_has_come() {
        let packet = [&record(Duration::ZERO, 60, 60)[..], &[7; 60]].concat();
        let plain = [&header()[..], &packet, &packet].concat();
        let mut fixture = Fixture::new(64);
        let (mut input, mut to) = piped();
        for (at, byte) in plain.iter().enumerate() {
            assert_eq!(receive_now(&mut fixture, &mut input), Ok(0), "before byte {at}");
            assert!(input.pipe().is_some());
            to.write_all(&[*byte]).unwrap();
            let whole = [header().len() + packet.len(), plain.len()].contains(&(at + 1));
            assert_eq!(receive_now(&mut fixture, &mut input), Ok(usize::from(whole)), "after byte {at}");
        }
        drop(to);
        assert_eq!((0..3).map(|_| receive_now(&mut fixture, &mut input)).filter(|n| *n == Ok(0)).count(), 3);
        assert!(input.is_at_end() && input.pipe().is_none());

        let mut compressor = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        compressor.write_all(&plain).unwrap();
        let (mut input, mut to) = piped();
        let mut received = 0;
        for byte in compressor.finish().unwrap() {
            to.write_all(&[byte]).unwrap();
            received += receive_now(&mut fixture, &mut input).unwrap();
        }
        assert_eq!(received, 2);
    }

    #[test]
    fn a_pipe_that_ends_early_or_is_no_capture_says_so() {
        let mut fixture = Fixture::new(64);
        let whole = [&header()[..], &record(Duration::ZERO, 60, 60), &[7; 60]].concat();
        for (bytes, said) in [
            (&[][..], "pipe: not a pcap file: it has 0 bytes"),
            (&whole[..23], "pipe: not a pcap file: it has 23 bytes"),
            (&[0x42; 64], "pipe: not a pcap or pcapng file"),
            (&whole[..50], "pipe ends within a packet, at byte 24"),
        ] {
            let (mut input, mut to) = piped();
            to.write_all(bytes).unwrap();
            drop(to);
            let failed = (0..4).find_map(|_| receive_now(&mut fixture, &mut input).err()).unwrap();
            assert!(failed.starts_with(said), "{failed}");
        }
    }
}
