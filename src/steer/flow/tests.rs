//! Tests of flows against the published verification suite of receive-side scaling.

use super::*;
use crate::steer::toeplitz::SYMMETRIC_KEY;
use etherparse::{IpFragOffset, IpNumber, Ipv4Header, PacketBuilder};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

/// Microsoft, "Verifying the RSS Hash Calculation": destination, source, hash of the addresses, hash with TCP ports.
const SUITE: [(&str, &str, u32, u32); 8] = [
    ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2, 0x51cc_c178),
    ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
    ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
    ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
    ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
    ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
    ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
    (
        "[fe80::200:f8ff:fe21:67cf]:38024",
        "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
        0x4b61_e985,
        0x02d1_feef,
    ),
];

/// Returns a frame from `src` to `dst`: TCP, UDP or, for any other protocol, raw.
fn frame(src: SocketAddr, dst: SocketAddr, protocol: IpNumber) -> Vec<u8> {
    let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip = match (src.ip(), dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => link.ipv4(src.octets(), dst.octets(), 64),
        (IpAddr::V6(src), IpAddr::V6(dst)) => link.ipv6(src.octets(), dst.octets(), 64),
        _ => unreachable!("both of one family"),
    };
    let mut bytes = Vec::new();
    match protocol {
        IpNumber::TCP => ip.tcp(src.port(), dst.port(), 1, 1024).write(&mut bytes, b"payload"),
        IpNumber::UDP => ip.udp(src.port(), dst.port()).write(&mut bytes, b"payload"),
        other => ip.write(&mut bytes, other, b"payload"),
    }
    .unwrap();
    bytes
}

#[test]
fn frames_of_the_published_suite_hash_as_published() {
    let hash = Toeplitz::default();
    for (dst, src, addresses, ports) in SUITE {
        let (dst, src) = (dst.parse().unwrap(), src.parse().unwrap());
        assert_eq!(hash.flow(&frame(src, dst, IpNumber::TCP), 0), ports, "{src} to {dst}, TCP");
        assert_eq!(hash.flow(&frame(src, dst, IpNumber::UDP), 0), ports, "{src} to {dst}, UDP");
        assert_eq!(hash.flow(&frame(src, dst, IpNumber::GRE), 0), addresses, "{src} to {dst}, no ports");
    }
}

#[test]
fn the_symmetric_key_takes_both_directions_of_the_suite_one_way() {
    let hash = Toeplitz::new(&SYMMETRIC_KEY);
    for (dst, src, ..) in SUITE {
        let (dst, src) = (dst.parse().unwrap(), src.parse().unwrap());
        let [there, back] = [(src, dst), (dst, src)].map(|(from, to)| frame(from, to, IpNumber::TCP));
        assert_eq!(hash.flow(&there, 0), hash.flow(&back, 0));
    }
}

#[test]
fn all_fragments_of_a_packet_hash_by_its_addresses() {
    let (dst, src, addresses, _) = SUITE[0];
    let whole = frame(src.parse().unwrap(), dst.parse().unwrap(), IpNumber::UDP);
    for (more, offset) in [(true, 0), (true, 185), (false, 370)] {
        let mut header = Ipv4Header::from_slice(&whole[14..]).unwrap().0;
        (header.more_fragments, header.fragment_offset) = (more, IpFragOffset::try_new(offset).unwrap());
        let mut fragment = whole.clone();
        fragment[14..34].copy_from_slice(&header.to_bytes());
        assert_eq!(Toeplitz::default().flow(&fragment, 0), addresses, "at {offset}");
    }
    let dont_fragment = Ipv4Header::from_slice(&whole[14..]).unwrap().0.dont_fragment;
    assert!(dont_fragment, "a whole packet that says so is none");
}

#[test]
fn ports_are_found_behind_ipv4_options() {
    let (dst, src, _, ports) = SUITE[1];
    let mut bytes = frame(src.parse().unwrap(), dst.parse().unwrap(), IpNumber::UDP);
    bytes.splice(34..34, [1; 8]);
    bytes[14] = 0x47;
    assert_eq!(Toeplitz::default().flow(&bytes, 0), ports);
}

#[test]
fn priority_tagged_frames_hash_as_untagged_ones_and_those_of_a_vlan_by_queue() {
    let hash = Toeplitz::default();
    for (dst, src, ..) in SUITE {
        let frame = frame(src.parse().unwrap(), dst.parse().unwrap(), IpNumber::UDP);
        let tagged = |vid: u8| [&frame[..12], &[0x81, 0, 0xe0, vid], &frame[12..]].concat();
        assert_eq!(hash.flow(&tagged(0), 3), hash.flow(&frame, 3));
        assert_eq!(hash.flow(&tagged(5), 3), hash.flow(&[], 3));
        assert_eq!((FlowKey::of(&tagged(0)), FlowKey::of(&tagged(5))), (FlowKey::of(&frame), None));
    }
}

#[test]
fn what_is_not_ip_goes_by_its_queue() {
    let hash = Toeplitz::default();
    let mut arp = vec![0xff; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(hash.flow(&arp, 3), hash.flow(&[], 3));
    assert_ne!(hash.flow(&arp, 3), hash.flow(&arp, 4));
}

#[test]
fn a_reversed_key_is_that_of_the_packets_in_the_other_direction() {
    for (dst, src, ..) in SUITE {
        let (dst, src) = (dst.parse().unwrap(), src.parse().unwrap());
        for protocol in [IpNumber::TCP, IpNumber::UDP, IpNumber::GRE] {
            let [there, back] =
                [(src, dst), (dst, src)].map(|(from, to)| FlowKey::of(&frame(from, to, protocol)).unwrap());
            assert_eq!([there.reversed(), back.reversed()], [back, there], "{src} to {dst}");
            assert_eq!([there, back].map(|key| key.has_ports()), [protocol != IpNumber::GRE; 2]);
        }
    }
}

#[test]
fn a_packet_has_the_key_of_its_frame_and_without_its_ports_that_of_its_addresses() {
    for (dst, src, ..) in SUITE {
        let (dst, src): (SocketAddr, SocketAddr) = (dst.parse().unwrap(), src.parse().unwrap());
        let frame = frame(src, dst, IpNumber::UDP);
        let ports_at = frame.len() - b"payload".len() - 8;
        for end in ports_at + 4..=frame.len() {
            assert_eq!(FlowKey::of_packet(&frame[14..end]), FlowKey::of(&frame), "{end} bytes");
        }
        for end in ports_at..ports_at + 4 {
            let addresses = FlowKey::between(src.ip(), dst.ip());
            assert_eq!(FlowKey::of_packet(&frame[14..end]), addresses, "{end} bytes");
        }
        for end in 14..ports_at {
            assert_eq!(FlowKey::of_packet(&frame[14..end]), None, "{end} bytes");
        }
    }
    assert_eq!(FlowKey::of_packet(&[0x50; 60]), None, "version 5");
}

/// Seen: a balancer sent a UDP flow to the back end of the TCP connection with the same addresses and ports.
#[test]
fn flows_of_tcp_and_udp_with_equal_addresses_and_ports_have_different_keys_and_one_hash() {
    let hash = Toeplitz::default();
    for (dst, src, ..) in SUITE {
        let (dst, src) = (dst.parse().unwrap(), src.parse().unwrap());
        let frames = [IpNumber::TCP, IpNumber::UDP, IpNumber::GRE].map(|protocol| frame(src, dst, protocol));
        let [tcp, udp, gre] = [0, 1, 2].map(|i| FlowKey::of(&frames[i]).unwrap());
        assert!(tcp != udp && tcp.reversed() != udp.reversed(), "{src} to {dst}");
        assert_eq!([tcp, udp, gre].map(|key| key.protocol()), [Some(6), Some(17), None]);
        assert_eq!(hash.flow(&frames[0], 0), hash.flow(&frames[1], 0));
    }
}

proptest! {
    #[test]
    fn any_bytes_have_a_hash(bytes in prop::collection::vec(any::<u8>(), 0..80), ethertype in 0..3_usize) {
        let mut bytes = bytes;
        if let Some(place) = bytes.get_mut(12..14) {
            place.copy_from_slice(&[[0x08, 0], [0x86, 0xdd], [0x08, 0x06]][ethertype]);
        }
        let key = FlowKey::of(&bytes);
        prop_assert!(key.is_none_or(|key| [8, 12, 32, 36].contains(&key.bytes().len())));
        prop_assert!(key.is_none_or(|key| key.reversed().reversed() == key));
        let packet = FlowKey::of_packet(&bytes);
        prop_assert!(packet.is_none_or(|key| key.reversed().reversed() == key));
    }
}
