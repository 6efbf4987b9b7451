//! Tests of `netmem gen` over memif: what a peer that goes had not read, and one that stands still.

#![allow(clippy::unwrap_used)]

mod netmem;
mod test_frames;

use netmem::{listens, number, ports, start, stdout, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::process::Child;
use test_frames::Folder;

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("kill(2)");
}

/// Returns true once no thread of the process runs (proc(5), `T`).
fn is_stopped(child: &Child) -> bool {
    fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().all(|task| {
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
    })
}

/// Found in a review: packets that the peer had not read when it was killed counted as sent, and nothing but a counter of the port
/// told of them.
#[test]
fn a_generator_whose_peer_is_killed_says_how_many_packets_it_had_not_read() {
    for json in ["", "--json"] {
        let folder = Folder::new(if json.is_empty() { "unread-text" } else { "unread-json" });
        let (socket, trace) = (folder.path("sock"), folder.path("trace"));
        let mut sink = start(&format!("sink --port memif:{},role=server,holes=ok", socket.display()));
        wait_until("no process listens", || listens(&socket));
        let port = format!("trace:file={}/memif:{}", trace.display(), socket.display());
        let generator = start(&format!("gen --port {port} --rate 200 {json}"));
        let calls = || fs::read_to_string(&trace).map_or(0, |trace| trace.matches(r#""call":"tx""#).count());
        wait_until("the generator does not send", || calls() > 0);
        signal(&sink, Signal::STOP);
        wait_until("the sink does not stop", || is_stopped(&sink));
        let before = calls();
        wait_until("the generator does not send on", || calls() > before + 50);
        sink.kill().unwrap();
        sink.wait().unwrap();
        signal(&generator, Signal::INT);
        let said = stdout(&generator.wait_with_output().unwrap());
        if json.is_empty() {
            assert!(said.contains("\nleft unread by the peer when its connection ended: "), "{said}");
        } else {
            let report: Value = serde_json::from_str(&said).unwrap();
            let (sent, left) = (number(&report, "sent"), number(&report, "left_unread"));
            assert!(left > 0 && left <= sent && left == ports(&report, "tx_left_unread"), "{report}");
        }
    }
}

/// Seen: all packets counted as missed by a generator that did not run in time, and no packet for lack of room.
#[test]
fn a_generator_whose_peer_has_all_its_frames_has_missed_packets_for_lack_of_room() {
    let folder = Folder::new("all-lent");
    let (socket, trace) = (folder.path("sock"), folder.path("trace"));
    let mut sink = start(&format!("sink --port memif:{},role=server,holes=ok", socket.display()));
    wait_until("no process listens", || listens(&socket));
    let port = format!("trace:file={}/memif:{},lend=yes", trace.display(), socket.display());
    let generator = start(&format!("gen --port {port} --frames 64 --ring 2048 --rate 100k --json"));
    wait_until("the generator does not send", || {
        fs::read_to_string(&trace).is_ok_and(|trace| trace.contains(r#""call":"tx""#))
    });
    signal(&sink, Signal::STOP);
    wait_until("the sink does not stop", || is_stopped(&sink));
    // It polls all the time, so this is a time in which packets were due.
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", generator.id())).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).to_owned();
        fields.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
    };
    let before = ticks();
    wait_until("the generator does not go on", || ticks() > before + 20);
    signal(&generator, Signal::INT);
    let report = stdout(&generator.wait_with_output().unwrap());
    sink.kill().unwrap();
    sink.wait().unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert!(number(&report, "missed_no_room") > 0, "{report}");
}
