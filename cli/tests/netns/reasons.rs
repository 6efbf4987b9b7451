//! Runs of the program in which packets are dropped for every reason that links, routes, neighbours, peers and full disks make: recorded, and
//! read by tshark.

use crate::forwarder::netmem;
use crate::links::Pair;
use crate::running::wait_while_it_runs;
use crate::test_frames::dropped::{ROUTER, ipv4, packets_by_drop_reason, to};
use crate::test_frames::{Folder, pcap_at_intervals};
use crate::testbed::{Testbed, Wiring};
use crate::tshark::tshark;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};

/// Destinations of packets that are dropped on their way out, by reason.
const TO: [(&str, [u8; 4]); 11] = [
    ("blackhole", [10, 80, 0, 1]),
    ("unreachable", [10, 81, 0, 1]),
    ("prohibited", [10, 82, 0, 1]),
    // Its route's MTU is 600.
    ("pkt_too_big", [10, 83, 0, 1]),
    // Its route's is one that IPv4 cannot have.
    ("frag_failed", [10, 84, 0, 1]),
    // A file that holds nothing.
    ("tx_refused", [10, 85, 0, 1]),
    // A peer that stands still.
    ("tx_full", [10, 86, 0, 1]),
    ("local_address", [10, 77, 1, 254]),
    ("neigh_failed", [10, 77, 2, 99]),
    ("neigh_queue_full", [10, 77, 2, 98]),
    // More chunks than the ring has slots.
    ("tx_too_long", [10, 77, 2, 1]),
];

/// A source without a route. The port that receives the packets checks for one.
const NOWHERE: [u8; 4] = [203, 0, 113, 9];

/// The settings of the machine between the hosts, in addition to its addresses.
fn arrange(bed: &Testbed) {
    for (place, interface) in [(&bed.h1, "eth0"), (&bed.dut, "one"), (&bed.dut, "two"), (&bed.h2, "eth0")] {
        place.ip(&format!("link set dev {interface} mtu 9000"));
    }
    bed.dut.inside(|| fs::write("/proc/sys/net/ipv4/ip_forward", "0")).expect("ip_forward");
    for (number, interface) in [(1, "one"), (2, "two")] {
        bed.dut.ip(&format!("addr add 10.77.{number}.254/24 dev {interface}"));
    }
    for route in [
        "blackhole 10.80.0.0/16",
        "unreachable 10.81.0.0/16",
        "prohibit 10.82.0.0/16",
        "10.83.0.0/16 via 10.77.2.1 mtu 600",
        "10.84.0.0/16 via 10.77.2.1 mtu 60",
        // No neighbour is looked up for a packet that is too long, because the neighbour is known.
        "10.1.0.0/16 via 10.77.2.1",
        // Back to the sender, all but one.
        "10.0.0.0/24 via 10.77.1.1",
    ] {
        bed.dut.ip(&format!("route add {route}"));
    }
}

/// A packet for each reason, or as many as it takes, to be sent by the first host.
fn packets() -> Vec<Vec<u8>> {
    let mut packets: Vec<_> = packets_by_drop_reason().into_iter().map(|(_, packet)| packet).collect();
    // A packet socket sends no less than a header.
    packets.iter_mut().filter(|packet| packet.len() < 14).for_each(|packet| {
        *packet = ipv4(&[], |_| ());
        packet.truncate(24);
    });
    for (reason, address) in TO {
        let (len, may_be_cut) = match reason {
            "tx_too_long" => (8500, true),
            "pkt_too_big" => (1000, false),
            "frag_failed" => (1000, true),
            _ => (60, true),
        };
        // More than wait for a neighbour, or for a slot of a ring.
        let n = if ["neigh_queue_full", "tx_full"].contains(&reason) { 100 } else { 1 };
        packets.extend(vec![to(address, len, may_be_cut); n]);
    }
    packets.push(ipv4(&[], |frame| frame[26..30].copy_from_slice(&NOWHERE)));
    let (router, here) = (ROUTER, [0x02, 0, 0, 0, 1, 0xfe]);
    packets
        .iter_mut()
        .filter(|packet| packet[..6] == router)
        .for_each(|packet| packet[..6].copy_from_slice(&here));
    packets
}

/// A run that is ended when it is dropped.
struct Ended(Child);

impl Ended {
    /// Waits until `what` has happened, which it does while this runs.
    fn wait_until(&mut self, what: &str, happened: impl FnMut() -> bool) {
        wait_while_it_runs(&mut self.0, what, happened);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("kill(2)");
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).map(drop).ok();
    }
}

/// Starts the program, with these words behind its name (split at spaces), in the machine between the hosts.
fn start(bed: &Testbed, words: &str) -> Ended {
    let mut command = netmem(bed);
    command.args(words.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
    Ended(command.spawn().expect("netmem starts"))
}

/// Returns the answer of the run at this socket.
fn ask(bed: &Testbed, socket: &str, words: &[&str]) -> Option<Value> {
    let out = netmem(bed).args(words).args(["--control", socket]).output().expect("netmem");
    out.status.success().then(|| serde_json::from_slice(&out.stdout).unwrap_or_default())
}

/// Returns the interface and the verdict for each reason in a recording, as tshark shows them. Returns None without
/// tshark.
fn seen(
    test: &str,
    bed: &Testbed,
    socket: &str,
    folder: &Folder,
) -> Option<BTreeMap<String, (String, String)>> {
    let file = folder.path("recorded.pcapng");
    ask(bed, socket, &["record", "-o", file.to_str().expect("UTF-8")]).expect("a recording");
    let lines = tshark(test, &file, &["frame.interface_name", "frame.verdict.ebpf_xdp", "frame.comment"])?;
    let of_reason = lines.into_iter().filter_map(|line| {
        let (_, rest) = line[2].split_once("dropped: ")?;
        let reason = rest.split([';', ',']).next()?.to_owned();
        Some((reason, (line[0].clone(), line[1].clone())))
    });
    Some(of_reason.collect())
}

#[test]
fn one_run_drops_packets_for_29_reasons_and_tshark_reads_each() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &[]) else { return };
    let test = "one_run_drops_packets_for_29_reasons_and_tshark_reads_each";
    arrange(&bed);
    let folder = Folder::new("reasons");
    let [socket, peer] = ["control", "memif"].map(|name| folder.path(name).display().to_string());
    let routes = "--routes=kernel --route=10.85.0.0/16,2,02:00:00:00:00:02 --route=10.86.0.0/16,3,02:00:00:00:00:02 \
                  --route=2001:db8::/32,2,02:00:00:00:00:02";
    let mut run = start(
        &bed,
        &format!(
            "forward --port=packet:one,kernel=none --port=fault:drop=0/trace:file=/dev/null/xdp:two \
             --port=pcap:out=/dev/full --port=memif:{peer},role=server {routes} --path=full --rule=drop,src=10.9.9.9/32 --reverse-path=loose,0 \
             --frame-size=16384 --ring=2 --frames=1024 --record=65536 --control {socket}"
        ),
    );
    run.wait_until("it answers", || ask(&bed, &socket, &["stat", "drops", "--json"]).is_some());
    let mut sink = start(&bed, &format!("sink --port memif:{peer}"));
    let is_up = |ports: Value| {
        let is_up = |port: &Value| port["kind"] != "memif" || port["state"] == "up";
        ports["ports"].as_array().is_some_and(|ports| ports.iter().all(is_up))
    };
    let is_there = || ask(&bed, &socket, &["stat", "ports", "--json"]).is_some_and(is_up);
    sink.wait_until("the peer is there", is_there);
    sink.signal(Signal::STOP);
    let input = folder.write("in.pcap", &pcap_at_intervals(&packets(), 500));
    let file = format!("pcap:in={},loop=0,speed=recorded", input.display());
    let sender = Pair::start_with(&bed.h1, [&file, "packet:eth0"], &["--frame-size=16384"]);
    let wanted: Vec<_> = packets_by_drop_reason()
        .iter()
        .map(|(reason, _)| *reason)
        .chain(TO.map(|(reason, _)| reason))
        .chain(["ip_rpfilter"])
        .collect();
    let wanted: Vec<_> = wanted.into_iter().filter(|reason| !reason.is_empty()).collect();
    let mut drops = Value::Null;
    run.wait_until("every reason is counted", || {
        drops = ask(&bed, &socket, &["stat", "drops", "--json"]).unwrap_or_default();
        wanted.iter().all(|reason| drops["drops"][0][reason].as_u64().is_some_and(|n| n > 0))
    });
    let Some(seen) = seen(test, &bed, &socket, &folder) else { return };
    for reason in &wanted {
        let (interface, verdict) = seen.get(*reason).unwrap_or_else(|| panic!("no {reason} in {seen:#?}"));
        assert_eq!(interface, "packet:one", "{reason}");
        assert!(
            verdict == "1" || verdict == "4",
            "{reason}: dropped by the verdict, or behind it: {verdict}"
        );
    }
    assert_eq!((wanted.len(), seen.len()), (29, 29), "{seen:#?}");
    drop(sender);
    drop(sink);
}

/// Programs send large datagrams by one call (UDP_SEGMENT), which leave through a file. There are no frames for the
/// segments, because all frames wait for packets at three ports.
#[test]
fn packets_that_cannot_be_cut_for_lack_of_frames_are_recorded_as_gso_seg() {
    const SEND: &str = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); \
                        s.setsockopt(17, 103, 1000); s.sendto(bytes(49500), ('10.85.0.1', 4000))";
    let Some(bed) = Testbed::lay(Wiring::Routed, &["python3"]) else { return };
    let test = "packets_that_cannot_be_cut_for_lack_of_frames_are_recorded_as_gso_seg";
    let folder = Folder::new("gso-seg");
    let socket = folder.path("control").display().to_string();
    let mut run = start(
        &bed,
        &format!(
            "forward --port=packet:one --port=pcap:out=/dev/null --port=packet:two \
             --route=10.85.0.0/16,1,02:00:00:00:00:02 --frame-size=32768 --frames=64 --ring=64 --record=64 \
             --control {socket}"
        ),
    );
    run.wait_until("packets are dropped", || {
        bed.h1.command("python3").args(["-c", SEND]).status().expect("python3");
        let drops = ask(&bed, &socket, &["stat", "drops", "--json"]).unwrap_or_default();
        drops["drops"][0]["gso_seg"].as_u64().is_some_and(|n| n > 0)
    });
    let Some(seen) = seen(test, &bed, &socket, &folder) else { return };
    assert_eq!(seen.get("gso_seg").map(|(interface, _)| interface.as_str()), Some("packet:one"), "{seen:?}");
}

/// The operator keeps all free pages back, after which no packet finds memory for its head.
#[test]
fn packets_that_find_no_memory_for_their_heads_are_recorded_as_nomem() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let test = "packets_that_find_no_memory_for_their_heads_are_recorded_as_nomem";
    let folder = Folder::new("no-head");
    let socket = folder.path("control").display().to_string();
    let mut run = start(
        &bed,
        &format!(
            "forward --port=packet:one --port=packet:two --route=10.77.2.0/24,1,02:00:00:00:02:01 --path=full \
             --record=64 --control {socket}"
        ),
    );
    run.wait_until("it answers", || ask(&bed, &socket, &["stat", "drops", "--json"]).is_some());
    let keys = ask(&bed, &socket, &["set", "--json"]).expect("the keys");
    let keys = keys.as_array().expect("the keys");
    let min = keys.iter().find(|key| key["key"] == "page.watermarks.min").expect("the reserve");
    let (_, most) = min["range"].as_str().expect("a range").split_once(" to ").expect("two ends");
    // The worker has no pages of its own either.
    ask(&bed, &socket, &["set", "page.lists.high", "0"]).expect("it is set");
    ask(&bed, &socket, &["set", "page.watermarks.min", most]).expect("it is set");
    run.wait_until("packets are dropped", || {
        bed.h1
            .command("ping")
            .args(["-c", "8", "-i", "0.01", "-W", "1", "10.77.2.1"])
            .output()
            .expect("ping");
        let drops = ask(&bed, &socket, &["stat", "drops", "--json"]).unwrap_or_default();
        drops["drops"][0]["nomem"].as_u64().is_some_and(|n| n > 0)
    });
    let Some(seen) = seen(test, &bed, &socket, &folder) else { return };
    assert_eq!(seen.get("nomem").map(|(interface, _)| interface.as_str()), Some("packet:one"), "{seen:?}");
}
