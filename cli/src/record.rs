//! `netmem record`: writes the recording of a running `netmem forward --record` as pcapng.

use crate::args::RecordArgs;
use crate::control::{client, path_of_run};
use crate::failure::Failure;
use crate::recorded::{ANSWER_PACKETS, Capture, Recorded};
use crate::recording_file::{self, RecordingFile};
use crate::{stat, stop};
use serde_json::json;
use std::io::{self, BufWriter, ErrorKind, IsTerminal, StdoutLock, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, SystemTime};

/// The interval at which new packets are asked for.
const INTERVAL: Duration = Duration::from_millis(100);
/// Number of requests to a run that refuses them. A second lies between two.
const TRIES: usize = 5;

/// What the recording is written to.
enum Output {
    File(RecordingFile),
    Standard(StdoutLock<'static>),
}

impl Output {
    /// Gives a file its name, in place of an earlier recording.
    fn replace(&mut self) -> io::Result<()> {
        match self {
            Output::File(file) => file.replace(),
            Output::Standard(_) => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::File(file) => file.write(bytes),
            Output::Standard(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::File(file) => file.flush(),
            Output::Standard(output) => output.flush(),
        }
    }
}

/// Writes the recorded packets, and goes on with new ones if the arguments ask for it.
///
/// # Errors
/// [`Failure::NotNow`] if no process answers. [`Failure::Input`] if it records nothing, or if the file cannot be made.
/// [`Failure::Run`] if writing fails.
pub fn run(args: &RecordArgs) -> Result<(), Failure> {
    let path = path_of_run(args.control.as_deref())?;
    // As in other programs that write captures, - is standard output.
    let output = args.output.as_deref().filter(|output| *output != Path::new("-"));
    if output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::input(
            "a recording cannot be shown on a terminal: give --output FILE, or pipe it to wireshark -k -i -",
        ));
    }
    // Asked first: the file is not touched if there is nothing to write.
    let first = ask(&path, &[])?;
    let to = match output {
        Some(path) => Output::File(RecordingFile::open(path).map_err(|error| {
            Failure::Input(format!(
                "--output {}: {error}{}",
                path.display(),
                recording_file::remedy_of(&error)
            ))
        })?),
        None => Output::Standard(io::stdout().lock()),
    };
    match write(to, first, args.follow, &path)? {
        // The reader is gone. A viewer ends in this way.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::run(format!("the recording cannot be written: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Writes the packets, and with `follow` those that come, until a signal comes or the run ends. Returns the result of
/// writing. A file that is followed has its name from the first packets on, so that others can read it meanwhile. Any other
/// has it at the end.
///
/// # Errors
/// The run goes on, and does not answer.
fn write(to: Output, first: Vec<Recorded>, follow: bool, path: &Path) -> Result<io::Result<()>, Failure> {
    let mut capture = match Capture::new(BufWriter::new(to)) {
        Ok(capture) => capture,
        Err(error) => return Ok(Err(error)),
    };
    let (stop, begun) = (stop::on_signal().ok(), SystemTime::now());
    let begun_ns = begun.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let mut packets = first;
    loop {
        let written = packets.iter().try_for_each(|packet| capture.write(packet));
        let written = written.and_then(|()| capture.to().flush());
        // Without `follow` it ends with the packets that were recorded when it began, though others come.
        let is_full = packets.len() >= ANSWER_PACKETS;
        let is_older = packets.last().is_some_and(|packet| packet.time_ns < begun_ns);
        let is_last = !(follow || is_full && is_older);
        let named =
            if follow || is_last { written.and_then(|()| capture.to().get_mut().replace()) } else { written };
        if named.is_err() || is_last {
            return Ok(named);
        }
        if !is_full {
            thread::sleep(INTERVAL);
        }
        let is_stopped = stop.as_ref().is_some_and(|stop| stop.load(Relaxed));
        match if is_stopped { None } else { ask_on(path, &capture.since())? } {
            Some(next) => packets = next,
            None => return Ok(capture.to().get_mut().replace()),
        }
    }
}

/// As [`ask`]. Returns None if the run has ended, and with it the recording. Asks again some times if the run refuses,
/// since its other clients may leave.
fn ask_on(path: &Path, since: &[u64]) -> Result<Option<Vec<Recorded>>, Failure> {
    for _ in 1..TRIES {
        match ask(path, since) {
            Ok(packets) => return Ok(Some(packets)),
            // This takes a second while the run goes on.
            Err(_) if stat::has_ended(path) => return Ok(None),
            Err(_) => {}
        }
    }
    ask(path, since).map(Some)
}

/// Returns the recorded packets from these numbers on.
fn ask(path: &Path, since: &[u64]) -> Result<Vec<Recorded>, Failure> {
    let records = client::ask(path, &json!({"get": "recorded", "since": since}), client::ANSWER_TIMEOUT)?;
    records.iter().map(|record| Recorded::of(record).map_err(Failure::Input)).collect()
}
