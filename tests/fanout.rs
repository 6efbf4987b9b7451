//! `packet` ports that share the packets of an interface: in network namespaces, as root.

#![allow(clippy::unwrap_used)]

// It uses a part of this.
#[allow(dead_code)]
mod netns;

use netmem::pool::Batch;
use netmem::port::af_packet::{AfPacketConfig, AfPacketError, AfPacketPort, FanoutGroup};
use netmem::port::conformance::Fixture;
use netmem::port::{Fill, Port, PortState, Rx, Tx, Wake};
use netns::{Wire, in_namespace, ip, veth};
use std::thread::{sleep, yield_now};
use std::time::Duration;

const FLOWS: u16 = 64;

/// A UDP packet of a flow, which is its source port, and its number in the flow.
fn packet(flow: u16, number: u8) -> Vec<u8> {
    let ethernet = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let ip = [0x45, 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let udp = [&flow.to_be_bytes()[..], &[0, 53, 0, 9, 0, 0, number]].concat();
    [&ethernet[..], &ip, &udp].concat()
}

/// The flow and the number of a packet.
fn name(packet: &[u8]) -> (u16, u8) {
    (u16::from_be_bytes([packet[34], packet[35]]), packet[42])
}

fn send(numbers: std::ops::Range<u8>) {
    let wire = Wire::open("a1");
    numbers.for_each(|number| (0..FLOWS).for_each(|flow| wire.send(&packet(flow, number))));
}

fn open() -> AfPacketPort {
    AfPacketPort::open("a0", &AfPacketConfig { ring: 512, ..Default::default() }).unwrap()
}

/// Receives until all ports together have that many packets. Returns those of each port.
fn receive(ports: &mut [AfPacketPort], fixture: &mut Fixture, all: usize) -> Vec<Vec<(u16, u8)>> {
    let mut received = vec![Vec::new(); ports.len()];
    while received.iter().map(Vec::len).sum::<usize>() < all {
        for (port, received) in ports.iter_mut().zip(&mut received) {
            let mut batch = Batch::new();
            port.refill(&mut fixture.w, &fixture.pool);
            port.rx(&mut fixture.w, &mut batch);
            received.extend(batch.iter().map(|frame| name(frame.data())));
            batch.free(&mut fixture.w);
        }
        yield_now();
    }
    // A packet that came twice would be here now: the kernel delivers to all sockets within the send.
    assert!(ports.iter_mut().all(|port| port.rx_pending() == Some(0)));
    received
}

/// Lets each port look at its interface until it is as wanted.
fn look_until(ports: &mut [AfPacketPort], is_reached: impl Fn(&AfPacketPort) -> bool) {
    for port in ports {
        while !is_reached(port) {
            port.kick();
            // As before a worker sleeps. It looks at the interface each time.
            let _ = port.arm();
            port.disarm();
        }
    }
}

/// Checks that each port received some flows, and no two ports the same one.
fn assert_shared(received: &[Vec<(u16, u8)>], numbers: std::ops::Range<u8>) {
    let mut flows: Vec<u16> = Vec::new();
    for one in received {
        assert!(!one.is_empty(), "a port received nothing");
        let mut own: Vec<u16> = one.iter().map(|(flow, _)| *flow).collect();
        own.sort_unstable();
        own.dedup();
        for flow in &own {
            let of_it = one.iter().filter(|(of, _)| of == flow).map(|(_, number)| *number);
            assert!(of_it.eq(numbers.clone()), "flow {flow}: in order, each packet once");
        }
        flows.extend(own);
    }
    flows.sort_unstable();
    assert!(flows.into_iter().eq(0..FLOWS), "each flow has one port");
}

#[test]
fn ports_of_a_group_share_the_packets_by_flow_and_none_receives_what_another_sends() {
    let test = "ports_of_a_group_share_the_packets_by_flow_and_none_receives_what_another_sends";
    in_namespace(test, || {
        veth("a0", "a1", 1);
        let (group, mut fixture) = (FanoutGroup::default(), Fixture::new(2048));
        let mut ports = vec![open(), open(), open()];
        ports.iter_mut().for_each(|port| port.join(&group).unwrap());
        send(0..4);
        let received = receive(&mut ports, &mut fixture, 4 * usize::from(FLOWS));
        assert_shared(&received, 0..4);
        let mut batch = Batch::new();
        fixture.pool.alloc_burst(&mut fixture.w, &mut batch, 8);
        let sent = packet(9, 0);
        batch.iter_mut().for_each(|frame| frame.put(sent.len()).unwrap().copy_from_slice(&sent));
        assert_eq!(ports[0].tx(&mut fixture.w, &mut batch), 8);
        ports[0].kick();
        assert!(ports.iter_mut().all(|port| port.rx_pending() == Some(0)));
        // The flows of a port that is closed go to the others.
        ports.truncate(1);
        send(0..2);
        receive(&mut ports, &mut fixture, 2 * usize::from(FLOWS));
    });
}

/// Seen: the documentation promised all packets of a flow to one port, and the fragments of a flow came to another.
#[test]
fn all_fragments_between_two_addresses_come_to_one_port_whatever_their_flow() {
    in_namespace("all_fragments_between_two_addresses_come_to_one_port_whatever_their_flow", || {
        veth("a0", "a1", 1);
        let (group, mut fixture) = (FanoutGroup::default(), Fixture::new(2048));
        let mut ports = vec![open(), open(), open()];
        ports.iter_mut().for_each(|port| port.join(&group).unwrap());
        let wire = Wire::open("a1");
        for flow in 0..FLOWS {
            // The first fragment, which has the ports, and a later one.
            for (number, offset) in [(0, [0x20, 0]), (1, [0, 1])] {
                let mut fragment = packet(flow, number);
                fragment[20..22].copy_from_slice(&offset);
                wire.send(&fragment);
            }
        }
        let received = receive(&mut ports, &mut fixture, 2 * usize::from(FLOWS));
        let mut numbers: Vec<usize> = received.iter().map(Vec::len).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 0, 2 * usize::from(FLOWS)]);
    });
}

#[test]
fn packets_that_came_before_a_port_joined_are_received_by_the_first_port_only() {
    let test = "packets_that_came_before_a_port_joined_are_received_by_the_first_port_only";
    in_namespace(test, || {
        veth("a0", "a1", 1);
        let (group, mut fixture) = (FanoutGroup::default(), Fixture::new(2048));
        let mut first = open();
        first.join(&group).unwrap();
        let mut ports = [open()];
        send(0..1);
        receive(&mut ports, &mut fixture, usize::from(FLOWS));
        let [mut second] = ports;
        send(0..2);
        // As far as the port has looked, and then all.
        while second.rx_pending() < Some(usize::from(FLOWS)) {
            yield_now();
        }
        while first.rx_pending() < Some(3 * usize::from(FLOWS)) {
            yield_now();
        }
        second.join(&group).unwrap();
        assert_eq!((first.rx_pending(), second.rx_pending()), (Some(192), Some(0)));
        let counters = second.counters();
        let mut ports = [first, second];
        receive(&mut ports, &mut fixture, 3 * usize::from(FLOWS));
        drop(ports);
        assert_eq!((counters.rx.get(), counters.rx_drops()), (64, 0));
    });
}

/// Seen: they were in no counter, and no other port had received them.
#[test]
fn what_the_first_port_of_a_group_had_received_before_stays_with_it() {
    in_namespace("what_the_first_port_of_a_group_had_received_before_stays_with_it", || {
        veth("a0", "a1", 1);
        let (group, mut fixture) = (FanoutGroup::default(), Fixture::new(2048));
        let mut ports = [open()];
        send(0..1);
        ports[0].join(&group).unwrap();
        receive(&mut ports, &mut fixture, usize::from(FLOWS));
    });
}

/// Seen: it was down for minutes after its interface had come up, because only a number of rounds was counted.
#[test]
fn a_port_that_is_kicked_now_and_then_sees_within_a_few_rounds_that_its_interface_is_up() {
    let test = "a_port_that_is_kicked_now_and_then_sees_within_a_few_rounds_that_its_interface_is_up";
    in_namespace(test, || {
        veth("a0", "a1", 1);
        let mut port = open();
        for (to, is_up) in [("down", false), ("up", true)] {
            ip(&format!("link set a0 {to}"));
            let mut rounds = 0;
            while (port.state() == PortState::Up) != is_up {
                rounds += 1;
                assert!(rounds < 200, "{to}: {:?}", port.state());
                sleep(Duration::from_millis(20));
                port.kick();
            }
        }
    });
}

#[test]
fn a_group_shares_the_packets_of_the_next_interface_also_if_it_has_the_same_number() {
    let test = "a_group_shares_the_packets_of_the_next_interface_also_if_it_has_the_same_number";
    in_namespace(test, || {
        let make = |index| {
            ip(&format!("link add a0 index {index} type veth peer name a1"));
            ip("link set dev a0 up");
            ip("link set dev a1 up");
        };
        make(77);
        let (group, mut fixture) = (FanoutGroup::default(), Fixture::new(2048));
        let mut ports = [open(), open()];
        ports.iter_mut().for_each(|port| port.join(&group).unwrap());
        for index in [79, 79, 77] {
            ip("link del a0");
            look_until(&mut ports, |port| port.state() != PortState::Up);
            make(index);
            look_until(&mut ports, |port| port.state() == PortState::Up);
            send(0..2);
            let received = receive(&mut ports, &mut fixture, 2 * usize::from(FLOWS));
            assert_shared(&received, 0..2);
        }
    });
}

#[test]
fn a_port_of_another_interface_is_refused_and_goes_on_alone() {
    in_namespace("a_port_of_another_interface_is_refused_and_goes_on_alone", || {
        veth("a0", "a1", 1);
        let group = FanoutGroup::default();
        let mut port = open();
        port.join(&group).unwrap();
        let mut other = AfPacketPort::open("a1", &AfPacketConfig::default()).unwrap();
        assert_eq!(other.join(&group), Err(AfPacketError::OtherGroup("a1".into())));
        assert_eq!(other.state(), PortState::Up);
        assert!(port.join(&group).unwrap_err().to_string().starts_with("join fanout group for a0: "));
        drop(port);
        other.join(&group).unwrap();
    });
}
