//! Finds the packet within a tunnel's packet.

use super::layers::{IPV4_WITHIN, IPV6_WITHIN, Layers, behind_link};
use crate::wire::{ethernet, ipv4, udp};

/// The protocol of GRE (RFC 2784).
pub(super) const GRE: u8 = 47;
/// The EtherType of a whole Ethernet frame within GRE or Geneve.
const BRIDGED: u16 = 0x6558;
/// The UDP ports of VXLAN: RFC 7348, and Linux where none is given.
const VXLAN_PORT: [u8; 2] = 4789_u16.to_be_bytes();
const LINUX_VXLAN_PORT: [u8; 2] = 8472_u16.to_be_bytes();
/// The UDP port of Geneve (RFC 8926).
const GENEVE_PORT: [u8; 2] = 6081_u16.to_be_bytes();
/// The flag of every VXLAN header: it has a network identifier.
const VXLAN_ID: u8 = 8;
/// Bytes of the fixed headers of VXLAN and Geneve.
const UDP_TUNNEL_LEN: usize = 8;

impl Layers {
    /// Returns whether another packet may be within this one, from its protocol and port alone.
    #[inline]
    pub(super) fn may_be_tunnel(&self, frame: &[u8]) -> bool {
        match self.protocol {
            ipv4::TCP => false,
            ipv4::UDP => {
                let port = frame.get(self.transport + 2..).and_then(<[u8]>::first_chunk);
                matches!(port, Some(&VXLAN_PORT | &LINUX_VXLAN_PORT | &GENEVE_PORT))
            }
            protocol => matches!(protocol, IPV4_WITHIN | IPV6_WITHIN | GRE),
        }
    }

    /// Returns the headers of the TCP or UDP packet within this one.
    pub(super) fn packet_within(&self, frame: &[u8]) -> Option<Layers> {
        let behind = frame.get(self.transport..self.end)?;
        let (ip, is_v6) = match self.protocol {
            IPV4_WITHIN => (0, false),
            IPV6_WITHIN => (0, true),
            GRE => within_gre(behind)?,
            _ => within_udp(behind)?,
        };
        Layers::at(frame, self.end, self.transport + ip, is_v6).filter(Layers::has_transport)
    }
}

/// Returns the number of bytes before the IP header within a GRE packet, and whether it is IPv6.
fn within_gre(packet: &[u8]) -> Option<(usize, bool)> {
    let [flags, version, kind @ ..] = *packet.first_chunk::<4>()?;
    // The flags of checksum, key and sequence number (RFC 2890). A header with any other bit has another format.
    if flags & !0xb0 != 0 || version != 0 {
        return None;
    }
    let header = 4 + 4 * (flags & 0xb0).count_ones() as usize;
    within_kind(packet, header, u16::from_be_bytes(kind))
}

/// Returns the same for a datagram of VXLAN or Geneve.
fn within_udp(datagram: &[u8]) -> Option<(usize, bool)> {
    let [_, _, port @ ..] = *datagram.first_chunk::<4>()?;
    let [first, _, kind @ ..] = *datagram.get(udp::HEADER_LEN..)?.first_chunk::<4>()?;
    let header = udp::HEADER_LEN + UDP_TUNNEL_LEN;
    if port != GENEVE_PORT {
        return if first & VXLAN_ID == 0 { None } else { within_kind(datagram, header, BRIDGED) };
    }
    // The version is 0, and the rest of the byte is the length of the options.
    let options = (first < 64).then_some(4 * usize::from(first))?;
    within_kind(datagram, header + options, u16::from_be_bytes(kind))
}

/// Returns the same for a packet of this EtherType that begins behind `header`.
fn within_kind(packet: &[u8], header: usize, kind: u16) -> Option<(usize, bool)> {
    match kind {
        ethernet::IPV4 => Some((header, false)),
        ethernet::IPV6 => Some((header, true)),
        BRIDGED => behind_link(packet.get(header..)?).map(|(ip, is_v6)| (header + ip, is_v6)),
        _ => None,
    }
}
