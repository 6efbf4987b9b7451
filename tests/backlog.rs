//! Packets that were not taken from a `packet` or `tap` port when its interface is removed, when the port is closed, or when
//! its worker goes to sleep: in network namespaces, as root.

#![allow(clippy::unwrap_used)]

// It uses a part of this.
#[allow(dead_code)]
mod netns;

use netmem::pool::Batch;
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::port::conformance::Fixture;
use netmem::port::tap::{TapConfig, TapPort};
use netmem::port::{Port, PortState, Rx, Wake};
use netmem::system::netdev::Netdev;
use netmem::system::packet::PacketSocket;
use netmem::wire::offload::{Gso, GsoKind, Offload, PartialChecksum};
use netmem::wire::{Ipv4, ethernet};
use netns::{Wire, in_namespace, ip, veth};
use std::io::IoSlice;
use std::num::NonZeroU16;
use std::thread::yield_now;

/// A packet of an unassigned type, between two addresses.
fn packet(number: u8) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5][..], &[number; 46]].concat()
}

fn send(packets: u8) {
    let wire = Wire::open("a1");
    (0..packets).for_each(|number| wire.send(&packet(number)));
}

/// Waits until that many packets are in the socket's buffer.
fn wait_for(port: &mut AfPacketPort, packets: usize) {
    while port.rx_pending() != Some(packets) {
        yield_now();
    }
}

/// Makes a port on a new interface with at most `ring` posted frames, and that many packets in its socket's buffer.
fn port_with(packets: u8, ring: usize) -> AfPacketPort {
    veth("a0", "a1", 1);
    let mut port = AfPacketPort::open("a0", &AfPacketConfig { ring, ..Default::default() }).unwrap();
    send(packets);
    wait_for(&mut port, packets.into());
    port
}

/// Receives packets, and returns their numbers.
fn receive(port: &mut (impl Port + ?Sized), fixture: &mut Fixture) -> Vec<u8> {
    let mut batch = Batch::new();
    port.refill(&mut fixture.w, &fixture.pool);
    port.rx(&mut fixture.w, &mut batch);
    let numbers = batch.iter().map(|frame| *frame.data().last().unwrap()).collect();
    batch.free(&mut fixture.w);
    numbers
}

/// Removes the port's interface, and makes another one of its name.
fn make_again(port: &AfPacketPort) -> u32 {
    let before = port.device().netdev().index();
    ip("link del a0");
    veth("a0", "a1", 1);
    before
}

#[test]
fn packets_that_were_not_taken_when_a_port_was_closed_are_counted() {
    in_namespace("packets_that_were_not_taken_when_a_port_was_closed_are_counted", || {
        let mut port = port_with(10, 3);
        assert_eq!(receive(&mut port, &mut Fixture::new(64)), [0, 1, 2]);
        let counters = port.counters();
        drop(port);
        assert_eq!((counters.rx.get(), counters.rx_dropped.get(), counters.rx_drops()), (3, 7, 7));
    });
}

#[test]
fn packets_that_came_before_the_interface_was_removed_are_received_and_then_those_of_the_next_one() {
    let test =
        "packets_that_came_before_the_interface_was_removed_are_received_and_then_those_of_the_next_one";
    in_namespace(test, || {
        let (mut port, mut fixture) = (port_with(40, 3), Fixture::new(64));
        let removed = make_again(&port);
        let mut received = Vec::new();
        while port.device().netdev().index() == removed {
            received.extend(receive(&mut port, &mut fixture));
            port.kick();
            // As before a worker sleeps. It looks at the interface each time.
            let _ = port.arm();
            port.disarm();
        }
        assert_eq!(received, (0..40).collect::<Vec<u8>>());
        assert_eq!(port.state(), PortState::Up);
        send(2);
        wait_for(&mut port, 2);
        assert_eq!(receive(&mut port, &mut fixture), [0, 1]);
        let counters = port.counters();
        drop(port);
        assert_eq!((counters.rx.get(), counters.rx_drops()), (42, 0));
    });
}

#[test]
fn packets_left_in_the_buffer_do_not_hold_up_the_next_interface_and_are_counted_once() {
    let test = "packets_left_in_the_buffer_do_not_hold_up_the_next_interface_and_are_counted_once";
    in_namespace(test, || {
        let mut port = port_with(10, 3);
        let removed = make_again(&port);
        while port.device().netdev().index() == removed {
            let _ = port.arm();
            port.disarm();
        }
        let counters = port.counters();
        assert_eq!((counters.rx.get(), counters.rx_dropped.get()), (0, 10));
        send(2);
        wait_for(&mut port, 2);
        drop(port);
        assert_eq!(counters.rx_dropped.get(), 12);
    });
}

/// Seen: they stayed in the buffer until the interface was up again, hours later, and a worker that sleeps found the port
/// ready in each round.
#[test]
fn packets_that_came_before_the_interface_went_down_are_received() {
    in_namespace("packets_that_came_before_the_interface_went_down_are_received", || {
        let (mut port, mut fixture) = (port_with(10, 3), Fixture::new(64));
        let mut host = TapPort::open("t0", &TapConfig::default()).unwrap();
        Wire::open("t0").send(&packet(7));
        while !host.arm() {
            yield_now();
        }
        ip("link set a0 down");
        ip("link set t0 down");
        let mut received = Vec::new();
        while received.len() < 10 {
            received.extend(receive(&mut port, &mut fixture));
        }
        assert_eq!(received, (0..10).collect::<Vec<u8>>());
        assert_eq!(receive(&mut host, &mut fixture), [7]);
        let ports: [&mut dyn Port; 2] = [&mut port, &mut host];
        for port in ports {
            assert!(!port.arm(), "no packet is left");
            port.disarm();
            assert!(matches!(port.state(), PortState::Down(reason) if reason.contains("is down")));
        }
    });
}

/// A TCP packet of four segments, whose checksums are left to a card.
fn packet_of_four_segments() -> (Vec<u8>, Offload) {
    let mut packet = [&packet(0)[..12], &[8, 0, 0x45, 0]].concat();
    let (payload, start) = (2000, ethernet::HEADER_LEN + 20);
    packet.extend((40 + payload as u16).to_be_bytes());
    packet.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    Ipv4::seal(&mut packet[ethernet::HEADER_LEN..]);
    packet.extend([0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    packet.resize(start + 20 + payload, 7);
    let checksum = PartialChecksum { start: start as u16, offset: 16 };
    let gso = Gso { kind: GsoKind::TcpV4, size: NonZeroU16::new(500).unwrap() };
    (packet, Offload { checksum: Some(checksum), gso: Some(gso) })
}

/// Sends it out of the interface.
fn send_packet_of_four_segments(interface: &str) {
    let (packet, offload) = packet_of_four_segments();
    let sender = PacketSocket::open(Netdev::open(interface).unwrap().index()).unwrap();
    let header = offload.to_virtio(&packet);
    assert_eq!(sender.send(&[(header, IoSlice::new(&packet))]), Ok(1));
}

#[test]
fn a_packet_whose_segments_were_taken_in_part_when_a_port_was_closed_is_counted() {
    let test = "a_packet_whose_segments_were_taken_in_part_when_a_port_was_closed_is_counted";
    in_namespace(test, || {
        let mut port = port_with(0, 2);
        send_packet_of_four_segments("a1");
        wait_for(&mut port, 1);
        assert_eq!(receive(&mut port, &mut Fixture::new(64)).len(), 2);
        let counters = port.counters();
        drop(port);
        assert_eq!((counters.rx.get(), counters.rx_dropped.get(), counters.gso_cut.get()), (2, 1, 0));
    });
}

#[test]
fn a_packet_whose_segments_were_taken_in_part_when_a_tap_port_was_closed_is_counted() {
    let test = "a_packet_whose_segments_were_taken_in_part_when_a_tap_port_was_closed_is_counted";
    in_namespace(test, || {
        let mut port = TapPort::open("t0", &TapConfig { ring: 1, ..TapConfig::default() }).unwrap();
        // Otherwise the kernel cuts it.
        assert!(port.keep_offloads(true));
        send_packet_of_four_segments("t0");
        let mut fixture = Fixture::new(64);
        while receive(&mut port, &mut fixture).is_empty() {
            yield_now();
        }
        let counters = port.counters();
        drop(port);
        assert_eq!((counters.rx.get(), counters.rx_dropped.get(), counters.gso_cut.get()), (1, 1, 0));
    });
}

/// Seen: a packet that came between an empty reception and `arm` was reported by nobody to a task that waits for edges. It
/// was received up to a second later.
#[test]
fn a_port_that_is_armed_reports_packets_that_came_before() {
    in_namespace("a_port_that_is_armed_reports_packets_that_came_before", || {
        let mut packets = port_with(1, 3);
        let mut host = TapPort::open("t0", &TapConfig::default()).unwrap();
        assert!(!host.arm(), "no frame has come");
        host.disarm();
        Wire::open("t0").send(&packet(7));
        let ports: [(&mut dyn Port, u8); 2] = [(&mut packets, 0), (&mut host, 7)];
        for (port, number) in ports {
            // The packet may still be on its way through the host's queue.
            while !port.arm() {
                yield_now();
            }
            assert_eq!(receive(&mut *port, &mut Fixture::new(64)), [number]);
            assert!(!port.arm(), "there is no other one");
        }
    });
}

/// Seen: the host dropped thousands of packets because the queue of a TAP interface was full, and no counter had them.
#[test]
fn packets_that_the_host_dropped_at_a_full_queue_of_a_tap_interface_are_counted_once() {
    let test = "packets_that_the_host_dropped_at_a_full_queue_of_a_tap_interface_are_counted_once";
    in_namespace(test, || {
        for (name, queues) in [("t0", 1), ("t1", 3)] {
            let config = TapConfig { multi_queue: queues > 1, ..TapConfig::default() };
            let open = || TapPort::open(name, &config).unwrap();
            let mut ports: Vec<_> = (0..queues).map(|_| open()).collect();
            ip(&format!("link set {name} txqueuelen 8"));
            let wire = Wire::open(name);
            (0..40).for_each(|number| wire.send(&packet(number)));
            let dropped = || {
                let path = format!("/sys/class/net/{name}/statistics/tx_dropped");
                std::fs::read_to_string(path).unwrap().trim().parse::<u64>().unwrap()
            };
            let mut received = 0;
            while received + dropped() < 40 {
                let of = |port| receive(port, &mut Fixture::new(64)).len() as u64;
                received += ports.iter_mut().map(of).sum::<u64>();
            }
            let (dropped, counters) = (dropped(), ports.iter().map(|port| port.counters()));
            let counters: Vec<_> = counters.collect();
            // The last ones are counted when the port is dropped.
            (0..40).for_each(|number| wire.send(&packet(number)));
            drop(ports);
            let counted: u64 = counters.iter().map(|of| of.rx_ring_full.get()).sum();
            assert!(dropped > 0 && counted > dropped, "{name}: {counted} counted, {dropped} before the last");
            assert!(counted <= 80 - received, "{name}: {counted} counted, {received} received");
        }
    });
}
