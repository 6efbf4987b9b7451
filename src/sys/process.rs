//! Processes that this one has started: one stands still, and goes on.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io;
use std::process::Child;

/// Stops all threads of a child (SIGSTOP), and comes back when they stand still.
///
/// # Errors
/// `NotFound` if it has ended, and cannot be waited for any more; else what `kill(2)` or `waitpid(2)` says.
pub fn stop(child: &Child) -> io::Result<()> {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP)?;
    loop {
        match waitpid(Some(pid), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => return Ok(()),
            Ok(Some(_)) => return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended")),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Lets a child go on that [`stop`] stopped (SIGCONT).
///
/// # Errors
/// What `kill(2)` says.
pub fn resume(child: &Child) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), Signal::CONT)?)
}

/// Asks a child to end (SIGTERM); one that stands still does so when it goes on.
///
/// # Errors
/// What `kill(2)` says.
pub fn terminate(child: &Child) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), Signal::TERM)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_that_stands_still_answers_when_it_goes_on() {
        let mut child =
            Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat(1)");
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        for _ in 0..3 {
            stop(&child).unwrap();
            let state = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            assert!(state.contains(") T "), "{state}");
            to.write_all(b"x").unwrap();
            resume(&child).unwrap();
            let mut said = [0];
            from.read_exact(&mut said).unwrap();
            assert_eq!(&said, b"x");
        }
        terminate(&child).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_child_that_has_ended_is_not_waited_for_in_vain() {
        let mut child = Command::new("true").spawn().expect("true(1)");
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        while !state().contains(") Z ") {
            std::thread::yield_now();
        }
        assert_eq!(stop(&child).map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
        assert!(child.wait().is_err(), "it was waited for");
    }
}
