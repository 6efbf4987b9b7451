//! The positions of the headers of a TCP or UDP packet, also behind IPv6 extension headers and within IP tunnels.

use super::PartialChecksum;
use crate::wire::checksum::Sum;
use crate::wire::{Ethernet, Ipv4, Ipv6, ethernet, ipv4, ipv6, options};

/// The protocol of an IPv4 packet within another packet (RFC 2003).
pub(super) const IPV4_WITHIN: u8 = 4;
/// The protocol of an IPv6 packet within another packet (RFC 2473, RFC 4213).
pub(super) const IPV6_WITHIN: u8 = 41;
/// The next header of hop-by-hop options.
const HOP_BY_HOP: u8 = 0;
/// The next header of destination options.
const DESTINATION: u8 = 60;
/// The destination option with the address of a mobile node at home, and its length (RFC 6275 §6.3).
const HOME_ADDRESS: [u8; 2] = [0xc9, 16];
/// Maximum number of extension headers before the transport header.
const EXTENSIONS_MAX: usize = 8;
/// Maximum number of bytes of these headers: each segment of a packet has a copy.
const EXTENSIONS_LEN_MAX: usize = 1024;
/// Maximum number of IP headers around the packet with the transport header.
pub(in crate::wire) const OUTER_MAX: usize = 2;

/// The positions of a frame's network and transport headers, and the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::wire) struct Layers {
    /// Bytes before the IP header.
    pub(in crate::wire) ip: usize,
    /// Bytes before the transport header.
    pub(in crate::wire) transport: usize,
    /// Bytes before the end of the IP packet. The link's padding may follow.
    pub(in crate::wire) end: usize,
    pub(in crate::wire) is_v6: bool,
    /// TCP or UDP.
    pub(in crate::wire) protocol: u8,
}

impl Layers {
    /// Finds the headers behind at most two VLAN tags. Returns None if the frame is not a whole packet of TCP or UDP,
    /// or is a fragment. Of the IPv6 extension headers, only hop-by-hop and destination options are skipped: a routing
    /// header changes the pseudo-header.
    #[inline]
    pub(in crate::wire) fn of(frame: &[u8]) -> Option<Layers> {
        let (ip, is_v6) = behind_link(frame)?;
        Layers::at(frame, frame.len(), ip, is_v6).filter(Layers::has_transport)
    }

    /// The same for a packet of any protocol.
    #[inline]
    pub(super) fn of_any(frame: &[u8]) -> Option<Layers> {
        let (ip, is_v6) = behind_link(frame)?;
        Layers::at(frame, frame.len(), ip, is_v6)
    }

    /// As [`of`](Self::of) for a frame of `len` bytes, of which `front` are the first. Within an IP tunnel, it finds the headers
    /// of the packet whose transport header begins at `start` or behind it. It also returns the positions of the IP
    /// headers around that packet, from the outer to the inner one.
    pub(in crate::wire) fn within(
        front: &[u8],
        len: usize,
        start: usize,
    ) -> Option<(Layers, [Option<usize>; OUTER_MAX])> {
        let (ip, is_v6) = behind_link(front)?;
        let (mut layers, mut outer) = (Layers::at(front, len, ip, is_v6)?, [None; OUTER_MAX]);
        for outer in &mut outer {
            let is_v6 = layers.protocol == IPV6_WITHIN;
            if layers.transport >= start || !is_v6 && layers.protocol != IPV4_WITHIN {
                break;
            }
            *outer = Some(layers.ip);
            layers = Layers::at(front, layers.end, layers.transport, is_v6)?;
        }
        layers.has_transport().then_some((layers, outer))
    }

    /// Finds the headers of the packet at `ip`, of any protocol, in a frame of `len` bytes.
    #[inline]
    pub(super) fn at(front: &[u8], len: usize, ip: usize, is_v6: bool) -> Option<Layers> {
        let (packet, len) = (front.get(ip..)?, len.checked_sub(ip)?);
        if is_v6 {
            let header = Ipv6::parse_front(packet, len).ok()?;
            let end = ip + header.total_length();
            let layers =
                Layers { ip, transport: ip + ipv6::HEADER_LEN, end, is_v6, protocol: header.next_header() };
            return match layers.protocol {
                HOP_BY_HOP | DESTINATION => layers.behind_options(front),
                _ => Some(layers),
            };
        }
        let header = Ipv4::parse_front(packet, len).ok()?;
        (!header.is_fragment()).then_some(Layers {
            ip,
            transport: ip + header.header_len(),
            end: ip + usize::from(header.total_length()),
            is_v6,
            protocol: header.protocol(),
        })
    }

    /// Skips the IPv6 options at the transport header's position. Returns None if they are not whole, or too long.
    #[cold]
    #[inline(never)]
    fn behind_options(mut self, front: &[u8]) -> Option<Layers> {
        let most = self.end.min(self.transport + EXTENSIONS_LEN_MAX);
        for _ in 0..EXTENSIONS_MAX {
            if !matches!(self.protocol, HOP_BY_HOP | DESTINATION) {
                break;
            }
            let [next, eights] = *front.get(self.transport..)?.first_chunk()?;
            self.protocol = next;
            self.transport += (usize::from(eights) + 1) * 8;
            if self.transport > most {
                return None;
            }
        }
        Some(self)
    }

    #[inline]
    pub(super) fn has_transport(&self) -> bool {
        matches!(self.protocol, ipv4::TCP | ipv4::UDP)
    }

    /// Bytes from the transport header to its checksum.
    pub(in crate::wire) const fn checksum_offset(&self) -> usize {
        if self.protocol == ipv4::TCP { 16 } else { 6 }
    }

    /// The position of the transport's checksum.
    pub(in crate::wire) fn checksum(&self) -> PartialChecksum {
        PartialChecksum { start: self.transport as u16, offset: self.checksum_offset() as u16 }
    }

    /// The sum over the pseudo-header, for `length` bytes from the transport header on.
    pub(in crate::wire) fn pseudo_header(&self, frame: &[u8], length: usize) -> Sum {
        let (plain, begin) = if self.is_v6 { (ipv6::HEADER_LEN, 8) } else { (ipv4::HEADER_LEN, 12) };
        let end = self.ip + plain;
        let addresses = if self.transport == end {
            Sum::new().bytes(frame.get(self.ip + begin..end).unwrap_or_default())
        } else {
            self.ends(frame)
        };
        // At most the maximum of the length fields of IP.
        addresses.double_word(length as u32).word(self.protocol.into())
    }

    /// The sum over the addresses of a packet with options or extension headers. These can name another end than the IP
    /// header: the last stop of a source route, or the home address of the sender (RFC 6275 §11.3.1).
    #[cold]
    #[inline(never)]
    fn ends(&self, frame: &[u8]) -> Sum {
        let packet = frame.get(self.ip..).unwrap_or_default();
        let (src, dst, len) = if self.is_v6 {
            (self.home_address(packet).unwrap_or(8), 24, 16)
        } else {
            (12, options::last_stop(packet).unwrap_or(16), 4)
        };
        let address = |at: usize| packet.get(at..at + len).unwrap_or_default();
        Sum::new().bytes(address(src)).bytes(address(dst))
    }

    /// Returns the offset in an IPv6 packet of its sender's home address, if its destination options have one.
    fn home_address(&self, packet: &[u8]) -> Option<usize> {
        let (mut header, mut at) = (*packet.get(6)?, ipv6::HEADER_LEN);
        while at < self.transport - self.ip {
            let [next, eights] = *packet.get(at..)?.first_chunk()?;
            let end = at + (usize::from(eights) + 1) * 8;
            let options = packet.get(..end)?;
            let mut option = at + 2;
            while header == DESTINATION
                && let Some([kind, len]) = options.get(option..).and_then(|rest| rest.first_chunk())
            {
                if [*kind, *len] == HOME_ADDRESS && option + 18 <= end {
                    return Some(option + 2);
                }
                // An option of kind 0 is one byte of padding.
                option += if *kind == 0 { 1 } else { 2 + usize::from(*len) };
            }
            (header, at) = (next, end);
        }
        None
    }
}

/// Returns the number of bytes before the IP header, behind at most two VLAN tags, and whether it is IPv6. Returns None
/// for all other packets.
#[inline]
pub(super) fn behind_link(frame: &[u8]) -> Option<(usize, bool)> {
    let (link, mut packet) = Ethernet::parse(frame).ok()?;
    let (mut ethertype, mut ip) = (link.ethertype(), ethernet::HEADER_LEN);
    while matches!(ethertype, ethernet::VLAN | ethernet::SERVICE_VLAN) && ip < ethernet::HEADER_LEN + 8 {
        let ([_, _, a, b], behind) = packet.split_first_chunk()?;
        (ethertype, packet, ip) = (u16::from_be_bytes([*a, *b]), behind, ip + ethernet::TAG_LEN);
    }
    matches!(ethertype, ethernet::IPV4 | ethernet::IPV6).then_some((ip, ethertype == ethernet::IPV6))
}
