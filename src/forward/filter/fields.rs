//! What rules look at in a frame.

use crate::wire::{Ethernet, Headers, ethernet, ipv4};
use std::net::Ipv4Addr;

/// Protocol number of TCP.
const TCP: u8 = 6;

/// What rules look at, read once from a frame.
///
/// Only lengths are checked: a frame may still be malformed, and is dropped for that behind the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// The port it came by.
    pub ingress: u8,
    /// 0 in a frame shorter than its link header.
    pub ethertype: u16,
    /// The IPv4 header, if there is a whole one.
    pub ipv4: Option<Ipv4Fields>,
}

/// What rules look at in an IPv4 packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// The source address.
    pub src: Ipv4Addr,
    /// The destination address.
    pub dst: Ipv4Addr,
    /// What it carries.
    pub protocol: u8,
    /// Source and destination port of TCP or UDP; None in a later fragment, which has none.
    pub ports: Option<(u16, u16)>,
}

impl Fields {
    /// Reads `frame`, which came by port `ingress`: behind a tag of 802.1Q that names no VLAN what stands there.
    ///
    /// # Cost
    /// The first 38 bytes of the frame, more only with IPv4 options.
    #[inline]
    pub fn read(frame: &[u8], ingress: u8) -> Fields {
        let ethertype = frame.get(12..14).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
        let ipv4 = match ethertype {
            ethernet::IPV4 => Ipv4Fields::read(frame),
            ethernet::VLAN => return Fields::read_tagged(frame, ingress),
            _ => None,
        };
        Fields { ingress, ethertype, ipv4 }
    }

    #[cold]
    #[inline(never)]
    fn read_tagged(frame: &[u8], ingress: u8) -> Fields {
        let untagged = ethernet::behind_priority_tag(frame);
        let ethertype =
            untagged.and_then(|frame| Ethernet::parse(frame).ok()).map(|(link, _)| link.ethertype());
        let ipv4 = untagged.filter(|_| ethertype == Some(ethernet::IPV4)).and_then(Ipv4Fields::read);
        Fields { ingress, ethertype: ethertype.unwrap_or(ethernet::VLAN), ipv4 }
    }
}

impl Ipv4Fields {
    #[inline]
    fn read(frame: &[u8]) -> Option<Ipv4Fields> {
        let (Headers { ip, .. }, _) = Headers::read(frame)?;
        if ip.version() != 4 || ip.header_len() < ipv4::HEADER_LEN {
            return None;
        }
        let ported = matches!(ip.protocol(), TCP | ipv4::UDP) && ip.fragment_offset() == 0;
        let ports = if ported { frame.get(ethernet::HEADER_LEN + ip.header_len()..) } else { None };
        let ports = ports.and_then(|datagram| datagram.first_chunk());
        let ports = ports.map(|&[a, b, c, d]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
        Some(Ipv4Fields { src: ip.src(), dst: ip.dst(), protocol: ip.protocol(), ports })
    }
}
