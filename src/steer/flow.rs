//! Derives a frame's flow from its bytes.

use super::toeplitz::{INPUT_MAX, Toeplitz};
use crate::wire::ipv4::{TCP, UDP};
use crate::wire::{Ethernet, Ipv4, Ipv6, ethernet};
use std::net::IpAddr;
use zerocopy::FromBytes;

/// The fields that identify a packet's flow: source and destination address, and for TCP and UDP the source and
/// destination port and the protocol. Flows of TCP and UDP between the same addresses and ports have different keys, and
/// the same hash, since RSS hashes only addresses and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    bytes: [u8; INPUT_MAX],
    /// 8 or 12 bytes for IPv4, 32 or 36 for IPv6.
    len: u8,
    /// The protocol of the ports; 0 without ports.
    protocol: u8,
}

impl FlowKey {
    /// Returns the key of the frame with these bytes, from its Ethernet header on. Returns None if it is neither IPv4
    /// nor IPv6, or belongs to a VLAN. An 802.1Q tag of VLAN 0, which carries only a priority, is skipped.
    ///
    /// Ports are those of TCP and UDP directly behind the IP header (and IPv4 options). A fragment has no ports, also
    /// the first one, so all fragments of a packet take one path. Only the fields needed to find the key are checked.
    #[inline]
    pub fn of(frame: &[u8]) -> Option<FlowKey> {
        let (link, packet) = Ethernet::parse(frame).ok()?;
        match link.ethertype() {
            ethernet::IPV4 => FlowKey::of_ipv4(packet),
            ethernet::IPV6 => FlowKey::of_ipv6(packet),
            ethernet::VLAN => FlowKey::of_tagged(frame),
            _ => None,
        }
    }

    #[cold]
    #[inline(never)]
    fn of_tagged(frame: &[u8]) -> Option<FlowKey> {
        let (link, packet) = Ethernet::parse(ethernet::behind_priority_tag(frame)?).ok()?;
        match link.ethertype() {
            ethernet::IPV4 => FlowKey::of_ipv4(packet),
            ethernet::IPV6 => FlowKey::of_ipv6(packet),
            _ => None,
        }
    }

    /// Returns the key of a packet without ports, between two addresses of the same family. Returns None if the
    /// families differ.
    pub fn between(src: IpAddr, dst: IpAddr) -> Option<FlowKey> {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Some(FlowKey::new([&src.octets(), &dst.octets()], None)),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Some(FlowKey::new([&src.octets(), &dst.octets()], None)),
            _ => None,
        }
    }

    /// Returns the key of the IP packet with these bytes, from its IP header on, as [`of`](Self::of) does. Its end may be
    /// missing, as in an ICMP error that quotes a packet. Without the bytes of the ports the key has none.
    pub fn of_packet(packet: &[u8]) -> Option<FlowKey> {
        match packet.first()? >> 4 {
            4 => FlowKey::of_ipv4(packet),
            6 => FlowKey::of_ipv6(packet),
            _ => None,
        }
    }

    #[inline]
    fn of_ipv4(packet: &[u8]) -> Option<FlowKey> {
        let (header, _) = Ipv4::ref_from_prefix(packet).ok()?;
        if header.version() != 4 {
            return None;
        }
        let ports = if header.is_fragment() {
            None
        } else {
            ports_at(header.protocol(), packet, header.header_len())
        };
        Some(FlowKey::new([&header.src().octets(), &header.dst().octets()], ports))
    }

    #[inline]
    fn of_ipv6(packet: &[u8]) -> Option<FlowKey> {
        let (header, rest) = Ipv6::read(packet)?;
        let ports = ports_at(header.next_header(), rest, 0);
        Some(FlowKey::new([&header.src().octets(), &header.dst().octets()], ports))
    }

    #[inline(always)]
    fn new<const N: usize>(addresses: [&[u8; N]; 2], ports: Option<(u8, [u8; 4])>) -> FlowKey {
        let mut bytes = [0; INPUT_MAX];
        bytes[..N].copy_from_slice(addresses[0]);
        bytes[N..2 * N].copy_from_slice(addresses[1]);
        let Some((protocol, ports)) = ports else {
            return FlowKey { bytes, len: 2 * N as u8, protocol: 0 };
        };
        bytes[2 * N..2 * N + 4].copy_from_slice(&ports);
        FlowKey { bytes, len: 2 * N as u8 + 4, protocol }
    }

    /// Returns the key of the flow's packets in the other direction: addresses and ports are exchanged.
    pub fn reversed(&self) -> FlowKey {
        let mut reversed = *self;
        let address = usize::from(self.len) / 8 * 4;
        let (addresses, ports) = reversed.bytes.split_at_mut(2 * address);
        addresses.rotate_left(address);
        // Without ports these are zero.
        ports[..4].rotate_left(2);
        reversed
    }

    /// Returns true if ports are part of the key.
    #[inline]
    pub fn has_ports(&self) -> bool {
        !self.len.is_multiple_of(8)
    }

    /// The protocol of the ports, 6 (TCP) or 17 (UDP). None for a key without ports.
    #[inline]
    pub fn protocol(&self) -> Option<u8> {
        (self.protocol != 0).then_some(self.protocol)
    }

    /// The addresses and ports, as RSS hashes them.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The protocol, if it is TCP or UDP, and the two ports at its beginning.
#[inline]
fn ports_at(protocol: u8, packet: &[u8], at: usize) -> Option<(u8, [u8; 4])> {
    let ports = packet.get(at..).filter(|_| matches!(protocol, TCP | UDP))?.first_chunk()?;
    Some((protocol, *ports))
}

impl Toeplitz {
    /// The hash of a frame's flow, from its Ethernet header on. Packets that are not IP are one flow for each receive
    /// queue.
    ///
    /// # Cost
    /// The frame's first line, and for IPv4 with ports twelve look-ups in tables of 12 KiB.
    #[inline]
    pub fn flow(&self, frame: &[u8], queue: u16) -> u32 {
        match FlowKey::of(frame) {
            // The usual length, known to the compiler, so it needs no loop.
            Some(FlowKey { bytes, len: 12, .. }) => self.hash(&bytes[..12]),
            Some(key) => self.hash(key.bytes()),
            None => self.hash(&queue.to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests;
