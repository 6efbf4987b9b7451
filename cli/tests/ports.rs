//! `netmem forward` from file to file: frames of every kind and length go through as they are.

mod netmem;
mod odd;

use netmem::{dropped, number, object, ports, start, stderr, stdout};
use odd::{Folder, every_type, frames, packets, pcap};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::Output;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long a test waits for what must happen. It guards against hangs, nothing else.
const PATIENCE: Duration = Duration::from_secs(120);

/// Forwards in cross-connect mode from port to port until it ends by itself.
fn run(from: &str, to: &str) -> Output {
    let mut child = start(&format!("forward --mode cross-connect --json --port {from} --port {to}"));
    let begun = Instant::now();
    while child.try_wait().expect("wait").is_none() {
        if begun.elapsed() > PATIENCE {
            kill_process(Pid::from_child(&child), Signal::KILL).expect("kill(2)");
            panic!("{from} to {to} does not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("wait")
}

/// A counter of one port.
fn ports_of(run: &Value, port: usize, counter: &str) -> u64 {
    run["ports"][port][counter].as_u64().unwrap_or_else(|| panic!("no {counter} of port {port} in {run}"))
}

/// As [`run`], and all went well; gives what was said at the end.
fn forward(from: &str, to: &str) -> Value {
    object(&run(from, to))
}

#[test]
fn odd_frames_go_from_file_to_file_byte_for_byte() {
    let folder = Folder::new("files");
    let (input, output) = (folder.write("in.pcap", &pcap(&frames())), folder.path("out.pcap"));
    let run = forward(&format!("pcap:in={}", input.display()), &format!("pcap:out={}", output.display()));
    assert_eq!(packets(&fs::read(&output).unwrap()), frames());
    let n = frames().len() as u64;
    assert_eq!((number(&run, "received"), number(&run, "transmitted"), ports(&run, "copied")), (n, n, 2 * n));
    assert_eq!(run["ports"][0]["kind"], "pcap");
}

#[test]
fn every_type_goes_from_file_to_file_byte_for_byte_also_through_ports_around_them() {
    let folder = Folder::new("types");
    let (input, output) = (folder.write("in.pcap", &pcap(&every_type())), folder.path("out.pcap"));
    let trace = folder.path("trace.pcap");
    for (fault, tracing) in [
        (String::new(), String::new()),
        ("fault:/".to_owned(), format!("trace:file={},format=pcap/", trace.display())),
    ] {
        forward(
            &format!("{fault}pcap:in={}", input.display()),
            &format!("{tracing}pcap:out={}", output.display()),
        );
        assert!(packets(&fs::read(&output).unwrap()) == every_type(), "by {fault}{tracing}");
    }
    assert!(packets(&fs::read(&trace).unwrap()) == every_type(), "as the trace has them");
}

#[test]
fn what_a_trace_writes_down_is_what_passed_and_what_a_fault_drops_is_counted() {
    let folder = Folder::new("wrapped");
    let (input, output) = (folder.write("in.pcap", &pcap(&frames())), folder.path("out.pcap"));
    let trace = folder.path("trace.pcap");
    let kept: Vec<Vec<u8>> =
        frames().into_iter().enumerate().filter(|(i, _)| (i + 1) % 3 != 0).map(|(_, frame)| frame).collect();
    let run = forward(
        &format!("fault:drop=1/3/pcap:in={}", input.display()),
        &format!("trace:file={},format=pcap/pcap:out={}", trace.display(), output.display()),
    );
    assert_eq!(packets(&fs::read(&output).unwrap()), kept);
    assert_eq!(packets(&fs::read(&trace).unwrap()), kept);
    assert_eq!(
        (number(&run, "received"), ports(&run, "rx_dropped")),
        (kept.len() as u64, frames().len() as u64 / 3)
    );
    assert_eq!(
        (ports_of(&run, 0, "fault_dropped"), ports_of(&run, 1, "trace_lost")),
        (frames().len() as u64 / 3, 0)
    );
    assert!(ports_of(&run, 1, "trace_written") >= kept.len() as u64, "{run}");
    assert_eq!(
        (run["ports"][0]["kind"].as_str(), run["ports"][1]["kind"].as_str()),
        (Some("fault"), Some("trace"))
    );
}

#[test]
fn giants_are_dropped_by_count() {
    let folder = Folder::new("giants");
    let giants = [vec![1; 60], vec![2; 9018], vec![3; 65535], vec![4; 60]];
    let (input, output) = (folder.write("in.pcap", &pcap(&giants)), folder.path("out.pcap"));
    let run = forward(&format!("pcap:in={}", input.display()), &format!("pcap:out={}", output.display()));
    assert_eq!(packets(&fs::read(&output).unwrap()), [&giants[0][..], &giants[3][..]]);
    assert_eq!(ports(&run, "rx_too_long"), 2);
}

#[test]
fn frames_that_a_fault_delays_leave_before_the_run_ends_with_its_file() {
    let folder = Folder::new("delayed");
    let (input, output) = (folder.write("in.pcap", &pcap(&frames())), folder.path("out.pcap"));
    let run = forward(
        &format!("fault:delay=1/2,delay-us=300000/pcap:in={},loop=3", input.display()),
        &format!("pcap:out={}", output.display()),
    );
    let n = 3 * frames().len();
    assert_eq!(packets(&fs::read(&output).unwrap()).len(), n);
    assert_eq!((number(&run, "transmitted"), ports(&run, "completed")), (n as u64, n as u64));
}

#[test]
fn a_full_disk_takes_no_frame_without_a_count_and_the_run_ends_and_says_so() {
    let folder = Folder::new("full");
    let input = folder.write("in.pcap", &pcap(&frames()));
    let out = run(&format!("pcap:in={}", input.display()), "pcap:out=/dev/full");
    let said = stderr(&out);
    assert!(out.status.code() == Some(1) && said.contains("port pcap:1 is down: write /dev/full"), "{said}");
    let object: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let n = frames().len() as u64;
    assert_eq!(
        (number(&object, "received"), n),
        (n, ports(&object, "tx_lost") + dropped(&object)),
        "{object}"
    );
}
