//! The fields of a frame that rules use.

use crate::wire::ipv4::{TCP, UDP};
use crate::wire::{Ethernet, Headers, ethernet, icmp, ipv4};
use std::net::Ipv4Addr;

/// The fields that rules compare, read once from a frame.
///
/// Only lengths are checked: a frame may still be malformed, and is then dropped after the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// The port of reception.
    pub ingress: u8,
    /// The outer ethertype, in a tagged frame that of its first tag. An 802.1Q tag that names no VLAN is skipped first.
    /// 0 in a frame shorter than its link header.
    pub ethertype: u16,
    /// The IPv4 header behind all VLAN tags, if there is a whole one.
    pub ipv4: Option<Ipv4Fields>,
    /// The content of an IPv6 packet, behind all VLAN tags. None also if its extension headers do not end within the
    /// frame, or there are more than eight.
    pub ipv6: Option<Ipv6Fields>,
}

/// The fields of an IPv4 packet that rules use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// The source address.
    pub src: Ipv4Addr,
    /// The destination address.
    pub dst: Ipv4Addr,
    /// The protocol of its payload.
    pub protocol: u8,
    /// Source and destination port of TCP or UDP; None in a later fragment, which has no ports.
    pub ports: Option<(u16, u16)>,
}

/// The fields of an IPv6 packet that rules use: its content behind its extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Fields {
    /// The protocol of its content. In a later fragment it is the one that its fragment header names, unless that is an
    /// extension header, which lies in another fragment.
    pub protocol: u8,
    /// Source and destination port of TCP or UDP; None in a later fragment, which has no ports.
    pub ports: Option<(u16, u16)>,
}

impl Fields {
    /// Reads `frame`, which was received on port `ingress`. The packet is looked for behind all VLAN tags (802.1Q and
    /// 802.1ad), as by [`ethernet::behind_tags`]. If the tags do not end within the frame, there is none.
    ///
    /// # Cost
    /// The first 38 bytes of the frame, and more only with IPv4 options. For IPv6 the first 58, and more only with
    /// extension headers; and a call. With tags, four more bytes for each, and a call.
    #[inline]
    pub fn read(frame: &[u8], ingress: u8) -> Fields {
        Fields::read_for(frame, ingress, true)
    }

    /// The same, for rules of which some may use the content of an IPv6 packet. Otherwise `ipv6` is None, and costs
    /// nothing.
    #[inline]
    pub(super) fn read_for(frame: &[u8], ingress: u8, asks_carried: bool) -> Fields {
        let ethertype = frame.get(12..14).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let ipv4 = match ethertype {
            ethernet::IPV4 => Ipv4Fields::read(frame),
            ethernet::IPV6 if asks_carried => return Fields::read_ipv6(frame, ingress),
            ethernet::VLAN | ethernet::SERVICE_VLAN => return Fields::read_tagged(frame, ingress),
            _ => None,
        };
        Fields { ingress, ethertype, ipv4, ipv6: None }
    }

    #[inline(never)]
    fn read_ipv6(frame: &[u8], ingress: u8) -> Fields {
        let ipv6 = frame.get(ethernet::HEADER_LEN..).and_then(Ipv6Fields::read);
        Fields { ingress, ethertype: ethernet::IPV6, ipv4: None, ipv6 }
    }

    #[cold]
    #[inline(never)]
    fn read_tagged(frame: &[u8], ingress: u8) -> Fields {
        let outer = ethernet::behind_priority_tag(frame).unwrap_or(frame);
        let ethertype = Ethernet::parse(outer).map_or(0, |(link, _)| link.ethertype());
        let none = Fields { ingress, ethertype, ipv4: None, ipv6: None };
        let Ok((content, packet)) = ethernet::behind_tags(frame) else { return none };
        // The packet with the bytes in front of it, which stand for the header of an untagged frame.
        let untagged = frame.get(frame.len() - packet.len() - ethernet::HEADER_LEN..);
        match content {
            ethernet::IPV4 => Fields { ipv4: untagged.and_then(Ipv4Fields::read), ..none },
            ethernet::IPV6 => Fields { ipv6: Ipv6Fields::read(packet), ..none },
            _ => none,
        }
    }
}

impl Ipv4Fields {
    #[inline]
    fn read(frame: &[u8]) -> Option<Ipv4Fields> {
        let (Headers { ip, .. }, _) = Headers::read(frame)?;
        if ip.version() != 4 || ip.header_len() < ipv4::HEADER_LEN {
            return None;
        }
        let ported = has_ports(ip.protocol()) && ip.fragment_offset() == 0;
        let ports = if ported { frame.get(ethernet::HEADER_LEN + ip.header_len()..) } else { None };
        let ports = ports.and_then(ports_of);
        Some(Ipv4Fields { src: ip.src(), dst: ip.dst(), protocol: ip.protocol(), ports })
    }
}

impl Ipv6Fields {
    fn read(packet: &[u8]) -> Option<Ipv6Fields> {
        let upper = icmp::upper_in_front(packet)?;
        let protocol = upper.protocol;
        if upper.begins_elsewhere {
            return (!icmp::is_extension(protocol)).then_some(Ipv6Fields { protocol, ports: None });
        }
        let ports = if has_ports(protocol) { ports_of(upper.bytes) } else { None };
        Some(Ipv6Fields { protocol, ports })
    }
}

/// The ports at the beginning of a TCP or UDP datagram.
#[inline]
fn ports_of(datagram: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = datagram.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Returns whether rules use the ports of packets of that protocol.
pub(super) const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP)
}
