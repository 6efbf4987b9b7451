//! Tests of checksums that were left open within a tunnel, and nothing marks.

use super::headers::tcp_v6;
use super::*;
use crate::wire::checksum::Sum;
use crate::wire::{Ipv4, Ipv6, ethernet, ipv4};

const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 1, 0];

/// Puts a packet of this protocol behind a link header and an IP header.
fn around(protocol: u8, is_v6: bool, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    let len = packet.len() as u16;
    if is_v6 {
        frame.extend([0x86, 0xdd]);
        frame.extend(Ipv6::new([0xfa; 16].into(), [0xfb; 16].into(), protocol, 64, len).to_bytes());
    } else {
        frame.extend(ethernet::IPV4.to_be_bytes());
        frame.extend(Ipv4::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), protocol, 64, len).to_bytes());
    }
    [&frame, packet].concat()
}

/// The pseudo-header's sum of the datagram behind those headers.
fn pseudo_header(is_v6: bool, len: usize) -> Sum {
    let addresses = if is_v6 { [[0xfa; 16], [0xfb; 16]].concat() } else { vec![192, 0, 2, 1, 192, 0, 2, 2] };
    Sum::new().bytes(&addresses).double_word(len as u32).word(17)
}

/// A datagram to `port` with this checksum, or with the correct one.
fn datagram(port: u16, is_v6: bool, checksum: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let len = 8 + payload.len();
    let [a, b] = port.to_be_bytes();
    let [c, d] = (len as u16).to_be_bytes();
    let mut datagram = [&[0xc0, 1, a, b, c, d, 0, 0], payload].concat();
    let correct = (pseudo_header(is_v6, len) + Sum::new().bytes(&datagram)).checksum();
    datagram[6..8].copy_from_slice(&checksum.unwrap_or(correct).to_be_bytes());
    datagram
}

/// Each kind of packet within a tunnel, with an open checksum and with the complete one, behind its link header.
fn kinds() -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let v4 = |kind| Left { is_v6: false, kind, options: 0, ..tcp_v6(0) };
    [tcp_v6(0), tcp_v6(1), v4(GsoKind::TcpV4), v4(GsoKind::Udp)].into_iter().map(|left| {
        let mut complete = left.packet();
        left.checksum().finish(&mut complete).unwrap();
        (left.packet(), complete)
    })
}

/// Seen: TCP within VXLAN between hosts behind veths arrived with both checksums wrong, and no counter moved.
#[test]
fn an_open_checksum_within_vxlan_is_completed_and_that_of_the_tunnel_is_correct_then() {
    for ((open, complete), is_v6) in kinds().flat_map(|kind| [(kind.clone(), false), (kind, true)]) {
        let within = |packet: &[u8], checksum| {
            around(ipv4::UDP, is_v6, &datagram(4789, is_v6, checksum, &[&VXLAN[..], packet].concat()))
        };
        let wanted = within(&complete, None);
        // The kernel writes the checksum that is correct when the other one is complete.
        let at = if is_v6 { 60 } else { 40 };
        let correct = u16::from_be_bytes([wanted[at], wanted[at + 1]]);
        let partial = pseudo_header(is_v6, 16 + open.len()).fold();
        for (checksum, wanted) in [(correct, &wanted), (partial, &wanted), (0, &within(&complete, Some(0)))] {
            let mut packet = within(&open, Some(checksum));
            assert!(complete_checksum(&mut packet));
            assert_eq!(&packet, wanted);
            assert!(!complete_checksum(&mut packet));
        }
        let mut packet = within(&complete, Some(partial));
        assert!(complete_checksum(&mut packet));
        assert_eq!(packet, wanted, "only that of the tunnel was open");
    }
}

#[test]
fn an_open_checksum_within_other_tunnels_is_completed() {
    for (open, complete) in kinds() {
        let [a, b] = [open[12], open[13]];
        let protocol = if open[14] >> 4 == 6 { 41 } else { 4 };
        let tunnels: [(u8, Vec<u8>, usize); 7] = [
            (17, vec![0xc0, 1, 0x21, 0x18, 0, 0, 0, 0, 0x88, 0, 0, 1, 0, 0, 1, 0], 0),
            (protocol, vec![], 14),
            (47, vec![0, 0, a, b], 14),
            (47, vec![0x30, 0, 0x65, 0x58, 0, 0, 0, 9, 0, 0, 0, 7], 0),
            (17, vec![0xc0, 1, 0x17, 0xc1, 0, 0, 0, 0, 0, 0, 0x65, 0x58, 0, 0, 1, 0], 0),
            (17, vec![0xc0, 1, 0x17, 0xc1, 0, 0, 0, 0, 0, 0, a, b, 0, 0, 1, 0], 14),
            (17, vec![0xc0, 1, 0x17, 0xc1, 0, 0, 0, 0, 1, 0, 0x65, 0x58, 0, 0, 1, 0, 9, 9, 9, 0], 0),
        ];
        for (protocol, header, link) in tunnels {
            let within = |packet: &[u8]| around(protocol, false, &[&header[..], &packet[link..]].concat());
            let mut packet = within(&open);
            assert!(complete_checksum(&mut packet), "{protocol} {header:x?}");
            assert_eq!(packet, within(&complete), "{protocol} {header:x?}");
            for len in 0..packet.len() {
                let mut short = within(&open);
                short.truncate(len);
                assert!(!complete_checksum(&mut short), "it is not whole");
            }
        }
    }
}

#[test]
fn what_only_looks_like_a_tunnel_s_packet_is_not_changed() {
    for (open, _) in kinds() {
        for (protocol, header) in [
            (17, &[0xc0, 1, 0x12, 0xb6, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0][..]),
            (17, &[0xc0, 1, 0x12, 0xb5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]),
            (17, &[0xc0, 1, 0x17, 0xc1, 0, 0, 0, 0, 0x40, 0, 0x65, 0x58, 0, 0, 1, 0]),
            (17, &[0xc0, 1, 0x17, 0xc1, 0, 0, 0, 0, 0, 0, 0x88, 0x47, 0, 0, 1, 0]),
            (47, &[0x40, 0, 0x65, 0x58]),
            (47, &[0, 1, 0x65, 0x58]),
            (47, &[0, 0, 0x88, 0xbe]),
            (50, &[]),
        ] {
            let packet = around(protocol, false, &[header, &open].concat());
            let mut seen = packet.clone();
            assert!(!complete_checksum(&mut seen), "{protocol} {header:x?}");
            assert_eq!(seen, packet);
        }
    }
}
