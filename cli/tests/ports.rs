//! `netmem forward` from file to file: frames of every kind and length go through as they are.

mod netmem;
mod test_frames;

use netmem::{dropped, ended, netmem, number, object, output, ports, start, stderr, stdout, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use std::{fs, thread};
use test_frames::{Folder, every_type, frames, giants, packets, pcap, pcap_at_intervals};

/// Forwards in cross-connect mode from port to port until it ends by itself.
fn run(from: &str, to: &str) -> Output {
    run_with("--mode cross-connect", from, to)
}

/// As [`run`], with other options.
fn run_with(options: &str, from: &str, to: &str) -> Output {
    let child = start(&format!("forward {options} --json --port {from} --port {to}"));
    ended(&format!("{from} to {to}"), child)
}

/// A counter of one port.
fn ports_of(run: &Value, port: usize, counter: &str) -> u64 {
    run["ports"][port][counter].as_u64().unwrap_or_else(|| panic!("no {counter} of port {port} in {run}"))
}

/// Does the same as [`run`], and asserts success. Returns the output at the end.
fn forward(from: &str, to: &str) -> Value {
    object(&run(from, to))
}

#[test]
fn frames_of_every_kind_go_from_file_to_file_byte_for_byte() {
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
fn a_trace_shows_the_frames_that_passed_and_the_drops_of_a_fault_are_counted() {
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

/// Frames, the bytes that each of them has room for, and how they are forwarded.
const LARGE: [(usize, usize, &str); 6] = [
    (2048, 1518, ""),
    (4096, 3584, ""),
    (8192, 7232, "--ready-heads 0"),
    (16_384, 14_528, ""),
    (16_384, 14_528, "--path full --ready-packets 50"),
    (32_768, 29_120, "--path full"),
];

#[test]
fn giants_go_byte_for_byte_where_frames_have_room_for_them_and_cost_nothing_else_where_not() {
    let folder = Folder::new("large");
    let (output, trace) = (folder.path("out.pcap"), folder.path("trace.pcap"));
    for (frame_size, room, path) in LARGE {
        let fit = [frames(), giants(room)].concat();
        // Longer than the whole frame, so it does not fit at any headroom.
        let longer = [vec![1; frame_size + 1], vec![2; 65_535]];
        let input = folder.write("in.pcap", &pcap(&[&longer[..], &fit, &longer].concat()));
        let run = object(&run_with(
            // Eight in each round: the number for which a trace has room.
            &format!("--mode cross-connect --ring 8 --frame-size {frame_size} {path}"),
            &format!("fault:/pcap:in={}", input.display()),
            &format!("trace:file={},format=pcap,bytes=65535/pcap:out={}", trace.display(), output.display()),
        ));
        assert!(packets(&fs::read(&output).unwrap()) == fit, "frames of {frame_size} {path}");
        assert!(packets(&fs::read(&trace).unwrap()) == fit, "frames of {frame_size} {path}: the trace");
        assert_eq!((ports(&run, "rx_too_long"), number(&run, "transmitted")), (4, fit.len() as u64), "{run}");
    }
}

/// Found in a review: a trace ended after its packets without a word.
#[test]
fn a_trace_that_has_reached_its_limit_says_so_once_and_the_run_succeeds() {
    let folder = Folder::new("limited");
    let input = folder.write("in.pcap", &pcap_at_intervals(&frames(), 1000));
    let said = |limit: usize| {
        let (trace, output) = (folder.path("trace.pcap"), folder.path("out.pcap"));
        [&trace, &output].into_iter().for_each(|file| drop(fs::remove_file(file)));
        let mut child = start(&format!(
            "forward --mode cross-connect --json --port trace:file={},format=pcap,limit={limit}/pcap:in={},speed=recorded,loop=0 \
             --port pcap:out={}",
            trace.display(),
            input.display(),
            output.display()
        ));
        let mut lines =
            BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        let is_the_line = |line: &String| line.contains("frames (limit), and records no further one");
        // With a limit it says so when it looks at its ports, once a second.
        let first = if limit > 0 { lines.find(is_the_line) } else { None };
        let come = |file: &Path, n| fs::read(file).is_ok_and(|bytes| packets(&bytes).len() > n);
        // Without a limit, as many as come until it has looked.
        let enough = if limit > 0 { limit } else { 1500 };
        wait_until("too few pass", || come(&output, enough) && (limit > 0 || come(&trace, enough)));
        kill_process(Pid::from_child(&child), Signal::INT).expect("kill(2)");
        let lines = first.into_iter().chain(lines).filter(is_the_line).count();
        let out = ended("a run that got SIGINT", child);
        (
            lines,
            out.status.code(),
            packets(&fs::read(&trace).unwrap()).len(),
            ports_of(&serde_json::from_str(&stdout(&out)).expect("a summary"), 0, "trace_lost"),
        )
    };
    let (lines, code, written, lost) = said(3);
    assert_eq!((lines, code, written), (1, Some(0), 3));
    assert!(lost > 0);
    let (lines, code, written, lost) = said(0);
    assert_eq!((lines, code, lost), (0, Some(0), 0));
    assert!(written > 3, "0 is without an end");
}

#[test]
fn faults_strike_giants_as_they_strike_others() {
    let folder = Folder::new("struck");
    let giants = giants(14_528);
    let (input, out) = (folder.write("in.pcap", &pcap(&giants)), folder.path("out.pcap"));
    let run = object(&run_with(
        "--mode cross-connect --frame-size 16384",
        &format!("fault:duplicate=1/1/pcap:in={}", input.display()),
        &format!("pcap:out={}", out.display()),
    ));
    let twice: Vec<_> = giants.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
    assert!(packets(&fs::read(&out).unwrap()) == twice);
    assert_eq!(ports_of(&run, 0, "fault_duplicated"), giants.len() as u64);
}

#[test]
fn a_router_of_large_frames_forwards_jumbo_packets() {
    let folder = Folder::new("jumbo");
    let (sent, routed) = (folder.path("sent.pcap"), folder.path("routed.pcap"));
    // To the link address of port 0.
    let to = "--dst-mac 02:6e:65:74:00:00 --rate max --count 300 --size 64,1514,9014,14524";
    object(&output(&format!("gen --port pcap:out={} {to} --frame-size 16384 --json", sent.display())));
    let run = object(&run_with(
        "--mode ip --route 10.1.0.0/16,1,02:00:00:00:01:01 --frame-size 16384",
        &format!("pcap:in={}", sent.display()),
        &format!("pcap:out={}", routed.display()),
    ));
    assert_eq!((number(&run, "transmitted"), dropped(&run)), (300, 0), "{run}");
    let come = "--count 300 --ttl 63 --max-lost 0 --frame-size 16384 --json";
    let sink = object(&output(&format!("sink --port pcap:in={} {come}", routed.display())));
    assert_eq!((number(&sink, "received"), number(&sink, "corrupt")), (300, 0), "{sink}");
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

/// The same packets as a pcapng file, of little-endian blocks.
fn pcapng(packets: &[Vec<u8>]) -> Vec<u8> {
    let block = |kind: u32, contents: &[u8]| {
        let size = (contents.len().next_multiple_of(4) + 12) as u32;
        let padding = vec![0; size as usize - 12 - contents.len()];
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), contents, &padding, &size.to_le_bytes()].concat()
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    file.extend(block(1, &words(&[1, 0])));
    for packet in packets {
        let len = packet.len() as u32;
        file.extend(block(6, &[words(&[0, 0, 0, len, len]), packet.clone()].concat()));
    }
    file
}

#[test]
fn a_pcapng_file_is_received_as_the_pcap_file_of_its_packets() {
    let folder = Folder::new("pcapng");
    let (input, output) = (folder.write("in.pcapng", &pcapng(&frames())), folder.path("out.pcap"));
    let run = forward(&format!("pcap:in={}", input.display()), &format!("pcap:out={}", output.display()));
    assert_eq!(packets(&fs::read(&output).unwrap()), frames());
    assert_eq!(number(&run, "received"), frames().len() as u64);
}

#[test]
fn a_capture_of_another_routers_packets_is_reported_and_is_forwarded_with_its_address() {
    let folder = Folder::new("captured");
    let (sent, routed) = (folder.path("sent.pcap"), folder.path("routed.pcap"));
    let to = "--dst-mac 02:00:00:00:00:77 --dst 10.1.0.0 --count 50";
    object(&output(&format!("gen --port pcap:out={} {to} --json", sent.display())));
    let route = "--mode ip --route 10.1.0.0/16,1,02:00:00:00:01:01";
    let (from, to) = (format!("pcap:in={}", sent.display()), format!("pcap:out={}", routed.display()));
    let out = run_with(route, &from, &to);
    let said = stderr(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    for part in ["all 50 frames", "not_for_us", "pcap:0 has address 02:6e:65:74:00:00", "mac=MAC"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let run = object(&run_with(route, &format!("{from},mac=02:00:00:00:00:77"), &to));
    assert_eq!((number(&run, "transmitted"), dropped(&run)), (50, 0), "{run}");
    let run = object(&run_with(route, &format!("{from},mac=any"), &to));
    assert_eq!((number(&run, "transmitted"), dropped(&run)), (50, 0), "to anybody: {run}");
}

/// The seconds and microseconds of each packet of a pcap file, as text.
fn times(bytes: &[u8]) -> Vec<String> {
    let (mut rest, mut times) = (bytes.get(24..).unwrap_or_default(), Vec::new());
    while let Some((head, packet)) = rest.split_first_chunk::<16>() {
        let [seconds, nanos, len] =
            [0, 4, 8].map(|at| u32::from_le_bytes(head[at..][..4].try_into().expect("four bytes")));
        times.push(format!("{seconds}.{:06}", nanos / 1_000));
        rest = packet.get(len as usize..).unwrap_or_default();
    }
    times
}

#[test]
fn a_capture_through_the_router_keeps_its_times_on_request_and_errors_have_them_too() {
    let folder = Folder::new("times");
    let made = |name: &str, options: &str| {
        let path = folder.path(name);
        let to = "--dst 10.1.0.0 --src 10.0.0.9";
        object(&output(&format!("gen --port pcap:out={} {to} {options} --json", path.display())));
        packets(&fs::read(&path).unwrap())
    };
    let mut captured = made("alive.pcap", "--count 3");
    captured.extend(made("expired.pcap", "--count 2 --ttl 1"));
    let input = folder.write("in.pcap", &pcap_at_intervals(&captured, 250_000));
    let (back, routed) = (folder.path("back.pcap"), folder.path("routed.pcap"));
    let from = format!("pcap:in={},out={},mac=any,timestamps=recorded", input.display(), back.display());
    let options = "--route 10.1.0.0/16,1,02:00:00:00:01:01 --route 10.0.0.0/16,0,02:00:00:00:00:01 \
                   --address 10.0.0.1/24,0";
    let run = object(&run_with(options, &from, &format!("pcap:out={}", routed.display())));
    assert_eq!(number(&run, "transmitted"), 5, "{run}");
    let written = |path| times(&fs::read(path).unwrap());
    assert_eq!(written(&routed), ["1700000000.000000", "1700000000.250000", "1700000000.500000"]);
    assert_eq!(written(&back), ["1700000000.750000", "1700000001.000000"], "of what the errors are about");
}

#[test]
fn a_capture_on_standard_input_is_forwarded_until_it_ends() {
    let folder = Folder::new("stdin");
    let (sent, routed) = (folder.path("sent.pcap"), folder.path("routed.pcap"));
    object(&output(
        &format!("gen --port pcap:out={} --count 50", sent.display()).replace("gen", "gen --json"),
    ));
    let capture = fs::read(&sent).unwrap();
    let words =
        format!("forward --json --port pcap:in=- --port pcap:out={} --mode cross-connect", routed.display());
    let mut piped = netmem(&words);
    let mut child =
        piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    // In parts that end anywhere, with the run waiting between them.
    for part in capture.chunks(capture.len() / 3) {
        to.write_all(part).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
    drop(to);
    let run = object(&child.wait_with_output().unwrap());
    assert_eq!((number(&run, "received"), number(&run, "transmitted")), (50, 50), "{run}");
    assert_eq!(packets(&fs::read(&routed).unwrap()), packets(&capture));

    let redirected = netmem(&words).stdin(fs::File::open(&sent).unwrap()).output().unwrap();
    assert_eq!(number(&object(&redirected), "transmitted"), 50);
    let none = netmem(&words).output().unwrap();
    assert_eq!(none.status.code(), Some(1), "{}", stderr(&none));
    assert!(stderr(&none).contains("standard input: not a pcap file: it has 0 bytes"), "{}", stderr(&none));
    let mut again = netmem(&words.replace("in=-", "in=-,loop=2"));
    let again = again.stdin(Stdio::piped()).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("standard input is a pipe"), "{}", stderr(&again));
}

#[test]
fn a_capture_leaves_by_standard_output_and_the_summary_by_standard_error() {
    let folder = Folder::new("stdout");
    let sent = folder.path("sent.pcap");
    object(&output(&format!("gen --json --port pcap:out={} --count 50", sent.display())));
    let capture = fs::read(&sent).unwrap();
    let words =
        format!("forward --json --port pcap:in={} --port pcap:out=- --mode cross-connect", sent.display());
    let filtered = netmem(&words).output().unwrap();
    assert_eq!(packets(&filtered.stdout), packets(&capture));
    let run: Value = serde_json::from_str(&stderr(&filtered)).expect("its summary is on standard error");
    assert_eq!((number(&run, "transmitted"), filtered.status.code()), (50, Some(0)), "{run}");
    // A file keeps its contents.
    let file = folder.path("appended");
    fs::write(&file, "before").unwrap();
    let appended = fs::File::options().append(true).open(&file).unwrap();
    assert!(netmem(&words).stdout(appended).output().unwrap().status.success());
    let held = fs::read(&file).unwrap();
    assert_eq!((&held[..6], packets(&held[6..])), (&b"before"[..], packets(&capture)));
    let twice = output("forward --port pcap:out=- --port pcap:in=/dev/null,out=- --mode cross-connect");
    assert!(stderr(&twice).contains("standard output would be written twice"), "{}", stderr(&twice));
}
