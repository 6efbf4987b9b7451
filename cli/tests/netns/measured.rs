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
        let mut run = Run::start(place, words);
        let there = || place.inside(|| fs::read_to_string("/proc/thread-self/net/packet"));
        // Below a line of titles.
        run.wait_until("it has its sockets", || {
            there().is_ok_and(|list| list.lines().count() == sockets + 1)
        });
        run
    }

    /// Waits until `what` has happened, which it does while this runs.
    ///
    /// # Panics
    /// If this ends before, with what it said.
    fn wait_until(&mut self, what: &str, mut happened: impl FnMut() -> bool) {
        let child = self.0.as_mut().expect("it was not waited for");
        let mut ended = false;
        wait_until(what, || {
            ended = child.try_wait().expect("wait").is_some();
            ended || happened()
        });
        if ended {
            let out = self.0.take().expect("it was not waited for").wait_with_output().expect("output");
            panic!("it ended before {what}: {out:?}");
        }
    }

    /// Waits for its end. Returns its exit code, its object, and its messages on standard error.
    fn result(mut self) -> (Option<i32>, Value, String) {
        let child = self.0.as_mut().expect("it was not waited for");
        wait_until("it ends", || child.try_wait().expect("wait").is_some());
        let out = self.0.take().expect("it was not waited for").wait_with_output().expect("output");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let object = serde_json::from_slice(&out.stdout);
        (out.status.code(), object.unwrap_or_else(|error| panic!("{error}: {said}")), said)
    }

    /// Waits for its end, which must be a success. Returns its object.
    fn ended(self) -> Value {
        let (code, object, said) = self.result();
        assert_eq!((said.as_str(), code), ("", Some(0)), "{object}");
        object
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
        let mut sink = Run::start(&bed.h2, &sink);
        sink.wait_until("the sink receives", || bed.h2.ip("-details link show eth0").contains("xdp"));
        let known = format!("--dst-mac {} --src {from} --dst {to}", port_mac(1));
        // A packet of another stream has the router ask: it keeps few that wait for their neighbour. It does not ask
        // before it runs, so there may have to be several.
        let probe = format!("gen --port packet:eth0 --count 1 --stream 9 {known} --json");
        wait_until("the router has found the sink", || {
            Run::start(&bed.h1, &probe).ended();
            bed.dut.ip(&format!("neigh show {to} dev two")).contains(&host_mac(2))
        });
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

/// Seen: both reported success. With `--seconds` below `--wait`, the generator counted none of the packets as missed
/// that were due without the interface.
#[test]
fn a_generator_and_a_sink_whose_interface_is_gone_at_the_end_fail_and_say_so() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    bed.h1.ip("link add d0 type veth peer name d1");
    ["d0", "d1"].iter().for_each(|end| drop(bed.h1.ip(&format!("link set dev {end} up"))));
    let sink = Run::with_sockets(&bed.h1, 1, "sink --port packet:d0 --seconds 8 --json");
    let generator = Run::with_sockets(&bed.h1, 2, "gen --port packet:d1 --rate 1000 --seconds 8 --json");
    bed.h1.ip("link del d0");
    for (run, interface) in [(sink, "d0"), (generator, "d1")] {
        let (code, object, said) = run.result();
        let line = format!("error: port packet:{interface} is down: interface {interface} is gone\n");
        assert!(code == Some(1) && said.contains(&line), "{said}");
        assert_eq!(said.matches(" is down: ").count(), 1, "{said}");
        if interface == "d1" {
            // Seen: the port had no room for them.
            let [down, no_room] = ["missed_port_down", "missed_no_room"].map(|name| object[name].as_u64());
            assert!(down > Some(0) && down > no_room, "{object}");
        }
    }
}

/// Seen: a generator whose packets were all longer than the MTU reported that it had sent them. Later it failed, and
/// still counted them as sent.
#[test]
fn a_generator_whose_packets_an_interface_cannot_carry_fails_and_says_so() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let words = "gen --port packet:eth0 --count 10 --size 2000 --frame-size 4096 --json";
    let (code, object, said) = Run::start(&bed.h1, words).result();
    let line =
        "error: port packet:eth0 lost 10 of the packets that it had taken, because it cannot carry them\n";
    assert_eq!((code, said.as_str()), (Some(1), line), "{object}");
    assert_eq!(object["ports"][0]["tx_invalid"].as_u64(), Some(10), "{object}");
    assert_eq!((object["sent"].as_u64(), object["unsent"].as_u64()), (Some(0), Some(10)), "{object}");
}
