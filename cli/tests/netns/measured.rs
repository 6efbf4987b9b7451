//! Tests that `netmem gen` and `netmem sink` at two hosts measure the path between them.

use crate::forwarder::Forwarder;
use crate::links::Pair;
use crate::testbed::{Namespace, Testbed, Wiring, host_mac, port_mac, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::process::{Child, Stdio};

/// As many as a ring has room for.
const SENT: u64 = 1_800;

/// A netmem that is killed when dropped.
struct Run(Option<Child>);

impl Run {
    fn start(place: &Namespace, words: &str) -> Run {
        let mut command = place.command(env!("CARGO_BIN_EXE_netmem"));
        command.args(words.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Run(Some(command.spawn().expect("netmem starts")))
    }

    /// Does the same as [`Run::start`], and waits until there are this number of packet sockets.
    fn with_sockets(place: &Namespace, sockets: usize, words: &str) -> Run {
        let run = Run::start(place, words);
        let there = || place.inside(|| fs::read_to_string("/proc/thread-self/net/packet"));
        // Below a line of titles.
        wait_until("it has its sockets", || there().is_ok_and(|list| list.lines().count() == sockets + 1));
        run
    }

    /// Waits for its end, which must be a success. Returns its object.
    fn ended(mut self) -> Value {
        let child = self.0.as_mut().expect("it was not waited for");
        wait_until("it ends", || child.try_wait().expect("wait").is_some());
        let out = self.0.take().expect("it was not waited for").wait_with_output().expect("output");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(
            (said.as_str(), out.status.code()),
            ("", Some(0)),
            "{}",
            String::from_utf8_lossy(&out.stdout)
        );
        serde_json::from_slice(&out.stdout).expect("one object")
    }

    /// Ends it as Ctrl-C does.
    fn interrupted(self) -> Value {
        kill_process(Pid::from_child(self.0.as_ref().expect("it was not waited for")), Signal::INT)
            .expect("kill(2)");
        self.ended()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().and_then(|()| child.wait()).map(drop).ok();
        }
    }
}

/// Sends from one host to the other, and asserts that both ends count alike and nothing happened on the way.
fn measure(bed: &Testbed) {
    let known = format!("--src-mac {} --dst-mac {}", host_mac(1), host_mac(2));
    let sink = Run::with_sockets(
        &bed.h2,
        1,
        &format!(
            "sink --port packet:eth0 --count {SENT} --seconds 100 --max-lost 0 --max-corrupt 0 {known} --json"
        ),
    );
    let generator =
        format!("gen --port packet:eth0 --count {SENT} --rate 5000 --flows 7 --size 64,1514 {known} --json");
    let (sent, received) = (Run::start(&bed.h1, &generator).ended(), sink.ended());
    assert_eq!((sent["sent"].as_u64(), received["distinct"].as_u64()), (Some(SENT), Some(SENT)));
    for none in ["lost", "reordered", "duplicates", "corrupt"] {
        assert_eq!(received[none].as_u64(), Some(0), "{none}: {received}");
    }
    assert_eq!(received["bytes"], sent["bytes"]);
}

#[test]
fn a_router_finds_a_sink_behind_an_xdp_port_by_arp_and_by_discovery_and_every_packet_comes() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &[]) else { return };
    bed.dut.set_ipv6(true);
    bed.h2.set_ipv6(true);
    for (number, interface) in [(1, "one"), (2, "two")] {
        bed.dut.ip(&format!("addr add 10.77.{number}.254/24 dev {interface}"));
    }
    bed.dut.ip("addr add fd77:2::254/64 dev two nodad");
    bed.h2.ip("addr add fd77:2::1/64 dev eth0 nodad");
    let router = Pair::start_as(&bed.dut, ["packet:one", "packet:two"], &["--routes=kernel"]);
    for (from, to) in [("10.77.1.1", "10.77.2.1"), ("fd77:1::1", "fd77:2::1")] {
        bed.dut.ip("neigh flush dev two");
        let sink =
            format!("sink --port xdp:eth0 --count {SENT} --seconds 100 --max-lost 0 --max-corrupt 0 --json");
        let sink = Run::start(&bed.h2, &sink);
        wait_until("the sink receives", || bed.h2.ip("-details link show eth0").contains("xdp"));
        let known = format!("--dst-mac {} --src {from} --dst {to}", port_mac(1));
        // One packet of another stream has the router ask: it keeps few that wait for their neighbour.
        let found = || bed.dut.ip(&format!("neigh show {to} dev two")).contains(&host_mac(2));
        Run::start(&bed.h1, &format!("gen --port packet:eth0 --count 1 --stream 9 {known} --json")).ended();
        wait_until("the router has found the sink", found);
        let words =
            format!("gen --port packet:eth0 --count {SENT} --rate 5000 --size 100,1514 {known} --json");
        let (sent, received) = (Run::start(&bed.h1, &words).ended(), sink.ended());
        assert_eq!((sent["sent"].as_u64(), received["distinct"].as_u64()), (Some(SENT), Some(SENT)));
        let left = received["ports"][0]["rx_kernel"].as_u64();
        assert!(left.is_some_and(|left| left > 0), "{received}");
    }
    drop(router);
}

#[test]
fn both_ends_of_a_path_through_xdp_ports_count_alike() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let forwarder = Forwarder::start(&bed, &[]);
    measure(&bed);
    forwarder.interrupt().assert_adds_up();
}

#[test]
fn both_ends_of_a_path_through_packet_ports_count_alike() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let words = "forward --mode cross-connect --port packet:one --port packet:two --json";
    let forwarder = Run::with_sockets(&bed.dut, 2, words);
    measure(&bed);
    assert_eq!(forwarder.interrupted()["transmitted"].as_u64(), Some(SENT));
}
