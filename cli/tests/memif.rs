//! `netmem forward` with memif ports: between two netmem processes.

#![allow(clippy::unwrap_used)]

mod netmem;
mod odd;

use netmem::{dropped, number, ports, start};
use odd::{Folder, frames, packets, pcap};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long a test waits for what must happen. It guards against hangs, nothing else.
const PATIENCE: Duration = Duration::from_secs(120);

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn forward(words: &str) -> Child {
    start(&format!("forward --mode cross-connect --json --ring 256 {words}"))
}

/// Ends the run; what it said, and on standard error.
fn end(child: Child) -> (Value, String) {
    kill_process(Pid::from_child(&child), Signal::INT).expect("it can be signalled");
    let out = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
    (serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}{complaint}")), complaint)
}

fn filled(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| packets(&bytes).len() >= frames().len())
}

/// Sends odd frames from a file through memif to a file of another process; the sender's and the receiver's reports.
fn through_memif(name: &str, receiver: &str, sender: &str) -> [Value; 2] {
    let folder = Folder::new(name);
    let (input, output) = (folder.write("in.pcap", &pcap(&frames())), folder.path("out.pcap"));
    let socket = folder.path("memif.sock");
    let memif = |options: &str| format!("--port memif:{},{options}", socket.display());
    let (input, file) = (format!("--port pcap:in={}", input.display()), output.clone());
    let output = format!("--port pcap:out={}", output.display());
    let receiver = forward(&format!("{} {output}", memif(receiver)));
    wait_until("nobody listens", || socket.exists());
    let sender = forward(&format!("{input} {}", memif(sender)));
    wait_until("frames are missing", || filled(&file));
    let (sent, nothing) = end(sender);
    assert_eq!(nothing, "");
    wait_until("frames are missing at the end", || filled(&file));
    let (received, complaint) = end(receiver);
    assert!(complaint.is_empty() || complaint.contains("is down: the peer"), "{complaint}");
    // Queues keep no order between them.
    let mut sorted = [packets(&fs::read(&file).expect("the file that was seen")), frames()];
    sorted.iter_mut().for_each(|packets| packets.sort());
    assert_eq!(sorted[0], sorted[1]);
    [sent, received]
}

#[test]
fn odd_frames_go_byte_for_byte_from_a_client_that_lends_its_frames() {
    let [sent, received] = through_memif("memif-lent", "role=server", "role=client");
    let n = frames().len() as u64;
    assert_eq!((number(&sent, "transmitted"), number(&received, "received")), (n, n));
    assert_eq!(sent["ports"][1]["detail"], "client, lends its frames");
    assert_eq!((&sent["ports"][1]["copied"], &received["ports"][0]["copied"]), (&0.into(), &n.into()));
    assert_eq!(ports(&received, "bad_descriptor") + ports(&sent, "bad_descriptor"), 0);
}

#[test]
fn odd_frames_go_byte_for_byte_from_a_client_that_copies_over_several_queues() {
    let options = "id=3,queues=2,secret=sesame";
    let [sent, received] =
        through_memif("memif-copied", &format!("role=server,{options}"), &format!("copy=yes,{options}"));
    let n = frames().len() as u64;
    assert_eq!(sent["ports"][1]["detail"], "client, copies");
    assert_eq!((&sent["ports"][1]["copied"], &received["ports"][0]["copied"]), (&n.into(), &n.into()));
}

#[test]
fn packets_with_heads_are_copied_for_a_peer_that_could_write_them() {
    let folder = Folder::new("memif-heads");
    let socket = folder.path("memif.sock");
    let server = forward(&format!(
        "--port memif:{},role=server --port pcap:out={}",
        socket.display(),
        folder.path("out").display()
    ));
    wait_until("nobody listens", || socket.exists());
    let other = folder.path("other");
    let client = forward(&format!(
        "--path full --port memif:{} --port pcap:out={}",
        socket.display(),
        other.display()
    ));
    wait_until("the client does not forward", || fs::metadata(&other).is_ok_and(|file| file.len() > 0));
    let (client, _) = end(client);
    assert_eq!(client["ports"][0]["detail"], "client, copies");
    end(server);
}

fn kill(mut child: Child) {
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
}

/// Kills either of two forwarders, again and again, while a stream runs through both.
fn stream_survives(name: &str, options: &str) {
    let folder = Folder::new(name);
    let (begin, middle, file) = (folder.path("begin.sock"), folder.path("middle.sock"), folder.path("out"));
    let (begin, middle) = (begin.display(), middle.display());
    let first = || forward(&format!("--port memif:{begin},role=server --port memif:{middle}{options}"));
    let second = || forward(&format!("--port memif:{middle},role=server --port pcap:out={}", file.display()));
    let size = || fs::metadata(&file).map_or(0, |file| file.len());
    let mut forwarders = (first(), second());
    let stream = start(&format!("gen --port memif:{begin} --rate 5000 --seconds 600 --wait 100 --json"));
    for round in 0..6 {
        let before = size();
        wait_until("nothing comes through", || size() > before + (16 << 10));
        if round % 2 == 0 {
            kill(forwarders.0);
            forwarders.0 = first();
        } else {
            kill(forwarders.1);
            fs::remove_file(&file).expect("what it wrote");
            forwarders.1 = second();
        }
    }
    let before = size();
    wait_until("nothing comes through at the end", || size() > before + (16 << 10));
    let (stream, _) = end(stream);
    let reports = [end(forwarders.0).0, end(forwarders.1).0];
    for report in &reports {
        let pools = report["pools"].as_array().expect("pools");
        assert!(pools.iter().all(|pool| pool["balanced"] == true), "{report}");
        let (received, gone) = (number(report, "received"), number(report, "transmitted") + dropped(report));
        assert_eq!((received, ports(report, "bad_descriptor")), (gone, 0), "{report}");
    }
    assert_eq!(number(&stream["ports"][0], "tx"), number(&stream["ports"][0], "completed"), "{stream}");
}

#[test]
fn a_stream_goes_on_whichever_of_two_forwarders_is_killed_where_frames_are_lent() {
    stream_survives("killed-lent", "");
}

#[test]
fn a_stream_goes_on_whichever_of_two_forwarders_is_killed_where_frames_are_copied() {
    stream_survives("killed-copied", ",copy=yes");
}
