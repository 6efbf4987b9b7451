//! Child processes of this one: they can be stopped and resumed, and none outlives its parent.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
    waitid,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts a child. It is killed when the thread that started it ends, for any reason, even if the child is stopped.
///
/// # Errors
/// The system's error.
pub fn start(command: &mut Command) -> io::Result<Child> {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before that.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) }.spawn()
}

/// Starts a child on `core`, where all its threads stay.
///
/// # Errors
/// The system's error, including errors of the core.
pub fn start_on(core: usize, command: &mut Command) -> io::Result<Child> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("core {core}: no such core")));
    }
    let mut only = CpuSet::new();
    only.set(core);
    // SAFETY: between fork and exec it makes one system call, which neither allocates nor takes a lock.
    start(unsafe { command.pre_exec(move || Ok(sched_setaffinity(None, &only)?)) })
}

/// Ends this process at once, whatever its threads do (SIGKILL). Nothing is run at its end.
pub fn kill_this() {
    // A process may always signal itself.
    let _ = kill_process(getpid(), Signal::KILL);
}

/// Stops all threads of a child (SIGSTOP), and returns when they have stopped.
///
/// # Errors
/// `NotFound` if it has ended; its status is still available. Otherwise the error of `kill(2)` or `waitid(2)`.
pub fn stop(child: &Child) -> io::Result<()> {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP)?;
    // A child that has ended is only examined: its number is not reused until the owner of the `Child` takes its
    // status.
    let either = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), either) {
            Ok(Some(status)) if status.stopped() => break,
            Ok(Some(_)) => return Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended")),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // One notification is enough.
    waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG)?;
    Ok(())
}

/// Resumes a child that [`stop`] stopped (SIGCONT).
///
/// # Errors
/// The error of `kill(2)`.
pub fn resume(child: &Child) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), Signal::CONT)?)
}

/// Asks a child to end (SIGTERM). A stopped child ends when it is resumed.
///
/// # Errors
/// The error of `kill(2)`.
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
