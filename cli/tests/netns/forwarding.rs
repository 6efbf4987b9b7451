//! Two hosts speak to each other through the forwarder.

use crate::forwarder::Forwarder;
use crate::stream::stream;
use crate::testbed::{Namespace, Testbed, Wiring};
use crate::traffic::{assert_ping_both_ways, assert_tcp_both_ways, wait_for_the_path};
use std::fs;
use std::time::Duration;

/// Packets of the stream: two seconds of 10,000 a second.
const PACKETS: u64 = 20_000;
const INTERVAL: Duration = Duration::from_micros(0);

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
    let forwarder = Forwarder::start(&bed, wiring, mode);
    assert_eq!(bed.program("one").as_deref(), Some(shown));
    wait_for_the_path(&bed);
    assert_ping_both_ways(&bed);
    assert_tcp_both_ways(&bed);
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    assert!(summary.detail(0).contains(mode) && summary.detail(1).contains(mode), "{}", summary.detail(0));
    bed.assert_nothing_left();
    bed.assert_gone();
}

#[test]
fn every_packet_of_a_bridged_stream_is_right_or_counted_as_dropped_in_native_mode() {
    every_packet_is_right_or_counted(Wiring::Bridged, "native");
}

#[test]
fn every_packet_of_a_bridged_stream_is_right_or_counted_as_dropped_in_generic_mode() {
    every_packet_is_right_or_counted(Wiring::Bridged, "generic");
}

#[test]
fn every_packet_of_a_routed_stream_is_right_or_counted_as_dropped_in_native_mode() {
    every_packet_is_right_or_counted(Wiring::Routed, "native");
}

#[test]
fn every_packet_of_a_routed_stream_is_right_or_counted_as_dropped_in_generic_mode() {
    every_packet_is_right_or_counted(Wiring::Routed, "generic");
}

/// A stream crosses; whoever lost a packet has counted it.
fn every_packet_is_right_or_counted(wiring: Wiring, mode: &str) {
    let Some(bed) = Testbed::lay(wiring, &["ping"]) else { return };
    let forwarder = Forwarder::start(&bed, wiring, mode);
    wait_for_the_path(&bed);
    let before = lost_outside(&bed);
    let received = stream(&bed, PACKETS, INTERVAL);
    let outside = lost_outside(&bed) - before;
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    assert_eq!((received.corrupt, received.twice), (0, 0), "{received:?}");
    let missing = PACKETS - received.good;
    let counted = summary.rx_drops() + summary.dropped_in_all() + outside;
    eprintln!("missing {missing} rx_drops {} dropped {} outside {outside}; {}", summary.rx_drops(), summary.dropped_in_all(), summary.raw());
    for h in [&bed.h1,&bed.dut,&bed.h2] { eprintln!("{}", h.run("cat", "/proc/net/dev")); }
    for p in ["one","two"] { eprintln!("{}", bed.dut.run("ethtool", &format!("-S {p}"))); }
    assert!(
        missing <= counted,
        "{missing} packets missing, {counted} counted: {outside} outside the forwarder"
    );
    bed.assert_nothing_left();
}

/// Packets that the kernel lost at the hosts' interfaces, at those between them, and at the receiver's socket.
fn lost_outside(bed: &Testbed) -> u64 {
    let read = |host: &Namespace, file: &str| {
        host.inside(|| fs::read_to_string(format!("/proc/thread-self/net/{file}"))).expect("a file of /proc")
    };
    let interfaces = [&bed.h1, &bed.dut, &bed.h2].map(|host| interface_drops(&read(host, "dev")));
    interfaces.iter().sum::<u64>() + full_buffers(&read(&bed.h2, "snmp"))
}

/// The columns `drop` of /proc/net/dev, both ways, of all interfaces.
fn interface_drops(dev: &str) -> u64 {
    let counters = dev.lines().filter_map(|line| line.split_once(':'));
    counters.flat_map(|(_, numbers)| [3, 11].map(|column| nth_number(numbers, column))).sum()
}

/// RcvbufErrors of the second line Udp of /proc/net/snmp.
fn full_buffers(snmp: &str) -> u64 {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let column = lines.next().and_then(|names| names.split(' ').position(|name| name == "RcvbufErrors"));
    nth_number(lines.next().expect("numbers of Udp"), column.expect("RcvbufErrors"))
}

fn nth_number(numbers: &str, column: usize) -> u64 {
    numbers.split_whitespace().nth(column).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn arp_and_ipv6_are_counted_drops_between_routed_hosts() {
    let Some(bed) = Testbed::lay(Wiring::Routed, &["ping"]) else { return };
    let forwarder = Forwarder::start(&bed, Wiring::Routed, "auto");
    wait_for_the_path(&bed);
    // A neighbour that is not there is asked for by ARP; an interface with IPv6 announces itself.
    let nobody = bed.h1.command("ping").args(["-c", "1", "-W", "1", "10.77.1.99"]).output().expect("ping");
    assert!(!nobody.status.success());
    bed.h1.set_ipv6(true);
    bed.h1.command("ping").args(["-6", "-c", "3", "-W", "1", "ff02::1%eth0"]).output().expect("ping");
    assert_ping_both_ways(&bed);
    let summary = forwarder.interrupt();
    summary.assert_adds_up();
    assert!(summary.dropped("arp") > 0 && summary.dropped("ipv6") > 0, "{}", summary.dropped_in_all());
    bed.assert_nothing_left();
}
