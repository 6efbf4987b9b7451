//! A turn in a process of its own.
//!
//! Some properties of a process affect its cost and stay the same as long as it lives. These are the location of
//! its libraries and stacks, the heap that an allocator gives to a thread, and the layout of the allocator's own
//! tables. All set-ups of one process share them, so the spread of the set-ups does not include them, and the next
//! run differs by more than either's interval. With a process for each set-up these properties vary too.
//!
//! ```text
//!   this process                                       netmem lab turn
//!     Order, one line         ── standard input, ──►     takes the turn on its main thread
//!     progress, result        ◄── a socket ────────      Message, one line each
//!     end of what is written  ──────────────────────►     stop
//! ```
//! The other process has a process group of its own, so that only this process gets Ctrl-C. If this process dies,
//! the other one takes that as a request to stop. If it has not ended [`FAREWELL`] after that request, it is ended.
//! So it never outlives this process for long.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::turn::{Taken, take};
use crate::experiments::{EXPERIMENTS, Experiment};
use crate::history::History;
use crate::settings::Settings;

/// The delay until a request to stop is passed on.
const PATIENCE: Duration = Duration::from_millis(200);

/// The time for a turn to end after the request to stop.
const FAREWELL: Duration = Duration::from_secs(60);

/// The number of SIGKILL on every Linux.
const SIGKILL: i32 = 9;

/// A turn to take.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) experiment: String,
    pub(super) quick: bool,
    pub(super) set: Vec<(String, String)>,
    pub(super) history: History,
}

/// A message about the turn.
#[derive(Debug, Serialize, Deserialize)]
enum Message {
    /// Finished rounds, and the number of rounds.
    Round(usize, usize),
    Taken(Box<Taken>),
}

/// Lets `program` take the turn.
///
/// # Errors
/// The error of the process.
pub(super) fn take_elsewhere(
    program: &Path,
    order: &Order,
    stop: &AtomicBool,
    rounds: &mut dyn FnMut(usize, usize),
) -> Result<Taken, String> {
    let failed = |error: io::Error| format!("a process for the set-up: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    let child = {
        let mut command = Command::new(program);
        command.arg0("netmem").args(["lab", "turn"]).stdin(OwnedFd::from(theirs)).process_group(0);
        command.spawn().map_err(failed)?
    };
    let mut child = Ended(child);
    // If a process ends without reading it, its exit status is more informative.
    let _ = line(order).and_then(|line| (&ours).write_all(&line));
    let result = receive(&ours, stop, rounds).map_err(failed)?;
    drop(ours);
    let status = child.0.wait().map_err(failed)?;
    match result {
        None => Err(format!("the process of the set-up ended without a result: {status}{}", cause(status))),
        Some(_) if !status.success() => {
            Err(format!("the process of the set-up reported its result, then: {status}"))
        }
        Some(taken) => Ok(taken),
    }
}

/// Returns the likely cause of an end, and the remedy. The kernel kills a process that needs more memory than there is.
fn cause(status: ExitStatus) -> &'static str {
    match status.signal() {
        Some(SIGKILL) => {
            ", perhaps for lack of memory: raise the limit of the control group (memory.max), or free memory"
        }
        _ => "",
    }
}

/// A process that is ended when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Receives messages until the result has come, or the other end is gone.
fn receive(
    stream: &UnixStream,
    stop: &AtomicBool,
    rounds: &mut dyn FnMut(usize, usize),
) -> io::Result<Option<Taken>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut reader, mut line) = (BufReader::new(stream), Vec::new());
    loop {
        // Relaxed: the flag is a request and carries no data.
        if stop.load(Ordering::Relaxed) {
            // It may be gone by now.
            let _ = stream.shutdown(Shutdown::Write);
        }
        match reader.read_until(b'\n', &mut line) {
            Ok(_) if !line.ends_with(b"\n") => return Ok(None),
            Ok(_) => match serde_json::from_slice(&line)? {
                Message::Round(done, of) => rounds(done, of),
                Message::Taken(taken) => return Ok(Some(*taken)),
            },
            // The part of a line that has come stays in the buffer.
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                continue;
            }
            // It ended without reading everything that was written to it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error),
        }
        line.clear();
    }
}

/// Takes the turn that standard input orders, and sends the results there. This is the other side of a run whose
/// [`Options::turns_by`](super::Options::turns_by) names this program.
///
/// # Errors
/// The error of standard input, in one line.
pub fn take_turn() -> Result<(), String> {
    let failed = |error: io::Error| format!("standard input is no socket of netmem lab run: {error}");
    let stream = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from).map_err(failed)?;
    let mut reader = BufReader::new(stream.try_clone().map_err(failed)?);
    let mut ordered = Vec::new();
    reader.read_until(b'\n', &mut ordered).map_err(failed)?;
    let order: Order = serde_json::from_slice(&ordered).map_err(|error| failed(error.into()))?;
    let experiment: &'static Experiment = EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == order.experiment)
        .ok_or_else(|| format!("no experiment {:?}", order.experiment))?;
    let settings = Settings::new(experiment.keys, order.quick, &order.set).map_err(|e| e.to_string())?;
    let stop: &'static AtomicBool = Box::leak(Box::default());
    // The thread ends with the process.
    let listening = thread::Builder::new().spawn(move || {
        let _ = reader.read(&mut [0]);
        // Relaxed: the flag is a request and carries no data.
        stop.store(true, Ordering::Relaxed);
        thread::sleep(FAREWELL);
        crate::system::process::kill_this();
    });
    listening.map_err(|error| format!("no thread for the set-up: {error}: see `ulimit -u` and pids.max"))?;
    let send = |message: &Message| line(message).and_then(|line| (&stream).write_all(&line));
    // If the other side is gone, the request to stop has come too.
    let mut rounds = |done, of| drop(send(&Message::Round(done, of)));
    let taken = take((experiment, &settings, order.quick), order.history, stop, &mut rounds);
    match send(&Message::Taken(Box::new(taken))) {
        // The other side is gone and receives nothing.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        sent => sent.map_err(failed),
    }
}

/// Returns the value as one line of JSON.
fn line(what: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_comes_late_and_in_pieces_is_received_whole() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (stop, mut rounds) = (AtomicBool::new(true), Vec::new());
        let sender = thread::spawn(move || {
            // The request to stop has been passed on.
            assert_eq!((&theirs).read(&mut [0]).unwrap(), 0);
            let line = line(&Message::Round(3, 21)).unwrap();
            for byte in line.iter().chain(b"{\"Round\"") {
                (&theirs).write_all(&[*byte]).unwrap();
            }
        });
        let result = receive(&ours, &stop, &mut |done, of| rounds.push((done, of)));
        sender.join().unwrap();
        assert!(matches!(result, Ok(None)), "{result:?}");
        assert_eq!(rounds, [(3, 21)]);
    }

    #[test]
    fn a_program_that_takes_no_turn_is_reported_with_its_exit_status() {
        let (stop, history) = (AtomicBool::new(false), History::default());
        let order = Order { experiment: "page-bulk".to_owned(), quick: true, set: vec![], history };
        let taken =
            |program: &str| take_elsewhere(Path::new(program), &order, &stop, &mut |_, _| ()).unwrap_err();
        assert_eq!(taken("true"), "the process of the set-up ended without a result: exit status: 0");
        // Seen: "signal: 9 (SIGKILL)" alone, in a control group with little memory.
        assert!(cause(ExitStatus::from_raw(9)).contains("raise the limit of the control group"));
        assert!(taken("/no/such/program").starts_with("a process for the set-up: "));
    }

    #[test]
    fn a_program_that_dies_after_its_result_is_reported_with_its_exit_status() {
        let (stop, history) = (AtomicBool::new(false), History::default());
        let report = crate::json::tests::sample();
        let message = Message::Taken(Box::new(Taken { report, history: history.clone(), failed: false }));
        let folder = std::env::temp_dir().join(format!("netmem-lab-turn-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (result, program) = (folder.join("result"), folder.join("program"));
        std::fs::write(&result, line(&message).unwrap()).unwrap();
        let script = format!("#!/bin/sh\nread order\ncat {} >&0\nexit 3\n", result.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let order = Order { experiment: "page-bulk".to_owned(), quick: true, set: vec![], history };
        let died = take_elsewhere(&program, &order, &stop, &mut |_, _| ()).unwrap_err();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(died, "the process of the set-up reported its result, then: exit status: 3");
    }

    #[test]
    fn a_history_survives_its_serialization() {
        let mut history = History::default();
        let label = crate::method::round::Label { variant: "netmem".to_owned(), params: Default::default() };
        let rounds = vec![Some(1.0 / 3.0), None];
        let per_op = vec![0.1, -2.5e-7, 1e9 / 7.0];
        let placements = vec![Some(crate::method::placement::Placement::OneCore), None];
        let series = crate::method::round::Series {
            rounds,
            placements,
            per_op,
            paused: 3,
            ..crate::method::round::Series::new(label)
        };
        history.add(0, vec![series]);
        history.before.spend(100, 7);
        let line = line(&history).unwrap();
        assert_eq!(serde_json::from_slice::<History>(&line).unwrap(), history);
    }
}
