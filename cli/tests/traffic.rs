//! Tests of `netmem gen` and `netmem sink`: two processes measure the path between them.

#![allow(clippy::unwrap_used)]

mod netmem;
mod test_frames;

use netmem::{ended, listens, number, object, output, start, stderr, stdout, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use test_frames::Folder;

/// Waits for the end of a process. Returns its object.
fn result(what: &str, child: Child) -> Value {
    object(&ended(what, child))
}

/// Ends a process as Ctrl-C does. Returns its object, with any messages on standard error.
fn end(child: Child) -> Value {
    kill_process(Pid::from_child(&child), Signal::INT).expect("kill(2)");
    let out = child.wait_with_output().expect("output");
    serde_json::from_str(&stdout(&out)).unwrap_or_else(|error| panic!("{error}: {}", stderr(&out)))
}

/// Sends to a file. Returns the generator's object.
fn recorded(file: &Path, options: &str) -> Value {
    object(&output(&format!("gen --port pcap:out={} --json {options}", file.display())))
}

/// Returns the report of a sink about a file that it reads through such a port.
fn sunk(through: &str, file: &Path, options: &str) -> Value {
    object(&output(&format!("sink --port {through}pcap:in={} --json {options}", file.display())))
}

fn counts<const N: usize>(value: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| number(value, name))
}

const JUDGED: [&str; 6] = ["received", "lost", "reordered", "duplicates", "corrupt", "foreign"];

#[test]
fn two_processes_measure_a_third_over_memif_and_all_counts_agree() {
    // The rings have room for all packets, so none is lost, whichever process waits for a core.
    const SENT: u64 = 15_000;
    let folder = Folder::new("measured");
    let (a, b) = (folder.path("a.sock"), folder.path("b.sock"));
    let sink = start(&format!(
        "sink --port memif:{},role=server --ring 16384 --count {SENT} --seconds 100 --json --max-lost 0 --max-duplicates 0 \
         --max-corrupt 0 --max-foreign 0 --ttl 64 --dst-mac 02:00:00:00:00:fe --src-mac 02:00:00:00:00:01",
        b.display()
    ));
    wait_until("the sink does not listen", || listens(&b));
    // The socket for the generator comes when the sink has answered.
    let forwarder = start(&format!(
        "forward --mode cross-connect --json --ring 16384 --port memif:{} --port memif:{},role=server",
        b.display(),
        a.display()
    ));
    wait_until("the forwarder does not listen", || listens(&a));
    let generator = start(&format!(
        "gen --port memif:{} --ring 16384 --count {SENT} --rate 20000 --flows 30 --size imix --src-mac 02:00:00:00:00:01 --json",
        a.display()
    ));
    let (sent, received) = (result("the generator", generator), result("the sink", sink));
    let forwarded = end(forwarder);
    assert_eq!(counts(&received, JUDGED), [SENT, 0, 0, 0, 0, 0], "{received}");
    assert_eq!(counts(&sent, ["sent", "flows"]), [SENT, 30]);
    assert_eq!(counts(&forwarded, ["received", "transmitted"]), [SENT, SENT]);
    assert_eq!(number(&received, "bytes"), number(&sent, "bytes"));
    assert_eq!([number(&sent["ports"][0], "tx"), number(&received["ports"][0], "rx")], [SENT, SENT]);
    let latency = &received["latency_ns"];
    assert_eq!(counts(latency, ["counted", "unusable"]), [SENT, 0]);
    let quantiles = counts(latency, ["least", "p50", "p90", "p99", "p999", "most"]);
    assert!(quantiles.is_sorted() && quantiles[0] > 0, "{latency}");
    let per_second = received["per_second"].as_array().unwrap();
    assert_eq!(per_second.iter().map(|n| n.as_u64().unwrap()).sum::<u64>(), SENT);
    for run in [&sent, &received] {
        assert_eq!(run["pools"][0]["balanced"], true);
    }
}

#[test]
fn giants_between_two_processes_arrive_whole_where_both_have_frames_for_them_and_are_counted_where_not() {
    // As many as a ring has room for.
    const SENT: u64 = 1800;
    let folder = Folder::new("large");
    for (frame_size, arrive) in [(16_384, SENT), (2048, SENT / 3)] {
        let socket = folder.path(&format!("{frame_size}.sock"));
        let sink = start(&format!(
            "sink --port memif:{},role=server --count {arrive} --seconds 100 --json --frame-size {frame_size}",
            socket.display()
        ));
        wait_until("the sink does not listen", || listens(&socket));
        // The last one is one that fits.
        let generator = start(&format!(
            "gen --port memif:{} --count {SENT} --rate 20000 --size 9014,14524,64 --frame-size 16384 --json",
            socket.display()
        ));
        let (sent, received) = (result("the generator", generator), result("the sink", sink));
        assert_eq!(number(&sent, "bytes"), SENT / 3 * (64 + 9014 + 14_524));
        assert_eq!(counts(&received, ["received", "corrupt", "foreign"]), [arrive, 0, 0], "{received}");
        assert_eq!(number(&received["ports"][0], "rx_too_long"), SENT - arrive, "{received}");
    }
}

#[test]
fn a_sink_reports_exactly_the_faults_of_a_port() {
    const SENT: u64 = 10_000;
    let folder = Folder::new("faults");
    let file = folder.path("packets");
    let sent = recorded(
        &file,
        &format!("--rate max --count {SENT} --flows 3 --size 64,1000 --src-mac 02:00:00:00:00:01"),
    );
    assert_eq!(counts(&sent, ["sent", "bytes"]), [SENT, SENT / 2 * 1064]);
    let whole = sunk("", &file, &format!("--count {SENT} --max-lost 0"));
    assert_eq!(counts(&whole, JUDGED), [SENT, 0, 0, 0, 0, 0]);

    let dropped = sunk("fault:drop=0.02,seed=7/", &file, &format!("--count {SENT}"));
    let lost = number(&dropped["ports"][0], "rx_dropped");
    assert!((100..400).contains(&lost), "{lost}");
    assert_eq!(counts(&dropped, JUDGED), [SENT - lost, lost, 0, 0, 0, 0]);

    let duplicated = sunk("fault:duplicate=1/40/", &file, "");
    assert_eq!(counts(&duplicated, JUDGED), [SENT + SENT / 40, 0, 0, SENT / 40, 0, 0]);

    let known = "--src-mac 02:00:00:00:00:01 --dst-mac 02:00:00:00:00:fe";
    let turned = sunk("fault:corrupt=1/10/", &file, &format!("--count {SENT} {known}"));
    assert_eq!(counts(&turned, JUDGED), [SENT, SENT / 10, 0, 0, SENT / 10, 0]);
    let by: u64 = turned["corrupt_by"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(by, SENT / 10);

    // The last one is released when no other comes, so it arrives in order.
    let late = sunk("fault:reorder=1/50/", &file, "");
    assert_eq!(counts(&late, JUDGED), [SENT, 0, SENT / 50 - 1, 0, 0, 0]);
}

#[test]
fn ipv6_streams_are_measured_too_and_other_streams_are_foreign() {
    let folder = Folder::new("v6");
    let file = folder.path("packets");
    recorded(&file, "--rate max --count 100 --src fd00::1+4 --dst fd01::1 --flows 8 --stream 5 --ttl 3");
    let whole = sunk("", &file, "--count 100 --stream 5 --ttl 3 --max-lost 0 --max-corrupt 0");
    assert_eq!((counts(&whole, JUDGED), number(&whole, "bytes")), ([100, 0, 0, 0, 0, 0], 8400));
    let ttl = sunk("", &file, "--stream 5 --ttl 4");
    assert_eq!((number(&ttl, "corrupt"), number(&ttl, "corrupt_by.ttl")), (100, 100));
    let other = sunk("", &file, "");
    assert_eq!(counts(&other, JUDGED), [0, 0, 0, 0, 0, 100]);
    assert_eq!((&other["latency_ns"], &other["pps_mean"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_run_beyond_a_limit_fails_with_one_line_after_its_report() {
    let folder = Folder::new("limits");
    let (file, object) = (folder.path("packets"), folder.path("object"));
    recorded(&file, "--rate max --count 300");
    let out = output(&format!(
        "sink --port fault:drop=1/3/pcap:in={} --count 300 --max-lost 99 --max-reordered 0 --json {}",
        file.display(),
        object.display()
    ));
    assert_eq!(stderr(&out), "error: check failed: lost 100, and --max-lost allows 99\n");
    assert_eq!(out.status.code(), Some(1));
    assert!(
        stdout(&out).contains("received    200") && stdout(&out).contains("lost        100"),
        "{}",
        stdout(&out)
    );
    let written: Value = serde_json::from_str(&fs::read_to_string(object).unwrap()).unwrap();
    assert_eq!(number(&written, "lost"), 100);
}

/// The bytes of a capture's header, and of each record of a packet of 64 bytes.
const HEADER: usize = 24;
const RECORD: usize = 80;

/// Records this number of packets, and writes a capture of those that `picks` names, in its order.
fn rearranged(folder: &Folder, options: &str, picks: impl Iterator<Item = usize>) -> PathBuf {
    let (whole, file) = (folder.path("whole"), folder.path("rearranged"));
    recorded(&whole, &format!("--rate max {options}"));
    let whole = fs::read(&whole).unwrap();
    let (header, packets) = whole.split_at(HEADER);
    let records = picks.flat_map(|pick| &packets[pick * RECORD..(pick + 1) * RECORD]);
    fs::write(&file, header.iter().chain(records).copied().collect::<Vec<_>>()).unwrap();
    file
}

/// Seen: `lost 0`, `reordered 10`, `duplicates 0`, and exit code 0 with `--max-lost 0 --max-duplicates 0`.
#[test]
fn packets_that_come_again_long_after_do_not_hide_a_loss_from_the_limits() {
    let folder = Folder::new("late");
    let picks = (0..500).chain(510..1000).chain(0..10);
    let file = rearranged(&folder, "--count 1000", picks);
    assert_eq!(counts(&sunk("", &file, ""), JUDGED), [1000, 10, 0, 10, 0, 0]);
    let out = output(&format!("sink --port pcap:in={} --max-lost 0 --max-duplicates 0", file.display()));
    let lines = "error: check failed: lost 10, and --max-lost allows 0\n\
                 error: check failed: duplicates 10, and --max-duplicates allows 0\n";
    assert_eq!((stderr(&out).as_str(), out.status.code()), (lines, Some(1)));
}

#[test]
fn a_limit_that_late_packets_may_exceed_is_not_passed() {
    let folder = Folder::new("too-late");
    let picks = (0..500).chain(510..9000).chain(0..10);
    let file = rearranged(&folder, "--count 9000", picks);
    let report = sunk("", &file, "");
    assert_eq!(counts(&report, JUDGED), [9000, 10, 0, 0, 0, 0]);
    assert_eq!(counts(&report, ["late", "distinct"]), [10, 8990]);
    let checked = |limits| {
        let out = output(&format!("sink --port pcap:in={} {limits}", file.display()));
        (out.status.code(), stderr(&out))
    };
    let line = "error: check failed: 10 packets came late, for the first time or again, so --max-duplicates 9 cannot be checked\n";
    assert_eq!(checked("--max-lost 10 --max-duplicates 9"), (Some(1), line.to_owned()));
    assert_eq!(checked("--max-lost 10 --max-duplicates 10 --max-reordered 10"), (Some(0), String::new()));
    let line = "error: check failed: lost 10, and --max-lost allows 9; up to 10 of them may have come late\n";
    assert_eq!(checked("--max-lost 9"), (Some(1), line.to_owned()));
}

/// Seen: of ten flows one was lost whole, and nothing in the report of the sink said so.
#[test]
fn a_flow_that_is_lost_whole_is_missing_in_the_number_of_flows() {
    let folder = Folder::new("flows");
    let file = rearranged(&folder, "--count 100 --flows 10", (0..100).filter(|pick| pick % 10 != 3));
    let report = sunk("", &file, "");
    assert_eq!(counts(&report, ["flows", "received", "lost"]), [9, 90, 0]);
    let text = stdout(&output(&format!("sink --port pcap:in={}", file.display())));
    assert!(text.contains("\n  flows        9\n"), "{text}");
}

/// Seen: a sink with `--count` ended before its last packets, because damaged copies of others counted.
#[test]
fn damaged_copies_beside_good_packets_do_not_end_a_sink_before_its_count() {
    let folder = Folder::new("copies");
    let copies = 200;
    let picks = (0..copies).flat_map(|pick| [pick, pick]).chain(copies..1000);
    let file = rearranged(&folder, "--count 1000", picks);
    let mut bytes = fs::read(&file).unwrap();
    for copy in 0..copies {
        bytes[HEADER + 2 * copy * RECORD + RECORD - 1] ^= 1;
    }
    fs::write(&file, bytes).unwrap();
    let report = sunk("", &file, "--count 1000 --max-lost 0");
    assert_eq!(counts(&report, JUDGED), [1200, 0, 0, 0, 200, 0]);
}

/// Seen: 20 packets a second for two packets a tenth of a second apart.
#[test]
fn the_rate_of_a_short_run_is_not_one_packet_too_high() {
    let folder = Folder::new("short");
    let sent = recorded(&folder.path("packets"), "--rate 10 --count 2");
    assert!(sent["pps_mean"].as_f64().unwrap() <= 10.0, "{sent}");
}

/// Seen: a sink that read a capture printed the age of the file as latency.
#[test]
fn packets_of_a_file_have_no_latency() {
    let folder = Folder::new("age");
    let file = folder.path("packets");
    recorded(&file, "--rate max --count 3");
    assert_eq!(sunk("", &file, "")["latency_ns"], Value::Null);
    let text = stdout(&output(&format!("sink --port pcap:in={}", file.display())));
    assert!(text.contains("no packet from a link had a time of this machine's clock"), "{text}");
}

/// Seen: a sink at a dead link was content with it.
#[test]
fn a_limit_on_losses_fails_if_no_packet_came() {
    let folder = Folder::new("silence");
    let sink = |limit| {
        output(&format!("sink --port memif:{},role=server --seconds 0.2 {limit}", folder.path("s").display()))
    };
    let out = sink("--max-lost 3");
    assert_eq!(
        stderr(&out),
        "error: check failed: no packet was received, so --max-lost 3 cannot be checked\n"
    );
    assert_eq!(out.status.code(), Some(1));
    for limit in ["", "--max-corrupt 0"] {
        assert_eq!(sink(limit).status.code(), Some(0), "{limit}");
    }
}

#[test]
fn a_rate_and_a_time_bound_the_packets_sent_and_a_signal_ends_both() {
    let folder = Folder::new("paced");
    let file = folder.path("packets");
    let sent = recorded(&file, "--rate 500 --seconds 1");
    // As many as 64 more may be due at the end, after the machine stood still.
    let n = number(&sent, "sent");
    assert!((1..=565).contains(&n) && sent["seconds"].as_f64().unwrap() >= 1.0, "{sent}");
    let socket = folder.path("sock");
    let sink = start(&format!("sink --port memif:{},role=server --json", socket.display()));
    wait_until("no process listens", || listens(&socket));
    let more = folder.path("more");
    let generator = start(&format!(
        "gen --port trace:file={}/memif:{} --rate 10 --json",
        more.display(),
        socket.display()
    ));
    let has_sent = || fs::read_to_string(&more).is_ok_and(|trace| trace.contains(r#""call":"tx""#));
    wait_until("the generator does not send", has_sent);
    let sent = number(&end(generator), "sent");
    assert!(sent > 0);
    assert_eq!(number(&end(sink), "received"), sent);
}

/// Seen: with `--rate 50000` a generator sent 20,801 packets a second and did not report the missing ones.
#[test]
fn a_generator_that_misses_its_rate_says_by_how_many_packets_and_why() {
    let folder = Folder::new("missed");
    let port = format!("gen --port pcap:out={}", folder.path("out.pcap").display());
    // No generator makes a packet a nanosecond.
    let out = output(&format!("{port} --rate 1000M --count 20000"));
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let text = stdout(&out);
    assert!(text.contains("\nmissed ") && text.contains(" that were due: "), "{text}");
    assert!(text.contains("a generator that did not run in time, or is slower than the rate"), "{text}");
    let sent = recorded(&folder.path("more"), "--rate 1000M --count 20000");
    assert_eq!((number(&sent, "sent"), number(&sent, "missed_no_room")), (20_000, 0));
    assert!(number(&sent, "missed_behind") > 0, "{sent}");
    let all = recorded(&folder.path("all"), "--rate max --count 200");
    assert_eq!((number(&all, "missed_no_room"), number(&all, "missed_behind")), (0, 0));
}

/// Asserts that the command line is refused with one line that has this in it.
#[track_caller]
fn refused(words: &str, part: &str) {
    let out = output(words);
    let said = stderr(&out);
    assert!(said.starts_with("error: ") && said.lines().count() == 1 && said.contains(part), "{said}");
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(2), ""), "netmem {words}");
}

/// Seen: tcpdump printed each packet of a generator as BCM-LI-SHIM, by its source port.
#[test]
fn no_packet_of_a_generator_comes_from_a_port_that_tcpdump_takes_for_another_protocol() {
    let folder = Folder::new("ports");
    let file = folder.path("sent.pcap");
    recorded(&file, "--count 40000 --flows 40000");
    let port = |packet: Vec<u8>| u16::from_be_bytes([packet[34], packet[35]]);
    let ports: Vec<u16> = test_frames::packets(&fs::read(&file).unwrap()).into_iter().map(port).collect();
    assert_eq!((ports.len(), ports[0]), (40_000, 49_153));
    assert!(ports.iter().all(|port| (49_153..=65_535).contains(port)));
}

#[test]
fn bad_input_is_refused_with_one_line_and_exit_code_2() {
    refused("gen", "--port <KIND:NAME>");
    refused("sink", "--port <KIND:NAME>");
    let to_null = "gen --port pcap:out=/dev/null";
    refused("gen --port eth0", "did you mean packet:eth0 or xdp:eth0?");
    refused(&format!("{to_null} --rate 0"), "or max (see netmem gen --help)");
    refused(&format!("{to_null} --size 63"), "64 to 29116");
    refused(
        &format!("{to_null} --size 64 --src fd00::1 --dst fd00::2"),
        "frames of 64 bytes: a size must be 84 to 29116",
    );
    refused(&format!("{to_null} --dst fd00::2"), "give two IPv4 or two IPv6 addresses");
    refused(&format!("{to_null} --dst 10.0.0"), "is not an address or port");
    refused(&format!("{to_null} --dst 255.255.255.255+3"), "give at most 255.255.255.255+1");
    refused(&format!("{to_null} --sport 65535+3"), "give at most 65535+1");
    refused(&format!("{to_null} --flows 65535"), "1 to 65534");
    refused(&format!("{to_null} --core 1000"), "--core 1000: ");
    refused("gen --port memif:/nonexistent/x.sock --wait 0.1", "is not up after 0.1 s");
    refused("sink --port pcap:in=/nonexistent", "/nonexistent");
    refused("sink --port pcap:in=/dev/null --port pcap:in=/dev/null", "is given twice");
    refused("sink --port pcap:in=/dev/null --quiet 0", "above 0");
    refused("sink --port pcap:in=/dev/null --max-lost some", "whole number");
}

/// Seen: a generator opened its port and made the file of its report, and then refused its addresses. The file stayed.
#[test]
fn a_refused_generator_opens_no_port_and_leaves_no_file() {
    let folder = Folder::new("refused");
    let [sent, report] = ["sent.pcap", "report.json"].map(|name| folder.path(name));
    let words = format!("gen --port pcap:out={} --json {}", sent.display(), report.display());
    refused(&format!("{words} --dst fd01::1"), "give two IPv4 or two IPv6 addresses");
    refused(&format!("{words} --size 64 --src fd00::1 --dst fd00::2"), "a size must be 84 to 29116");
    assert!(!sent.exists() && !report.exists());
    let socket = folder.path("none.sock");
    let words = format!("gen --port memif:{} --wait 0.1 --json {}", socket.display(), report.display());
    refused(&words, "is not up after 0.1 s");
    assert!(!report.exists());
    fs::write(&report, "of an earlier run").unwrap();
    refused(&words, "is not up after 0.1 s");
    assert_eq!(fs::read_to_string(&report).unwrap(), "of an earlier run");
}

/// Seen: a sink emptied a capture whose `in=` was mistyped as `out=`, and a generator sent to a port without an output.
#[test]
fn a_file_that_a_sink_would_write_or_a_generator_would_read_is_refused_and_stays() {
    let folder = Folder::new("directions");
    let file = folder.path("packets");
    recorded(&file, "--rate max --count 3");
    let (before, at) = (fs::read(&file).unwrap(), file.display());
    for through in ["", "fault:drop=1/3/"] {
        refused(&format!("sink --port {through}pcap:out={at} --seconds 1"), "give pcap:in=FILE");
        refused(&format!("gen --port {through}pcap:in={at} --count 3"), "give pcap:out=FILE");
    }
    let other = folder.path("other");
    refused(&format!("sink --port pcap:in={at} --port pcap:out={}", other.display()), "give pcap:in=FILE");
    assert!(fs::read(&file).unwrap() == before && !other.exists());
}

/// Seen: a sink that could read only part of a file, or whose interface was deleted, ended with exit code 0.
#[test]
fn a_sink_whose_file_is_damaged_fails_after_its_report_with_the_reason() {
    let folder = Folder::new("damaged");
    let file = folder.path("packets");
    recorded(&file, "--rate max --count 3");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    let out = output(&format!("sink --port pcap:in={} --max-lost 0 --json", file.display()));
    let said = stderr(&out);
    assert!(said.starts_with("error: port pcap:") && said.contains(" is down: "), "{said}");
    assert_eq!((out.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
    assert_eq!(counts(&report, JUDGED), [2, 0, 0, 0, 0, 0]);
}

/// Seen: with `--seconds` below `--wait`, a generator whose peer had gone reported success, and the packets that were
/// due after that were in no count.
#[test]
fn a_generator_whose_peer_has_gone_says_so_and_counts_the_packets_that_were_due_after_that() {
    // A time may be over before the peer has gone, or before the generator has noticed that.
    let is_counted = [6, 30, 120].into_iter().any(is_counted_as_port_down);
    assert!(is_counted, "the generator ended well, or its port had no room");
}

/// Whether a generator says that its peer has gone, and counts most of the packets as missed that were due after that.
fn is_counted_as_port_down(seconds: u64) -> bool {
    let folder = Folder::new("peer-gone");
    let socket = folder.path("sock");
    let sink = start(&format!("sink --port memif:{},role=server --count 10 --json", socket.display()));
    wait_until("the sink does not listen", || listens(&socket));
    let words = format!("gen --port memif:{} --rate 1000 --seconds {seconds} --json", socket.display());
    let out = output(&words);
    result("the sink", sink);
    let said = stderr(&out);
    let lines = said.matches(" is down: ").count();
    if lines == 0 {
        return false;
    }
    assert_eq!((out.status.code(), lines), (Some(1), 1), "{said}");
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let missed = counts(&report, ["missed_port_down", "missed_no_room", "missed_behind"]);
    // All were due. The last 64 could still have been sent when the time was over.
    let all = number(&report, "sent") + missed.iter().sum::<u64>();
    assert!(all >= seconds * 1000 * 5 / 6, "{report}");
    // Seen: the port had no room for them.
    missed[0] > missed[1]
}

#[test]
fn the_help_lists_every_value_of_the_object() {
    let folder = Folder::new("listed");
    let file = folder.path("packets");
    let sent = recorded(&file, "--rate max --count 1");
    let received = sunk("", &file, "");
    for (command, value) in [("gen", sent), ("sink", received)] {
        let help = stdout(&output(&format!("{command} --help")));
        let (_, listed) = help.split_once("The object of --json:").unwrap();
        let missing: Vec<_> =
            value.as_object().unwrap().keys().filter(|key| !listed.contains(*key)).collect();
        assert!(missing.is_empty(), "{command}: {missing:?}");
    }
}

/// Found by reasoning: the packet that found no room in the file counted as sent.
#[test]
fn a_generator_whose_very_last_packet_finds_no_room_says_so() {
    let folder = Folder::new("no-room");
    for (count, code) in [(102, 0), (103, 1)] {
        // 8 KiB: a header of 24 bytes and 102 packets of 80.
        let program = netmem::netmem("").get_program().to_owned();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]).arg(program);
        let output = folder.path("out.pcap");
        let words = format!("gen --port pcap:out={} --count {count} --json", output.display());
        let out = command.args(words.split(' ')).output().expect("sh(1)");
        assert_eq!(out.status.code(), Some(code), "{}", stderr(&out));
        let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
        assert_eq!(counts(&report, ["sent", "unsent"]), [102, code as u64], "of {count}: {report}");
        assert_eq!(number(&report["ports"][0], "tx_lost"), code as u64);
        assert_eq!(stderr(&out).contains("lost 1 of the packets"), code == 1, "{}", stderr(&out));
        fs::remove_file(&output).unwrap();
    }
}
