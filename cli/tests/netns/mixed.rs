//! One forwarder between two ports of different kinds: what comes by one leaves by the other byte for byte, both ways, and each
//! frame that is copied is counted.

use crate::links::Pair;
use crate::test_frames::{Folder, packets, pcap, pcap_at_intervals, sendable};
use crate::testbed::{Namespace, Testbed, Wiring, wait_until};
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::thread;
use std::time::Duration;

/// A port at the end of a path, and its place.
type End<'a> = (&'a Namespace, String);

/// A port of the forwarder in the middle, whether it copies each frame, and the other end of its link.
struct Side<'a> {
    port: String,
    copies: bool,
    far: End<'a>,
}

/// Sends frames of every kind by the end of `from`, over and over, until each has come by the end of `to` as it was, and nothing else.
fn cross(folder: &Folder, place: &Namespace, from: &Side<'_>, to: &Side<'_>) {
    let path = format!("{} to {}", from.port, to.port);
    let frames = sendable(1514);
    let (input, output) = (folder.write("in", &pcap_at_intervals(&frames, 200)), folder.path("out"));
    fs::write(&output, pcap(&[])).expect("a file");
    let receiving = Pair::start_with(to.far.0, [&to.far.1, &format!("pcap:out={}", output.display())], &[]);
    let forwarding = Pair::start_with(place, [&from.port, &to.port], &[]);
    let file = format!("pcap:in={},speed=recorded,loop=0", input.display());
    let sending = Pair::start_with(from.far.0, [&file, &from.far.1], &[]);
    let frames: HashSet<Vec<u8>> = frames.into_iter().collect();
    let mut come = HashSet::new();
    wait_until(&format!("all frames have come, {path}"), || {
        thread::sleep(Duration::from_millis(20));
        come = packets(&fs::read(&output).expect("the output")).into_iter().collect();
        come.len() >= frames.len()
    });
    let run = forwarding.end();
    drop((sending, receiving));
    assert!(come == frames, "{path}: not as they were: {:?}", come.difference(&frames).next());
    let run: Value = serde_json::from_slice(&run.stdout).expect("one object");
    for (port, side) in run["ports"].as_array().expect("ports").iter().zip([from, to]) {
        let count = |name: &str| port[name].as_u64().expect("a count");
        let carried = count("rx") + count("tx");
        assert!(carried >= frames.len() as u64, "{path}: {port}");
        assert_eq!(count("copied"), if side.copies { carried } else { 0 }, "{path}: {port}");
    }
    let pools = run["pools"].as_array().expect("pools");
    assert!(pools.iter().all(|pool| pool["balanced"] == true), "{path}: {run}");
}

#[test]
fn frames_of_every_kind_cross_between_ports_of_every_two_kinds_both_ways_with_one_copy_where_memory_is_not_shared()
 {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let folder = Folder::new("mixed");
    bed.dut.ip("tuntap add dev t0 mode tap");
    bed.dut.ip("link set dev t0 up");
    let socket = format!("memif:{}", folder.path("socket").display());
    let side = |port: &str, copies, place, far: &str| Side {
        port: port.replace("SOCKET", &socket),
        copies,
        far: (place, far.replace("SOCKET", &socket)),
    };
    let near =
        [side("xdp:one", false, &bed.h1, "packet:eth0"), side("packet:one", true, &bed.h1, "packet:eth0")];
    let others = [
        side("xdp:two", false, &bed.h2, "packet:eth0"),
        side("packet:two", true, &bed.h2, "packet:eth0"),
        side("tap:t0", true, &bed.dut, "packet:t0"),
        side("SOCKET,lend=yes", false, &bed.dut, "SOCKET,role=server,holes=ok"),
        side("SOCKET", true, &bed.dut, "SOCKET,role=server"),
        side("SOCKET,role=server", true, &bed.dut, "SOCKET"),
    ];
    for (one, other) in near.iter().flat_map(|one| others.iter().map(move |other| (one, other))) {
        cross(&folder, &bed.dut, one, other);
        cross(&folder, &bed.dut, other, one);
    }
    bed.assert_nothing_left();
}

/// Seen: the interface's queueing discipline dropped a packet each time, the port sent it again forever, and no later packet left.
#[test]
fn packets_that_an_interface_drops_do_not_hold_up_those_behind_them() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping", "tc"]) else { return };
    // Longer packets than its bucket holds never have their turn.
    if !bed.dut.makes("tc", "qdisc add dev two root tbf rate 100mbit burst 1000 limit 100000") {
        return;
    }
    let forwarding = Pair::start_with(&bed.dut, ["packet:one", "packet:two"], &[]);
    let reply = |settings: &[&str]| {
        let mut ping = bed.h1.command("ping");
        ping.args(["-c", "1", "-W", "1"]).args(settings).arg(bed.address(2));
        ping.output().expect("ping").status.success()
    };
    wait_until("h2 answers h1", || reply(&[]));
    for _ in 0..2 {
        assert!(!reply(&["-s", "1300"]), "the queue drops it");
        wait_until("h2 answers h1 again", || reply(&[]));
    }
    let out = forwarding.end();
    let run: Value = serde_json::from_slice(&out.stdout).expect("one object");
    let lost = run["ports"][1]["tx_lost"].as_u64();
    assert!(lost >= Some(2), "{run}");
}
