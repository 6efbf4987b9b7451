//! Tests that the kernel neither answers nor forwards the packets that a router's packet ports take, as long as the
//! router runs.

use crate::forwarder::said;
use crate::links::Pair;
use crate::testbed::{Testbed, Wiring, wait_until};
use crate::traffic::ping_once;
use std::fs;

const PORTS: [&str; 2] = ["packet:one", "packet:two"];

/// Two hosts, and a machine between them whose kernel has addresses of both families and forwards, or does not.
fn laid(forwards: bool, programs: &[&str]) -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Routed, &[&["ping"], programs].concat())?;
    for namespace in [&bed.h1, &bed.dut, &bed.h2] {
        namespace.set_ipv6(true);
    }
    let interfaces = [(1, "one", &bed.h1), (2, "two", &bed.h2)];
    for (number, interface, host) in interfaces {
        give_address(&bed, number, interface);
        bed.dut.ip(&format!("addr add fd77:{number}::254/64 dev {interface} nodad"));
        let listens = format!("/proc/sys/net/ipv6/conf/{interface}/accept_ra");
        bed.dut.inside(|| fs::write(listens, "0")).expect("router advertisements");
        host.ip(&format!("addr add fd77:{number}::1/64 dev eth0 nodad"));
        host.ip(&format!("route add default via fd77:{number}::254"));
    }
    set_forwarding(&bed, forwards);
    Some(bed)
}

fn give_address(bed: &Testbed, number: u8, interface: &str) {
    bed.dut.ip(&format!("addr add 10.77.{number}.254/24 dev {interface}"));
}

fn set_forwarding(bed: &Testbed, forwards: bool) {
    for family in ["ipv4", "ipv6"] {
        let setting = format!("/proc/sys/net/{family}/conf/all/forwarding");
        bed.dut.inside(|| fs::write(setting, u8::from(forwards).to_string())).expect("forwarding");
    }
}

/// Returns the output of ping(8) for some packets to `address` from the first host.
fn pings(bed: &Testbed, address: &str) -> String {
    let out =
        bed.h1.command("ping").args(["-c", "4", "-i", "0.3", "-W", "2", address]).output().expect("ping");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Asserts that packets to `address` from the first host are each answered, and once.
fn assert_answered_once(bed: &Testbed, address: &str) {
    let said = bed.h1.run("ping", &format!("-c 4 -i 0.3 -w 60 {address}"));
    let is_answered = |seq: usize| said.contains(&format!("icmp_seq={seq} "));
    assert!((1..=4).all(is_answered) && !said.contains("DUP!"), "{said}");
}

/// Asserts that the kernel, which forwards now, has no copies of the router's packets, and that the router ends well.
fn assert_no_copies(bed: &Testbed, router: Pair) {
    set_forwarding(bed, true);
    assert_answered_once(bed, "10.77.2.1");
    let out = router.end();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// The number in ping's last words that stands before `what`.
fn number(said: &str, what: &str) -> u32 {
    let words: Vec<&str> = said.split(", ").flat_map(|part| part.split('\n')).collect();
    let found = words.iter().find_map(|word| word.strip_suffix(what));
    found.map_or(0, |number| number.trim_start_matches('+').parse().expect("a number"))
}

/// Seen: with `ip_forward` each echo was answered four times. Without it, two ICMP errors were sent for an IPv6 packet
/// without a route.
#[test]
fn a_kernel_neither_answers_nor_forwards_what_packet_ports_take() {
    for forwards in [false, true] {
        let Some(bed) = laid(forwards, &[]) else { return };
        let router = Pair::start_as(&bed.dut, PORTS, &["--routes=kernel"]);
        wait_until("the router forwards", || ping_once(&bed.h1, "10.77.2.1"));
        wait_until("and by IPv6", || ping_once(&bed.h1, "fd77:2::1"));
        ["10.77.2.1", "fd77:2::1"].iter().for_each(|address| assert_answered_once(&bed, address));
        for nowhere in ["10.99.0.1", "fd99::1"] {
            wait_until("an error is sent", || {
                let said = pings(&bed, nowhere);
                let (sent, errors) = (number(&said, " packets transmitted"), number(&said, " errors"));
                assert!(errors <= sent, "{nowhere}: {said}");
                errors > 0
            });
        }
        // The kernel still receives its own packets.
        ["10.77.2.254", "fd77:1::254"].iter().for_each(|address| bed.h1.ping(address, 1, ""));
        router.ended_well();
    }
}

#[test]
fn a_kernel_with_copies_forwards_them_too_and_the_run_says_so() {
    let Some(bed) = laid(true, &[]) else { return };
    let router = Pair::start_as(&bed.dut, PORTS, &["--routes=kernel", "--kernel-copies=keep"]);
    wait_until("packets arrive twice", || pings(&bed, "10.77.2.1").contains("DUP!"));
    let out = router.end();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        out.status.success() && said.contains("the kernel also forwards the packets of one (ipv4)"),
        "{said}"
    );
}

#[test]
fn a_run_that_is_killed_leaves_the_kernel_all_its_packets() {
    let Some(bed) = laid(false, &[]) else { return };
    let router = Pair::start_as(&bed.dut, PORTS, &["--routes=kernel"]);
    wait_until("the router forwards", || ping_once(&bed.h1, "10.77.2.1"));
    drop(router);
    set_forwarding(&bed, true);
    wait_until("the kernel forwards", || ping_once(&bed.h1, "10.77.2.1"));
}

#[test]
fn the_kernel_gets_no_copies_by_an_interface_made_again_either() {
    let Some(bed) = laid(false, &[]) else { return };
    let router = Pair::start_as(&bed.dut, PORTS, &["--routes=kernel"]);
    wait_until("the router forwards", || ping_once(&bed.h1, "10.77.2.1"));
    bed.dut.ip("link del one");
    bed.wire(1, 1);
    give_address(&bed, 1, "one");
    wait_until("the router forwards again", || ping_once(&bed.h1, "10.77.2.1"));
    assert_no_copies(&bed, router);
}

/// Seen: an interface that was given to another namespace received nothing there, and nothing when it was back: the port was
/// down until its restart ("attach program to an interface's ingress …: File exists").
#[test]
fn an_interface_that_moves_to_another_namespace_is_its_kernels_there_and_the_routers_when_it_is_back() {
    for kind in ["packet", "xdp"] {
        let Some(bed) = laid(false, &[]) else { return };
        let ports = ["one", "two"].map(|interface| format!("{kind}:{interface}"));
        let router = Pair::start_as(&bed.dut, [&ports[0], &ports[1]], &["--routes=kernel"]);
        wait_until("the router forwards", || ping_once(&bed.h1, "10.77.2.1"));
        bed.dut.ip(&format!("link set dev one netns {}", bed.h2.name()));
        bed.h2.ip("addr add 10.77.1.254/24 dev one");
        bed.h2.ip("link set dev one up");
        wait_until("the kernel there answers", || ping_once(&bed.h1, "10.77.1.254"));
        bed.h2.ip(&format!("link set dev one netns {}", bed.dut.name()));
        bed.dut.ip("link set dev one up");
        give_address(&bed, 1, "one");
        wait_until("the router forwards again", || ping_once(&bed.h1, "10.77.2.1"));
        assert_no_copies(&bed, router);
    }
}

#[test]
fn a_run_that_cannot_drop_the_copies_says_why_and_what_to_do() {
    let Some(bed) = laid(false, &["setpriv"]) else { return };
    let mut command = bed.dut.command("setpriv");
    command.args(["--bounding-set", "-bpf,-sys_admin", env!("CARGO_BIN_EXE_netmem"), "forward", "--json"]);
    command.args(PORTS.map(|port| format!("--port={port}"))).args(["--routes=kernel", "--seconds=0.2"]);
    let out = command.output().expect("netmem");
    let said = said(&out);
    assert!(out.status.success() && said.lines().count() == 2, "{said}");
    for (line, port) in said.lines().zip(["one", "two"]) {
        let wanted = format!(
            "netmem: packet:{port}: the kernel has copies of the packets that the port takes, and may forward or answer them too ("
        );
        let remedy = format!(": use xdp:{port}, or allow it with --kernel-copies=keep");
        assert!(line.starts_with(&wanted) && line.ends_with(&remedy), "{line}");
    }
}
