//! Processes that this one has started: one stands still, and goes on; none outlives who started it.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
    waitid,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts a child. It is killed when the thread that starts it ends, by whatever end: also one that stands still.
///
/// # Errors
/// What the system says.
pub fn start(command: &mut Command) -> io::Result<Child> {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Who ended before that is not waited for.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) }.spawn()
}

/// The same on `core`, where all its threads stay.
///
/// # Errors
/// What the system says, of the core too.
pub fn start_on(core: usize, command: &mut Command) -> io::Result<Child> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("core {core}: no such core")));
    }
    let mut only = CpuSet::new();
    only.set(core);
    // SAFETY: between fork and exec it makes one system call, which neither allocates nor takes a lock.
    start(unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &only)?)) })
}

/// Ends this process at once, whatever its threads do (SIGKILL): nothing is run at its end.
pub fn kill_this() {
    // A process may signal itself always.
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Stops all threads of a child (SIGSTOP), and comes back when they stand still.
///
/// # Errors
/// `NotFound` if it has ended; its status is still there. Else what `kill(2)` or `waitid(2)` says.
pub fn stop(child: &Child) -> io::Result<()> {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP)?;
    // One that has ended is only looked at: its number is its own until its status is taken, by whoever has the `Child`.
    let either = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), either) {
            Ok(Some(status)) if status.stopped() => break,
            Ok(Some(_)) => return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended")),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // Told once is enough.
    waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)?;
    Ok(())
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
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

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
    fn a_child_that_has_ended_is_not_waited_for_in_vain_and_keeps_its_number_and_status() {
        let mut child = Command::new("true").spawn().expect("true(1)");
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        while !state().contains(") Z ") {
            std::thread::yield_now();
        }
        for _ in 0..2 {
            assert_eq!(stop(&child).map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
        }
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_child_that_stands_still_is_killed_with_the_thread_that_started_it() {
        let core = netmem::system::cpu::allowed().unwrap()[0];
        let start = move || {
            let child = start_on(core, Command::new("sleep").arg("1000")).expect("sleep(1)");
            stop(&child).unwrap();
            child
        };
        let mut child = std::thread::spawn(start).join().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
