//! Tests of headers against etherparse, an independent implementation of the same formats.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{IpNumber, Ipv4Header, Ipv4Options, PacketBuilder, SlicedPacket, UdpHeader};
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::wire::checksum::Sum;

/// Returns an IPv4 header made by etherparse, including its checksum, with `words` words of options.
fn header_bytes(
    ttl: u8,
    proto: u8,
    src: [u8; 4],
    dst: [u8; 4],
    payload: u16,
    words: usize,
    id: u16,
) -> Vec<u8> {
    let mut header = Ipv4Header::new(payload, ttl, IpNumber(proto), src, dst).unwrap();
    header.identification = id;
    let options: Vec<u8> = (0..words * 4).map(|i| i as u8).collect();
    header.options = Ipv4Options::try_from(&options[..]).unwrap();
    header.set_payload_len(usize::from(payload)).unwrap();
    header.header_checksum = header.calc_header_checksum();
    header.to_bytes().to_vec()
}

/// Corrects the checksum of the header at the start of `packet` after an edit.
fn fix_checksum(packet: &mut [u8], header_len: usize) {
    packet[10..12].fill(0);
    let checksum = Sum::new().bytes(&packet[..header_len]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn a_packet_that_etherparse_built_reads_the_same() {
    let mut bytes = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, 1], [10, 1, 0, 2], 64)
        .udp(1234, 53)
        .write(&mut bytes, b"odd payload")
        .unwrap();
    bytes.extend([0; 7]); // padding of the link

    let (link, packet) = Ethernet::parse(&bytes).unwrap();
    assert_eq!(
        (link.src.to_string(), link.dst.to_string()),
        ("02:00:00:00:00:01".into(), "02:00:00:00:00:02".into())
    );
    assert_eq!(link.ethertype(), ethernet::IPV4);
    let (ip, datagram) = Ipv4::parse(packet).unwrap();
    assert_eq!((ip.version(), ip.header_len(), ip.ttl(), ip.protocol()), (4, 20, 64, ipv4::UDP));
    assert_eq!((ip.src(), ip.dst()), (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 0, 2)));
    let (udp, payload) = Udp::parse(datagram).unwrap();
    assert_eq!((udp.src_port(), udp.dst_port(), payload), (1234, 53, &b"odd payload"[..]));
    assert!(udp::intact(ip.src(), ip.dst(), datagram));
}

#[test]
fn headers_we_build_are_those_etherparse_builds() {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 2, 3));
    let ours = Ipv4::new(src, dst, ipv4::UDP, 64, 30);
    assert_eq!(ours.as_bytes(), header_bytes(64, 17, src.octets(), dst.octets(), 30, 0, 0));
    assert!(ours.dont_fragment() && !ours.is_fragment());
}

#[test]
fn every_check_names_its_own_fault() {
    let good = [header_bytes(64, 17, [10, 0, 0, 1], [10, 1, 0, 1], 8, 0, 7), vec![0; 8]].concat();
    let fault = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        edit(&mut packet);
        let read = Ipv4::parse(&packet).map(|_| ());
        assert_eq!(Ipv4::parse_mut(&mut packet).map(|_| ()), read);
        read.map_err(Malformed::name)
    };
    assert_eq!(fault(&|_| ()), Ok(()));
    assert_eq!(fault(&|p| p.push(0)), Ok(()), "padding of the link is no fault");
    assert_eq!(fault(&|p| p.truncate(19)), Err("short_header"));
    assert_eq!(fault(&|p| p.clear()), Err("short_header"));
    assert_eq!(fault(&|p| p[0] = 0x65), Err("bad_version"));
    assert_eq!(fault(&|p| p[0] = 0x44), Err("bad_header_length"));
    assert_eq!(fault(&|p| p[3] = 19), Err("bad_total_length"));
    assert_eq!(fault(&|p| p[0] = 0x4f), Err("bad_total_length"), "60 bytes of header in 28");
    assert_eq!(fault(&|p| p[3] = 29), Err("truncated"));
    assert_eq!(fault(&|p| p.truncate(27)), Err("truncated"));
    assert_eq!(fault(&|p| p[8] -= 1), Err("bad_checksum"));
    assert_eq!(fault(&|p| p[11] ^= 1), Err("bad_checksum"));
}

#[test]
fn options_are_tolerated_and_under_the_checksum() {
    for words in 1..=10 {
        let mut packet =
            [header_bytes(64, 17, [10, 0, 0, 1], [10, 1, 0, 1], 3, words, 7), vec![1, 2, 3]].concat();
        let (header, payload) = Ipv4::parse(&packet).unwrap();
        assert_eq!((header.header_len(), payload), (20 + words * 4, &[1u8, 2, 3][..]));
        packet[20 + words * 4 - 1] ^= 1;
        assert_eq!(Ipv4::parse(&packet), Err(Malformed::BadChecksum));
    }
}

#[test]
fn the_header_of_a_piece_says_where_it_begins_and_whether_more_follow_as_etherparse_reads_it() {
    for (offset, more, length) in [(0, true, 1400), (0x1fff, false, 60), (175, true, 60), (0, false, 60)] {
        let mut packet = header_bytes(64, 17, [10, 0, 0, 1], [10, 1, 0, 1], 0, 10, 7);
        let header = Ipv4::mut_from_prefix(&mut packet[..]).unwrap().0;
        header.set_fragment(offset, more, length);
        let said = (header.fragment_offset(), header.more_fragments(), header.total_length());
        assert_eq!(said, (offset, more, length));
        Ipv4::seal(&mut packet);
        let (theirs, _) = Ipv4Header::from_slice(&packet).unwrap();
        let read = (theirs.fragment_offset.value(), theirs.more_fragments, theirs.total_len);
        assert_eq!((read, theirs.dont_fragment), ((offset, more, length), false));
        assert_eq!(theirs.header_checksum, theirs.calc_header_checksum());
    }
}

/// RFC 791 §3.1: options with the copied flag are in all fragments. Others are replaced by padding.
#[test]
fn a_later_fragment_keeps_the_options_with_the_copied_flag_alone() {
    for (options, kept) in [
        ([0; 8], [0; 8]),
        ([7, 7, 4, 9, 9, 9, 9, 0], [1, 1, 1, 1, 1, 1, 1, 0]),
        ([1, 0x94, 4, 0, 0, 68, 2, 0], [1, 0x94, 4, 0, 0, 1, 1, 0]),
        // Bytes behind the end, and behind an invalid option, are not looked at.
        ([0, 7, 4, 9, 9, 9, 9, 9], [0, 7, 4, 9, 9, 9, 9, 9]),
        ([7, 2, 7, 1, 7, 2, 7, 2], [1, 1, 7, 1, 7, 2, 7, 2]),
        ([7, 2, 7, 9, 7, 2, 7, 2], [1, 1, 7, 9, 7, 2, 7, 2]),
    ] {
        let mut packet = header_bytes(64, 17, [10, 0, 0, 1], [10, 1, 0, 1], 3, 2, 7);
        packet.extend([7, 7, 7]);
        packet[20..28].copy_from_slice(&options);
        let mut wanted = packet.clone();
        wanted[20..28].copy_from_slice(&kept);
        super::options::retain_copied(&mut packet);
        assert_eq!(packet, wanted);
    }
}

#[test]
fn the_ttl_corner_gives_zero_and_not_all_ones() {
    // A checksum of 0xfeff must become 0x0000: RFC 1141's sum would leave 0xffff.
    let mut packet = header_bytes(64, 17, [10, 0, 0, 1], [10, 1, 0, 1], 0, 0, 0);
    let id = (0..=u16::MAX).find(|id| {
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        fix_checksum(&mut packet, 20);
        packet[10..12] == [0xfe, 0xff]
    });
    assert!(id.is_some(), "some identification gives that checksum");
    Ipv4::parse_mut(&mut packet).unwrap().decrement_ttl();
    assert_eq!(packet[10..12], [0, 0]);
    assert!(Ipv4::parse(&packet).is_ok());
}

#[test]
fn a_udp_checksum_of_zero_means_none_and_is_never_made() {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 0, 1));
    let mut made = std::collections::BTreeSet::new();
    for word in 0..=u16::MAX {
        let header = Udp::new(1, 2, 2);
        let sum = udp::pseudo_header(src, dst, 10).word(word) + header.sum();
        made.insert(udp::checksum(sum));
    }
    assert!(!made.contains(&0) && made.contains(&0xffff));
    let none = [0u8, 1, 0, 2, 0, 10, 0, 0, 5, 5];
    assert!(udp::intact(src, dst, &none));
    let wrong = [0u8, 1, 0, 2, 0, 10, 0, 1, 5, 5];
    assert!(!udp::intact(src, dst, &wrong));
    for length in [0, 7, 11] {
        assert_eq!(Udp::parse(&[0, 1, 0, 2, 0, length, 0, 0, 5, 5]), None);
    }
    assert_eq!(Udp::parse(&none[..7]), None);
}

proptest! {
    #[test]
    fn a_decremented_ttl_keeps_the_checksum_of_any_header(
        proto in any::<u8>(), src in any::<[u8; 4]>(), dst in any::<[u8; 4]>(),
        payload in 0u16..1000, words in 0usize..=10, id in any::<u16>(),
    ) {
        for ttl in 1..=u8::MAX {
            let mut ours = header_bytes(ttl, proto, src, dst, payload, words, id);
            ours.resize(ours.len() + usize::from(payload), 0);
            Ipv4::parse_mut(&mut ours).unwrap().decrement_ttl();
            let theirs = header_bytes(ttl - 1, proto, src, dst, payload, words, id);
            prop_assert_eq!(&ours[..theirs.len()], &theirs[..]);
        }
    }

    #[test]
    fn a_plain_header_is_intact_when_its_sum_word_by_word_says_so(
        mut header in any::<[u8; 20]>(), ones in 0usize..20, fix in any::<bool>(),
    ) {
        header[..ones].fill(0xff); // long carries
        header[0] = 0x45;
        if fix {
            fix_checksum(&mut header, 20);
        }
        let (ip, _) = Ipv4::ref_from_prefix(&header).unwrap();
        let sum = header.chunks(2).fold(Sum::new(), |sum, word| sum.word(u16::from_be_bytes([word[0], word[1]])));
        prop_assert_eq!(ip.is_plain(), sum.intact());
        prop_assert!(ip.is_plain() || !fix);
    }

    #[test]
    fn udp_checksums_are_those_of_etherparse(
        src in any::<[u8; 4]>(), dst in any::<[u8; 4]>(), ports in any::<(u16, u16)>(),
        payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let ip = Ipv4Header::new(8 + payload.len() as u16, 64, IpNumber::UDP, src, dst).unwrap();
        let theirs = UdpHeader::with_ipv4_checksum(ports.0, ports.1, &ip, &payload).unwrap();
        let mut ours = Udp::new(ports.0, ports.1, payload.len() as u16);
        let sum = udp::pseudo_header(src.into(), dst.into(), 8 + payload.len() as u16);
        ours.set_checksum(udp::checksum(sum + ours.sum().bytes(&payload)));
        prop_assert_eq!(ours.as_bytes(), &theirs.to_bytes()[..]);
        let datagram = [ours.as_bytes(), &payload].concat();
        prop_assert!(udp::intact(src.into(), dst.into(), &datagram));
    }

    #[test]
    fn any_bytes_are_parsed_or_refused_and_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        // Bias: a plausible first byte, and a nearly correct length.
        if bytes.len() > 3 {
            bytes[0] = 0x40 | bytes[0] & 0xf;
            bytes[2] = 0;
            bytes[3] &= 0x7f;
        }
        let _ = Ethernet::parse(&bytes);
        let _ = udp::intact(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, &bytes);
        if let Ok((header, payload)) = Ipv4::parse(&bytes) {
            prop_assert_eq!(payload.len(), usize::from(header.total_length()) - header.header_len());
        }
        if bytes.len() > 3 && bytes[0] & 0xf >= 5 && bytes.len() >= usize::from(bytes[0] & 0xf) * 4 {
            let header_len = usize::from(bytes[0] & 0xf) * 4;
            fix_checksum(&mut bytes, header_len);
            let theirs = SlicedPacket::from_ip(&bytes).is_ok();
            let ours = Ipv4::parse(&bytes).is_ok();
            prop_assert!(ours || !theirs, "etherparse took what we refused");
        }
    }
}

/// A datagram whose header is rewritten by setters equals one that is made with the new values, including checksums.
#[test]
fn headers_that_are_rewritten_are_those_that_would_have_been_built() {
    let build = |[src, dst]: [Ipv4Addr; 2], [from, to]: [u16; 2], payload: &[u8]| {
        let mut udp = Udp::new(from, to, payload.len() as u16);
        let sum = udp::pseudo_header(src, dst, udp.length()) + udp.sum().bytes(payload);
        udp.set_checksum(udp::checksum(sum));
        let ip = Ipv4::new(src, dst, ipv4::UDP, 64, udp.length());
        [&ip.to_bytes()[..], &udp.to_bytes(), payload].concat()
    };
    let random = (any::<[u32; 4]>(), any::<[u16; 4]>(), any::<Vec<u8>>());
    proptest!(|((addresses, ports, payload) in random)| {
        let [src, dst, new_src, new_dst] = addresses.map(Ipv4Addr::from);
        let mut packet = build([src, dst], [ports[0], ports[1]], &payload);
        let ip = Ipv4::parse_mut(&mut packet).unwrap();
        ip.set_src(new_src);
        ip.set_dst(new_dst);
        ip.swap_addresses();
        let (udp, rest) = Udp::parse_mut(&mut packet[20..]).unwrap();
        prop_assert_eq!(rest.len(), payload.len());
        udp.address_changed(src, new_src);
        udp.address_changed(dst, new_dst);
        udp.set_src_port(ports[2]);
        udp.set_dst_port(ports[3]);
        udp.swap_ports();
        prop_assert_eq!(&packet, &build([new_dst, new_src], [ports[3], ports[2]], &payload));
        // Longer by bytes that add nothing to a sum.
        let (longer, datagram) = ([&payload[..], &[0; 6]].concat(), 8 + payload.len() as u16 + 6);
        packet.extend([0; 6]);
        Ipv4::parse_mut(&mut packet).unwrap().set_total_length(20 + datagram);
        Udp::parse_mut(&mut packet[20..]).unwrap().0.set_length(datagram);
        prop_assert_eq!(packet, build([new_dst, new_src], [ports[3], ports[2]], &longer));
    });
}

/// Seen: `address_changed` took IPv4 addresses only, so that a checksum over IPv6 had to be computed again from all bytes.
#[test]
fn checksums_over_ipv6_are_those_of_a_full_sum_after_addresses_and_ports_changed() {
    let udp_of = |[src, dst]: [Ipv6Addr; 2], [from, to]: [u16; 2], payload: &[u8]| {
        let mut udp = Udp::new(from, to, payload.len() as u16);
        let sum = udp::pseudo_header_v6(src, dst, udp.length()) + udp.sum().bytes(payload);
        udp.set_checksum(udp::checksum(sum));
        [&udp.to_bytes(), payload].concat()
    };
    let tcp_of = |[src, dst]: [Ipv6Addr; 2], [from, to]: [u16; 2], payload: &[u8]| {
        let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
        let mut segment = [&ports[..], &[0; 8], &[5 << 4, 0x10, 1, 0, 0, 0, 0, 0], payload].concat();
        let sum = tcp::pseudo_header_v6(src, dst, segment.len() as u32).bytes(&segment);
        Tcp::parse_mut(&mut segment).unwrap().0.set_checksum(sum.checksum());
        segment
    };
    let random = (any::<[u128; 4]>(), any::<[u16; 4]>(), any::<Vec<u8>>());
    proptest!(|((addresses, ports, payload) in random)| {
        let [src, dst, new_src, new_dst] = addresses.map(Ipv6Addr::from);
        let mut datagram = udp_of([src, dst], [ports[0], ports[1]], &payload);
        let (udp, _) = Udp::parse_mut(&mut datagram).unwrap();
        udp.address_changed_v6(src, new_src);
        udp.address_changed_v6(dst, new_dst);
        udp.set_src_port(ports[2]);
        udp.set_dst_port(ports[3]);
        prop_assert_eq!(datagram, udp_of([new_src, new_dst], [ports[2], ports[3]], &payload));
        let mut segment = tcp_of([src, dst], [ports[0], ports[1]], &payload);
        let (tcp, ..) = Tcp::parse_mut(&mut segment).unwrap();
        tcp.address_changed_v6(src, new_src);
        tcp.address_changed_v6(dst, new_dst);
        tcp.set_src_port(ports[2]);
        tcp.set_dst_port(ports[3]);
        prop_assert_eq!(segment, tcp_of([new_src, new_dst], [ports[2], ports[3]], &payload));
    });
}

#[test]
fn a_datagram_without_a_checksum_has_none_after_it_was_rewritten() {
    let mut udp = Udp::new(1, 2, 0);
    udp.set_src_port(7);
    udp.address_changed(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST);
    udp.address_changed_v6(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    udp.set_length(9);
    assert_eq!((udp.src_port(), udp.length(), udp.checksum()), (7, 9, 0));
}

#[test]
fn a_frame_that_is_turned_round_goes_back() {
    let [a, b] = [MacAddr::new([2, 0, 0, 0, 0, 1]), MacAddr::new([2, 0, 0, 0, 0, 2])];
    let mut bytes = Ethernet::new(a, b, ethernet::IPV4).to_bytes();
    let (link, _) = Ethernet::parse_mut(&mut bytes).unwrap();
    link.swap_addresses();
    link.set_ethertype(ethernet::ARP);
    assert_eq!(bytes, Ethernet::new(b, a, ethernet::ARP).to_bytes());
}
