//! The link header, beside the kernel: removed from received packets, and put before sent packets.

use netmem::port::{NextHop, NextHops};
use netmem::wire::{Ethernet, Ipv4, Ipv6, ethernet};
use std::net::IpAddr;

/// Learns the location of the sender from an IP frame. Returns false for other frames.
pub fn learn(next_hops: &mut NextHops, frame: &[u8]) -> bool {
    let Ok((link, packet)) = Ethernet::parse(frame) else { return false };
    let from = match link.ethertype() {
        ethernet::IPV4 => Ipv4::parse(packet).ok().map(|(header, _)| header.src().into()),
        ethernet::IPV6 => Ipv6::parse(packet).ok().map(|header| header.src().into()),
        _ => None,
    };
    from.map(|from| next_hops.learn(from, NextHop { src_mac: link.dst, dst_mac: link.src })).is_some()
}

/// Returns the link header for an IP packet, or None if no next hop is known.
pub fn header(next_hops: &mut NextHops, packet: &[u8]) -> Option<[u8; ethernet::HEADER_LEN]> {
    let (ethertype, to) = destination(packet)?;
    let hop = next_hops.get(to)?;
    Some(Ethernet::new(hop.dst_mac, hop.src_mac, ethertype).to_bytes())
}

/// Returns the ethertype of a packet, and its destination.
fn destination(packet: &[u8]) -> Option<(u16, IpAddr)> {
    match packet.first()? >> 4 {
        4 => Ipv4::parse(packet).ok().map(|(header, _)| (ethernet::IPV4, header.dst().into())),
        6 => Ipv6::parse(packet).ok().map(|header| (ethernet::IPV6, header.dst().into())),
        _ => None,
    }
}
