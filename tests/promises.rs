//! What every port promises, of those ports that need an interface: in network namespaces, as root.

#![allow(clippy::unwrap_used)]

// It uses a part of this.
#[allow(dead_code)]
mod netns;
#[path = "../src/port/tests/promises.rs"]
mod promises;
// As above.
#[allow(dead_code)]
#[path = "../src/port/tests/runts.rs"]
mod runts;

use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::port::tap::{TapConfig, TapPort};
use netmem::port::xdp::{RingSizes, Umem, XdpConfig, XdpPort, XdpQueues};
// The shared promises name these by `crate::`.
use netmem::port::conformance::{Fixture, Peer, PortPeer};
use netmem::{page, pool, port};
use netns::{in_namespace, veth};
use promises::are_kept;

/// A host at the interface of that name.
fn host(interface: &str) -> Box<dyn Peer> {
    Box::new(PortPeer {
        port: Box::new(AfPacketPort::open(interface, &AfPacketConfig::default()).unwrap()),
        fixture: Fixture::new(512),
    })
}

#[test]
fn a_packet_port_keeps_its_promises() {
    in_namespace("a_packet_port_keeps_its_promises", || {
        veth("a0", "a1", 1);
        are_kept(|_| (Box::new(AfPacketPort::open("a0", &AfPacketConfig { ring: 48 }).unwrap()), host("a1")));
    });
}

#[test]
fn a_tap_port_keeps_its_promises() {
    in_namespace("a_tap_port_keeps_its_promises", || {
        are_kept(|_| {
            let port = TapPort::open("t0", &TapConfig { ring: 48, ..TapConfig::default() }).unwrap();
            (Box::new(port), host("t0"))
        });
    });
}

#[test]
fn an_xdp_port_keeps_its_promises() {
    in_namespace("an_xdp_port_keeps_its_promises", || {
        veth("a0", "a1", 1);
        let rings = RingSizes { fill: 64, rx: 64, tx: 32, completion: 32 };
        let config = XdpConfig { rings, ..XdpConfig::default() };
        are_kept(|here| {
            let umem = Umem::new(&here.memory);
            let port = XdpPort::open(&umem, &mut here.w, &here.pool, "a0", 0, &config).unwrap();
            (Box::new(port), host("a1"))
        });
    });
}

#[test]
fn an_xdp_port_of_several_queues_keeps_its_promises() {
    in_namespace("an_xdp_port_of_several_queues_keeps_its_promises", || {
        veth("a0", "a1", 3);
        let rings = RingSizes { fill: 32, rx: 32, tx: 32, completion: 32 };
        let config = XdpConfig { rings, ..XdpConfig::default() };
        are_kept(|here| {
            let umem = Umem::new(&here.memory);
            let port = XdpQueues::open(&umem, &mut here.w, &here.pool, "a0", &[0, 1, 2], &config).unwrap();
            (Box::new(port), host("a1"))
        });
    });
}

/// Bytes of the shortest frame that an interface of the kernel carries.
const HEADER: usize = 14;

#[test]
fn a_runt_through_a_packet_port_comes_without_a_byte_of_an_earlier_packet() {
    in_namespace("a_runt_through_a_packet_port_comes_without_a_byte_of_an_earlier_packet", || {
        veth("a0", "a1", 1);
        runts::come_alone(HEADER, |_| {
            (Box::new(AfPacketPort::open("a0", &AfPacketConfig { ring: 48 }).unwrap()), host("a1"))
        });
    });
}

#[test]
fn a_runt_through_a_tap_port_comes_without_a_byte_of_an_earlier_packet() {
    in_namespace("a_runt_through_a_tap_port_comes_without_a_byte_of_an_earlier_packet", || {
        runts::come_alone(HEADER, |_| {
            let port = TapPort::open("t0", &TapConfig { ring: 48, ..TapConfig::default() }).unwrap();
            (Box::new(port), host("t0"))
        });
    });
}

#[test]
fn a_runt_through_an_xdp_port_comes_without_a_byte_of_an_earlier_packet() {
    in_namespace("a_runt_through_an_xdp_port_comes_without_a_byte_of_an_earlier_packet", || {
        veth("a0", "a1", 1);
        let rings = RingSizes { fill: 64, rx: 64, tx: 32, completion: 32 };
        let config = XdpConfig { rings, ..XdpConfig::default() };
        runts::come_alone(HEADER, |here| {
            let umem = Umem::new(&here.memory);
            let port = XdpPort::open(&umem, &mut here.w, &here.pool, "a0", 0, &config).unwrap();
            (Box::new(port), host("a1"))
        });
    });
}
