//! Tests with a machine between the hosts that is also a machine of the kernel: it has addresses, neighbours find it,
//! and its own packets stay with the kernel, while netmem forwards all others.

use crate::forwarder::{Forwarder, netmem};
use crate::links::Pair;
use crate::testbed::{Namespace, Testbed, Wiring, port_mac, scratch, wait_until};
use crate::traffic::{assert_ping_both_ways, assert_tcp_both_ways, ping_once};

#[test]
fn hosts_that_find_their_router_by_arp_and_discovery_reach_each_other_and_the_router_in_native_mode() {
    the_router_is_found_and_answers("native");
}

#[test]
fn hosts_that_find_their_router_by_arp_and_discovery_reach_each_other_and_the_router_in_generic_mode() {
    the_router_is_found_and_answers("generic");
}

fn the_router_is_found_and_answers(mode: &str) {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping", "iperf3"]) else { return };
    give_addresses(&bed);
    let forwarder = Forwarder::start(&bed, &["--xdp-mode", mode]);
    for (number, host) in [(1, &bed.h1), (2, &bed.h2)] {
        // The router's addresses on this side and on the other, by ordinary neighbours.
        for side in [number, 3 - number] {
            answers(host, &format!("10.77.{side}.254"));
            answers(host, &format!("fd77:{side}::254"));
        }
        answers(host, &format!("{}%eth0", link_local(&bed.dut, if number == 1 { "one" } else { "two" })));
        assert_found(host, &format!("10.77.{number}.254"), number);
        assert_found(host, &format!("fd77:{number}::254"), number);
        // And the other way round: the router's kernel finds its hosts.
        answers(&bed.dut, &bed.address(number));
        answers(&bed.dut, &format!("fd77:{number}::1"));
    }
    assert_ping_both_ways(&bed);
    assert_tcp_both_ways(&bed);
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    let control = summary.dropped("arp") + summary.dropped("link_multicast") + summary.dropped("no_route");
    assert_eq!(control, 0, "nothing that is the kernel's came to netmem");
    bed.assert_nothing_left();
}

#[test]
fn an_address_that_is_added_while_packets_pass_answers_and_one_that_is_taken_away_does_not() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    give_addresses(&bed);
    let forwarder = Forwarder::start(&bed, &[]);
    assert_ping_both_ways(&bed);
    assert!(!ping_once(&bed.h1, "10.77.9.9"), "no host has it");
    bed.dut.ip("addr add 10.77.9.9/32 dev lo");
    answers(&bed.h1, "10.77.9.9");
    bed.dut.ip("addr del 10.77.9.9/32 dev lo");
    wait_until("the address answers no more", || !ping_once(&bed.h1, "10.77.9.9"));
    assert_ping_both_ways(&bed);
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    assert!(summary.dropped("no_route") > 0, "packets to unknown hosts came to netmem");
}

#[test]
fn in_cross_connect_mode_nothing_stays_with_a_kernel_that_has_addresses_unless_it_is_asked_for() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    bed.dut.ip("addr add 10.77.0.254/24 dev one");
    let forwarder = Forwarder::start(&bed, &[]);
    assert_ping_both_ways(&bed);
    assert!(!ping_once(&bed.h1, "10.77.0.254"), "what is for the machine between goes to the other host");
    forwarder.interrupt().assert_adds_up();
    let forwarder = Forwarder::start_on(&bed, ["xdp:one,kernel=control", "xdp:two,kernel=none"], &[]);
    answers(&bed.h1, "10.77.0.254");
    forwarder.interrupt().assert_adds_up();
    bed.assert_nothing_left();
}

#[test]
fn ports_take_what_their_rules_say_and_the_control_socket_changes_that_while_they_are_open() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    give_addresses(&bed);
    let socket = scratch("take");
    let control = format!("--control={}", socket.display());
    let ports = ["xdp:one,take=icmp@10.77.2.0/24", "xdp:two,take=icmp@10.77.1.0/24"];
    let forwarder = Forwarder::start_on(&bed, ports, &["--mode=ip", &control]);
    assert_ping_both_ways(&bed);
    answers(&bed.h1, "10.77.1.254");
    let ask = |words: &str| {
        let out = netmem(&bed).args(words.split_whitespace()).arg(&control).output().expect("netmem");
        assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    ask("set xdp.one.take none");
    assert!(!ping_once(&bed.h1, &bed.address(2)), "no kernel forwards here");
    answers(&bed.h1, "10.77.1.254");
    ask("set xdp.one.take udp:9+icmp");
    assert_ping_both_ways(&bed);
    let bad = netmem(&bed).args(["set", "xdp.one.take", "icmp:7", &control]).output().expect("netmem");
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(said.contains("port 7 of icmp: only udp, tcp and sctp have ports"), "{said}");
    let of_port = |port: &serde_json::Value| port["rx_kernel"].as_u64().expect("a count");
    let ports: serde_json::Value = serde_json::from_str(&ask("stat ports --json")).expect("JSON");
    assert!(ports["ports"].as_array().expect("ports").iter().all(|port| of_port(port) > 0), "{ports}");
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    assert_eq!(summary.dropped("arp"), 0);
    bed.assert_nothing_left();
}

#[test]
fn control_traffic_enters_no_packet_port_of_a_router_and_is_counted_as_left_to_the_kernel() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    give_addresses(&bed);
    let of_the_kernel =
        ["arp", "link_multicast", "local_address", "unknown_ethertype", "martian", "no_route"];
    for (kernel, is_left) in [("", true), (",kernel=control", true), (",kernel=none", false)] {
        let ports = ["one", "two"].map(|interface| format!("packet:{interface}{kernel}"));
        let routes = ["--route=10.77.1.0/24,0,02:00:00:00:01:01", "--route=10.77.2.0/24,1,02:00:00:00:02:01"];
        let router = Pair::start_as(&bed.dut, ports.each_ref().map(String::as_str), &routes);
        wait_until("the router forwards", || ping_once(&bed.h1, &bed.address(2)));
        for (number, host) in [(1, &bed.h1), (2, &bed.h2)] {
            host.ip("neigh flush dev eth0");
            answers(host, &format!("10.77.{number}.254"));
            answers(host, &format!("fd77:{number}::254"));
            assert_found(host, &format!("10.77.{number}.254"), number);
        }
        // An address that comes while packets pass is the kernel's as well.
        bed.dut.ip("addr add 10.77.9.9/32 dev lo");
        answers(&bed.h1, "10.77.9.9");
        assert_ping_both_ways(&bed);
        bed.dut.ip("addr del 10.77.9.9/32 dev lo");
        let summary = router.ended_well();
        let dropped = of_the_kernel.map(|reason| summary.dropped(reason));
        let left = ["one", "two"].map(|interface| summary.interface(interface, "rx_kernel"));
        match is_left {
            // A look a second follows the addresses: pings to the new one may come before it.
            true => assert!(dropped[..5] == [0; 5] && left.iter().all(|n| *n >= 4), "{dropped:?} {left:?}"),
            false => assert!(dropped[0] > 0 && dropped[1] > 0 && left == [0; 2], "{dropped:?} {left:?}"),
        }
    }
    bed.assert_nothing_left();
}

/// Gives the machine between the hosts addresses on both sides, and the hosts IPv6 and neighbours that must be found.
fn give_addresses(bed: &Testbed) {
    for namespace in [&bed.h1, &bed.dut, &bed.h2] {
        namespace.set_ipv6(true);
    }
    for (number, host, interface) in [(1, &bed.h1, "one"), (2, &bed.h2, "two")] {
        bed.dut.ip(&format!("addr add 10.77.{number}.254/24 dev {interface}"));
        bed.dut.ip(&format!("addr add fd77:{number}::254/64 dev {interface} nodad"));
        host.ip(&format!("neigh del 10.77.{number}.254 dev eth0"));
        host.ip(&format!("addr add fd77:{number}::1/64 dev eth0 nodad"));
        host.ip(&format!("route add default via fd77:{number}::254"));
    }
}

/// The link-local address of an interface.
fn link_local(place: &Namespace, interface: &str) -> String {
    let mut address = None;
    wait_until("the link-local address is there", || {
        let shown = place.ip(&format!("-6 addr show dev {interface} scope link -tentative"));
        address = shown.split_whitespace().find_map(|word| word.strip_suffix("/64")).map(str::to_owned);
        address.is_some()
    });
    address.expect("it was waited for")
}

/// Waits until the address answers a ping.
fn answers(from: &Namespace, address: &str) {
    wait_until(&format!("{address} answers"), || ping_once(from, address));
}

/// Asserts that the kernel found the router of that side by asking.
fn assert_found(host: &Namespace, address: &str, side: u8) {
    let neighbour = host.ip(&format!("neigh show {address} dev eth0"));
    assert!(neighbour.contains(&port_mac(side)) && !neighbour.contains("PERMANENT"), "{neighbour}");
}
