//! Tests that `netmem gen` and `netmem sink` at two hosts measure the path between them.

use crate::forwarder::{Forwarder, bound_packet_sockets, netmem, said};
use crate::links::Pair;
use crate::running::wait_while_it_runs;
use crate::sandbox::is_confined;
use crate::testbed::{Namespace, Testbed, Wiring, host_mac, port_mac, scratch, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
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

    /// Does the same as [`Run::start`], and waits until this number of packet sockets get packets.
    fn with_sockets(place: &Namespace, sockets: usize, words: &str) -> Run {
        let mut run = Run::start(place, words);
        run.wait_until("it has its sockets", || bound_packet_sockets(place) == sockets);
        run
    }

    /// Waits until `what` has happened, which it does while this runs.
    fn wait_until(&mut self, what: &str, happened: impl FnMut() -> bool) {
        wait_while_it_runs(self.0.as_mut().expect("it was not waited for"), what, happened);
    }

    fn pid(&self) -> u32 {
        self.0.as_ref().expect("it was not waited for").id()
    }

    /// Waits for its end. Returns its exit code, its object, and its messages on standard error.
    fn result(mut self) -> (Option<i32>, Value, String) {
        let child = self.0.as_mut().expect("it was not waited for");
        wait_until("it ends", || child.try_wait().expect("wait").is_some());
        let out = self.0.take().expect("it was not waited for").wait_with_output().expect("output");
        let said = said(&out);
        let object = serde_json::from_slice(&out.stdout);
        (out.status.code(), object.unwrap_or_else(|error| panic!("{error}: {said}")), said)
    }

    /// Waits for its end, which must be a success. Returns its object.
    fn ended(self) -> Value {
        let (code, object, said) = self.result();
        assert_eq!((said.as_str(), code), ("", Some(0)), "{object}");
        object
    }

    fn signal(&self, signal: Signal) {
        let child = self.0.as_ref().expect("it was not waited for");
        kill_process(Pid::from_child(child), signal).expect("kill(2)");
    }

    /// Ends it as Ctrl-C does.
    fn interrupted(self) -> Value {
        self.signal(Signal::INT);
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
    let control = format!("--control={}", scratch("measured").display());
    let mut router = Pair::start_as(&bed.dut, ["packet:one", "packet:two"], &["--routes=kernel", &control]);
    // None before it answers.
    let forwarded = || {
        let out = netmem(&bed).args(["stat", "ports", "--json", &control]).output().expect("netmem");
        let said: Value = serde_json::from_slice(&out.stdout).ok()?;
        said["ports"][1]["tx"].as_u64()
    };
    router.wait_until("the router answers", || forwarded().is_some());
    for (from, to) in [("10.77.1.1", "10.77.2.1"), ("fd77:1::1", "fd77:2::1")] {
        bed.dut.ip("neigh flush dev two");
        let sink =
            format!("sink --port xdp:eth0 --count {SENT} --seconds 100 --max-lost 0 --max-corrupt 0 --json");
        let mut sink = Run::start(&bed.h2, &sink);
        let pid = sink.pid();
        sink.wait_until("the sink receives", || is_confined(pid));
        let (known, before) = (format!("--dst-mac {} --src {from} --dst {to}", port_mac(1)), forwarded());
        // A packet of another stream has the router ask: it keeps few that wait for their neighbour. It does not ask
        // before it runs and has its routes, so there may have to be several.
        let probe = format!("gen --port packet:eth0 --count 1 --stream 9 {known} --json");
        router.wait_until("the router has forwarded to the sink", || {
            Run::start(&bed.h1, &probe).ended();
            forwarded() > before
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
    // A time may be over before the interface is gone, or before the generator has noticed that.
    let is_counted = [8, 30, 120].into_iter().any(|seconds| is_counted_as_port_down(&bed, seconds));
    assert!(is_counted, "the generator ended well, or its port had no room");
}

/// Whether a generator counts packets as missed because its interface is gone, and more of them than for lack of room.
/// Asserts that it and the sink fail for this reason.
fn is_counted_as_port_down(bed: &Testbed, seconds: u32) -> bool {
    bed.h1.ip("link add d0 type veth peer name d1");
    ["d0", "d1"].iter().for_each(|end| drop(bed.h1.ip(&format!("link set dev {end} up"))));
    let sink = Run::with_sockets(&bed.h1, 1, "sink --port packet:d0 --json");
    let words = format!("gen --port packet:d1 --rate 1000 --seconds {seconds} --json");
    let generator = Run::with_sockets(&bed.h1, 2, &words);
    bed.h1.ip("link del d0");
    let gone = |(code, object, said): (Option<i32>, Value, String), interface: &str| {
        let line = format!("error: port packet:{interface} is down: interface {interface} is gone\n");
        assert!(code == Some(1) && said.contains(&line), "{said}");
        assert_eq!(said.matches(" is down: ").count(), 1, "{said}");
        object
    };
    let generated = generator.result();
    if generated.0 == Some(0) {
        return false;
    }
    sink.signal(Signal::INT);
    gone(sink.result(), "d0");
    let object = gone(generated, "d1");
    // Seen: the port had no room for them.
    let [down, no_room] = ["missed_port_down", "missed_no_room"].map(|name| object[name].as_u64());
    down > Some(0) && down > no_room
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
