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
use netmem::{Batch, Port, page, pool, port};
use netns::{Wire, in_namespace, ip, veth};
use promises::are_kept;

/// A host at the interface of that name.
fn host(interface: &str) -> Box<dyn Peer> {
    Box::new(PortPeer {
        port: Box::new(AfPacketPort::open(interface, &AfPacketConfig::default()).unwrap()),
        fixture: Fixture::new(512),
    })
}

fn packet_port() -> AfPacketPort {
    AfPacketPort::open("a0", &AfPacketConfig { ring: 48, ..Default::default() }).unwrap()
}

#[test]
fn a_packet_port_keeps_its_promises() {
    in_namespace("a_packet_port_keeps_its_promises", || {
        veth("a0", "a1", 1);
        are_kept(|_| (Box::new(packet_port()), host("a1")));
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
        runts::come_alone(HEADER, |_| (Box::new(packet_port()), host("a1")));
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

/// Sends packets to the port that are too long to lie behind the data's start in most frames, and checks that all come.
fn takes_long_ones(port: &mut dyn Port, wire: &Wire) {
    let Fixture { mut w, pool, .. } = Fixture::new(128);
    let mut frames = Batch::new();
    for (i, len) in [1519, 1537, 1600, 1984].into_iter().cycle().take(128).enumerate() {
        let mut packet = vec![2, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 0x88, 0xb5];
        packet.extend((packet.len()..len).map(|at| (at / 3 + i) as u8));
        port.refill(&mut w, &pool);
        wire.send(&packet);
        for _ in 0..100_000 {
            port.kick();
            if port.rx(&mut w, &mut frames) > 0 {
                break;
            }
        }
        let is_whole = frames.len() == 1 && frames[0].data() == packet && frames[0].headroom() >= 64;
        assert!(is_whole, "{len} bytes, number {i}: {frames:?}, {:?}", port.counters());
        frames.free(&mut w);
    }
    assert_eq!(port.counters().rx_drops(), 0);
}

/// Seen: of 300 packets of 1,600 bytes, 288 were dropped, by the frame that each came to.
#[test]
fn a_packet_as_long_as_the_frame_less_its_headroom_is_received_by_a_packet_port_and_a_tap_port() {
    let name = "a_packet_as_long_as_the_frame_less_its_headroom_is_received_by_a_packet_port_and_a_tap_port";
    in_namespace(name, || {
        veth("a0", "a1", 1);
        ["a0", "a1"].iter().for_each(|name| drop(ip(&format!("link set dev {name} mtu 2000"))));
        let mut port = packet_port();
        takes_long_ones(&mut port, &Wire::open("a1"));
        let mut port = TapPort::open("t0", &TapConfig { ring: 48, ..TapConfig::default() }).unwrap();
        ip("link set dev t0 mtu 2000");
        takes_long_ones(&mut port, &Wire::open("t0"));
    });
}
