//! Tests of headers between the link's and the transport's: IPv6 extension headers, and the IP headers of tunnels.

use super::*;
use crate::wire::Ipv4;
use crate::wire::offload::cut_to_mtu;

/// TCP over IPv6 with 300 bytes of payload, behind that many extension headers.
pub(super) fn tcp_v6(extensions: usize) -> Left {
    Left {
        tags: 0,
        is_v6: true,
        extensions,
        kind: GsoKind::TcpV6,
        options: 3,
        flags: 0x18,
        size: 100,
        payload: vec![1; 300],
        padding: 0,
    }
}

/// Puts an IP header in front of the packet in a frame: that of a tunnel which gave it this identification. An IPv6
/// header is followed by the option that Linux puts there (RFC 2473, the limit of encapsulations).
fn tunnelled(frame: &[u8], tags: usize, is_v6: bool, id: u16) -> Vec<u8> {
    let ip = 14 + 4 * tags;
    let (link, packet) = frame.split_at(ip);
    let protocol = if packet[0] >> 4 == 6 { 41 } else { 4 };
    let mut outer = link.to_vec();
    outer[ip - 2..].copy_from_slice(if is_v6 { &[0x86, 0xdd] } else { &[8, 0] });
    if is_v6 {
        outer.extend([0x60, 0, 0, 0]);
        outer.extend((packet.len() as u16 + 8).to_be_bytes());
        outer.extend([60, 64]);
        outer.extend([[0xfa; 16], [0xfb; 16]].concat());
        outer.extend([protocol, 0, 4, 1, 4, 1, 0, 0]);
    } else {
        outer.extend([0x45, 0]);
        outer.extend((packet.len() as u16 + 20).to_be_bytes());
        outer.extend(id.to_be_bytes());
        outer.extend([0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        Ipv4::seal(&mut outer[ip..]);
    }
    [&outer, packet].concat()
}

/// The same for each of these tunnels, from the inner one to the outer one, with that many segments before.
fn tunnelled_by(tunnels: &[bool], frame: &[u8], tags: usize, before: usize) -> Vec<u8> {
    let around = |frame: Vec<u8>, is_v6: &bool| {
        tunnelled(&frame, tags, *is_v6, 0xffff_u16.wrapping_add(before as u16))
    };
    tunnels.iter().fold(frame.to_vec(), around)
}

/// Bytes of the headers of these tunnels.
fn headers_of(tunnels: &[bool]) -> usize {
    tunnels.iter().map(|is_v6| if *is_v6 { 48 } else { 20 }).sum()
}

proptest! {
    /// Seen: packets that GRO had joined were dropped if they came through a tunnel, and its TCP crawled.
    #[test]
    fn segments_within_a_tunnel_are_those_without_it_with_numbered_headers_around_them(
        left in left(), tunnels in prop::collection::vec(any::<bool>(), 1..=2), room in 0..6000usize,
    ) {
        let left = Left { padding: 0, ..left };
        let packet = left.packet();
        let whole = tunnelled_by(&tunnels, &packet, left.tags, 0);
        let offload = left.offload().moved_by(headers_of(&tunnels) as u16);
        let segments = Segments::of(&whole, &offload).unwrap();
        let without = cut(&Segments::of(&packet, &left.offload()).unwrap(), &packet);
        let wanted: Vec<Vec<u8>> =
            without.iter().enumerate().map(|(i, one)| tunnelled_by(&tunnels, one, left.tags, i)).collect();
        prop_assert!(cut(&segments, &whole) == wanted);
        prop_assert_eq!(segments.packet_len(), wanted[0].len() - 14 - 4 * left.tags);
        let pieces = segments.in_pieces(room);
        prop_assert!(pieces.offload(0).is_none() && cut(&pieces, &whole) == wanted, "they are no pieces");
    }
}

#[test]
fn more_or_other_headers_around_a_packet_are_refused() {
    let left = tcp_v6(0);
    let of = |tunnels: &[bool], protocol: Option<u8>| {
        let mut whole = tunnelled_by(tunnels, &left.packet(), 0, 0);
        if let Some(protocol) = protocol {
            whole[23] = protocol;
            Ipv4::seal(&mut whole[14..]);
        }
        Segments::of(&whole, &left.offload().moved_by(headers_of(tunnels) as u16)).map(|found| found.count())
    };
    assert_eq!(of(&[false, true], None), Ok(3));
    assert_eq!(of(&[false, true, false], None), Err(BadOffload::NotOfKind));
    assert_eq!(of(&[false], Some(41)), Ok(3));
    assert_eq!(of(&[false], Some(47)), Err(BadOffload::NotOfKind), "GRE");
    assert_eq!(of(&[false], Some(4)), Err(BadOffload::NotOfKind), "IPv6 is no IPv4");
    let whole = tunnelled_by(&[false], &left.packet(), 0, 0);
    let unmarked = Offload { checksum: None, ..left.offload() };
    assert_eq!(
        Segments::of(&whole, &unmarked).err(),
        Some(BadOffload::NotOfKind),
        "nothing tells of a tunnel"
    );
    assert_eq!(unfinished(&whole), None);
}

/// Seen: TCP of a socket with IPV6_DSTOPTS was dropped by one port, and left the other with an open checksum.
#[test]
fn extension_headers_that_change_no_checksum_are_skipped_and_no_others() {
    for (extensions, skipped) in [(0, true), (1, true), (8, true), (9, false)] {
        let left = tcp_v6(extensions);
        assert_eq!(unfinished(&left.packet()).is_some(), skipped, "{extensions}");
        assert_eq!(Segments::of(&left.packet(), &left.offload()).is_ok(), skipped, "{extensions}");
        #[cfg(any(feature = "xdp", feature = "af-packet", feature = "tap"))]
        assert_eq!(left.offload().can_wait(&left.packet()), skipped, "{extensions}");
    }
    let left = tcp_v6(1);
    let cut = cut_to_mtu(&left.packet(), 40 + 8 + 32 + 100).unwrap();
    assert_eq!(Some(cut), Some(Offload { checksum: None, ..left.offload() }));
    assert_eq!(Segments::of(&left.packet(), &cut).unwrap().count(), 3);
    for other in [43, 44, 51] {
        let mut packet = left.packet();
        packet[20] = other;
        assert_eq!(unfinished(&packet), None, "{other}");
        assert_eq!(Segments::of(&packet, &left.offload()).err(), Some(BadOffload::NotOfKind), "{other}");
    }
    let mut beyond = left.packet();
    beyond[14 + 40 + 1] = 255;
    assert_eq!(unfinished(&beyond), None);
}

/// Checks that the checksums of the packet and of its three segments cover these addresses.
fn assert_summed(packet: &[u8], left: &Left, start: usize, ends: &[u8]) {
    let at = usize::from(left.checksum().offset);
    let sum = |length: usize| {
        let protocol = if left.kind == GsoKind::Udp { 17 } else { 6 };
        crate::wire::checksum::Sum::new().bytes(ends).double_word(length as u32).word(protocol)
    };
    let mut packet = packet.to_vec();
    let partial = sum(packet.len() - start).fold();
    packet[start + at..][..2].copy_from_slice(&partial.to_be_bytes());
    let checksum = PartialChecksum { start: start as u16, offset: at as u16 };
    let offload = Offload { checksum: Some(checksum), ..left.offload() };
    let segments = Segments::of(&packet, &offload).unwrap();
    let cut = cut(&segments, &packet);
    assert_eq!(cut.len(), 3);
    for segment in cut {
        assert!(sum(segment.len() - start).bytes(&segment[start..]).intact(), "{segment:x?}");
    }
    assert!(complete_checksum(&mut packet));
    assert!(sum(packet.len() - start).bytes(&packet[start..]).intact());
}

/// Read: each segment of a packet with a source route had a wrong checksum, and over AF_XDP an open one stayed open.
#[test]
fn the_checksum_of_a_packet_with_a_source_route_covers_its_last_stop() {
    let [src, dst, other, last] = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 3], [10, 0, 0, 4]];
    for kind in [GsoKind::TcpV4, GsoKind::Udp] {
        // Three words of options, after one of padding.
        let left = Left { is_v6: false, kind, options: 3, ..tcp_v6(0) };
        for (option, pointer, end) in
            [(131, 4, last), (137, 8, last), (131, 12, dst), (7, 4, dst), (68, 4, dst)]
        {
            let mut packet = left.packet();
            packet[34..46].copy_from_slice(&[&[1, option, 11, pointer][..], &other, &last].concat());
            Ipv4::seal(&mut packet[14..]);
            assert_summed(&packet, &left, 46, &[src, end].concat());
        }
    }
}

/// Read: the same of a packet from a mobile node that is away.
#[test]
fn the_checksum_of_a_packet_with_a_home_address_covers_that() {
    let (home, dst) = ([0xaa; 16], [0xfe; 16]);
    let left = tcp_v6(0);
    let plain = left.packet();
    for (header, kind, src) in [(60, 0xc9, home), (0, 0xc9, [0xfd; 16]), (60, 0xca, [0xfd; 16])] {
        let options = [&[6, 2, 1, 2, 0, 0, kind, 16][..], &home].concat();
        let mut packet = [&plain[..54], &options, &plain[54..]].concat();
        packet[20] = header;
        let length = (packet.len() - 54) as u16;
        packet[18..20].copy_from_slice(&length.to_be_bytes());
        assert_summed(&packet, &left, 78, &[src, dst].concat());
    }
    // Cut off within the option, and an option of a wrong length.
    for (at, byte) in [(55, 0), (61, 17), (61, 15), (57, 255)] {
        let options = [&[6, 2, 1, 2, 0, 0, 0xc9, 16][..], &home].concat();
        let mut packet = [&plain[..54], &options, &plain[54..]].concat();
        packet[20] = 60;
        packet[at] = byte;
        let _ = (unfinished(&packet), complete_checksum(&mut packet));
    }
}

/// Seen: a packet with 65,535 bytes behind its IPv6 header ended the program.
#[test]
fn a_segment_as_long_as_a_packet_of_ipv6_can_be_is_written() {
    let left = Left { options: 0, size: u16::MAX, payload: vec![7; 65_535 - 20], ..tcp_v6(0) };
    let packet = left.packet();
    let segments = cut(&Segments::of(&packet, &left.offload()).unwrap(), &packet);
    assert_eq!((segments.len(), segments[0].len(), &segments[0][18..20]), (1, 65_535 + 54, &[0xff; 2][..]));
}
