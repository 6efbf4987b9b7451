//! Tests that an impossible run is refused with one line that names the cause and the remedy, with exit code 2, or 3 if it
//! may be possible later, and leaves nothing behind.

use crate::forwarder::{Forwarder, netmem};
use crate::granted::Process;
use crate::testbed::{Testbed, Wiring, wait_until};
use netmem::system::netdev::Netdev;
use netmem::system::seqpacket::{Access, Listener};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use std::path::PathBuf;
use std::process::Command;

/// Number of those who ask for the holder of a claim that the kernel lets wait.
const BACKLOG: usize = 8;

/// Asserts that the command is refused with one line that contains all of `words`.
fn assert_refused(command: &mut Command, words: &[&str]) {
    assert_refused_by(2, command, words);
}

fn assert_refused_by(code: i32, command: &mut Command, words: &[&str]) {
    let out = command.output().expect("netmem");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{command:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} in: {said}");
    assert!(out.stdout.is_empty(), "{}", String::from_utf8_lossy(&out.stdout));
}

fn forward<'a>(command: &'a mut Command, ports: [&str; 2]) -> &'a mut Command {
    let ports = ports.map(|port| format!("--port=xdp:{port}"));
    command.args(["forward", "--mode=cross-connect", "--seconds=1"]).args(ports)
}

#[test]
fn an_interface_that_is_unknown_or_down_or_lacks_the_queue_is_refused() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    assert_refused(forward(&mut netmem(&bed), ["one", "three"]), &["three", "does not exist", "ip link"]);
    assert_refused(forward(&mut netmem(&bed), ["one", "two:7"]), &["two", "queue 7"]);
    bed.dut.ip("link set dev two down");
    assert_refused(forward(&mut netmem(&bed), ["one", "two"]), &["two is down", "ip link set dev two up"]);
    bed.assert_nothing_left();
}

/// Seen: an xdp port on a tun ended with exit code 3, so that systemd started the service again for ever. The line asked whether the
/// interface was still there.
#[test]
fn an_interface_without_ethernet_frames_is_refused_for_good() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    if !bed.dut.makes("ip", "tuntap add dev tun0 mode tun") {
        return;
    }
    bed.dut.ip("link set dev tun0 up");
    assert_refused(
        forward(&mut netmem(&bed), ["one", "tun0"]),
        &["tun0 is not an Ethernet interface", "veth"],
    );
    bed.dut.ip("link del tun0");
    bed.assert_nothing_left();
}

/// Found by reasoning: a router with one interface by two of its names opened it twice.
#[test]
fn an_interface_that_is_given_by_two_of_its_names_is_refused() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    if !bed.dut.makes("ip", "link property add dev one altname other0") {
        return;
    }
    let mut command = netmem(&bed);
    let router = command.args(["forward", "--port=packet:one", "--port=packet:other0", "--routes=kernel"]);
    assert_refused(router, &["one and other0 are one interface", "leave one out"]);
    assert_refused(forward(&mut netmem(&bed), ["one", "other0"]), &["xdp:other0", "some are the same"]);
    bed.assert_nothing_left();
}

/// Seen: without room for a descriptor that the broker sent, the line said `Broken pipe`, and the exit code was 2 if that
/// happened while the program was attached. With the usual limit of 1,024 this ended each run with more than 120 ports.
#[test]
fn a_run_raises_its_limit_of_descriptors_and_one_that_may_not_names_the_limit() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["prlimit"]) else { return };
    let under = |limit: &str| {
        let mut command = bed.dut.command("prlimit");
        command.arg(format!("--nofile={limit}")).arg(env!("CARGO_BIN_EXE_netmem"));
        command
    };
    for few in 10..17 {
        let out = forward(&mut under(&few.to_string()), ["one", "two"]).output().expect("netmem");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), said.lines().count()), (Some(3), 1), "{few}: {said}");
        assert!(said.contains("Too many open files"), "{few}: {said}");
    }
    let out = forward(&mut under("10:1024"), ["one", "two"]).output().expect("netmem");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    bed.assert_nothing_left();
}

#[test]
fn a_second_forwarder_is_refused_for_now_and_the_first_one_goes_on() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let first = Forwarder::start(&bed, &[]);
    bed.wait_for_the_path();
    assert_refused_by(3, forward(&mut netmem(&bed), ["one", "two"]), &["one"]);
    bed.wait_for_the_path();
    assert!(bed.has_programs());
    first.interrupt().assert_adds_up();
    bed.assert_nothing_left();
}

/// Seen: two routers with packet ports on the same interfaces forwarded every packet twice, and nothing said so.
#[test]
fn a_second_forwarder_with_a_packet_port_on_an_interface_is_refused_until_the_first_one_is_killed() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let words =
        ["forward", "--port=packet:one", "--port=packet:two", "--mode=cross-connect", "--seconds=0.1"];
    let second = || {
        let mut command = netmem(&bed);
        command.args(words);
        command
    };
    for _ in 0..2 {
        let first = Forwarder::start_on(&bed, ["packet:one", "packet:two"], &[]);
        let holder = format!("process {} forwards from this interface already", first.pid());
        for _ in 0..BACKLOG + 4 {
            let out = second().output().expect("netmem");
            let said = String::from_utf8_lossy(&out.stderr);
            // Without an answer in time it warns and runs.
            let is_busy = out.status.success() && said.contains("ss -xlp names it");
            assert!(out.status.code() == Some(3) && said.contains(&holder) || is_busy, "{said}");
        }
        wait_until("the holder is named", || {
            let out = second().output().expect("netmem");
            out.status.code() == Some(3) && String::from_utf8_lossy(&out.stderr).contains(&holder)
        });
        let out = second().arg("--check").output().expect("netmem");
        assert_eq!(out.status.code(), Some(1));
        assert!(
            String::from_utf8_lossy(&out.stderr).contains(&holder),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        // A sink takes nothing from anyone.
        let sink =
            netmem(&bed).args(["sink", "--port=packet:one", "--seconds=0.1"]).output().expect("netmem");
        assert!(sink.status.success(), "{}", String::from_utf8_lossy(&sink.stderr));
        // Killed.
        drop(first);
        let out = second().output().expect("netmem");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    bed.assert_nothing_left();
}

/// Seen: a run with xdp ports took all packets of a router with packet ports, past its filter. In the reverse order the router
/// received nothing. Neither said anything.
#[test]
fn of_two_forwarders_with_an_xdp_and_a_packet_port_on_an_interface_the_second_is_refused_until_the_first_one_ends()
 {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let ports = |kind: &str, mode: &str| {
        let mut command = netmem(&bed);
        command.arg("forward").args(["one", "two"].map(|interface| format!("--port={kind}:{interface}")));
        command.args([&format!("--mode={mode}"), "--seconds=0.1"]);
        command
    };
    for (first, second, why) in [
        ("packet", "xdp", "this port would take all packets before its packet port gets them"),
        ("xdp", "packet", "it takes all packets before this port gets them"),
    ] {
        let on = ["one", "two"].map(|interface| format!("{first}:{interface}"));
        let running = Forwarder::start_on(&bed, on.each_ref().map(String::as_str), &[]);
        let uses = if first == "xdp" { "has an xdp port on" } else { "forwards from" };
        let line =
            format!("{second}:one: process {} {uses} this interface already, and {why}", running.pid());
        assert_refused_by(3, &mut ports(second, "cross-connect"), &[&line]);
        let check = ports(second, "cross-connect").arg("--check").output().expect("netmem");
        let said = String::from_utf8_lossy(&check.stderr);
        assert!(check.status.code() == Some(1) && said.contains(&line), "{said}");
        // An xdp port takes the packets from a router whatever becomes of them. A packet port that only receives takes none.
        let drops = ports(second, "drop").output().expect("netmem");
        let said = String::from_utf8_lossy(&drops.stderr);
        let is_refused = drops.status.code() == Some(3) && said.contains(&line);
        assert!(if second == "xdp" { is_refused } else { drops.status.success() }, "{said}");
        drop(running);
        let out = ports(second, "cross-connect").output().expect("netmem");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    bed.assert_nothing_left();
}

/// Seen: a generator or sink with an xdp port took the packets of a running router with a packet port, past its filter, and none
/// of them said so. A router that was started beside such a sink received nothing.
#[test]
fn a_generator_or_sink_with_an_xdp_port_takes_no_packets_from_a_router_with_a_packet_port() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let running = Forwarder::start_on(&bed, ["packet:one", "packet:two"], &[]);
    let line = format!("xdp:one: process {} forwards from this interface already", running.pid());
    for words in [["gen", "--count=1"], ["sink", "--seconds=0.1"]] {
        wait_until("the holder is named", || {
            let out = netmem(&bed).args(words).arg("--port=xdp:one").output().expect("netmem");
            out.status.code() == Some(3) && String::from_utf8_lossy(&out.stderr).contains(&line)
        });
    }
    running.interrupt();
    let sink = Process::start(&bed.dut, env!("CARGO_BIN_EXE_netmem"), "sink --port=xdp:one --seconds=600");
    // A router that begins before it would keep it out.
    wait_until("the sink runs", || bed.program("one").is_some());
    let line = format!("packet:one: process {} has an xdp port on this interface already", sink.id());
    // More often than it lets others wait who ask for the holder.
    for _ in 0..2 * BACKLOG {
        wait_until("the sink is named", || {
            let words = ["forward", "--port=packet:one", "--port=packet:two", "--mode=cross-connect"];
            let out = netmem(&bed).args(words).arg("--seconds=0.1").output().expect("netmem");
            out.status.code() == Some(3) && String::from_utf8_lossy(&out.stderr).contains(&line)
        });
    }
    drop(sink);
    bed.assert_nothing_left();
}

/// A part of the packets is what the operator divided, a run may have both kinds on one interface, and the kernel decides
/// about two runs with xdp ports.
#[test]
fn an_xdp_port_that_leaves_packets_to_others_is_no_reason_to_refuse_a_packet_port() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let run = |ports: [&str; 2]| {
        let mut command = netmem(&bed);
        command.args(["forward", "--mode=cross-connect", "--seconds=0.1"]);
        command.args(ports.map(|port| format!("--port={port}")));
        command
    };
    let taking = ["xdp:one,take=udp:53", "xdp:two,take=udp:53"];
    for (first, second) in [(taking, ["packet:one", "packet:two"]), (["packet:one", "packet:two"], taking)] {
        let running = Forwarder::start_on(&bed, first, &[]);
        let out = run(second).output().expect("netmem");
        assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
        running.interrupt();
    }
    let out = run(["xdp:one", "packet:one"]).output().expect("netmem");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let running = Forwarder::start_on(&bed, ["xdp:one", "xdp:two"], &[]);
    assert_refused_by(3, &mut run(["xdp:one", "xdp:two"]), &["one", "bound by another AF_XDP socket"]);
    drop(running);
    bed.assert_nothing_left();
}

/// A name that another user has taken keeps no router from its start.
#[test]
fn a_claim_of_an_ordinary_user_is_reported_and_the_forwarder_starts() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let _other = bed.dut.inside(|| {
        let index = Netdev::open("one").expect("the interface").index();
        let user = |effective| {
            let [root, effective] = [0, effective].map(Uid::from_raw);
            set_thread_res_uid(root, effective, root).expect("setresuid(2)");
        };
        user(65534);
        let name = PathBuf::from(format!("@netmem-forward-packet-{index}"));
        let other = Listener::open(&name, Access::default());
        user(0);
        other.expect("it has the name")
    });
    let mut command = netmem(&bed);
    command.args([
        "forward",
        "--port=packet:one",
        "--port=packet:two",
        "--mode=cross-connect",
        "--seconds=0.1",
    ]);
    let out = command.output().expect("netmem");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("a process of user 65534 has the name"), "{said}");
}

#[test]
fn each_missing_capability_is_named() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["setpriv"]) else { return };
    for (lost, named) in [
        ("-net_raw", "CAP_NET_RAW"),
        ("-net_admin,-sys_admin", "CAP_NET_ADMIN"),
        ("-bpf,-sys_admin", "CAP_BPF"),
    ] {
        let mut command = bed.dut.command("setpriv");
        command.args(["--bounding-set", lost, env!("CARGO_BIN_EXE_netmem")]);
        assert_refused(forward(&mut command, ["one", "two"]), &[named, "root"]);
    }
    bed.assert_nothing_left();
}

#[test]
fn the_three_capabilities_are_enough() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["setpriv"]) else { return };
    let mut command = bed.dut.command("setpriv");
    command.args(["--bounding-set", "-all,+net_raw,+net_admin,+bpf", env!("CARGO_BIN_EXE_netmem")]);
    let out =
        forward(&mut command, ["one", "two"]).args(["--frames=256", "--ring=64"]).output().expect("netmem");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    bed.assert_nothing_left();
}

#[test]
fn a_small_limit_on_locked_memory_is_refused_with_the_remedy() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["setpriv", "prlimit"]) else { return };
    let mut command = bed.dut.command("prlimit");
    command.args(["--memlock=65536", "setpriv", "--bounding-set", "-ipc_lock", env!("CARGO_BIN_EXE_netmem")]);
    assert_refused(forward(&mut command, ["one", "two"]), &["ulimit -l", "ENOBUFS"]);
    bed.assert_nothing_left();
}
