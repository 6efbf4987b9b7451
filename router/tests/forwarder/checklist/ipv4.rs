//! IPv4: RFC 1812 and later RFCs.

use super::*;

fn usual() -> Vec<u8> {
    datagram(HOST[0], OTHER[0], 64, 30)
}

fn header(frame: &[u8]) -> &Ipv4 {
    Ipv4::parse(&frame[ethernet::HEADER_LEN..]).unwrap().0
}

/// RFC 1812 §5.2.2: length, version, header length, total length, checksum. The packet is silently dropped under
/// the name of the failed check. Padding of the link does not count.
#[test]
fn rfc1812_5_2_2_a_packet_with_a_bad_header_is_silently_dropped_and_counted_by_the_check_that_failed() {
    on_each_way(|router| {
        let cut = |n: usize| usual()[..n].to_vec();
        let with = |at: usize, byte: u8| with_v4(usual(), |packet| packet[at] = byte);
        let mut corrupt = usual();
        corrupt[ethernet::HEADER_LEN + 10] ^= 0x40;
        for (frame, name) in [
            (cut(13), "short"),
            (cut(33), "short"),
            (with(0, 0x65), "bad_version"),
            (with(0, 0x44), "bad_header_length"),
            (with(3, 19), "bad_total_length"),
            (cut(71), "truncated"),
            (corrupt, "bad_checksum"),
        ] {
            dropped(router, &frame, name, None);
        }
        let padded = [usual(), vec![0xee; 9]].concat();
        assert_eq!(header(&router.forward(&padded)).total_length(), 58);
    });
}

/// RFC 894: padding to the minimum frame size is not part of the packet. Its contents do not come from the packet's
/// sender.
///
/// Seen: a frame of 60 bytes with a packet of 20 to 45 left with its padding, regardless of the contents.
#[test]
fn rfc894_link_padding_after_a_packet_is_not_forwarded() {
    on_each_way_of(RouterRig::that_waits, |router| {
        let of = |dst: &str, ttl, length: u16| {
            let (src, dst) = (HOST[0].parse().unwrap(), dst.parse().unwrap());
            over_v4(Ipv4::new(src, dst, 253, ttl, length - 20), &vec![7; usize::from(length) - 20])
        };
        let mut frames: Vec<_> = (20..=46).map(|length| of(OTHER[0], 64, length)).collect();
        // The full check: with options, with and without bytes behind them.
        for behind in [0, 9] {
            let header = with_v4(of(OTHER[0], 64, 24 + behind), |packet| {
                packet[0] = 0x46;
                packet[20..24].fill(1);
            });
            frames.push(header);
        }
        let neighbour = Neighbour { port: 1, address: "10.5.0.7".parse().unwrap() };
        let answers = Change::Neighbour(neighbour, Some(HOSTS[1]));
        assert_cut(router, &frames, (&of(OTHER[0], 1, 28), &of("10.5.0.7", 64, 28)), answers);
    });
}

/// RFC 1812 §5.3.4: a frame for a link-layer multicast address with a packet for one host.
#[test]
fn rfc1812_5_3_4_packets_in_multicast_and_broadcast_frames_are_not_forwarded() {
    on_each_way(|router| {
        for group in [MacAddr::BROADCAST, MacAddr::new([1, 0, 0x5e, 0, 0, 1])] {
            let mut frame = usual();
            frame[..6].copy_from_slice(group.as_bytes());
            dropped(router, &frame, "link_multicast", None);
        }
    });
}

/// RFC 1812 §5.3.7: invalid sources and destinations, with a switch for those where the RFC allows one.
#[test]
fn rfc1812_5_3_7_martians_are_dropped_and_those_with_a_switch_are_forwarded_if_allowed() {
    let switched = ["0.1.2.3", "127.0.0.1", "240.0.0.1"];
    let never = ["224.0.0.5", "239.1.2.3", "255.255.255.255", "169.254.1.1"];
    let allow = Allow { martians: true, ..Allow::default() };
    for way in WAYS {
        let mut router = RouterRig::new(way);
        let mut willing = RouterRig::that_allows(way, allow);
        for router in [&mut router, &mut willing] {
            router.lead(90, "0.0.0.0/0", FibEntry::station(1, HOSTS[1]));
        }
        for address in switched {
            let (from, to) = (datagram(address, OTHER[0], 64, 9), datagram(HOST[0], address, 64, 9));
            for frame in [from, to] {
                dropped(&mut router, &frame, "martian", None);
                assert_eq!(header(&willing.forward(&frame)).ttl(), 63, "{address}");
            }
        }
        for address in never {
            for router in [&mut router, &mut willing] {
                dropped(router, &datagram(address, OTHER[0], 64, 9), "martian", None);
                dropped(router, &datagram(HOST[0], address, 64, 9), "martian", None);
            }
        }
        router.end();
        willing.end();
    }
}

/// RFC 1812 §5.3.7 and §4.2.2.11 (c): packets whose source is one of the router's addresses, or a broadcast address
/// of its links.
#[test]
fn rfc1812_5_3_7_own_and_broadcast_addresses_of_the_router_are_martians_as_sources() {
    let own = ["10.0.255.254", "10.1.255.254", "10.0.255.255"];
    let allow = Allow { martians: true, ..Allow::default() };
    for way in WAYS {
        let (mut router, mut willing) = (RouterRig::new(way), RouterRig::that_allows(way, allow));
        for source in own {
            for sent in [datagram(source, OTHER[0], 64, 9), datagram(source, OTHER[0], 1, 9)] {
                dropped(&mut router, &sent, "martian", None);
            }
            let with_options = with_v4(datagram(source, OTHER[0], 64, 9), |packet| {
                packet[0] = 0x46;
                packet[20..24].fill(1);
            });
            dropped(&mut router, &with_options, "martian", None);
            assert_eq!(header(&willing.forward(&datagram(source, OTHER[0], 64, 9))).ttl(), 63, "{source}");
        }
        router.end();
        willing.end();
    }
}

/// Also hosts whose address maps to the same bit of the filter as one of the router's.
#[test]
fn rfc1812_5_3_7_hosts_on_the_routers_links_are_not_martians() {
    let nets = ["10.0.255.254/16", "10.1.255.254/16"].map(|net| net.parse().unwrap());
    let own = OwnSources::of(&nets);
    on_each_way(|router| {
        let mut mistaken = 0;
        for host in 0..2000_u32 {
            let source = std::net::Ipv4Addr::from_bits(0x0a00_f900 + host);
            if !own.has(source.into()) {
                router.forward(&datagram(&source.to_string(), OTHER[0], 64, 9));
                mistaken += u32::from(own.may_have(source));
            }
        }
        assert!(mistaken > 0);
    });
}

/// RFC 1812 §5.3.7: a host may have an address that the router had before. An address that the operator routes
/// elsewhere is a host's too.
#[test]
fn rfc1812_5_3_7_an_address_that_the_router_has_lost_is_not_a_martian() {
    on_each_way(|router| {
        let sent = datagram("10.0.255.254", OTHER[0], 64, 9);
        dropped(router, &sent, "martian", None);
        router.lead(90, "10.0.255.254/32", FibEntry::station(0, HOSTS[0]));
        router.forward(&sent);
        router.lead(90, "10.0.255.254/32", FibEntry::LOCAL);
        dropped(router, &sent, "martian", None);
        router.control.apply(vec![Change::OwnAddresses(["10.1.255.254/16".parse().unwrap()].into())]);
        router.forward(&sent);
    });
}

/// RFC 3927 §2.7: packets of 169.254/16 are never forwarded, whatever is allowed. Those of the neighbouring
/// networks are.
#[test]
fn rfc3927_2_7_link_local_addresses_are_not_forwarded() {
    on_each_way(|router| {
        router.lead(90, "169.0.0.0/8", FibEntry::station(1, HOSTS[1]));
        dropped(router, &datagram(HOST[0], "169.254.0.1", 64, 9), "martian", None);
        dropped(router, &datagram("169.254.255.254", OTHER[0], 64, 9), "martian", None);
        router.forward(&datagram(HOST[0], "169.253.0.1", 64, 9));
    });
}

/// RFC 2644 §2: a packet to the broadcast address of one of the router's networks, from another network too.
#[test]
fn rfc2644_2_directed_broadcasts_are_not_forwarded() {
    on_each_way(|router| {
        dropped(router, &datagram("10.1.0.9", "10.0.255.255", 64, 9), "local_address", None);
        // An address for which the fixture has no route until the router has its own address there.
        let sent = datagram(HOST[0], "10.1.255.255", 64, 9);
        router.forward(&sent);
        let own: OwnAddress = "10.1.255.253/16,1".parse().unwrap();
        for (route, id) in own.routes().zip(90..) {
            assert_eq!(route.target, Target::Local);
            router.lead(id, &route.prefix.to_string(), FibEntry::LOCAL);
        }
        dropped(router, &sent, "local_address", None);
    });
}

/// RFC 1812 §5.3.5.1: limited broadcasts, and multicasts, for which there are no routes here.
#[test]
fn rfc1812_5_3_5_limited_broadcasts_and_multicasts_are_not_forwarded() {
    on_each_way(|router| {
        router.lead(90, "0.0.0.0/0", FibEntry::station(1, HOSTS[1]));
        for group in ["255.255.255.255", "224.0.0.1", "224.0.0.251", "239.255.255.255"] {
            dropped(router, &datagram(HOST[0], group, 64, 9), "martian", None);
        }
    });
}

/// RFC 1812 §5.3.1: the TTL is decremented and never leaves as 0. An error is sent, but not about packets for the
/// router itself.
#[test]
fn rfc1812_5_3_1_the_ttl_is_decremented_and_the_sender_of_one_too_small_gets_time_exceeded() {
    on_each_way(|router| {
        for ttl in [2, 3, 64, 255] {
            let sent = datagram(HOST[0], OTHER[0], ttl, 9);
            assert_eq!(header(&router.forward(&sent)).ttl(), ttl - 1);
        }
        for ttl in [0, 1] {
            let sent = datagram(HOST[0], OTHER[0], ttl, 9);
            dropped(router, &sent, "ttl_expired", Some(Message::TimeExceeded));
            dropped(router, &datagram(HOST[0], "10.0.255.254", ttl, 9), "local_address", None);
        }
    });
}

/// RFC 1624 §3 and §4: the incremental update equals a sum over the header, including 0x0000 and 0xffff. A wrong
/// checksum is never corrected.
#[test]
fn rfc1624_3_the_checksum_is_updated_and_never_repaired() {
    on_each_way(|router| {
        let mut corners = 0;
        for word in 0..=u16::MAX {
            let sent = with_v4(usual(), |packet| packet[4..6].copy_from_slice(&word.to_be_bytes()));
            let before = header(&sent).checksum();
            // Only every 251st value, except at the ends, where the update carries, borrows, or results in all ones
            // or zeros.
            if (0x0102..=0xfefd).contains(&before) && word % 251 != 0 {
                continue;
            }
            corners += u32::from(before > 0xfefd);
            let left = router.forward(&sent);
            let wanted = with_v4(left.clone(), |_| {});
            assert_eq!(left, wanted, "{word:#06x}");
            let mut corrupt = sent;
            corrupt[ethernet::HEADER_LEN + 10] ^= 1;
            if word % 251 == 0 {
                dropped(router, &corrupt, "bad_checksum", None);
            }
        }
        assert!(corners > 200, "{corners}");
    });
}

/// RFC 1812 §5.2.4.3: the longest matching prefix is used. The default route matches everything, and a host route
/// matches one host.
#[test]
fn rfc1812_5_2_4_3_the_longest_prefix_is_used_from_a_host_route_to_the_default_route() {
    on_each_way(|router| {
        let station = |last| MacAddr::new([2, 0, 0, 0, 1, last]);
        for (id, net, last) in
            [(90, "0.0.0.0/0", 1), (91, "10.8.0.0/16", 2), (92, "10.8.7.0/24", 3), (93, "10.8.7.6/32", 4)]
        {
            router.lead(id, net, FibEntry::station(1, station(last)));
        }
        for (dst, last) in
            [("11.0.0.1", 1), ("10.8.0.1", 2), ("10.8.7.5", 3), ("10.8.7.6", 4), ("10.8.7.7", 3)]
        {
            let left = router.forward(&datagram(HOST[0], dst, 64, 9));
            assert_eq!(Ethernet::parse(&left).unwrap().0.dst, station(last), "{dst}");
        }
    });
}

/// RFC 3021 §2.1: both addresses of a /31 are hosts.
#[test]
fn rfc3021_2_1_both_addresses_of_a_31_bit_prefix_are_hosts() {
    on_each_way(|router| {
        router.lead(90, "10.8.0.2/31", FibEntry::station(1, HOSTS[1]));
        for dst in ["10.8.0.2", "10.8.0.3"] {
            router.forward(&datagram(HOST[0], dst, 64, 9));
        }
        for dst in ["10.8.0.1", "10.8.0.4"] {
            dropped(router, &datagram(HOST[0], dst, 64, 9), "no_route", Some(Message::NetUnreachable));
        }
    });
}

/// RFC 2992 §1: with several paths, a flow always takes the same one.
#[test]
fn rfc2992_1_each_flow_stays_on_one_of_several_paths_and_all_paths_are_used() {
    on_each_way(|router| {
        for last in [1, 2] {
            let neighbour = netmem_router::route::Neighbour { port: 1, address: [10, 5, 0, last].into() };
            let mac = MacAddr::new([2, 0, 0, 0, 1, last]);
            router.control.apply(vec![Change::Neighbour(neighbour, Some(mac))]);
        }
        let path = |last| Path { port: Some(1), via: Some([10, 5, 0, last].into()), weight: 1, mtu: None };
        let net = "10.8.0.0/16".parse().unwrap();
        let paths = [path(1), path(2)].into();
        router.control.apply(vec![Change::Paths(HopId(90), paths), Change::Route(net, HopId(90))]);
        let mut taken = std::collections::BTreeSet::new();
        for flow in 0..32 {
            let sent = datagram(&format!("10.0.0.{flow}"), "10.8.0.1", 64, 9);
            let stations: Vec<_> = (0..3).map(|_| router.forward(&sent)[..6].to_vec()).collect();
            assert!(stations.iter().all(|station| *station == stations[0]));
            taken.insert(stations[0].clone());
        }
        assert_eq!(taken.len(), 2);
    });
}

/// RFC 1812 §5.2.7.1: routes without a next hop. Each kind has its own code, or no error.
#[test]
fn rfc1812_5_2_7_1_routes_without_a_next_hop_cause_the_error_of_their_kind() {
    on_each_way(|router| {
        for (dst, name, says) in [
            ("10.9.0.1", "no_route", Some(Message::NetUnreachable)),
            ("10.2.0.1", "unreachable", Some(Message::HostUnreachable)),
            ("10.5.0.9", "neigh_failed", Some(Message::HostUnreachable)),
            ("10.3.0.1", "prohibited", Some(Message::Prohibited)),
            ("10.4.0.1", "blackhole", None),
        ] {
            dropped(router, &datagram(HOST[0], dst, 64, 9), name, says);
        }
    });
}

/// RFC 1191 §4: a packet is too long for the next link and must not be fragmented. The error reports the MTU.
#[test]
fn rfc1191_4_the_sender_of_a_too_long_packet_with_df_gets_the_mtu() {
    on_each_way(|router| {
        let length = |payload| datagram(HOST[0], OTHER[0], 64, payload);
        let fits = 1400 - 28;
        router.forward(&length(fits));
        let left = router.pass(0, &length(fits + 1));
        let [(0, error)] = &left[..] else { panic!("{} frames left", left.len()) };
        let said = read(error);
        assert_eq!((said.kind, said.code, said.rest), (3, 4, 1400));
    });
}

/// RFC 2474 §3 and RFC 3168 §5: the DS field and ECN stay the same, as does every byte except TTL, checksum and MAC
/// addresses. The MAC addresses are those of the router and the next hop.
#[test]
fn rfc2474_3_only_the_ttl_the_checksum_and_the_mac_addresses_change() {
    on_each_way(|router| {
        for tos in 0..=255 {
            let sent = with_v4(usual(), |packet| packet[1] = tos);
            let wanted = with_v4(sent.clone(), |packet| packet[8] = 63);
            let left = router.forward(&sent);
            assert_eq!(left[12..], wanted[12..]);
            let (link, _) = Ethernet::parse(&left).unwrap();
            assert_eq!((link.dst, link.src), (HOSTS[1], ENDS[1].mac));
        }
    });
}

/// RFC 791 §3.2: fragments are forwarded like any packet and not reassembled.
#[test]
fn rfc791_3_2_fragments_are_forwarded_one_by_one() {
    on_each_way(|router| {
        for field in [[0x20, 0], [0x20, 9], [0, 9]] {
            let sent = with_v4(usual(), |packet| packet[6..8].copy_from_slice(&field));
            assert_eq!(router.forward(&sent)[ethernet::HEADER_LEN + 6..][..2], field);
        }
    });
}

/// RFC 1812 §5.3.6 and 5.2.1: each port has its own MTU, which may change.
#[test]
fn rfc1812_5_2_1_each_port_has_its_own_mtu_and_addresses_which_may_change() {
    on_each_way(|router| {
        let length = |payload| datagram(HOST[0], OTHER[0], 64, payload);
        let wider = netmem_router::Interface { mtu: 1500, mac: MacAddr::new([2, 9, 9, 9, 9, 9]) };
        dropped(router, &length(1450), "pkt_too_big", Some(Message::TooBig));
        router.control.apply(vec![Change::Interface(1, wider)]);
        let left = router.forward(&length(1450));
        assert_eq!(Ethernet::parse(&left).unwrap().0.src, wider.mac);
    });
}

/// RFC 1812 §5.2.1 Table: frames that are not IP, or are for another station, are not forwarded.
#[test]
fn rfc1812_5_2_1_frames_that_are_not_ip_or_for_another_station_are_dropped() {
    on_each_way(|router| {
        let mut other = usual();
        other[5] ^= 7;
        dropped(router, &other, "not_for_us", None);
        dropped(router, &frame(ethernet::ARP, &[0; 28]), "arp", None);
        dropped(router, &frame(0x88cc, &[0; 50]), "unknown_ethertype", None);
        let tagged = [&usual()[..12], &[0x81, 0, 0, 5], &usual()[12..]].concat();
        dropped(router, &tagged, "unknown_ethertype", None);
    });
}
