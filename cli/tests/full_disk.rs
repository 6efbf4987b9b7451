//! A disk that is full, and a limit of file sizes.

#![allow(clippy::unwrap_used)]

mod netmem;
mod test_frames;

use netmem::{Run, child_of, number, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};
use test_frames::{Folder, frames, packets, pcap, pcap_at_intervals};

/// Runs the program with these arguments under a limit of file sizes. Writes beyond the limit fail.
fn limited(bytes: usize, words: &str) -> Output {
    let mut command = Command::new("prlimit");
    command.arg(format!("--fsize={bytes}")).arg(env!("CARGO_BIN_EXE_netmem")).args(words.split_whitespace());
    child_of(&mut command).output().expect("prlimit(1) starts")
}

/// The object that a run printed which went wrong, with the lines on standard error.
fn broken(out: &Output) -> (Value, String) {
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    (serde_json::from_str(&stdout(out)).expect("a summary"), stderr(out))
}

/// A file of packets of all lengths, of more bytes than the limits here.
fn input(folder: &Folder) -> String {
    let many: Vec<_> = frames().into_iter().cycle().take(2000).collect();
    folder.write("in.pcap", &pcap(&many)).display().to_string()
}

#[test]
fn a_pcap_file_that_reaches_a_limit_ends_with_a_whole_packet_and_the_run_in_order() {
    let folder = Folder::new("full-pcap");
    let (input, output) = (input(&folder), folder.path("out.pcap"));
    for bytes in [10, 24, 25, 5000, 100_001] {
        let out = limited(
            bytes,
            &format!(
                "forward --json --mode cross-connect --port pcap:in={input} --port pcap:out={}",
                output.display()
            ),
        );
        let (report, complaint) = broken(&out);
        assert!(complaint.contains("write") && complaint.contains("File too large"), "{complaint}");
        let written = fs::read(&output).unwrap();
        assert!(written.len() <= bytes && (written.len() >= 24 || (bytes < 24 && written.is_empty())));
        let whole = if written.is_empty() { 0 } else { packets(&written).len() as u64 };
        let port = &report["ports"][1];
        assert_eq!(number(port, "tx"), whole + number(port, "tx_lost"), "{bytes}: {report}");
    }
}

/// Seen: the alert said that the port comes up again by itself, and nothing said that this one does not.
#[test]
fn a_port_that_is_down_for_good_says_so_in_the_log_and_the_metrics() {
    let folder = Folder::new("full-for-good");
    let (path, metrics) =
        (folder.write("in.pcap", &pcap_at_intervals(&frames(), 1000)), folder.path("metrics"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_netmem"));
    command.args(["forward", "--json", "--mode", "cross-connect", "--port"]);
    command.arg(format!("pcap:in={},speed=recorded,loop=0", path.display()));
    command.args(["--port", "pcap:out=/dev/full", "--metrics"]).arg(&metrics);
    let child = child_of(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem");
    let scrape = || {
        let mut page = String::new();
        let mut stream = UnixStream::connect(&metrics).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").ok()?;
        stream.read_to_string(&mut page).ok()?;
        Some(page)
    };
    let failed = |page: &str| {
        let values = page.lines().filter_map(|line| line.strip_prefix("netmem_port_failed{"));
        values.map(|line| line.ends_with(" 1")).collect::<Vec<_>>()
    };
    let since = Instant::now();
    while scrape().is_none_or(|page| failed(&page) != [false, true]) {
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", scrape());
        thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("it can be signalled");
    let (_, lines) = broken(&child.wait_with_output().expect("it ends"));
    let stays = "; the port stays down until netmem is started again";
    let is_so = |line: &str| line.contains(" is down: ") && line.ends_with(stays);
    assert!(lines.lines().any(|line| line.starts_with("netmem: port pcap:") && is_so(line)), "{lines}");
    assert!(lines.lines().any(|line| line.starts_with("error: port pcap:") && is_so(line)), "{lines}");
}

/// Seen: the generator printed nothing for the 60 seconds of `--wait`. A port that is down may come up in that time,
/// but a file does not.
#[test]
fn a_generator_whose_file_cannot_be_written_ends_without_waiting_for_the_file_to_come_up() {
    let folder = Folder::new("full-gen");
    for bytes in [10, 30_001] {
        let port = format!("pcap:out={}", folder.path("out.pcap").display());
        let wait = "--wait 600000";
        let out = limited(bytes, &format!("gen --port {port} --rate max --count 5000 {wait} --json -"));
        assert_eq!(out.status.code(), if bytes == 10 { Some(2) } else { Some(1) }, "{out:?}");
        assert!(stderr(&out).contains("File too large"), "{out:?}");
    }
}

#[test]
fn a_trace_that_reaches_a_limit_is_reported_and_traffic_goes_on() {
    let folder = Folder::new("full-trace");
    let (input, trace) = (input(&folder), folder.path("trace"));
    for format in ["json", "pcap"] {
        let out = limited(
            20_001,
            &format!(
                "forward --json --mode cross-connect --port pcap:in={input} --port \
                 trace:file={},format={format}/pcap:out=/dev/null",
                trace.display()
            ),
        );
        let (report, complaint) = broken(&out);
        let line = format!("error: port trace/pcap:1: trace to {}: File too large", trace.display());
        assert!(complaint.lines().any(|one| one.starts_with(&line)), "{complaint}");
        assert_eq!(number(&report, "transmitted"), 2000, "{report}");
        let written = fs::read(&trace).unwrap();
        match format {
            "json" => assert!(written.ends_with(b"}\n") && written.len() <= 20_001),
            _ => assert!(!packets(&written).is_empty()),
        }
    }
}

#[test]
fn gen_to_a_file_that_reaches_a_limit_ends_with_one_line_and_its_summary() {
    let folder = Folder::new("full-gen");
    let (output, json) = (folder.path("out.pcap"), folder.path("object.json"));
    let port = format!("--port pcap:out={} --wait 0.1", output.display());
    let out = limited(30_001, &format!("gen {port} --rate max --count 5000 --json -"));
    let (report, complaint) = broken(&out);
    assert!(complaint.lines().any(|line| line.contains("File too large")), "{complaint}");
    let (taken, lost) = (number(&report["ports"][0], "tx"), number(&report["ports"][0], "tx_lost"));
    assert_eq!(taken, packets(&fs::read(&output).unwrap()).len() as u64 + lost, "{report}");
    // The object has no room, and the text has.
    let out = limited(100, &format!("gen --port pcap:out=/dev/null --count 5 --json {}", json.display()));
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    assert!(stderr(&out).contains("object.json: File too large") && !stdout(&out).is_empty(), "{out:?}");
}

/// Seen: a report without room was cut, and an earlier one was lost.
#[test]
fn a_report_without_room_leaves_no_cut_file_and_an_earlier_one_stays() {
    let folder = Folder::new("full-report");
    let json = folder.path("object.json");
    let words = format!("gen --port pcap:out=/dev/null --count 5 --json {}", json.display());
    assert_eq!(limited(100, &words).status.code(), Some(1));
    assert!(!json.exists());
    fs::write(&json, "{}\n").unwrap();
    assert_eq!(limited(100, &words).status.code(), Some(1));
    assert_eq!(fs::read_to_string(&json).unwrap(), "{}\n");
    assert_eq!(limited(100_000, &words).status.code(), Some(0));
    let report: Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(number(&report, "sent"), 5);
}

/// Seen: the capture that was there was empty afterwards, and had a part of the new one. Every user could read a new one.
#[test]
fn a_recording_for_which_there_is_no_room_leaves_the_one_before_and_a_new_one_is_for_its_owner_alone() {
    let run = Run::start_with("full-record", "--record 64");
    let folder = Folder::new("full-record");
    let (before, new) = (folder.write("before.pcapng", b"before"), folder.path("new.pcapng"));
    for follow in ["", " --follow"] {
        let out =
            limited(10, &format!("record{follow} -o {} --control {}", before.display(), run.path.display()));
        let said = stderr(&out);
        assert_eq!((out.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("the recording cannot be written: File too large"), "{said}");
        assert_eq!(fs::read(&before).unwrap(), b"before", "record{follow}");
        assert!(!folder.path("before.pcapng.part").exists(), "record{follow}");
    }
    for path in [&before, &new] {
        let out = run.ask(&format!("record -o {}", path.display()));
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
        assert!(fs::metadata(path).unwrap().len() > 1000, "{}", path.display());
    }
    assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
    run.end();
}
