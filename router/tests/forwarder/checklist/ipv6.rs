//! IPv6: RFC 8200, RFC 4291, and the errors of RFC 4443.

use super::*;
use std::net::Ipv6Addr;

fn usual() -> Vec<u8> {
    datagram(HOST[1], OTHER[1], 64, 30)
}

fn header(frame: &[u8]) -> &Ipv6 {
    Ipv6::parse(&frame[ethernet::HEADER_LEN..]).unwrap()
}

fn addresses() -> (Ipv6Addr, Ipv6Addr) {
    (HOST[1].parse().unwrap(), OTHER[1].parse().unwrap())
}

/// RFC 8200 §3: version, and payload length compared with the received length. Padding of the link does not count.
#[test]
fn rfc8200_3_a_packet_with_a_bad_header_is_silently_dropped_and_counted_by_the_check_that_failed() {
    on_each_way(|router| {
        let mut version = usual();
        version[14] = 0x50;
        dropped(router, &version, "bad_version", None);
        dropped(router, &usual()[..53], "short", None);
        dropped(router, &usual()[..91], "truncated", None);
        let padded = [usual(), vec![0xee; 9]].concat();
        assert_eq!(header(&router.forward(&padded)).payload_length(), 38);
    });
}

/// RFC 2464 §3: padding to the minimum frame size is not part of the packet. With 40 bytes of header, five packet
/// lengths are padded.
#[test]
fn rfc2464_3_link_padding_after_a_packet_is_not_forwarded() {
    on_each_way_of(RouterRig::that_waits, |router| {
        let of = |dst: &str, hops, length: usize| {
            over_v6((HOST[1].parse().unwrap(), dst.parse().unwrap()), 253, hops, &vec![7; length])
        };
        let frames: Vec<_> = (0..=6).map(|length| of(OTHER[1], 64, length)).collect();
        let neighbour = Neighbour { port: 1, address: "fd00:5::7".parse().unwrap() };
        let answers = Change::Neighbour(neighbour, Some(HOSTS[1]));
        assert_cut(router, &frames, (&of(OTHER[1], 1, 3), &of("fd00:5::7", 64, 3)), answers);
    });
}

/// RFC 2675 §2: a jumbogram has its length in its hop-by-hop options, and 0 in its header. Seen: all that follows the header
/// was cut off as padding, and the header was forwarded alone.
#[test]
fn rfc2675_2_a_packet_of_no_length_with_hop_by_hop_options_is_dropped_and_not_cut() {
    on_each_way(|router| {
        let jumbo = [17, 0, 0xc2, 4, 0, 1, 0, 8];
        let padding = [17, 0, 1, 4, 0, 0, 0, 0];
        for options in [jumbo, padding] {
            let mut sent = over_v6(addresses(), 0, 64, &[&options[..], &[7; 60]].concat());
            sent[18..20].fill(0);
            dropped(router, &sent, "bad_total_length", None);
        }
        // Without a next header, what follows is padding.
        let mut nothing = over_v6(addresses(), 59, 64, &[]);
        nothing.extend([0xee; 6]);
        assert_eq!(header(&router.forward(&nothing)).payload_length(), 0);
    });
}

/// RFC 8200 §3: the hop limit is decremented. 1 and 0 are not forwarded, and an error is sent (RFC 4443 §3.3).
/// Packets for the router itself are exempt.
#[test]
fn rfc8200_3_the_hop_limit_is_decremented_and_the_sender_of_one_too_small_gets_time_exceeded() {
    on_each_way(|router| {
        for hops in [2, 64, 255] {
            let sent = datagram(HOST[1], OTHER[1], hops, 9);
            assert_eq!(header(&router.forward(&sent)).hop_limit(), hops - 1);
        }
        for hops in [0, 1] {
            let sent = datagram(HOST[1], OTHER[1], hops, 9);
            dropped(router, &sent, "ttl_expired", Some(Message::TimeExceeded));
            dropped(router, &datagram(HOST[1], "fd00:a::fe", hops, 9), "local_address", None);
        }
    });
}

/// RFC 4291 §2.5.2, §2.5.3, §2.7: unspecified, loopback and multicast addresses as source or destination, whatever
/// is allowed.
#[test]
fn rfc4291_2_5_packets_with_unspecified_loopback_or_multicast_addresses_are_never_forwarded() {
    let allow = Allow { martians: true, source_routes: true };
    for way in WAYS {
        let mut router = RouterRig::that_allows(way, allow);
        router.lead(90, "::/0", FibEntry::station(1, HOSTS[1]));
        for odd in ["::", "::1", "ff02::1", "ff05::2", "ff0e::1"] {
            dropped(&mut router, &datagram(odd, OTHER[1], 64, 9), "martian", None);
            dropped(&mut router, &datagram(HOST[1], odd, 64, 9), "martian", None);
        }
        router.end();
    }
}

/// RFC 6890 §2.2.3, table 20: an IPv4-mapped address is neither a source nor a destination, and not forwardable. Seen: it
/// passed as both.
#[test]
fn rfc6890_2_2_3_packets_with_ipv4_mapped_addresses_are_never_forwarded() {
    let allow = Allow { martians: true, source_routes: true };
    for way in WAYS {
        let mut router = RouterRig::that_allows(way, allow);
        router.lead(90, "::/0", FibEntry::station(1, HOSTS[1]));
        for mapped in ["::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:255.255.255.255"] {
            dropped(&mut router, &datagram(mapped, OTHER[1], 64, 9), "martian", None);
            dropped(&mut router, &datagram(HOST[1], mapped, 64, 9), "martian", None);
        }
        for other in ["::10.0.0.1", "::fffe:10.0.0.1", "64:ff9b::10.0.0.1"] {
            router.forward(&datagram(HOST[1], other, 64, 9));
        }
        router.end();
    }
}

/// RFC 4291 §2.1: an address belongs to one interface, so the router's own is not a valid source of other stations.
/// The all-routers anycast address of a link (§2.6.1), and an address that the router had before, are valid.
#[test]
fn rfc4291_2_1_own_addresses_of_the_router_are_martians_as_sources() {
    let own = datagram("fd00:a::fe", OTHER[1], 64, 9);
    let mut willing = RouterRig::that_allows(Way::Fast, Allow { martians: true, ..Allow::default() });
    willing.forward(&own);
    willing.end();
    on_each_way(|router| {
        dropped(router, &own, "martian", None);
        dropped(router, &datagram("fd00:a::fe", OTHER[1], 1, 9), "martian", None);
        router.lead(90, "fd00:a::/128", FibEntry::LOCAL);
        for host in 0..0xfe {
            router.forward(&datagram(&format!("fd00:a::{host:x}"), OTHER[1], 64, 9));
        }
        router.control.apply(vec![Change::OwnAddresses(Box::default())]);
        router.forward(&own);
    });
}

/// RFC 4291 §2.5.6: link-local packets stay on their link. RFC 4443 §3.1 code 2: an error about a packet from there
/// to elsewhere is sent on that link, straight to the station's MAC address.
#[test]
fn rfc4291_2_5_6_link_local_packets_never_leave_their_link_and_their_sender_gets_an_error() {
    on_each_way(|router| {
        router.lead(90, "::/0", FibEntry::station(1, HOSTS[1]));
        dropped(router, &datagram(HOST[1], "fe80::9", 64, 9), "martian", None);
        dropped(router, &datagram("fe80::7", "fe80::9", 64, 9), "martian", None);
        let sent = datagram("fe80::7", OTHER[1], 64, 9);
        let left = router.pass(0, &sent);
        let [(0, error)] = &left[..] else { panic!("{} frames left", left.len()) };
        let said = read(error);
        assert_eq!((said.kind, said.code, said.rest, said.hops), (1, 2, 0, 64));
        assert_eq!((said.src.to_string().as_str(), said.dst.to_string().as_str()), ("fe80::1", "fe80::7"));
        assert_eq!(said.quoted, sent[14..]);
        // A neighbour may send from a link-local address to the router's own address.
        dropped(router, &datagram("fe80::7", "fd00:a::fe", 64, 9), "local_address", None);
        let mut group = sent;
        group[6] |= 1;
        dropped(router, &group, "beyond_scope", None);
    });
}

/// RFC 8200 §5, RFC 4443 §3.2: routers do not fragment. The error reports the MTU, which is never below 1280.
#[test]
fn rfc4443_3_2_the_sender_of_a_too_long_packet_gets_the_mtu() {
    on_each_way(|router| {
        let fits = 1400 - 48;
        router.forward(&datagram(HOST[1], OTHER[1], 64, fits));
        let left = router.pass(0, &datagram(HOST[1], OTHER[1], 64, fits + 1));
        let [(0, error)] = &left[..] else { panic!("{} frames left", left.len()) };
        let said = read(error);
        assert_eq!((said.kind, said.code, said.rest), (2, 0, 1400));
    });
}

/// RFC 8200 §4 and §4.3: extension headers are left to the destination, including hop-by-hop options that the
/// router is not configured to examine. RFC 5095 §3: so is a routing header of type 0, which its destination
/// rejects.
#[test]
fn rfc8200_4_extension_headers_are_forwarded_untouched_whatever_they_are() {
    on_each_way(|router| {
        let padding = [1, 4, 0, 0, 0, 0];
        let extension = |kind: u8| [&[17, 0][..], &padding, &[kind; 16]].concat();
        let fragment = [17, 0, 0, 9, 0, 0, 0, 1, 5, 5];
        let type_0 = [&[17, 2, 0, 1, 0, 0, 0, 0][..], &[0xfd; 16], &[5, 5]].concat();
        for (next, body) in [
            (0, extension(0)),
            (43, extension(43)),
            (60, extension(60)),
            (44, fragment.to_vec()),
            (43, type_0),
        ] {
            let sent = over_v6(addresses(), next, 64, &body);
            let left = router.forward(&sent);
            assert_eq!(left[14 + 40..], body);
            assert_eq!(header(&left).next_header(), next);
        }
    });
}

/// RFC 2460 §7, RFC 6437 §3: traffic class and flow label stay the same, as does every byte except the hop limit
/// and the MAC addresses.
#[test]
fn rfc6437_3_only_the_hop_limit_and_the_mac_addresses_change() {
    on_each_way(|router| {
        for class in 0..=255u8 {
            let mut sent = usual();
            sent[14..18].copy_from_slice(&(6 << 28 | u32::from(class) << 20 | 0xabcde_u32).to_be_bytes());
            let left = router.forward(&sent);
            let mut wanted = sent;
            wanted[14 + 7] = 63;
            assert_eq!(left[12..], wanted[12..]);
            let (link, _) = Ethernet::parse(&left).unwrap();
            assert_eq!((link.dst, link.src), (HOSTS[1], ENDS[1].mac));
        }
    });
}

/// RFC 4443 §3.1: routes without a next hop. Each kind has its own code, or no error.
#[test]
fn rfc4443_3_1_routes_without_a_next_hop_cause_the_error_of_their_kind() {
    on_each_way(|router| {
        for (dst, name, says) in [
            ("fd00:9::1", "no_route", Some(Message::NetUnreachable)),
            ("fd00:2::1", "unreachable", Some(Message::HostUnreachable)),
            ("fd00:5::9", "neigh_failed", Some(Message::HostUnreachable)),
            ("fd00:3::1", "prohibited", Some(Message::Prohibited)),
            ("fd00:4::1", "blackhole", None),
        ] {
            dropped(router, &datagram(HOST[1], dst, 64, 9), name, says);
        }
    });
}

/// RFC 4291 §2.5, by the longest prefix down to one host (RFC 7608 §3: every length counts).
#[test]
fn rfc7608_3_the_longest_prefix_is_used_whatever_its_length() {
    on_each_way(|router| {
        let station = |last| MacAddr::new([2, 0, 0, 0, 1, last]);
        let nets = [("::/0", 1), ("fd08::/16", 2), ("fd08::/65", 3), ("fd08::8/127", 4), ("fd08::8/128", 5)];
        for ((net, last), id) in nets.into_iter().zip(90..) {
            router.lead(id, net, FibEntry::station(1, station(last)));
        }
        for (dst, last) in [
            ("2001:db8::1", 1),
            ("fd08:1::1", 2),
            ("fd08::1", 3),
            ("fd08::9", 4),
            ("fd08::8", 5),
            ("fd08::a", 3),
        ] {
            let left = router.forward(&datagram(HOST[1], dst, 64, 9));
            assert_eq!(Ethernet::parse(&left).unwrap().0.dst, station(last), "{dst}");
        }
    });
}
