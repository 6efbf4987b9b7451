//! Tests of `netmem forward --record` and `netmem record`: tshark reads the recording.

#![allow(clippy::unwrap_used)]

mod netmem;
mod test_frames;
mod tshark;

use netmem::{Run, child_of, ended, output, start, stderr, stdout, wait_until, wait_while_it_runs};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;
use std::{fs, thread};
use test_frames::dropped::packets_by_drop_reason;
use test_frames::{Folder, pcap};
use tshark::tshark;

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Returns a line of the recording for each drop reason, by the reason. A packet that was not dropped has the empty
/// reason.
fn by_reason(file: &Path) -> Option<BTreeMap<String, Vec<String>>> {
    let fields =
        ["frame.interface_name", "frame.verdict.ebpf_xdp", "frame.comment", "frame.len", "frame.cap_len"];
    let test = "tshark_shows_interface_verdict_and_reason_of_every_packet_that_was_dropped";
    let lines = tshark(test, file, &fields)?;
    // A packet that was read before its burst was done has no verdict yet.
    let decided = lines.into_iter().filter(|line| !line[2].starts_with("in work"));
    Some(
        decided
            .map(|line| {
                let reason = line[2].split_once("dropped: ").map_or("", |(_, rest)| rest);
                (reason.split([';', ',']).next().unwrap_or_default().to_owned(), line)
            })
            .collect(),
    )
}

#[test]
fn tshark_shows_interface_verdict_and_reason_of_every_packet_that_was_dropped() {
    let folder = Folder::new("record-reasons");
    let (wanted, packets): (Vec<_>, Vec<_>) = packets_by_drop_reason().into_iter().unzip();
    let file = folder.write("in.pcap", &pcap(&packets));
    let (control, to) = (folder.path("control"), folder.path("recorded.pcapng"));
    let mut child = start(&format!(
        "forward --port pcap:in={},loop=0,speed=recorded,mac=02:00:00:00:00:fe --port pcap:out=/dev/null \
         --route 10.1.0.0/16,1,02:00:00:00:00:02 --route 2001:db8::/32,1,02:00:00:00:00:02 \
         --path full --rule drop,src=10.9.9.9/32 --record 1024 --record-to {} \
         --control {}",
        file.display(),
        to.display(),
        control.display()
    ));
    wait_while_it_runs(&mut child, "there is a control socket", || control.exists());
    let read = folder.path("read.pcapng");
    // A reader that stands still misses the packets that the run overwrites meanwhile.
    let is_whole = |seen: &Option<BTreeMap<_, _>>| {
        seen.as_ref().is_none_or(|seen| wanted.iter().all(|reason| seen.contains_key(*reason)))
    };
    let (mut seen, mut written) = (None, None);
    wait_until("every packet with what became of it", || {
        let out = output(&format!("record -o {} --control {}", read.display(), control.display()));
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
        seen = by_reason(&read);
        is_whole(&seen)
    });
    wait_until("every packet in the run's own file", || {
        signal(&child, Signal::USR1);
        wait_until("a file", || to.exists());
        written = by_reason(&to);
        fs::remove_file(&to).unwrap();
        is_whole(&written)
    });
    signal(&child, Signal::INT);
    child.wait().unwrap();
    for seen in [seen, written] {
        let Some(seen) = seen else { return };
        for (reason, packet) in wanted.iter().zip(&packets) {
            let line = seen.get(*reason).unwrap_or_else(|| panic!("no {reason} in {seen:#?}"));
            assert!(line[0].starts_with("pcap:"), "{line:?}");
            assert_eq!(line[1], if reason.is_empty() { "4" } else { "1" }, "{line:?}");
            assert_eq!((line[3].parse(), line[4].parse()), (Ok(packet.len()), Ok(packet.len())), "{line:?}");
        }
        assert_eq!(seen.len(), wanted.len(), "{seen:#?}");
    }
}

/// Asserts that the numbers of each ring go up, and that a packet says how many are missing before it.
fn assert_gaps_are_shown(lines: &[Vec<String>]) {
    let mut next = BTreeMap::new();
    for line in lines {
        let id: u64 = line[0].parse().unwrap();
        let (ring, number) = (id >> 48, id & 0xffff_ffff_ffff);
        let missing: u64 = line[1].parse().unwrap_or_default();
        let before = next.insert(ring, number + 1).unwrap_or(number);
        assert_eq!(before + missing, number, "{line:?}");
    }
}

/// Seen: the run answered with all rings at once, which took gigabytes if they were large, and more than a client reads.
#[test]
fn large_rings_are_read_by_several_answers() {
    const ANSWER: usize = 4096;
    let test = "large_rings_are_read_by_several_answers";
    let run = Run::start_with(test, "--record 65536");
    wait_until("packets of several answers", || {
        let received = stdout(&run.ask("stat ports mem:0.rx"));
        received.trim_end().parse::<usize>().is_ok_and(|received| received > 5 * ANSWER)
    });
    let request = "{\"get\":\"recorded\"}\n";
    let mut stream = UnixStream::connect(&run.path).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert_eq!(answer.matches("\"number\":").count(), ANSWER);
    let folder = Folder::new("record-large");
    let file = folder.path("large.pcapng");
    let out = run.ask(&format!("record -o {}", file.display()));
    assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
    run.end();
    let Some(lines) = tshark(test, &file, &["frame.packet_id", "frame.drop_count"]) else { return };
    assert!(lines.len() > ANSWER, "{} packets", lines.len());
    assert_gaps_are_shown(&lines);
}

#[test]
fn a_recording_is_followed_and_shows_the_gap_between_two_packets() {
    let run = Run::start_with("record-follow", "--record 64");
    let folder = Folder::new("record-follow");
    let file = folder.path("followed.pcapng");
    let mut child = start(&format!("record --follow -o {} --control {}", file.display(), run.path.display()));
    wait_until("some packets", || fs::metadata(&file).is_ok_and(|file| file.len() > 100_000));
    run.end();
    assert_eq!(child.wait().unwrap().code(), Some(0), "the run's end is its own");
    let test = "a_recording_is_followed_and_shows_the_gap_between_two_packets";
    let Some(lines) = tshark(test, &file, &["frame.packet_id", "frame.drop_count", "frame.comment"]) else {
        return;
    };
    assert_gaps_are_shown(&lines);
    assert!(lines.iter().any(|line| !line[1].is_empty()), "more came than 64 in a tenth of a second");
}

/// Seen: a follower that the run refused, because it had as many clients as it may have, ended without a line and with
/// success.
#[test]
fn a_follower_that_is_refused_says_so_and_fails_while_the_run_goes_on() {
    let run = Run::start_with("record-refused", "--record 64");
    let folder = Folder::new("record-refused");
    let file = folder.path("followed.pcapng");
    let mut child = start(&format!("record --follow -o {} --control {}", file.display(), run.path.display()));
    wait_until("some packets", || fs::metadata(&file).is_ok_and(|file| file.len() > 100_000));
    let mut idle = Vec::new();
    wait_until("the follower goes on", || {
        let stream = UnixStream::connect(&run.path).unwrap();
        // One that has sent nothing would make room for the follower.
        (&stream).write_all(b"{\"get\":\"keys\"}\n").unwrap();
        let mut start = [0; 5];
        // One may be refused, for example because the follower was a client just then.
        if (&stream).read_exact(&mut start).is_ok() && start == *b"{\"ok\"" {
            idle.push(stream);
        }
        child.try_wait().unwrap().is_some()
    });
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), stderr(&out).lines().count()), (Some(3), 1), "{}", stderr(&out));
    assert!(stderr(&out).contains("clients are connected already"), "{}", stderr(&out));
    drop(idle);
    run.end();
}

/// Seen: a follower without free descriptors ended without a line and with success, as if the run had ended. A command
/// without them asked whether the run belonged to the user.
#[test]
fn a_follower_without_free_descriptors_names_the_limit_and_fails_while_the_run_goes_on() {
    let run = Run::start_with("record-descriptors", "--record 64");
    let folder = Folder::new("record-descriptors");
    let file = folder.path("followed.pcapng");
    // Four are taken. Of five the first answer takes the last, and then the file does.
    for (descriptors, is_made) in [(4, false), (5, true)] {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={descriptors}:{descriptors}")).arg(env!("CARGO_BIN_EXE_netmem"));
        command.args(["record", "--follow", "-o"]).arg(&file).arg("--control").arg(&run.path);
        let out = child_of(&mut command).output().unwrap();
        let said = stderr(&out);
        assert_eq!((out.status.code(), said.lines().count()), (Some(3), 1), "{descriptors}: {said}");
        assert!(said.contains("Too many open files") && said.contains("(`ulimit -n`)"), "{said}");
        assert!(!said.contains("check that"), "{said}");
        assert_eq!(file.exists(), is_made, "{said}");
    }
    run.end();
}

#[test]
fn each_packet_shows_its_time_in_lanes_and_in_the_local_queue() {
    let folder = Folder::new("record-queues");
    let test = "each_packet_shows_its_time_in_lanes_and_in_the_local_queue";
    for (name, options, wanted) in [
        (
            "lanes",
            "--workers 2 --generators 1 --flows 100 --steer round-robin",
            &["in the lane from worker 0 ", "in the lane back to worker 0 "][..],
        ),
        ("held", "--mode pass --local-queue 100", &["in the local queue "][..]),
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
fn packets_that_a_full_local_queue_refuses_are_recorded_as_such() {
    let folder = Folder::new("record-local-queue");
    let test = "packets_that_a_full_local_queue_refuses_are_recorded_as_such";
    let run = Run::start_with(test, "--record 1024 --mode pass --local-queue 100");
    let file = folder.path("read.pcapng");
    wait_until("a packet that was refused", || {
        let out = run.ask(&format!("record -o {}", file.display()));
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
        let Some(lines) = tshark(test, &file, &["frame.interface_name", "frame.comment"]) else {
            return true;
        };
        let refused =
            |line: &Vec<String>| line[0] == "mem:0" && line[1].contains("dropped: local_queue_full");
        lines.iter().any(refused)
    });
    run.end();
}

#[test]
fn a_rate_of_drops_writes_the_recording_once_and_logs_a_line() {
    let folder = Folder::new("record-when");
    let packets: Vec<_> = packets_by_drop_reason().into_iter().map(|(_, packet)| packet).collect();
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
fn impossible_recorder_settings_are_refused_in_one_line() {
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
        (
            "forward --record 64 --record-to /tmp/x --record-when drop.inbox_full>1/s".to_owned(),
            "only between workers: give --steer as well",
        ),
        (format!("record -o /nowhere/x --control {}", run.path.display()), "this run records nothing"),
        ("record -o /nowhere/x --control /nowhere/y".to_owned(), "control socket /nowhere/y"),
    ] {
        let out = output(&words);
        let said = stderr(&out);
        let code = if words.ends_with("/nowhere/y") { 3 } else { 2 };
        assert_eq!((out.status.code(), said.lines().count()), (Some(code), 1), "{words}: {said}");
        assert!(said.contains(wanted), "{words}: {said}");
    }
    run.end();
}

/// Seen: `netmem record -o - | tshark -r -` gave tshark nothing, and left a file that was called `-`.
#[test]
fn a_recording_goes_to_standard_output_if_the_file_is_called_dash() {
    let folder = Folder::new("record-dash");
    let control = folder.path("control");
    let child = recorded_to(&control, &folder.path("recorded.pcapng"));
    let at = folder.path(".");
    let mut command = Command::new(env!("CARGO_BIN_EXE_netmem"));
    command.args(["record", "-o", "-", "--control"]).arg(&control).current_dir(&at);
    let out = command.output().expect("netmem starts");
    assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
    assert!(out.stdout.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]), "{} bytes", out.stdout.len());
    assert!(!at.join("-").exists(), "it has left a file");
    signal(&child, Signal::TERM);
    ended("a run that got SIGTERM", child);
}

/// A run with a recorder that has a control socket, so everything is set up.
fn recorded_to(control: &Path, to: &Path) -> Child {
    let at = format!("--record 64 --record-to {} --control {}", to.display(), control.display());
    let mut child = start(&format!("forward --seconds 600 {at}"));
    wait_while_it_runs(&mut child, "there is a control socket", || control.exists());
    child
}

/// Seen: a recording that was asked for just before the end, or while another was being written, was left out.
#[test]
fn a_recording_that_was_asked_for_is_written_also_if_the_run_is_told_to_end_right_after_that() {
    let folder = Folder::new("record-last");
    for round in 0..5 {
        let (control, to) =
            (folder.path(&format!("control-{round}")), folder.path(&format!("{round}.pcapng")));
        let child = recorded_to(&control, &to);
        signal(&child, Signal::USR1);
        signal(&child, Signal::TERM);
        let out = ended("a run that got SIGTERM", child);
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        assert!(stderr(&out).contains("recorded packets written to") && to.exists(), "{}", stderr(&out));
    }
}

/// Seen: as root the run replaced /dev/full by a file.
#[test]
fn a_recording_for_a_device_is_written_to_it_and_does_not_replace_it() {
    let folder = Folder::new("record-device");
    let (control, to) = (folder.path("control"), folder.path("recorded.pcapng"));
    std::os::unix::fs::symlink("/dev/null", &to).unwrap();
    let child = recorded_to(&control, &to);
    signal(&child, Signal::USR1);
    signal(&child, Signal::TERM);
    let out = ended("a run that got SIGTERM", child);
    let said = stderr(&out);
    assert!(said.contains(" recorded packets written to "), "{said}");
    assert_eq!(fs::read_link(&to).unwrap(), Path::new("/dev/null"), "{said}");
}

/// Seen: a run waited for its recording without a limit, so that a disk that hung kept it until SIGKILL.
#[test]
fn a_file_that_cannot_be_written_to_an_end_does_not_keep_a_run_from_its_own() {
    let folder = Folder::new("record-hangs");
    let (control, to) = (folder.path("control"), folder.path("recorded.pcapng"));
    let child = recorded_to(&control, &to);
    // An open of the file waits for a reader.
    let made = Command::new("mkfifo").arg(&to).status().unwrap();
    assert!(made.success());
    signal(&child, Signal::USR1);
    signal(&child, Signal::TERM);
    let out = ended("a run that got SIGTERM", child);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(stderr(&out).contains("recorded packets are not written to"), "{}", stderr(&out));
    assert!(stderr(&out).contains("the disk does not answer"), "{}", stderr(&out));
}

/// Seen: no metric told that recordings were not written, or that a reload was refused.
#[test]
fn a_recording_that_fails_and_a_refused_reload_are_scraped() {
    let folder = Folder::new("record-scraped");
    let (metrics, to) = (folder.path("metrics"), folder.path("there/recorded.pcapng"));
    fs::create_dir(folder.path("there")).unwrap();
    let config = folder.write("netmem.toml", b"idle = \"sleep\"\n");
    let mut run = start(&format!(
        "forward --seconds 600 --flows 1 --config {} --record 64 --record-to {} --metrics {}",
        config.display(),
        to.display(),
        metrics.display()
    ));
    wait_while_it_runs(&mut run, "it listens", || UnixStream::connect(&metrics).is_ok());
    let scrape = || {
        let (mut stream, mut page) = (UnixStream::connect(&metrics).unwrap(), String::new());
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        stream.read_to_string(&mut page).unwrap();
        page
    };
    let has = |line: &str| scrape().contains(&format!("\n{line}\n"));
    assert!(has("netmem_failed_recordings_total 0") && has("netmem_config_last_reload_successful 1"));
    fs::remove_dir_all(folder.path("there")).unwrap();
    signal(&run, Signal::USR1);
    wait_while_it_runs(&mut run, "it is counted", || has("netmem_failed_recordings_total 1"));
    for (text, outcome) in [("no-such-key = 1\n", 0), ("idle = \"spin\"\n", 1)] {
        folder.write("netmem.toml", text.as_bytes());
        signal(&run, Signal::HUP);
        let line = format!("netmem_config_last_reload_successful {outcome}");
        wait_while_it_runs(&mut run, &line, || has(&line));
    }
    signal(&run, Signal::INT);
    run.wait().unwrap();
}
