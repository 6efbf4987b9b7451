//! The path of errors to a host to which several paths lead.

use super::*;
use netmem::wire::{Icmp, ethernet, ipv6};
use std::net::IpAddr;

/// Makes a router with two paths to 10.7/16 and to fd00:7::/32, one by each port.
fn with_two_paths(way: Way) -> RouterRig {
    let mut router = RouterRig::new(way);
    let nets = [("10.7.0.0/16", ["10.0.0.7", "10.1.0.7"]), ("fd00:7::/32", ["fd00:a::7", "fd00:b::7"])];
    for ((net, hops), id) in nets.into_iter().zip(90..) {
        let paths = [0, 1].map(|port: u8| {
            let address = hops[usize::from(port)].parse().unwrap();
            let known = Change::Neighbour(Neighbour { port, address }, Some(HOSTS[usize::from(port)]));
            router.control.apply(vec![known]);
            Path { port: Some(port), via: Some(address), weight: 1, mtu: None }
        });
        let route = Change::Route(net.parse().unwrap(), HopId(id));
        router.control.apply(vec![Change::Paths(HopId(id), paths.into()), route]);
    }
    router
}

/// Makes a datagram whose flow in the other direction is that of `datagram(dst, src, …)`.
fn answer(src: &str, dst: &str) -> Vec<u8> {
    let mut answer = datagram(src, dst, 64, 9);
    let ip = if src.contains(':') { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
    answer[ethernet::HEADER_LEN + ip..][..4].rotate_left(2);
    answer
}

/// Makes an error that a packet is too big, which quotes the packet in a frame.
fn too_big(src: &str, dst: &str, frame: &[u8]) -> Vec<u8> {
    let quoted = &frame[ethernet::HEADER_LEN..];
    match (src.parse().unwrap(), dst.parse().unwrap()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let length = (icmp::HEADER_LEN + quoted.len()) as u16;
            let message = [Icmp::v4(3, 4, 1300, quoted).as_bytes(), quoted].concat();
            over_v4(Ipv4::new(src, dst, icmp::PROTOCOL, 64, length), &message)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let message = [Icmp::v6(2, 0, 1300, quoted, src, dst).as_bytes(), quoted].concat();
            over_v6((src, dst), icmp::PROTOCOL_V6, 64, &message)
        }
        _ => panic!("{src} and {dst} have different IP versions"),
    }
}

/// Returns the port by which a frame leaves that comes in on port 0.
#[track_caller]
fn path(router: &mut RouterRig, sent: &[u8]) -> usize {
    let left = router.pass(0, sent);
    let [(port, _)] = &left[..] else { panic!("{} frames left", left.len()) };
    *port
}

/// Seen: of several servers with one address behind several paths, one sent packets that were too big, and another got
/// the errors about them.
#[test]
fn rfc7690_an_error_takes_the_path_of_the_flow_that_it_is_about() {
    for way in WAYS {
        let mut router = with_two_paths(way);
        for (clients, server, from) in
            [("10.0.1.", "10.7.0.1", "10.0.9.9"), ("fd00:a::1:", "fd00:7::1", "fd00:a::9")]
        {
            let mut seen = [0; 2];
            for host in 1..=40 {
                let client = format!("{clients}{host}");
                let port = path(&mut router, &datagram(&client, server, 64, 9));
                let error = too_big(from, server, &answer(server, &client));
                assert_eq!(path(&mut router, &error), port, "about a packet to {client}");
                seen[port] += 1;
            }
            assert!(seen.iter().all(|flows| *flows > 5), "{seen:?}");
        }
        router.end();
    }
}

#[test]
fn rfc7690_the_routers_own_errors_take_the_path_of_the_flow_too() {
    for way in WAYS {
        let mut router = with_two_paths(way);
        for (sources, dst, nowhere) in
            [("10.7.0.", "10.0.1.1", "10.9.0.1"), ("fd00:7::", "fd00:a::1:1", "fd00:9::1")]
        {
            let mut seen = [0; 2];
            for host in 1..=10 {
                let source = format!("{sources}{host}");
                // The hop limit of one packet ends here, and to the other's destination there is no route.
                for dst in [dst, nowhere] {
                    let port = path(&mut router, &answer(dst, &source));
                    let error = path(&mut router, &datagram(&source, dst, 1, 9));
                    assert_eq!(error, port, "about a packet of {source} to {dst}");
                    seen[port] += 1;
                }
            }
            assert!(seen.iter().all(|errors| *errors > 2), "{seen:?}");
        }
        let said = [(Message::NetUnreachable, 20), (Message::TimeExceeded, 20)];
        assert!(said.iter().all(|said| router.said().contains(said)), "{:?}", router.said());
        router.end();
    }
}
