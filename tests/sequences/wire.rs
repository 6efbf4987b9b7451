//! Header views over any bytes: none panics, their results lie within the bytes, and rewritten headers stay correct.

#![allow(missing_docs)]

use netmem::forward::filter::Fields;
use netmem::wire::offload::{self, Offload};
use netmem::wire::options::{Stamp, record, requested};
use netmem::wire::segment::Segments;
use netmem::wire::{Ethernet, Headers, Icmp, Ipv4, Ipv6, Udp, ethernet, icmp, ipv4, ipv6};
use std::net::Ipv4Addr;

/// Reads a frame as every view does, from the outside in.
pub fn run(frame: &[u8]) {
    read(frame);
}

/// As [`run`]. Returns true if its IPv4 header is correct and asked for a record, which was made.
pub fn read(frame: &[u8]) -> bool {
    let plain = Headers::read(frame).map(|(headers, rest)| (headers.ip.is_plain(), rest.len()));
    assert_eq!(plain.is_some(), frame.len() >= ethernet::HEADER_LEN + ipv4::HEADER_LEN);
    let Ok((link, packet)) = Ethernet::parse(frame) else { return false };
    let is_recorded = over_ipv4(packet, plain.is_some_and(|(plain, _)| plain));
    over_ipv6(packet);
    over_offloads(frame);
    over_fields(frame, link.ethertype(), packet);
    // Each view is made for any bytes, whatever the layer below says.
    let _ = (link.ethertype(), Ipv6::read(packet));
    is_recorded
}

/// Rules check the values of the views. For IPv6 they check what `icmp::upper` finds, if the packet is whole.
fn over_fields(frame: &[u8], ethertype: u16, packet: &[u8]) {
    let fields = Fields::read(frame, 3);
    assert_eq!(fields.ingress, 3);
    if matches!(ethertype, ethernet::VLAN | ethernet::SERVICE_VLAN) {
        // The packet behind all tags is read as that of an untagged frame.
        let behind = ethernet::behind_tags(frame).ok();
        let untagged = behind.map(|(_, rest)| &frame[frame.len() - rest.len() - ethernet::HEADER_LEN..]);
        let wanted = untagged.map_or((None, None), |frame| {
            let fields = Fields::read(frame, 3);
            (fields.ipv4, fields.ipv6)
        });
        assert_eq!((fields.ipv4, fields.ipv6), wanted);
        return;
    }
    assert_eq!(fields.ethertype, ethertype);
    if ethertype != ethernet::IPV6 || Ipv6::parse(packet).is_err() {
        assert!(fields.ipv6.is_none() || Ipv6::read(packet).is_some());
        return;
    }
    let upper = icmp::upper(packet).filter(|it| !it.begins_elsewhere || !icmp::is_extension(it.protocol));
    assert_eq!(fields.ipv6.map(|ip| ip.protocol), upper.map(|upper| upper.protocol));
    if let Some((src, dst)) = fields.ipv6.and_then(|ip| ip.ports) {
        let upper = upper.expect("a packet with ports has an upper protocol");
        assert!(!upper.begins_elsewhere && matches!(upper.protocol, ipv4::TCP | ipv4::UDP));
        assert!(upper.bytes.starts_with(&[src.to_be_bytes(), dst.to_be_bytes()].concat()));
    }
}

/// Any offload of a frame, here from its own first bytes: no byte outside of the frame is read, and segments have no
/// more bytes than it has.
fn over_offloads(frame: &[u8]) {
    let mut finished = frame.to_vec();
    assert!(offload::complete_checksum(&mut finished) || finished == frame);
    let said = frame.first_chunk().and_then(|header| Offload::from_virtio(*header).ok());
    let by_mtu = offload::cut_to_mtu(frame, 100);
    for offload in [said, by_mtu].into_iter().flatten() {
        let _ = offload.checksum.map(|checksum| checksum.finish(&mut finished));
        let Ok(segments) = Segments::of(frame, &offload) else { continue };
        let mut carried = 0;
        for i in 0..segments.count() {
            let mut segment = vec![0; segments.bytes(i)];
            assert!(segments.write(frame, i, &mut segment));
            carried += segment.len() - segments.headers();
        }
        assert!(segments.headers() + carried <= frame.len());
    }
}

/// Returns true if an option was recorded.
fn over_ipv4(packet: &[u8], plain: bool) -> bool {
    let Ok((header, payload)) = Ipv4::parse(packet) else { return false };
    let end = usize::from(header.total_length());
    assert!(end <= packet.len() && header.header_len() <= end);
    assert_eq!(payload.len(), end - header.header_len());
    assert_eq!(plain, header.header_len() == ipv4::HEADER_LEN);
    if let Some((_, datagram)) = Udp::parse(payload) {
        assert!(datagram.len() + 8 <= payload.len());
    }
    assert_eq!(Icmp::read(payload).is_some(), payload.len() >= icmp::HEADER_LEN);
    let _ = icmp::is_query(payload);
    let mut rewritten = packet.to_vec();
    let ttl = header.ttl();
    Ipv4::parse_mut(&mut rewritten).expect("it was right").decrement_ttl();
    let (after, _) = Ipv4::parse(&rewritten).expect("a rewritten header is right");
    assert_eq!(after.ttl(), ttl.saturating_sub(1));
    over_options(&rewritten)
}

/// Options are recorded only if they ask for it, and once. The bytes after the header do not change. Returns true if
/// something was recorded.
fn over_options(packet: &[u8]) -> bool {
    let mut recorded = packet.to_vec();
    let own = Ipv4Addr::new(10, 9, 8, 7);
    record(&mut recorded, &Stamp { own: Some(own), is_own: |its| its == own, milliseconds: 0x0102_0304 });
    let requested = requested(packet);
    if !requested.is_ok_and(|requested| requested.records) {
        assert_eq!(recorded, packet);
        return false;
    }
    let (header, payload) = Ipv4::parse(&recorded).expect("a recorded header is right");
    assert_eq!(payload, &packet[header.header_len()..header.total_length().into()]);
    assert_eq!(unrecorded(packet, &recorded), packet);
    recorded != packet
}

/// A recorded packet with all that a router may have written as it was in `packet`.
fn unrecorded(packet: &[u8], recorded: &[u8]) -> Vec<u8> {
    let mut packet_again = recorded.to_vec();
    // A full option has nothing written at its pointer, which may be outside.
    let mut restore = |at: usize, n: usize| (at..at + n).for_each(|at| packet_again[at] = packet[at]);
    restore(10, 2);
    let (end, mut at) = (usize::from(packet[0] & 0xf) * 4, 20);
    while at < end && packet[at] != 0 {
        let length = if packet[at] == 1 { 1 } else { usize::from(packet[at + 1]) };
        if matches!(packet[at], 7 | 68) {
            let (before, after) = (usize::from(packet[at + 2]), usize::from(recorded[at + 2]));
            let moved = after.checked_sub(before).expect("a pointer moves on");
            assert!([0, 4, 8].contains(&moved) && (moved == 0 || after <= length + 1), "{moved}");
            restore(at + 2, 1);
            restore(at + before - 1, moved);
            if packet[at] == 68 && before > length && recorded[at + 3] >> 4 == (packet[at + 3] >> 4) + 1 {
                restore(at + 3, 1);
            }
        }
        at += length;
    }
    packet_again
}

fn over_ipv6(packet: &[u8]) {
    let Ok(header) = Ipv6::parse(packet) else { return };
    let end = header.total_length();
    assert!((ipv6::HEADER_LEN..=packet.len()).contains(&end));
    if let Some(upper) = icmp::upper(packet) {
        assert!(upper.bytes.len() <= header.payload_length().into());
        let _ = icmp::is_query_v6(upper.bytes);
    }
    let (mut rewritten, hops) = (packet.to_vec(), header.hop_limit());
    Ipv6::parse_mut(&mut rewritten).expect("it was right").decrement_hop_limit();
    rewritten[7] = hops;
    assert_eq!(rewritten, packet, "nothing but the hop limit changed");
}
