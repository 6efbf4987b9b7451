//! Packets about which no error is sent.

use super::*;
use netmem::wire::Icmp;

/// Addresses of the router, and broadcast addresses of its links.
const OWN: [&str; 3] = ["10.0.255.254", "10.0.255.255", "fd00:a::fe"];

/// Returns the counted reasons why no error is sent when this frame, which would otherwise cause an error, comes in on port 0.
fn suppression(sent: &[u8]) -> Vec<(Suppression, u64)> {
    let mut counted = Vec::new();
    for way in WAYS {
        let mut router = RouterRig::new(way);
        assert!(router.pass(0, sent).is_empty());
        assert_eq!(router.said(), []);
        counted.push(router.suppressed());
        router.end();
    }
    assert_eq!(counted[0], counted[1]);
    counted.remove(0)
}

/// Makes an ICMP message to a destination without a route.
fn message(kind: u8) -> Vec<u8> {
    let icmp = Icmp::v4(kind, 0, 0, &[0; 28]);
    let payload = [icmp.as_bytes(), &[0; 28]].concat();
    let header = Ipv4::new(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 9, 0, 1), icmp::PROTOCOL, 9, 36);
    over_v4(header, &payload)
}

fn message_v6(kind: u8) -> Vec<u8> {
    let (src, dst) = ("fd00:a::1".parse().unwrap(), "fd00:9::1".parse().unwrap());
    let icmp = Icmp::v6(kind, 0, 0, &[0; 28], src, dst);
    over_v6((src, dst), icmp::PROTOCOL_V6, 9, &[icmp.as_bytes(), &[0; 28]].concat())
}

#[test]
fn no_error_is_sent_about_an_error_and_one_is_sent_about_requests_and_replies() {
    for kind in [1, 2, 3, 4, 5, 6, 7, 11, 12, 19, 31, 40, 41, 44, 253, 255] {
        assert_eq!(suppression(&message(kind)), [(Suppression::AboutError, 1)], "{kind}");
    }
    for kind in [1, 2, 3, 4, 127, 137] {
        assert_eq!(suppression(&message_v6(kind)), [(Suppression::AboutError, 1)], "{kind}");
    }
    let mut router = RouterRig::new(Way::Fast);
    // Seen: extended echoes (RFC 8335) counted as errors.
    for kind in [0, 8, 9, 10, 13, 42, 43] {
        assert_eq!(said(&mut router, &message(kind)).kind, 3);
    }
    for kind in [128, 129, 135, 160, 161] {
        assert_eq!(said(&mut router, &message_v6(kind)).kind, 1);
    }
    router.end();
}

/// Seen: packets from sources without a route used up the limit with errors that could not leave, and no other
/// sender got one.
#[test]
fn no_error_is_sent_to_sources_without_a_route_back_and_other_senders_still_get_theirs() {
    for way in WAYS {
        let mut router = RouterRig::new(way);
        router.limit.set(IcmpLimit::in_all(1, 1));
        let sources = ["10.9.0.1", "10.2.0.1", "10.3.0.1", "10.4.0.1", "10.5.0.9"];
        for source in sources {
            assert!(router.pass(0, &datagram(source, "10.9.0.2", 64, 9)).is_empty());
        }
        router.lead(90, "10.6.0.0/16", FibEntry::ELSEWHERE);
        router.settle();
        assert!(router.pass(0, &datagram("10.6.0.1", "10.9.0.2", 64, 9)).is_empty());
        for source in ["fd00:9::1", "fd00:2::1", "fd00:5::9"] {
            assert!(router.pass(0, &datagram(source, "fd00:9::2", 64, 9)).is_empty());
        }
        assert_eq!((router.said(), router.suppressed()), (vec![], vec![(Suppression::NoRouteBack, 9)]));
        assert_eq!(router.drops(), [("no_route", 9)], "and none was made and dropped");
        assert_eq!(said(&mut router, &datagram(HOST[0], "10.9.0.1", 64, 9)).kind, 3);
        router.end();
    }
}

/// Seen: an error was sent about an error behind an authentication header.
#[test]
fn no_error_is_sent_about_an_error_behind_extension_headers_of_any_kind() {
    let (src, dst) = ("fd00:a::1".parse().unwrap(), "fd00:9::1".parse().unwrap());
    for (next, length) in [(0, 8), (43, 8), (60, 8), (51, 12), (135, 8), (139, 8), (140, 8)] {
        let behind = |kind: u8| {
            let mut payload = vec![0; length + 8];
            (payload[0], payload[1], payload[length]) = (icmp::PROTOCOL_V6, u8::from(next == 51), kind);
            over_v6((src, dst), next, 9, &payload)
        };
        assert_eq!(suppression(&behind(1)), [(Suppression::AboutError, 1)], "{next}");
        let mut router = RouterRig::new(Way::Fast);
        assert_eq!(said(&mut router, &behind(128)).kind, 1, "{next}");
        router.end();
    }
}

#[test]
fn no_error_is_sent_about_later_fragments_and_one_is_sent_about_first_ones() {
    let sent = datagram(HOST[0], "10.9.0.1", 64, 16);
    let fragment = |field: [u8; 2]| with_v4(sent.clone(), |packet| packet[6..8].copy_from_slice(&field));
    assert_eq!(suppression(&fragment([0x20, 1])), [(Suppression::Fragment, 1)]);
    assert_eq!(suppression(&fragment([0, 9])), [(Suppression::Fragment, 1)]);
    let mut router = RouterRig::new(Way::Fast);
    assert_eq!(said(&mut router, &fragment([0x20, 0])).kind, 3);
    // RFC 4443 does not require this for IPv6, but the contents of a later fragment cannot be known.
    let (src, dst) = ("fd00:a::1".parse().unwrap(), "fd00:9::1".parse().unwrap());
    let later = |next: u8| over_v6((src, dst), 44, 9, &[next, 0, 0, 9, 0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(said(&mut router, &later(17)).kind, 1);
    for next in [icmp::PROTOCOL_V6, 60, 51, 0] {
        assert_eq!(suppression(&later(next)), [(Suppression::Fragment, 1)], "{next}");
    }
    router.end();
}

/// These packets are martians too, and get this far only if the operator allows them.
#[test]
fn no_error_is_sent_to_own_or_broadcast_addresses_of_the_router() {
    let allow = netmem_router::Allow { martians: true, ..Default::default() };
    for (way, source) in WAYS.into_iter().flat_map(|way| OWN.map(|source| (way, source))) {
        let dst = if source.contains(':') { "fd00:9::1" } else { "10.9.0.1" };
        let mut router = RouterRig::that_allows(way, allow);
        assert!(router.pass(0, &datagram(source, dst, 64, 9)).is_empty());
        assert_eq!((router.drops(), router.said()), (vec![("no_route", 1)], vec![]));
        assert_eq!(router.suppressed(), [(Suppression::SourceNotAHost, 1)], "{source}");
        router.end();
    }
}

/// These are martians, which never get this far while martians are dropped. Only the function distinguishes them.
#[test]
fn no_error_is_sent_to_sources_that_are_not_hosts_or_about_multicast_packets() {
    let fib = Fib::new(ENDS.to_vec());
    let suppression = |frame: &[u8], message| IcmpError::about(frame, message, 0, &fib).unwrap().unwrap_err();
    let message = Message::NetUnreachable;
    for source in ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"] {
        assert_eq!(
            suppression(&datagram(source, "10.9.0.1", 9, 9), message),
            Suppression::SourceNotAHost,
            "{source}"
        );
    }
    for source in ["::", "::1", "ff02::1"] {
        assert_eq!(
            suppression(&datagram(source, "fd00:9::1", 9, 9), message),
            Suppression::SourceNotAHost,
            "{source}"
        );
    }
    for group in ["224.0.0.9", "239.1.1.1", "255.255.255.255"] {
        assert_eq!(
            suppression(&datagram(HOST[0], group, 9, 9), message),
            Suppression::ToMulticast,
            "{group}"
        );
    }
    let to_multicast = datagram(HOST[1], "ff0e::1", 9, 9);
    assert_eq!(suppression(&to_multicast, message), Suppression::ToMulticast);
    // RFC 4443 §2.4 (e.3): so that the sender of a multicast finds the path MTU. Here only an address is missing.
    assert_eq!(suppression(&to_multicast, Message::TooBig), Suppression::NoAddress);
}

#[test]
fn no_error_is_sent_about_packets_that_are_dropped_for_other_reasons() {
    let sent = datagram(HOST[0], "10.1.0.1", 64, 9);
    let mut broadcast = datagram(HOST[0], "10.9.0.1", 64, 9);
    broadcast[..6].fill(0xff);
    let mut corrupt = sent.clone();
    corrupt[24] ^= 1;
    for (sent, reason) in [
        (broadcast, "link_multicast"),
        (corrupt, "bad_checksum"),
        (datagram(HOST[0], "10.4.0.1", 64, 9), "blackhole"),
        (datagram(HOST[0], "127.0.0.1", 64, 9), "martian"),
        (datagram(HOST[1], "fd00:4::1", 64, 9), "blackhole"),
        (datagram(HOST[1], "ff0e::1", 64, 9), "martian"),
    ] {
        assert_eq!(suppression(&sent), [], "{reason}");
        let mut router = RouterRig::new(Way::Fast);
        router.pass(0, &sent);
        assert_eq!(router.drops(), [(reason, 1)]);
        router.end();
    }
}

#[test]
fn packets_to_the_router_itself_cause_no_error_whatever_their_ttl() {
    for (host, own) in [(HOST[0], "10.0.255.254"), (HOST[1], "fd00:a::fe")] {
        for hops in [0, 1, 64] {
            let mut router = RouterRig::new(Way::Fast);
            assert!(router.pass(0, &datagram(host, own, hops, 9)).is_empty());
            assert_eq!((router.drops(), router.said()), (vec![("local_address", 1)], vec![]));
            router.end();
        }
    }
}
