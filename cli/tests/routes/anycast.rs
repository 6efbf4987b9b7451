//! Two servers of one address behind equal-cost routes, and errors about the packets that each of them sent.

use crate::frames::Wire;
use crate::router::{Router, addressed};
use netmem::wire::{Ipv4, Ipv6, Udp, ethernet, icmp, ipv4, ipv6, udp};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The service's address, a client, and a router beyond netmem that sends errors, in each family.
const HOSTS: [[&str; 3]; 2] =
    [["10.88.0.1", "10.77.1.1", "10.77.1.9"], ["fd88::1", "fd77:1::1", "fd77:1::9"]];
const SERVICE: u16 = 53;
/// The client's ports, one for each flow.
const FLOWS: std::ops::Range<u16> = 1000..1040;
/// The port of the packet that is sent behind all others.
const MARK: u16 = 999;

/// Returns an IP packet.
fn packet(src: &str, dst: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    match (src.parse().expect("an address"), dst.parse().expect("an address")) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            [&Ipv4::new(src, dst, protocol, 64, length).to_bytes(), payload].concat()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            [&Ipv6::new(src, dst, protocol, 64, length).to_bytes(), payload].concat()
        }
        _ => panic!("{src} and {dst} have different IP versions"),
    }
}

fn datagram(src: &str, dst: &str, ports: [u16; 2]) -> Vec<u8> {
    packet(src, dst, ipv4::UDP, &Udp::new(ports[0], ports[1], 0).to_bytes())
}

/// Returns an error that a packet is too big. Its checksum, which no router examines, is missing.
fn too_big(src: &str, dst: &str, quoted: &[u8]) -> Vec<u8> {
    let (protocol, [kind, code]) =
        if src.contains(':') { (icmp::PROTOCOL_V6, [2, 0]) } else { (icmp::PROTOCOL, [3, 4]) };
    let header = [kind, code, 0, 0, 0, 0, 5, 20];
    packet(src, dst, protocol, &[&header, quoted].concat())
}

/// Sends a packet of each flow, and an error about a packet of the service in each flow. Returns the stations that got
/// packets of a flow, by the client's port.
fn stations(router: &Router, [service, client, beyond]: [&str; 3]) -> BTreeMap<u16, BTreeSet<Vec<u8>>> {
    let is_v6 = service.contains(':');
    let ethertype = if is_v6 { ethernet::IPV6 } else { ethernet::IPV4 };
    let link = [&[2, 0, 0, 0, 1, 0xfe][..], &[2, 0, 0, 0, 1, 1], &ethertype.to_be_bytes()].concat();
    let (mut h1, mut h2) = (Wire::of(&router.bed.h1), Wire::of(&router.bed.h2));
    for port in FLOWS {
        let answer = datagram(service, client, [SERVICE, port]);
        for packet in [datagram(client, service, [port, SERVICE]), too_big(beyond, service, &answer)] {
            h1.send(&[&link[..], &packet].concat());
        }
    }
    h1.send(&[&link[..], &datagram(client, service, [MARK, SERVICE])].concat());

    let header = if is_v6 { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    // The client's port is the source of a datagram, and the destination of one that is quoted.
    let port = |frame: &[u8]| {
        let (link, packet) = frame.split_at_checked(ethernet::HEADER_LEN)?;
        let bytes = packet.get(header..).filter(|_| link[12..] == ethertype.to_be_bytes())?;
        let at = if bytes.len() == udp::HEADER_LEN { 0 } else { icmp::HEADER_LEN + header + 2 };
        Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
    };
    let come = h2.receive_until(|frame| port(frame) == Some(MARK));
    let mut stations = BTreeMap::<u16, BTreeSet<Vec<u8>>>::new();
    let mut number = 0;
    for (port, frame) in come.iter().filter_map(|frame| Some((port(frame)?, frame))) {
        if FLOWS.contains(&port) {
            stations.entry(port).or_default().insert(frame[..6].to_vec());
            number += 1;
        }
    }
    assert_eq!(number, 2 * FLOWS.len(), "packets and errors to {service}");
    stations
}

/// Seen: errors about the packets of one server reached the other, so servers did not learn the path MTU. Transfers to
/// half of the clients behind a link of a smaller MTU stopped.
#[test]
fn errors_reach_the_server_that_their_flow_reaches_over_equal_cost_routes() {
    for ports in [["packet:one", "packet:two"], ["xdp:one", "xdp:two"]] {
        let Some(bed) = addressed(&[]) else { return };
        for last in [8, 9] {
            for next in ["10.77.2.", "fd77:2::"] {
                bed.dut.ip(&format!("neigh replace {next}{last} lladdr 02:00:00:00:02:0{last} dev two"));
            }
        }
        bed.dut.ip("route add 10.88.0.0/16 nexthop via 10.77.2.8 nexthop via 10.77.2.9");
        bed.dut.ip("-6 route add fd88::/32 nexthop via fd77:2::8 nexthop via fd77:2::9");
        let router = Router::start_in(bed, ports, &[]);
        for hosts in HOSTS {
            let stations = stations(&router, hosts);
            let split = stations.iter().filter(|(_, stations)| stations.len() > 1).count();
            assert_eq!(split, 0, "of {} flows errors reached another server", stations.len());
            let used: BTreeSet<_> = stations.values().flatten().collect();
            assert_eq!(used.len(), 2, "all flows take both paths");
        }
        router.end();
    }
}
