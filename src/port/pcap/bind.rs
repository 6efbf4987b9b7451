//! COLD: opening the files.

use super::capture::Capture;
use super::format::{FormatError, HEADER};
use super::rx::Input;
use super::source::Source;
use super::tx::{BEHIND, Output, Target};
use super::written::WrittenFiles;
use super::{Files, PcapPort};
use crate::port::copying::CopyingPort;
use crate::port::output_file::{NotOpened, OutputFile, open};
use crate::sys::errno::path_remedy;
use crate::sys::reopen::{reopen_nonblocking, reopen_to_write};
use crate::wire::ethernet::MacAddr;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name that stands for standard input and output.
const STANDARD: &str = "-";

/// The speed at which a file is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speed {
    /// As fast as the caller takes packets.
    #[default]
    Full,
    /// Each packet with its recorded distance from the first one. A packet without a time, or of time 0, comes at once.
    Recorded,
}

/// The files that are written in turn: when the current one is full, the oldest is discarded and written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// Number of files, 2 to [`Rotation::FILES_MAX`]. All are made when the port is opened.
    pub files: u32,
    /// Maximum number of bytes of each, at least [`Rotation::BYTES_MIN`]. A file may be 512 KiB shorter, because the packets
    /// of a round go to one file.
    pub bytes: u64,
}

impl Rotation {
    /// Maximum number of files.
    pub const FILES_MAX: u32 = 1000;
    /// Minimum of [`Rotation::bytes`]: a file has room for the packets of a round.
    pub const BYTES_MIN: u64 = 1 << 20;

    fn is_possible(self) -> bool {
        const { assert!(Rotation::BYTES_MIN as usize >= HEADER + BEHIND) };
        (2..=Rotation::FILES_MAX).contains(&self.files) && self.bytes >= Rotation::BYTES_MIN
    }
}

/// The settings of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PcapConfig {
    /// The file to receive, or `-` for standard input, a file or a pipe; None receives nothing.
    pub input: Option<PathBuf>,
    /// The speed. Default full.
    pub speed: Speed,
    /// Number of times that the file is received; None repeats it forever. Of 0 nothing is received. Default once.
    pub times: Option<u64>,
    /// The file that transmitted packets are written to. It is created or truncated. `-` is standard output, a file or
    /// a pipe. None discards the packets.
    pub output: Option<PathBuf>,
    /// The destination MAC address that each received unicast packet gets in place of the recorded one. With it, a
    /// program that accepts only packets sent to its own address accepts the packets of a capture. Default None.
    pub destination: Option<MacAddr>,
    /// Whether each packet keeps the time at which it was recorded
    /// ([`Frame::timestamp`](crate::pool::Frame::timestamp)). An output then writes the packet with that time instead
    /// of the time of transmission. The time takes 18 bytes of the frame, and of its headroom only if the packet leaves
    /// no others; without them the port goes down. Default false.
    pub recorded_timestamps: bool,
    /// Maximum number of bytes of each packet that are written; the record has the packet's length too. None writes all.
    /// Default None.
    pub snap: Option<u32>,
    /// The files that are written in turn in place of `output`, so that a capture of any duration takes a bounded part of the
    /// disk. Default None.
    pub rotation: Option<Rotation>,
    /// Maximum number of frames posted in each direction. Default 2,048.
    pub ring: usize,
}

impl Default for PcapConfig {
    fn default() -> Self {
        PcapConfig {
            input: None,
            speed: Speed::Full,
            times: Some(1),
            output: None,
            destination: None,
            recorded_timestamps: false,
            snap: None,
            rotation: None,
            ring: 2048,
        }
    }
}

impl PcapConfig {
    /// The files that the port writes: `output`, or with [`PcapConfig::rotation`] that name with `.0`, `.1` and so on
    /// appended, with as many digits as the last one has.
    ///
    /// ```
    /// use netmem::port::pcap::{PcapConfig, Rotation};
    ///
    /// let rotation = Some(Rotation { files: 12, bytes: 64 << 20 });
    /// let config = PcapConfig { output: Some("/tmp/a.pcap".into()), rotation, ..PcapConfig::default() };
    /// let files = config.outputs();
    /// assert_eq!(files.len(), 12);
    /// assert_eq!([&files[0], &files[11]].map(|file| file.to_str()), [Some("/tmp/a.pcap.00"), Some("/tmp/a.pcap.11")]);
    /// ```
    pub fn outputs(&self) -> Vec<PathBuf> {
        let Some(output) = &self.output else { return Vec::new() };
        let Some(Rotation { files, .. }) = self.rotation else { return vec![output.clone()] };
        let digits = files.saturating_sub(1).to_string().len();
        let numbered = |number| {
            let mut name = output.clone().into_os_string();
            name.push(format!(".{number:0digits$}"));
            PathBuf::from(name)
        };
        (0..files).map(numbered).collect()
    }
}

/// The reason why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// There is neither input nor output.
    #[error("pcap port without a file: give in=FILE, out=FILE, or both")]
    NoFile,
    /// A file could not be opened.
    #[error("open {}: {error}{}", .path.display(), path_remedy(.error))]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The input cannot be read.
    #[error("{}: {error}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The error in the file's format.
        error: FormatError,
    },
    /// A file is a pipe. Opening it could already wait forever.
    #[error("{} is a pipe, whose other end could hold up every round: give a file", .0.display())]
    Pipe(PathBuf),
    /// A file is a terminal.
    #[error("{} is a terminal, which could hold up every round: give a file", .0.display())]
    TerminalFile(PathBuf),
    /// Standard output is a terminal, which no program reads as a capture.
    #[error("standard output is a terminal: send the capture to a file or to a program")]
    Terminal,
    /// The number or the size of the files that are written in turn is not possible.
    #[error("{} files of {} bytes: give 2 to {} files of at least {} bytes each", .0.files, .0.bytes, Rotation::FILES_MAX, Rotation::BYTES_MIN)]
    Rotation(Rotation),
    /// Files are to be written in turn, and the output is standard output.
    #[error("standard output is one file: give the name of a file, to which a number is appended")]
    OneFile,
    /// The input is a pipe, and is to be received several times.
    #[error("standard input is a pipe, of which each packet comes once: receive it once, or a file")]
    Again,
    /// Input and output are the same file.
    #[error("{} would be read and written: give two files", .0.display())]
    SameFile(PathBuf),
}

impl PcapError {
    fn of(path: &Path, error: NotOpened) -> PcapError {
        let path = path.to_owned();
        match error {
            NotOpened::Pipe => PcapError::Pipe(path),
            NotOpened::Terminal => PcapError::TerminalFile(path),
            NotOpened::Failed(error) => PcapError::Open { path, error },
        }
    }
}

impl PcapPort {
    /// Opens the files, and reads the first packets ahead. `name` is the port's name behind `pcap:`.
    ///
    /// # Errors
    /// Returns [`PcapError`] with the file and the remedy. The output's old content is discarded when the first round
    /// ends, not earlier.
    #[cold]
    pub fn open(name: &str, config: &PcapConfig) -> Result<PcapPort, PcapError> {
        let input = config.input.as_deref().map(|path| input(path, config)).transpose()?;
        let output = match &config.output {
            Some(path) if path == Path::new(STANDARD) && config.rotation.is_some() => {
                return Err(PcapError::OneFile);
            }
            Some(path) if path == Path::new(STANDARD) => Some(Target::Standard(standard_output()?)),
            Some(_) => Some(Target::Files(written(config, input.as_ref())?)),
            None => None,
        };
        if input.is_none() && output.is_none() {
            return Err(PcapError::NoFile);
        }
        let snap = config.snap.map_or(usize::MAX, |snap| snap as usize);
        let output = output.map(|target| Output::new(target, snap));
        Ok(CopyingPort::new(format!("pcap:{name}"), Files::new(input, output), config.ring))
    }
}

/// Opens the files that are written.
fn written(config: &PcapConfig, input: Option<&Input>) -> Result<WrittenFiles, PcapError> {
    if let Some(rotation) = config.rotation.filter(|rotation| !rotation.is_possible()) {
        return Err(PcapError::Rotation(rotation));
    }
    let open = |path: PathBuf| {
        let file = OutputFile::open(&path).map_err(|error| PcapError::of(&path, error))?;
        if input.is_some_and(|input| is_same(input.file(), file.file())) {
            return Err(PcapError::SameFile(path));
        }
        Ok((file, path.display().to_string()))
    };
    let files: Vec<_> = config.outputs().into_iter().map(open).collect::<Result<_, _>>()?;
    Ok(WrittenFiles::new(files, config.rotation.map_or(u64::MAX, |rotation| rotation.bytes)))
}

fn standard_output() -> Result<File, PcapError> {
    let stdout = io::stdout();
    if stdout.is_terminal() {
        return Err(PcapError::Terminal);
    }
    let opened = |error| PcapError::Open { path: STANDARD.into(), error };
    reopen_to_write(stdout).map_err(opened)
}

fn input(path: &Path, config: &PcapConfig) -> Result<Input, PcapError> {
    let opened = |error| PcapError::Open { path: path.to_owned(), error };
    let refused = |error| PcapError::Format { path: path.to_owned(), error };
    let is_stdin = path == Path::new(STANDARD);
    let file = if is_stdin {
        reopen_nonblocking(io::stdin()).map_err(opened)?
    } else {
        open(path, File::options().read(true)).map_err(|error| PcapError::of(path, error))?
    };
    if is_stdin && !file.metadata().map_err(opened)?.is_file() {
        let once = config.times == Some(1);
        let (source, name) = (Source::of_pipe(file), "standard input".to_owned());
        return if once {
            Ok(Input::new(source, name, Capture::Unread, config))
        } else {
            Err(PcapError::Again)
        };
    }
    let mut source = Source::of(file).map_err(opened)?;
    let mut header = Vec::new();
    (&mut source).take(HEADER as u64).read_to_end(&mut header).map_err(opened)?;
    source.rewind().map_err(opened)?;
    let capture = Capture::of(&header).map_err(refused)?;
    let mut input = Input::new(source, path.display().to_string(), capture, config);
    input.look_ahead().map_err(refused)?;
    Ok(input)
}

/// Returns whether two open files are the same file.
fn is_same(one: &File, other: &File) -> bool {
    let number = |file: &File| file.metadata().map(|file| (file.dev(), file.ino())).ok();
    number(one).is_some_and(|one| number(other) == Some(one))
}
