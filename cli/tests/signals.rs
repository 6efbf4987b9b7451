//! Ctrl-C and SIGTERM in the middle of a run.

mod netmem;

use netmem::{assert_adds_up, number, object, start, stdout};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Output};
use std::thread;
use std::time::Duration;

/// Sends the signal once the program has its three threads: itself, the forwarder, the network.
fn signal_in_mid_run(mut child: Child, signal: Signal) -> Output {
    let threads = format!("/proc/{}/task", child.id());
    while fs::read_dir(&threads).map_or(0, Iterator::count) < 3 {
        assert_eq!(child.try_wait().expect("wait"), None, "it ended by itself");
        thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(&child), signal).expect("kill(2)");
    child.wait_with_output().expect("wait")
}

#[test]
fn a_run_ends_with_the_thread_that_started_it_so_that_no_test_leaves_one_behind() {
    let child = thread::spawn(|| start("forward --seconds 600")).join().expect("a thread");
    let out = child.wait_with_output().expect("wait");
    assert_eq!(out.status.signal(), Some(Signal::KILL.as_raw()), "{}", stdout(&out));
}

#[test]
fn sigint_ends_a_run_with_its_summary() {
    let out = signal_in_mid_run(start("forward --seconds 600"), Signal::INT);
    let text = stdout(&out);
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert!(text.contains("= transmitted + dropped + held") && text.contains("balanced"), "{text}");
}

#[test]
fn sigterm_ends_a_run_with_an_object_that_adds_up() {
    let run = object(&signal_in_mid_run(start("forward --packets 1000000000000 --json"), Signal::TERM));
    assert_adds_up(&run);
    assert!(number(&run, "generator.sent") < 1_000_000_000_000);
}
