//! `netmem forward --record` and `netmem record`: what was recorded, read by tshark.

#![allow(clippy::unwrap_used)]

mod netmem;
mod odd;

use netmem::{Run, output, start, stderr};
use odd::{Folder, pcap};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

/// How long a test waits for what must happen. It guards against hangs, nothing else.
const PATIENCE: Duration = Duration::from_secs(120);

/// These fields of each packet of a file, as tshark reads it; None where there is no tshark.
fn tshark(test: &str, file: &Path, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-T", "fields", "-E", "separator=|"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let out = match command.output() {
        Ok(out) => out,
        Err(error) => {
            assert!(
                env::var("NETMEM_NO_SKIP").as_deref() != Ok("1"),
                "{test} must not be skipped: no tshark: {error}"
            );
            let _ = io::Write::write_all(
                &mut io::stderr(),
                format!("SKIPPED {test}: no tshark: {error}\n").as_bytes(),
            );
            return None;
        }
    };
    assert!(out.status.success(), "{}", stderr(&out));
    let text = String::from_utf8(out.stdout).unwrap();
    Some(text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect())
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The sum of RFC 1071 over a header whose own is zero.
fn checksum(header: &[u8]) -> [u8; 2] {
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(((sum & 0xffff) + (sum >> 16)) as u16)).to_be_bytes()
}

/// A packet of IPv4 for the router's port 0, from 10.0.0.1 to 10.1.0.1, changed before its checksum is put in.
fn ipv4(options: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0xfe, 0x02, 0, 0, 0, 0, 0x01, 0x08, 0x00];
    let header = 20 + options.len();
    frame.extend([0x40 | (header / 4) as u8, 0, 0, (header + 26) as u8, 0, 1, 0, 0, 64, 17, 0, 0]);
    frame.extend([10, 0, 0, 1, 10, 1, 0, 1]);
    frame.extend(options);
    frame.extend([0x11; 26]);
    change(&mut frame);
    if frame[24..26] == [0, 0] {
        let sum = checksum(&frame[14..14 + header]);
        frame[24..26].copy_from_slice(&sum);
    }
    frame
}

/// A packet for each thing that can be wrong with one that comes from a file, by the reason that it is dropped for; one that is not.
fn odd_packets() -> Vec<(&'static str, Vec<u8>)> {
    let of = |change: fn(&mut Vec<u8>)| ipv4(&[], change);
    let ipv6 = of(|frame| {
        frame.truncate(14);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame.extend([0x60, 0, 0, 0, 0, 8, 17, 64, 0xfe, 0x80]);
        frame.extend([0; 13]);
        frame.extend([1, 0x20, 0x01, 0x0d, 0xb8]);
        frame.extend([0; 11]);
        frame.extend([1, 0, 9, 0, 9, 0, 8, 0, 1]);
    });
    vec![
        ("", of(|_| ())),
        ("short", vec![0x02; 10]),
        ("unknown_ethertype", of(|frame| frame[12..14].copy_from_slice(&[0x88, 0xb5]))),
        ("arp", of(|frame| frame[12..14].copy_from_slice(&[0x08, 0x06]))),
        ("not_for_us", of(|frame| frame[5] = 0x77)),
        ("link_multicast", of(|frame| frame[..6].fill(0xff))),
        ("bad_version", of(|frame| frame[14] = 0x55)),
        ("bad_header_length", of(|frame| frame[14] = 0x44)),
        ("bad_total_length", of(|frame| frame[17] = 19)),
        ("truncated", of(|frame| frame[16] = 4)),
        ("bad_checksum", of(|frame| frame[24] = 0x77)),
        ("martian", of(|frame| frame[26] = 127)),
        ("ttl_expired", of(|frame| frame[22] = 1)),
        ("no_route", of(|frame| frame[30] = 192)),
        ("policy", of(|frame| frame[26..30].copy_from_slice(&[10, 9, 9, 9]))),
        ("bad_options", ipv4(&[7, 1, 0, 0], |_| ())),
        ("source_route", ipv4(&[131, 3, 4, 0], |_| ())),
        ("beyond_scope", ipv6),
    ]
}

#[test]
fn tshark_shows_interface_verdict_and_reason_of_every_packet_that_was_dropped() {
    let folder = Folder::new("record-reasons");
    let (wanted, packets): (Vec<_>, Vec<_>) = odd_packets().into_iter().unzip();
    let file = folder.write("in.pcap", &pcap(&packets));
    let (control, to) = (folder.path("control"), folder.path("recorded.pcapng"));
    let mut child = start(&format!(
        "forward --port pcap:in={},loop=0,speed=recorded,mac=02:00:00:00:00:fe --port pcap:out=/dev/null \
         --route 10.1.0.0/16,1,02:00:00:00:00:02 --route 2001:db8::/32,1,02:00:00:00:00:02 \
         --path full --rule drop,src=10.9.9.9/32 --record 64 --record-to {} \
         --control {}",
        file.display(),
        to.display(),
        control.display()
    ));
    wait_until("a control socket", || control.exists());
    let read = folder.path("read.pcapng");
    wait_until("enough packets", || {
        let out = output(&format!("record -o {} --control {}", read.display(), control.display()));
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
        fs::metadata(&read).unwrap().len() > 5_000
    });
    signal(&child, Signal::USR1);
    wait_until("a file", || to.exists());
    signal(&child, Signal::INT);
    child.wait().unwrap();
    for file in [&read, &to] {
        let fields =
            ["frame.interface_name", "frame.verdict.ebpf_xdp", "frame.comment", "frame.len", "frame.cap_len"];
        let test = "tshark_shows_interface_verdict_and_reason_of_every_packet_that_was_dropped";
        let Some(lines) = tshark(test, file, &fields) else { return };
        let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in lines {
            let reason = line[2].split_once("dropped: ").map_or("", |(_, rest)| rest);
            let reason = reason.split([';', ',']).next().unwrap().to_owned();
            seen.insert(reason, line);
        }
        for (reason, packet) in wanted.iter().zip(&packets) {
            let line = seen.get(*reason).unwrap_or_else(|| panic!("no {reason} in {seen:#?}"));
            assert!(line[0].starts_with("pcap:"), "{line:?}");
            assert_eq!(line[1], if reason.is_empty() { "4" } else { "1" }, "{line:?}");
            assert_eq!((line[3].parse(), line[4].parse()), (Ok(packet.len()), Ok(packet.len())), "{line:?}");
        }
        assert_eq!(seen.len(), wanted.len(), "{seen:#?}");
    }
}

#[test]
fn a_recording_is_followed_and_says_what_is_missing_between_two_packets() {
    let run = Run::start_with("record-follow", "--record 64");
    let folder = Folder::new("record-follow");
    let file = folder.path("followed.pcapng");
    let mut child = start(&format!("record --follow -o {} --control {}", file.display(), run.path.display()));
    wait_until("some packets", || fs::metadata(&file).is_ok_and(|file| file.len() > 100_000));
    run.end();
    assert_eq!(child.wait().unwrap().code(), Some(0), "the run's end is its own");
    let test = "a_recording_is_followed_and_says_what_is_missing_between_two_packets";
    let Some(lines) = tshark(test, &file, &["frame.packet_id", "frame.drop_count", "frame.comment"]) else {
        return;
    };
    let mut next = BTreeMap::new();
    for line in &lines {
        let id: u64 = line[0].parse().unwrap();
        let (ring, number) = (id >> 48, id & 0xffff_ffff_ffff);
        let missing: u64 = line[1].parse().unwrap_or_default();
        let before = next.insert(ring, number + 1).unwrap_or(number);
        assert_eq!(before + missing, number, "{line:?}");
    }
    assert!(lines.iter().any(|line| !line[1].is_empty()), "more came than 64 in a tenth of a second");
}

#[test]
fn how_long_packets_were_in_lanes_and_in_the_local_queue_is_said_of_each() {
    let folder = Folder::new("record-queues");
    let test = "how_long_packets_were_in_lanes_and_in_the_local_queue_is_said_of_each";
    for (name, options, wanted) in [
        (
            "lanes",
            "--workers 2 --generators 1 --flows 100 --steer round-robin",
            &["in the lane from worker 0 ", "in the lane back to worker 0 "][..],
        ),
        ("held", "--mode pass --hold 100", &["in the local queue "][..]),
    ] {
        let run = Run::start_with(&format!("record-{name}"), &format!("--record 1024 {options}"));
        let file = folder.path(name);
        let mut seen = None;
        wait_until(name, || {
            let out = run.ask(&format!("record -o {}", file.display()));
            assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
            seen = tshark(test, &file, &["frame.comment"]);
            let says = |lines: &Vec<Vec<String>>| {
                wanted.iter().all(|wanted| lines.iter().any(|line| line[0].contains(wanted)))
            };
            seen.as_ref().is_none_or(says)
        });
        run.end();
        if seen.is_none() {
            return;
        }
    }
}

#[test]
fn a_rate_of_drops_has_the_recording_written_once_and_a_word_said() {
    let folder = Folder::new("record-when");
    let packets: Vec<_> = odd_packets().into_iter().map(|(_, packet)| packet).collect();
    let file = folder.write("in.pcap", &pcap(&packets));
    let to = folder.path("risen.pcapng");
    let child = start(&format!(
        "forward --port pcap:in={},loop=0,mac=02:00:00:00:00:fe --port pcap:out=/dev/null --route default,1,02:00:00:00:00:02 \
         --record 64 --record-to {} --record-when drop.tx_full>1000000000/s --record-when drop.bad_checksum>1/s",
        file.display(),
        to.display(),
    ));
    wait_until("a file", || to.exists());
    thread::sleep(Duration::from_secs(2));
    signal(&child, Signal::INT);
    let out = child.wait_with_output().unwrap();
    let said = stderr(&out);
    let lines: Vec<_> = said.lines().filter(|line| line.contains("recorded packets written")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("(drop.bad_checksum>1/s: "), "{said}");
    assert!(!folder.path("risen.pcapng.part").exists());
}

#[test]
fn a_recorder_that_cannot_be_is_refused_in_one_line() {
    let run = Run::start("record-none");
    for (words, wanted) in [
        (
            "forward --record-to /tmp/x".to_owned(),
            "--record-to: nothing is recorded: give --record 1024 as well",
        ),
        ("forward --record-when drops>1/s".to_owned(), "--record-when: nothing is recorded"),
        ("forward --record 64 --record-when drops>1/s".to_owned(), "--record-when: there is no file"),
        ("forward --record 64 --record-to /nowhere/x".to_owned(), "--record-to /nowhere/x: No such file"),
        ("forward --record 63".to_owned(), "64 to 1048576"),
        (
            "forward --record 64 --record-to /tmp/x --record-when drop.tll>1/s".to_owned(),
            "no packet is dropped as",
        ),
        (format!("record -o /nowhere/x --control {}", run.path.display()), "this run records nothing"),
        ("record -o /nowhere/x --control /nowhere/y".to_owned(), "control socket /nowhere/y"),
    ] {
        let out = output(&words);
        let said = stderr(&out);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{words}: {said}");
        assert!(said.contains(wanted), "{words}: {said}");
    }
    run.end();
}
