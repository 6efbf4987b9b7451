//! Tests that no packet is lost without a counter that names the place.

use crate::forwarder::Forwarder;
use crate::stream::stream;
use crate::summary::Summary;
use crate::testbed::{Testbed, Wiring, host_mac};
use crate::wire::{Wire, full_buffers};
use std::time::Duration;

/// Packets of a stream: two seconds of 10,000 a second.
const PACKETS: u64 = 20_000;
const INTERVAL: Duration = Duration::from_micros(100);

#[test]
fn every_packet_of_a_bridged_stream_arrives_whole_or_is_counted_in_native_mode() {
    every_packet_arrives_whole_or_is_counted(Wiring::Bridged, &["--xdp-mode=native"], INTERVAL);
}

#[test]
fn every_packet_of_a_bridged_stream_arrives_whole_or_is_counted_in_generic_mode() {
    every_packet_arrives_whole_or_is_counted(Wiring::Bridged, &["--xdp-mode=generic"], INTERVAL);
}

#[test]
fn every_packet_of_a_routed_stream_arrives_whole_or_is_counted_in_native_mode() {
    every_packet_arrives_whole_or_is_counted(Wiring::Routed, &["--xdp-mode=native"], INTERVAL);
}

#[test]
fn every_packet_of_a_routed_stream_arrives_whole_or_is_counted_in_generic_mode() {
    every_packet_arrives_whole_or_is_counted(Wiring::Routed, &["--xdp-mode=generic"], INTERVAL);
}

#[test]
fn a_flood_through_64_frames_is_counted_and_the_path_recovers_in_native_mode() {
    let scarce = ["--xdp-mode=native", "--frames=64", "--ring=16"];
    every_packet_arrives_whole_or_is_counted(Wiring::Routed, &scarce, Duration::ZERO);
}

#[test]
fn a_flood_through_64_frames_is_counted_and_the_path_recovers_in_generic_mode() {
    let scarce = ["--xdp-mode=generic", "--frames=64", "--ring=16"];
    every_packet_arrives_whole_or_is_counted(Wiring::Routed, &scarce, Duration::ZERO);
}

/// A stream from h1 to h2, followed from one to the other: at each place as many packets leave as came, less those
/// that it counted as dropped.
fn every_packet_arrives_whole_or_is_counted(wiring: Wiring, options: &[&str], interval: Duration) {
    let Some(bed) = Testbed::lay(wiring, &["ping"]) else { return };
    let forwarder = Forwarder::start(&bed, options);
    bed.wait_for_the_path();
    make_neighbours_static(&bed);
    let before = Hosts::read(&bed);
    let received = stream(&bed, PACKETS, interval);
    let after = Hosts::read(&bed);
    bed.wait_for_the_path();
    let summary = forwarder.interrupt();

    assert_eq!((received.corrupt, received.twice, received.reordered), (0, 0, 0), "{received:?}");
    let offered = |hosts: &Hosts| hosts.h1.tx + hosts.h1.tx_dropped;
    assert_eq!(offered(&after) - offered(&before), PACKETS, "sent by h1 or dropped by its interface");
    let arrived = after.h2.rx - before.h2.rx;
    let overrun = after.full_buffers - before.full_buffers;
    assert_eq!(arrived, received.good + overrun, "arrived at h2, and taken or dropped by its socket");
    assert_wires_add_up(&bed, &summary);
    summary.assert_adds_up();
    bed.assert_nothing_left();
}

/// Gives bridged hosts each other's MAC address, so that no ARP request is sent while packets are counted.
pub fn make_neighbours_static(bed: &Testbed) {
    for (host, other) in [(&bed.h1, 2), (&bed.h2, 1)] {
        if bed.wiring == Wiring::Bridged {
            host.ip(&format!("neigh replace {} lladdr {} dev eth0", bed.address(other), host_mac(other)));
        }
    }
}

/// Returns the counters of the hosts.
struct Hosts {
    h1: Wire,
    h2: Wire,
    full_buffers: u64,
}

impl Hosts {
    fn read(bed: &Testbed) -> Hosts {
        let (h1, h2) = (Wire::read(&bed.h1, "eth0"), Wire::read(&bed.h2, "eth0"));
        Hosts { h1, h2, full_buffers: full_buffers(&bed.h2) }
    }
}

/// Asserts that both ends of both links agree: what a host sent reached the port or was dropped there, and what the
/// port sent reached the host or was dropped by the interface.
pub fn assert_wires_add_up(bed: &Testbed, summary: &Summary) {
    for (interface, host) in [("one", &bed.h1), ("two", &bed.h2)] {
        let (near, far) = (Wire::read(&bed.dut, interface), Wire::read(host, "eth0"));
        let counted = |counter| summary.interface(interface, counter);
        let rx_drops = counted("rx_no_frame") + counted("rx_ring_full") + counted("rx_dropped");
        assert_eq!(far.tx, counted("rx") + rx_drops, "{interface}: {far:?}");
        assert_eq!(counted("completed"), far.rx + near.tx_dropped, "{interface}: {near:?} {far:?}");
    }
}
