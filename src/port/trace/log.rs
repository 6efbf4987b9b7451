//! The records of a trace, and their file.

use super::TraceCounters;
use crate::limits::BATCH_MAX;
use crate::pool::Frame;
use crate::port::PortState;
use crate::port::output_file::{NotOpened, OutputFile};
use crate::port::pcap::{cut_off, file_header, packet_header, write_all};
use crate::sys::errno::path_remedy;
use crate::sys::stderr;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Maximum number of bytes kept for writing.
const BEHIND: usize = 256 << 10;

/// The file format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceFormat {
    /// An object on each line.
    #[default]
    Json,
    /// A pcap file of the frames received and transmitted.
    Pcap,
}

/// The settings of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceConfig {
    /// The file, which is truncated when the first round ends; None is standard error.
    pub file: Option<PathBuf>,
    /// Default JSON.
    pub format: TraceFormat,
    /// Maximum number of a frame's bytes in JSON. Default 64.
    pub bytes: usize,
    /// Maximum number of frames recorded; then the trace is at its end. Default 1,000,000.
    pub limit: u64,
}

impl Default for TraceConfig {
    fn default() -> Self {
        TraceConfig { file: None, format: TraceFormat::Json, bytes: 64, limit: 1_000_000 }
    }
}

/// The reason why a trace could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be made.
    #[error("trace to {}: {error}{}", .path.display(), path_remedy(.error))]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is a pipe. Opening it could already wait forever.
    #[error("trace to {}: it is a pipe, whose other end could hold up every round: give a file", .0.display())]
    Pipe(PathBuf),
    /// The file is a terminal.
    #[error("trace to {}: it is a terminal, which could hold up every round: give a file", .0.display())]
    Terminal(PathBuf),
    /// A pcap file is not text.
    #[error("trace as pcap to standard error: give it a file")]
    NoFile,
}

impl TraceError {
    fn of(path: &Path, error: NotOpened) -> TraceError {
        let path = path.to_owned();
        match error {
            NotOpened::Pipe => TraceError::Pipe(path),
            NotOpened::Terminal => TraceError::Terminal(path),
            NotOpened::Failed(error) => TraceError::File { path, error },
        }
    }
}

/// A frame that was recorded, or for which there was no room.
#[derive(Debug)]
struct Noted {
    id: NonZeroU32,
    /// Its range in the bytes to write; empty if it is not there.
    at: Range<usize>,
}

/// A file, or standard error.
enum To {
    File(PathBuf, OutputFile),
    Stderr,
}

impl To {
    /// Writes `bytes` from the offset `written` on, and advances `written`. To standard error it writes whole lines, as many
    /// as `offer` takes.
    fn write(
        &mut self,
        bytes: &[u8],
        written: &mut usize,
        offer: fn(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            To::File(_, file) => {
                // Also if there is nothing to write: the old content is discarded.
                file.flush()?;
                write_all(file, bytes, written)
            }
            To::Stderr => {
                while *written < bytes.len() {
                    let end = *written + lines_at_once(&bytes[*written..]);
                    match offer(&bytes[*written..end]) {
                        Ok(()) => *written = end,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    }
                }
                Ok(())
            }
        }
    }
}

/// Returns the length of as many whole lines as a pipe takes at once, at least of one.
fn lines_at_once(bytes: &[u8]) -> usize {
    let end = |part: &[u8]| part.iter().rposition(|&byte| byte == b'\n').map(|at| at + 1);
    let first = || bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
    end(&bytes[..bytes.len().min(stderr::WHOLE)]).or_else(first).unwrap_or(bytes.len())
}

/// The target of a trace.
pub(super) struct Log {
    to: To,
    format: TraceFormat,
    /// The port's name as a JSON string, with its quotes.
    port: String,
    bytes: usize,
    /// Number of frames that are recorded at most, and that may still be recorded.
    limit: u64,
    left: u64,
    begun: Instant,
    /// Bytes to write. Nothing is added after it has reached [`BEHIND`].
    behind: Vec<u8>,
    /// The frames of the last burst, until those that did not pass are removed.
    burst: Vec<Noted>,
    /// Number of frames and bursts in `behind`.
    unwritten: u64,
    /// The file holds only what was written here.
    opened: bool,
    /// The reason why writing has failed, if it has: nothing more is recorded.
    broken: Option<String>,
    counters: Arc<TraceCounters>,
}

impl Log {
    #[cold]
    pub(super) fn open(port: &str, config: &TraceConfig) -> Result<Log, TraceError> {
        let to = match &config.file {
            Some(path) => {
                let file = OutputFile::open(path).map_err(|error| TraceError::of(path, error))?;
                To::File(path.clone(), file)
            }
            None if config.format == TraceFormat::Pcap => return Err(TraceError::NoFile),
            None => {
                // By now: the thread that writes may have no right to open anything.
                stderr::prepare();
                To::Stderr
            }
        };
        Ok(Log {
            to,
            format: config.format,
            port: quoted(port),
            bytes: config.bytes,
            limit: config.limit,
            left: config.limit,
            begun: Instant::now(),
            behind: Vec::with_capacity(BEHIND),
            burst: Vec::with_capacity(BATCH_MAX),
            unwritten: 0,
            opened: false,
            broken: None,
            counters: Arc::default(),
        })
    }

    pub(super) fn counters(&self) -> Arc<TraceCounters> {
        Arc::clone(&self.counters)
    }

    /// Records a burst of frames that were received, or will be transmitted.
    pub(super) fn frames(&mut self, call: &str, frames: &[Frame]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ns = self.begun.elapsed().as_nanos();
        for frame in frames {
            let begun = self.behind.len();
            if (self.burst.len() as u64) < self.left && self.has_room(frame.len()) {
                match self.format {
                    TraceFormat::Json => self.line(ns, call, frame),
                    TraceFormat::Pcap => {
                        self.behind.extend(packet_header(now, frame.len(), frame.len()));
                        self.behind.extend_from_slice(frame.data());
                    }
                }
            }
            self.burst.push(Noted { id: frame.id(), at: begun..self.behind.len() });
        }
    }

    /// Removes the records of the frames that `stayed`: all other frames of the last burst have passed.
    pub(super) fn cross_out(&mut self, stayed: &[Frame]) {
        let mut end = self.burst.first().map_or(self.behind.len(), |first| first.at.start);
        for Noted { id, at } in self.burst.drain(..) {
            if stayed.iter().any(|frame| frame.id() == id) {
                continue;
            }
            let written = !at.is_empty();
            self.left -= u64::from(written);
            self.unwritten += u64::from(written);
            self.counters.lost.add(u64::from(!written));
            let len = at.len();
            self.behind.copy_within(at, end);
            end += len;
        }
        self.behind.truncate(end);
    }

    fn line(&mut self, ns: u128, call: &str, frame: &Frame) {
        let (port, len) = (&self.port, frame.len());
        let mut text = String::with_capacity(96 + 2 * self.bytes.min(len));
        // Writing to a string does not fail.
        let _ = write!(text, r#"{{"ns":{ns},"port":{port},"call":"{call}","len":{len},"bytes":""#);
        for byte in frame.data().iter().take(self.bytes) {
            let _ = write!(text, "{byte:02x}");
        }
        text.push_str("\"}\n");
        self.behind.extend_from_slice(text.as_bytes());
    }

    /// Records that that many frames were filled or completed.
    pub(super) fn burst(&mut self, call: &str, frames: usize) {
        if frames > 0 && self.left > 0 {
            self.note(&format!(r#""call":"{call}","frames":{frames}"#));
        }
    }

    /// Records that the port went down, with the reason, or came up.
    #[cold]
    pub(super) fn state(&mut self, state: &PortState) {
        let state = match state {
            PortState::Up => "up",
            PortState::Down(reason) => reason,
        };
        self.note(&format!(r#""state":{}"#, quoted(state)));
    }

    /// Adds one line of JSON, if the format is JSON.
    fn note(&mut self, rest: &str) {
        if self.format != TraceFormat::Json {
            return;
        }
        if self.has_room(0) {
            let line =
                format!("{{\"ns\":{},\"port\":{},{rest}}}\n", self.begun.elapsed().as_nanos(), self.port);
            self.behind.extend_from_slice(line.as_bytes());
            self.unwritten += 1;
        } else {
            self.counters.lost.add(1);
        }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.broken.is_none() && self.behind.len() + bytes < BEHIND
    }

    /// Writes the records to the file, or as many as standard error takes now. The first call discards the file's old
    /// content.
    pub(super) fn write(&mut self) {
        self.write_by(stderr::offer);
    }

    fn write_by(&mut self, offer: fn(&[u8]) -> io::Result<()>) {
        if !self.opened {
            self.opened = true;
            let header = if self.format == TraceFormat::Pcap { &file_header()[..] } else { &[] };
            if let Err(error) = self.to.write(header, &mut 0, offer) {
                self.fail(&error, 0);
            }
        }
        let mut written = 0;
        if !self.behind.is_empty()
            && self.broken.is_none()
            && let Err(error) = self.to.write(&self.behind, &mut written, offer)
        {
            self.fail(&error, written);
        }
        if self.broken.is_none() && written < self.behind.len() {
            return self.keep_from(written);
        }
        let outcome = if self.broken.is_some() { &self.counters.lost } else { &self.counters.written };
        outcome.add(std::mem::take(&mut self.unwritten));
        self.behind.clear();
    }

    /// Keeps the records that standard error did not take: those behind the first `written` bytes. There each record is a line.
    #[cold]
    fn keep_from(&mut self, written: usize) {
        let lines = lines(&self.behind[..written]);
        self.behind.drain(..written);
        self.counters.written.add(lines);
        self.unwritten -= lines;
    }

    /// The reason why nothing more is recorded, if there is one.
    pub(super) fn complaint(&self) -> Option<String> {
        self.broken.clone()
    }

    /// Returns a line if the trace is at its end.
    pub(super) fn notice(&self) -> Option<String> {
        let is_over = self.left == 0 && self.broken.is_none();
        let to = match &self.to {
            To::File(path, _) => path.display().to_string(),
            To::Stderr => "standard error".to_owned(),
        };
        is_over.then(|| {
            format!("trace to {to}: it has its {} frames (limit), and records no further one", self.limit)
        })
    }

    /// Handles a write that failed after that many bytes. The file ends with the last complete record.
    #[cold]
    fn fail(&mut self, error: &io::Error, written: usize) {
        self.counters.failed.add(1);
        let To::File(path, file) = &mut self.to else {
            self.broken = Some(format!("trace to standard error: {error}"));
            return self.keep_from(written);
        };
        self.broken = Some(format!("trace to {}: {error}", path.display()));
        let (whole, records) = match self.format {
            TraceFormat::Pcap => {
                let (whole, cut) = cut_off(&self.behind, written);
                (whole, self.unwritten.saturating_sub(cut))
            }
            TraceFormat::Json => {
                let end = self.behind[..written].iter().rposition(|&byte| byte == b'\n');
                let whole = end.map_or(0, |end| end + 1);
                (whole, lines(&self.behind[..whole]))
            }
        };
        self.counters.written.add(records);
        self.unwritten -= records;
        let before = file.len() - written as u64;
        let header = if self.format == TraceFormat::Pcap { file_header().len() as u64 } else { 0 };
        file.cut(if before < header { 0 } else { before + whole as u64 });
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A port that was never used leaves the file unchanged.
        if !self.behind.is_empty() {
            self.write_by(stderr::insist);
        }
        self.counters.lost.add(self.unwritten);
    }
}

fn lines(text: &[u8]) -> u64 {
    text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Returns a JSON string.
fn quoted(text: &str) -> String {
    let mut json = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => json.extend(['\\', c]),
            c if c < ' ' => drop(write!(json, "\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Seen: a file of 1,500 lines was reported as 2,000 records lost, and none written.
    #[test]
    fn the_records_before_a_write_that_fails_part_way_are_written_and_no_others() {
        let path = std::env::temp_dir().join(format!("netmem-trace-part-{}", std::process::id()));
        let config = TraceConfig { file: Some(path.clone()), ..TraceConfig::default() };
        let mut log = Log::open("mem:0", &config).unwrap();
        (0..10).for_each(|_| log.state(&PortState::Up));
        let (To::File(_, file), line) = (&mut log.to, log.behind.len() / 10) else { panic!("a file") };
        let written = 3 * line + line / 2;
        file.write_all(&log.behind[..written]).unwrap();
        log.fail(&io::Error::from(ErrorKind::StorageFull), written);
        let counters = log.counters();
        drop(log);
        let lines = fs::read_to_string(&path).unwrap().lines().count() as u64;
        assert_eq!((counters.written.get(), counters.lost.get(), lines), (3, 7, 3));
        assert_eq!(counters.failed.get(), 1, "seen: nothing told it from a trace at its limit");
        fs::remove_file(path).ok();
    }

    #[test]
    fn names_with_quotes_and_line_ends_stay_one_string_on_one_line() {
        assert_eq!(quoted("xdp:\"a\\b\"\n"), r#""xdp:\"a\\b\"\u000a""#);
    }
}
