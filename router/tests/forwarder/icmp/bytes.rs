//! The contents of errors, byte for byte.

use super::*;
use netmem::wire::Ipv6;

/// By destination and hop limit: the type, the code, the second word, and the drop's name.
const CASES: [(&str, u8, usize, [u32; 3], &str); 13] = [
    ("10.1.0.1", 1, 9, [11, 0, 0], "ttl_expired"),
    ("10.9.0.1", 64, 9, [3, 0, 0], "no_route"),
    ("10.2.0.1", 64, 9, [3, 1, 0], "unreachable"),
    ("10.5.0.9", 64, 9, [3, 1, 0], "neigh_failed"),
    ("10.3.0.1", 64, 9, [3, 13, 0], "prohibited"),
    ("10.1.0.1", 64, 1400, [3, 4, 1400], "pkt_too_big"),
    ("fd00:b::1", 1, 9, [3, 0, 0], "ttl_expired"),
    ("fd00:9::1", 64, 9, [1, 0, 0], "no_route"),
    ("fd00:2::1", 64, 9, [1, 3, 0], "unreachable"),
    ("fd00:5::9", 64, 9, [1, 3, 0], "neigh_failed"),
    ("fd00:3::1", 64, 9, [1, 1, 0], "prohibited"),
    ("fd00:b::1", 64, 1400, [2, 0, 1400], "pkt_too_big"),
    ("fd00:b::1", 0, 9, [3, 0, 0], "ttl_expired"),
];

#[test]
fn each_reason_has_its_type_and_code_and_the_packet_is_quoted_from_its_first_byte() {
    for (way, (dst, hops, payload, [kind, code, rest], reason)) in
        WAYS.iter().flat_map(|way| CASES.map(|case| (*way, case)))
    {
        let mut router = RouterRig::new(way);
        let v6 = usize::from(dst.contains(':'));
        let sent = datagram(HOST[v6], dst, hops, payload);
        let said = said(&mut router, &sent);
        assert_eq!([said.kind.into(), said.code.into(), said.rest], [kind, code, rest], "{dst} {reason}");
        let own = ["10.0.255.254", "fd00:a::fe"][v6];
        assert_eq!((said.src.to_string(), said.dst.to_string()), (own.into(), HOST[v6].into()));
        assert_eq!(said.hops, 64);
        let most = [576 - 28, 1280 - 48][v6];
        assert_eq!(said.quoted, sent[14..sent.len().min(14 + most)], "{dst} {reason}");
        assert_eq!(router.drops(), [(reason, 1)]);
        router.end();
    }
}

#[test]
fn an_error_has_precedence_6_the_packets_service_and_nothing_about_congestion() {
    let mut router = RouterRig::new(Way::Fast);
    for (tos, wanted) in [(0, 0xc0), (0b0011_1000, 0xd8), (0b1110_0011, 0xc0), (0xff, 0xdc)] {
        let sent = with_v4(datagram(HOST[0], "10.1.0.1", 1, 9), |packet| packet[1] = tos);
        assert_eq!(said(&mut router, &sent).tos, wanted, "{tos:#b}");
    }
    router.end();
}

#[test]
fn padding_of_the_link_is_not_quoted_and_options_are() {
    let mut router = RouterRig::new(Way::Fast);
    let mut sent = datagram(HOST[0], "10.1.0.1", 1, 0);
    sent.resize(60, 0xee);
    assert_eq!(said(&mut router, &sent).quoted.len(), 28);
    let header = Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 0, 1), ipv4::UDP, 1, 48);
    let sent = with_v4(over_v4(header, &[1; 48]), |packet| packet[0] = 0x4a);
    assert_eq!(said(&mut router, &sent).quoted, sent[14..]);
    router.end();
}

#[test]
fn the_source_of_an_error_is_an_address_of_its_egress_then_of_its_ingress_then_of_any_interface() {
    let mut router = RouterRig::new(Way::Fast);
    let own = |router: &mut RouterRig, sent: &[u8]| {
        let left = router.pass(0, sent);
        let [(port, error)] = &left[..] else { panic!("{left:?}") };
        let (_, packet) = Ethernet::parse(error).unwrap();
        (*port, Ipv4::parse(packet).unwrap().0.src().to_string())
    };
    // The sender of this packet is reached by the other port, as with asymmetric paths.
    let sent = datagram("10.1.0.7", "10.1.0.1", 1, 9);
    assert_eq!(own(&mut router, &sent), (1, "10.1.255.254".into()));
    let addresses = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect();
    router.control.apply(vec![Change::Addresses(1, addresses(&["fd00:b::fe/64"]))]);
    assert_eq!(own(&mut router, &sent), (1, "10.0.255.254".into()));
    router.control.apply(vec![Change::Addresses(0, addresses(&[])), Change::OwnAddresses(addresses(&[]))]);
    assert!(router.pass(0, &sent).is_empty());
    assert_eq!(router.suppressed(), [(Suppression::NoAddress, 1)]);
    // Seen: the error's source was a link-local address, which hosts beyond the link drop.
    router.control.apply(vec![Change::Addresses(0, addresses(&["169.254.7.7/16", "10.8.0.1/16"]))]);
    assert_eq!(own(&mut router, &sent), (1, "10.8.0.1".into()));
    // Of several addresses, the one in the sender's network is used.
    router
        .control
        .apply(vec![Change::Addresses(0, addresses(&["10.7.0.1/16", "10.0.9.9/16", "10.8.0.1/16"]))]);
    let sent = datagram(HOST[0], "10.1.0.1", 1, 9);
    assert_eq!(own(&mut router, &sent), (0, "10.0.9.9".into()));
    router.end();
}

/// Seen: a router whose ports had no addresses, or link-local ones alone, as with routing daemons over unnumbered
/// links, sent no errors (`no_address`). Senders learned no path MTU, though there were addresses on the loopback
/// interface.
#[test]
fn the_source_of_errors_by_ports_without_addresses_is_on_the_loopback_interface() {
    let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect();
    for way in WAYS {
        let mut router = RouterRig::new(way);
        router.control.apply(vec![
            Change::Addresses(0, nets(&["fe80::1/64"])),
            Change::Addresses(1, nets(&["fe80::1/64"])),
            Change::OwnAddresses(nets(&[
                "127.0.0.1/8",
                "::1/128",
                "10.255.0.1/32",
                "2001:db8::1/128",
                "10.6.0.1/16",
            ])),
        ]);
        for (v6, dst, hops, payload) in [
            (0, "10.1.0.1", 1, 9),
            (0, "10.1.0.1", 64, 1400),
            (1, "fd00:b::1", 1, 9),
            (1, "fd00:b::1", 64, 1400),
        ] {
            let said = said(&mut router, &datagram(HOST[v6], dst, hops, payload));
            assert_eq!(said.src.to_string(), ["10.255.0.1", "2001:db8::1"][v6], "{dst} {hops}");
        }
        assert_eq!(router.said(), [(Message::TooBig, 2), (Message::TimeExceeded, 2)]);
        router.end();
    }
}

/// Seen: the preferred source of a route was not known to workers, and of two addresses of an interface the first was
/// the source, which the next router's provider filtered.
#[test]
fn the_source_of_an_error_is_its_routes_preferred_source_then_the_address_beside_the_next_router() {
    let mut router = RouterRig::new(Way::Fast);
    let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect();
    let all = ["192.168.1.1/24", "203.0.113.2/30", "10.6.0.1/32"];
    router.control.apply(vec![
        Change::Addresses(0, nets(&all[..2])),
        Change::OwnAddresses(nets(&all)),
        Change::Hop(HopId(90), FibEntry::station(0, HOSTS[0])),
        Change::Route("10.7.0.0/16".parse().unwrap(), HopId(90)),
    ]);
    let via = Some("203.0.113.1".parse().unwrap());
    for (preferred, via, wanted) in [
        (None, None, "192.168.1.1"),
        (None, via, "203.0.113.2"),
        (Some("10.6.0.1"), via, "10.6.0.1"),
        // Not the router's any more.
        (Some("10.6.0.9"), via, "203.0.113.2"),
    ] {
        let preferred = preferred.map(|own| own.parse().unwrap());
        router.control.apply(vec![Change::Source(HopId(90), SourceHint::new(preferred, via))]);
        let said = said(&mut router, &datagram("10.7.0.9", "10.1.0.1", 1, 9));
        assert_eq!(said.src.to_string(), wanted);
    }
    router.end();
}

#[test]
fn an_error_is_no_longer_than_the_link_that_it_leaves_by_carries() {
    let mut router = RouterRig::new(Way::Fast);
    let small = netmem_router::Interface { mtu: 300, ..ENDS[0] };
    router.control.apply(vec![Change::Interface(0, small)]);
    assert_eq!(said(&mut router, &datagram(HOST[0], "10.1.0.1", 1, 900)).quoted.len(), 300 - 28);
    router.end();
}

/// Seen: the error had the address and the length of another path's interface than the one that it left by.
#[test]
fn an_error_with_several_paths_back_fits_the_mtu_of_the_one_it_takes() {
    let mut router = RouterRig::new(Way::Fast);
    let path =
        |port, via: &str| Path { port: Some(port), via: Some(via.parse().unwrap()), weight: 1, mtu: None };
    let known = |port: u8, via: &str| {
        let neighbour = Neighbour { port, address: via.parse().unwrap() };
        Change::Neighbour(neighbour, Some(HOSTS[usize::from(port)]))
    };
    let small = netmem_router::Interface { mtu: 300, ..ENDS[1] };
    router.control.apply(vec![
        known(0, "10.0.0.7"),
        known(1, "10.1.0.7"),
        Change::Interface(1, small),
        Change::Paths(HopId(90), [path(0, "10.0.0.7"), path(1, "10.1.0.7")].into()),
        Change::Route("10.7.0.0/16".parse().unwrap(), HopId(90)),
    ]);
    let (mut seen, mut fitting) = ([0; 2], 0);
    for host in 1..=40 {
        let left = router.pass(0, &datagram(&format!("10.7.0.{host}"), "10.9.0.1", 64, 900));
        let [(port, error)] = &left[..] else { panic!("{} frames left", left.len()) };
        let (_, packet) = Ethernet::parse(error).unwrap();
        let (header, _) = Ipv4::parse(packet).unwrap();
        assert_eq!(header.total_length(), [576, 300][*port]);
        seen[*port] += 1;
        fitting += usize::from(header.src().octets() == [[10, 0, 255, 254], [10, 1, 255, 254]][*port]);
    }
    assert!(seen.iter().all(|n| *n > 5) && fitting == 40, "{seen:?}, {fitting}");
    router.end();
}

/// Seen: an error to a link-local sender went to its port without a check of the link's MTU, and was longer than
/// the MTU.
#[test]
fn an_error_to_a_link_local_sender_is_no_longer_than_its_link_carries() {
    for way in WAYS {
        let mut router = RouterRig::new(way);
        let sent = datagram("fe80::9", "fd00:b::1", 64, 1300);
        assert_eq!(said(&mut router, &sent).quoted.len(), 1280 - 48);
        let small = netmem_router::Interface { mtu: 600, ..ENDS[0] };
        router.control.apply(vec![Change::Interface(0, small)]);
        assert_eq!(said(&mut router, &sent).quoted.len(), 600 - 48);
        router.end();
    }
}

/// Found: `--address` refused the same link-local address for two ports, which each link may have.
#[test]
fn an_error_to_a_link_local_sender_is_from_the_address_that_two_links_have_and_leaves_by_its_link() {
    let nets = |nets: &[&str]| nets.iter().map(|net| net.parse().unwrap()).collect();
    for way in WAYS {
        let mut router = RouterRig::new(way);
        router.control.apply(vec![
            Change::Addresses(0, nets(&["fe80::1/64", "fd00:a::fe/64"])),
            Change::Addresses(1, nets(&["fe80::1/64", "fd00:b::fe/64"])),
            Change::OwnAddresses(nets(&["fe80::1/64", "fd00:a::fe/64", "fe80::1/64", "fd00:b::fe/64"])),
        ]);
        for (port, other) in [(0, "fd00:b::1"), (1, "fd00:a::1")] {
            let mut sent = datagram("fe80::9", other, 64, 9);
            sent[..6].copy_from_slice(&ENDS[port].mac.bytes());
            let left = router.pass(port, &sent);
            let [(by, error)] = &left[..] else { panic!("{left:?}") };
            let (link, packet) = Ethernet::parse(error).unwrap();
            assert_eq!((*by, link.src, link.dst), (port, ENDS[port].mac, HOSTS[0]));
            let header = Ipv6::parse(packet).unwrap();
            assert_eq!(
                [header.src(), header.dst()].map(|address| address.to_string()),
                ["fe80::1", "fe80::9"]
            );
        }
        router.end();
    }
}

#[test]
fn ipv6_senders_get_an_mtu_of_1280_for_a_link_of_less() {
    let mut router = RouterRig::new(Way::Fast);
    let small = netmem_router::Interface { mtu: 1000, ..ENDS[1] };
    router.control.apply(vec![Change::Interface(1, small)]);
    assert_eq!(said(&mut router, &datagram(HOST[1], "fd00:b::1", 9, 1200)).rest, 1280);
    assert_eq!(said(&mut router, &datagram(HOST[0], "10.1.0.1", 9, 1200)).rest, 1000);
    router.end();
}

#[test]
fn an_error_waits_for_its_neighbour_and_is_sent_unchanged() {
    for way in WAYS {
        let mut router = RouterRig::that_waits(way);
        // The sender is on the link of port 1, and its MAC address is not known.
        let sent = datagram("10.5.0.1", "10.9.0.1", 64, 9);
        assert!(router.pass(0, &sent).is_empty());
        let mut names = Vec::new();
        router.unresolved.as_mut().unwrap().read(|name| names.push(name));
        let neighbour = Neighbour { port: 1, address: "10.5.0.1".parse().unwrap() };
        assert_eq!(names, [neighbour]);
        router.control.apply(vec![Change::Neighbour(neighbour, Some(HOSTS[1]))]);
        let left = router.settle();
        let [(1, error)] = &left[..] else { panic!("{left:?}") };
        let (link, packet) = Ethernet::parse(error).unwrap();
        let (header, message) = Ipv4::parse(packet).unwrap();
        assert_eq!((link.dst, header.dst(), header.ttl()), (HOSTS[1], Ipv4Addr::new(10, 5, 0, 1), 64));
        assert_eq!(message[8..], sent[14..]);
        router.end();
    }
}

#[test]
fn frames_without_headroom_become_the_same_errors() {
    use netmem::page::{Memory, MemoryConfig};
    use netmem::pool::{Pool, PoolConfig};
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let mut fib = Fib::new(ENDS.to_vec());
    fib.addresses = vec![["10.0.255.254/16", "fd00:a::fe/64"].map(|net| net.parse().unwrap()).into()];
    let route = |net: &str| Change::Route(net.parse().unwrap(), HopId(0));
    let to_host = Change::Hop(HopId(0), FibEntry::station(0, HOSTS[0]));
    fib.apply(&[to_host, route("10.0.0.0/16"), route("fd00:a::/64")]);
    let mut written = Vec::new();
    for headroom in [0, 27, 28, 47, 48, 64] {
        let config = PoolConfig { frames: 64, headroom, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        for (host, dst) in [(HOST[0], "10.9.0.1"), (HOST[1], "fd00:9::1")] {
            let sent = datagram(host, dst, 64, 1400);
            let mut frame = pool.alloc(&mut w).unwrap();
            frame.pull(0).unwrap();
            frame.put(sent.len()).unwrap().copy_from_slice(&sent);
            let error = IcmpError::about(frame.data(), Message::NetUnreachable, 0, &fib).unwrap().unwrap();
            error.write(&mut frame).unwrap();
            written.push(frame.data().to_vec());
            frame.free(&mut w);
        }
    }
    let (first, rest) = written.split_at(2);
    assert!(rest.chunks(2).all(|pair| pair == first));
    assert_eq!([first[0].len(), first[1].len()], [14 + 576, 14 + 1280]);
}
