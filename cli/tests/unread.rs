//! Tests of runs whose standard error or output is not read: a full pipe, and a terminal that was stopped by Ctrl-S.

#![allow(clippy::unwrap_used)]

mod netmem;
mod test_frames;
mod terminal;

use netmem::{
    PATIENCE, assert_adds_up, netmem, number, output, stderr, stdout, wait_until, wait_while_it_runs,
};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use terminal::terminal;
use test_frames::{Folder, frames, packets, pcap_at_intervals};

/// A pipe that has no room.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Returns its exit status, and its whole standard output.
fn ended(mut child: Child) -> (ExitStatus, String) {
    let out = child.stdout.take();
    let reading = thread::spawn(move || {
        let mut text = String::new();
        out.map(|mut out| out.read_to_string(&mut text).unwrap());
        text
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > PATIENCE => {
                child.kill().unwrap();
                panic!("it does not end");
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    (status, reading.join().unwrap())
}

/// A run with a configuration and a control socket, for requests to reload it.
fn reloadable(folder: &Folder, stderr: impl Into<Stdio>) -> Child {
    let (file, socket) = (folder.write("netmem.toml", b"icmp-rate = 5\n"), folder.path("control"));
    // Without lines about a worker that is given no core, since lines are counted.
    let words = format!(
        "forward --seconds 600 --flows 1 --json --watchdog 0 --config {} --control {}",
        file.display(),
        socket.display()
    );
    let mut child = netmem(&words).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
    wait_while_it_runs(&mut child, "it listens", || UnixStream::connect(&socket).is_ok());
    child
}

/// Requests two reloads. The second is answered after the line about the first was printed or left out.
fn reload_twice(folder: &Folder) {
    for _ in 0..2 {
        let out = output(&format!("reload --control {}", folder.path("control").display()));
        assert_eq!(out.status.code(), Some(0), "{}{}", stdout(&out), stderr(&out));
    }
}

/// Seen: `netmem forward ... 2> >(sleep 1000)` with many lines still ran 12 s after SIGTERM.
#[test]
fn a_run_with_an_unread_standard_error_reloads_and_ends_by_sigterm() {
    let folder = Folder::new("unread");
    let (_reader, writer) = full_pipe();
    let child = reloadable(&folder, writer);
    reload_twice(&folder);
    signal(&child, Signal::HUP);
    signal(&child, Signal::TERM);
    let (status, text) = ended(child);
    assert_eq!(status.code(), Some(0), "{text}");
    assert_adds_up(&serde_json::from_str(&text).unwrap());
}

#[test]
fn the_number_of_omitted_lines_is_reported_when_lines_are_read_again() {
    let folder = Folder::new("read-again");
    let (mut reader, writer) = full_pipe();
    let child = reloadable(&folder, writer);
    reload_twice(&folder);
    let mut text = String::new();
    while !text.contains("left out here: standard error was not read, or its disk was full\n") {
        let mut some = [0; 4096];
        let n = reader.read(&mut some).unwrap();
        assert!(n > 0, "{text}");
        text.extend(str::from_utf8(&some[..n]).unwrap().chars().filter(|&c| c != '.'));
    }
    assert!(
        text.starts_with("netmem: one line is left") || text.starts_with("netmem: 2 lines are left"),
        "{text}"
    );
    reload_twice(&folder);
    signal(&child, Signal::TERM);
    assert_eq!(ended(child).0.code(), Some(0));
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(
        text.matches("configuration reloaded").count(),
        if text.contains("one line") { 3 } else { 2 },
        "{text}"
    );
}

/// Seen: a worker stood in kick of its port, and the run did not end.
#[test]
fn a_trace_to_an_unread_standard_error_stops_no_worker() {
    let folder = Folder::new("unread-trace");
    let (input, output) =
        (folder.write("in.pcap", &pcap_at_intervals(&frames(), 200)), folder.path("out.pcap"));
    let (_reader, writer) = full_pipe();
    let words = format!(
        "forward --mode cross-connect --json --watchdog 0 --port trace:/pcap:in={},speed=recorded,loop=0 --port pcap:out={}",
        input.display(),
        output.display()
    );
    let child = netmem(&words).stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
    // More than the trace keeps for later.
    wait_until("too few pass", || fs::read(&output).is_ok_and(|bytes| packets(&bytes).len() > 4000));
    signal(&child, Signal::INT);
    let (status, text) = ended(child);
    assert_eq!(status.code(), Some(0), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let port = &report["ports"][0];
    assert!(number(port, "trace_lost") > 0 && number(port, "rx") > 1000, "{report}");
}

#[test]
fn a_run_on_a_terminal_that_ctrl_s_has_stopped_ends_by_sigterm() {
    let folder = Folder::new("stopped");
    let (mut reader, name) = terminal();
    let terminal = File::options().read(true).write(true).open(&name).unwrap();
    reader.write_all(b"\x13").unwrap();
    let child = reloadable(&folder, terminal.try_clone().unwrap());
    reload_twice(&folder);
    // A line that is rewritten each second would be due.
    thread::sleep(Duration::from_secs(2));
    signal(&child, Signal::TERM);
    let (status, text) = ended(child);
    assert_eq!(status.code(), Some(0), "{text}");
}

#[test]
fn a_run_with_an_unread_summary_ends_by_sigterm_with_a_line() {
    let (_reader, writer) = full_pipe();
    let mut run = netmem("forward --seconds 600 --watchdog 0");
    let mut child = run.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let threads = format!("/proc/{}/task", child.id());
    while fs::read_dir(&threads).map_or(0, Iterator::count) < 3 {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        thread::sleep(Duration::from_millis(1));
    }
    signal(&child, Signal::TERM);
    child.stdout = None;
    let mut said = child.stderr.take().unwrap();
    assert_eq!(ended(child).0.code(), Some(1));
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    assert_eq!(text, "error: cannot write to standard output: it is not read\n");
}

/// Seen: `netmem doctor eth0 | head -1` ended with the line "cannot write to standard output: Broken pipe".
#[test]
fn a_reader_that_has_closed_the_pipe_gets_no_line_about_it() {
    for words in ["doctor lo", "lab list", "forward --help", "--version"] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let out = netmem(words).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((out.status.code(), stderr(&out)), (Some(1), String::new()), "{words}");
    }
}
