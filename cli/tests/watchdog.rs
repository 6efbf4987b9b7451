//! Tests of a worker that does not end its round, because a write of its trace does not return.

#![allow(clippy::unwrap_used)]

mod netmem;
mod stall;
mod test_frames;

use netmem::{PATIENCE, netmem, number};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use stall::Stall;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use test_frames::{Folder, frames, pcap_at_intervals};

/// A run that forwards without end, and whose trace is held.
fn traced(folder: &Folder, stall: &Stall, options: &str) -> Child {
    let input = folder.write("in.pcap", &pcap_at_intervals(&frames(), 1000));
    let mut command = netmem(&format!(
        "forward --mode cross-connect --json {options} --port trace:file={}/pcap:in={},speed=recorded,loop=0 --port \
         pcap:out={}",
        folder.path("trace").display(),
        input.display(),
        folder.path("out.pcap").display()
    ));
    command
        .env("NOTIFY_SOCKET", folder.path("manager"))
        .env("WATCHDOG_USEC", "400000")
        .env_remove("WATCHDOG_PID");
    stall.within(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The next message to the manager. A process that was stopped and goes on is interrupted.
fn heard(manager: &UnixDatagram) -> io::Result<String> {
    let mut said = [0; 256];
    loop {
        match manager.recv(&mut said) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received.map(|n| String::from_utf8_lossy(&said[..n]).into_owned()),
        }
    }
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn a_worker_that_waits_for_a_disk_is_named_and_again_when_it_goes_on() {
    let folder = Folder::new("watchdog");
    let stall = Stall::new(&folder.path(""), true);
    let mut child = traced(&folder, &stall, "--watchdog 0.5");
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = stall.line(&mut said);
    let stalled = "netmem: worker 0 has not finished a round for 0.5 s: it is in kick of port trace/pcap:";
    assert!(line.starts_with(stalled), "{line}");
    stall.hold(false);
    let line = said.next().expect("a line about the worker");
    assert!(line.starts_with("netmem: worker 0 goes on, after "), "{line}");
    interrupt(&child);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{said:?}");
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(number(&report["workers"][0], "stalls") >= 1, "{report}");
}

/// Seen: the main thread made the first round, so no signal ended a run that was held in it.
#[test]
fn one_sigint_ends_a_run_whose_worker_never_ends_its_round() {
    let folder = Folder::new("stuck");
    let stall = Stall::new(&folder.path(""), true);
    let mut child = traced(&folder, &stall, "--watchdog 0.5");
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    stall.line(&mut said);
    interrupt(&child);
    let line = said.find(|line| line.starts_with("error: ")).expect("a line about the worker");
    assert!(line.starts_with("error: worker 0 does not end: it is in kick of port trace/pcap:"), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// Seen where the machine stood still: the first sign of life came before the run was ready.
#[test]
fn a_run_whose_worker_has_not_polled_yet_gives_no_sign_of_life_before_it_is_ready() {
    let folder = Folder::new("first-poll");
    let manager = UnixDatagram::bind(folder.path("manager")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let stall = Stall::new(&folder.path(""), true);
    let mut child = traced(&folder, &stall, "--watchdog 0.5");
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    stall.line(&mut said);
    stall.hold(false);
    assert_eq!(heard(&manager).unwrap(), "READY=1");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said:?}");
}

/// Seen: with `watchdog = 0` in its configuration the service was never restarted, though its only worker hung.
#[test]
fn a_worker_that_hangs_ends_the_signs_of_life_also_where_no_line_reports_it() {
    let folder = Folder::new("life");
    let manager = UnixDatagram::bind(folder.path("manager")).unwrap();
    let stall = Stall::new(&folder.path(""), false);
    let mut child = traced(&folder, &stall, "--watchdog 0");
    let begun = Instant::now();
    let hear = |patience| {
        manager.set_read_timeout(Some(patience)).unwrap();
        heard(&manager)
    };
    for sign in ["READY=1", "WATCHDOG=1"] {
        while !hear(PATIENCE).expect(sign).contains(sign) {}
    }
    // Once its worker stands still nothing comes.
    stall.hold(true);
    while hear(Duration::from_secs(3)).is_ok() {
        assert!(begun.elapsed() < PATIENCE, "signs of life without an end");
    }
    assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
}
