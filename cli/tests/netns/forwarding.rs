//! Two hosts speak to each other through the forwarder.

use crate::forwarder::Forwarder;
use crate::testbed::{Testbed, Wiring, host_mac, port_mac, wait_until};
use crate::traffic::{assert_ping_both_ways, assert_tcp_both_ways};

#[test]
fn bridged_hosts_reach_each_other_in_native_mode() {
    hosts_reach_each_other(Wiring::Bridged, "native", "xdp");
}

#[test]
fn bridged_hosts_reach_each_other_in_generic_mode() {
    hosts_reach_each_other(Wiring::Bridged, "generic", "xdpgeneric");
}

#[test]
fn routed_hosts_reach_each_other_in_native_mode() {
    hosts_reach_each_other(Wiring::Routed, "native", "xdp");
}

#[test]
fn routed_hosts_reach_each_other_in_generic_mode() {
    hosts_reach_each_other(Wiring::Routed, "generic", "xdpgeneric");
}

/// Ping and TCP cross both ways, and at the end everything adds up and nothing is left.
fn hosts_reach_each_other(wiring: Wiring, mode: &str, shown: &str) {
    let Some(bed) = Testbed::lay(wiring, &["ping", "iperf3"]) else { return };
    let forwarder = Forwarder::start(&bed, &["--xdp-mode", mode]);
    assert_eq!(bed.program("one").as_deref(), Some(shown));
    bed.wait_for_the_path();
    assert_ping_both_ways(&bed);
    assert_tcp_both_ways(&bed);
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    assert!(summary.detail(0).contains(mode) && summary.detail(1).contains(mode), "{}", summary.detail(0));
    bed.assert_nothing_left();
    bed.assert_gone();
}

/// Seen: `--route` accepted only IPv4, so without `--routes kernel` no IPv6 packet was forwarded.
#[test]
fn routed_hosts_reach_each_other_over_ipv6_by_given_routes() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    for (number, host) in [(1, &bed.h1), (2, &bed.h2)] {
        host.set_ipv6(true);
        host.ip(&format!("addr add fd77:{number}::1/64 dev eth0 nodad"));
        host.ip(&format!("neigh add fd77:{number}::254 lladdr {} dev eth0", port_mac(number)));
        host.ip(&format!("route add default via fd77:{number}::254"));
    }
    let [one, two] = [(1, "one"), (2, "1")]
        .map(|(host, port)| format!("--route=fd77:{host}::/64,{port},{}", host_mac(host)));
    let forwarder = Forwarder::start(&bed, &[&one, &two, "--path=full"]);
    let once = ["-c", "1", "-W", "1", "fd77:2::1"];
    let reply = || bed.h1.command("ping").args(once).output().expect("ping").status.success();
    wait_until("h2 answers h1", reply);
    bed.h1.ping("fd77:2::1", 5, "-i 0.2 -s 1000");
    bed.h2.ping("fd77:1::1", 5, "-i 0.2 -s 1000");
    assert_ping_both_ways(&bed);
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    assert!(summary.number("filter.protocols.ipv6") >= 20, "{}", summary.dropped_in_all());
    bed.assert_nothing_left();
}

#[test]
fn icmp_errors_come_from_the_given_address_and_none_come_without_one_or_beyond_the_limit() {
    for (options, expected) in [
        (&["--address=10.77.1.254/24,0"][..], Some("From 10.77.1.254")),
        (&["--address=10.77.1.254/24,0", "--path=full"], Some("From 10.77.1.254")),
        (&["--address=10.77.1.254/24,0", "--icmp-rate=0"], None),
        (&[], None),
    ] {
        let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
        let forwarder = Forwarder::start(&bed, options);
        bed.wait_for_the_path();
        // It ends with the second error. With a deadline (-w) it would end with the first.
        let patience = if expected.is_some() { "60" } else { "1" };
        let words = ["-n", "-c", "2", "-i", "0.2", "-W", patience, "-t", "1", "10.77.2.1"];
        let out = bed.h1.command("ping").args(words).output().expect("ping");
        let said = String::from_utf8_lossy(&out.stdout);
        let lines = said.lines().filter(|line| line.contains("Time to live exceeded"));
        let from = lines.filter(|line| expected.is_some_and(|expected| line.contains(expected))).count();
        assert_eq!(
            (from, said.contains("Time to live")),
            (2 * usize::from(expected.is_some()), expected.is_some()),
            "{said}"
        );
        // What was sent before has been forwarded or dropped then.
        bed.wait_for_the_path();
        let summary = forwarder.interrupt();
        summary.assert_adds_up();
        assert_eq!(summary.dropped("ttl_expired"), 2);
        bed.assert_nothing_left();
    }
}

#[test]
fn arp_and_multicast_are_counted_drops_between_routed_hosts_where_nothing_stays_with_the_kernel() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let forwarder = Forwarder::start_on(&bed, ["xdp:one,kernel=none", "xdp:two,kernel=none"], &[]);
    bed.wait_for_the_path();
    // An ARP request is sent for a neighbour that does not exist, and an interface with IPv6 sends multicast packets.
    let unanswered =
        bed.h1.command("ping").args(["-c", "1", "-W", "1", "10.77.1.99"]).output().expect("ping");
    assert!(!unanswered.status.success());
    bed.h1.set_ipv6(true);
    bed.h1.command("ping").args(["-6", "-c", "3", "-W", "1", "ff02::1%eth0"]).output().expect("ping");
    assert_ping_both_ways(&bed);
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    assert!(
        summary.dropped("arp") > 0 && summary.dropped("link_multicast") > 0,
        "{}",
        summary.dropped_in_all()
    );
    bed.assert_nothing_left();
}
