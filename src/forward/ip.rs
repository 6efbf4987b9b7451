//! Forwarding of IPv4 packets, as RFC 1812 §5.2 and §5.3 ask of a router.

use std::net::Ipv4Addr;

use super::route::Table;
use super::verdict::{Reason, Verdict};
use crate::wire::{Ethernet, Ipv4, MacAddr, ethernet};

/// One of the router's own ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Its link address: frames for it are forwarded, and frames it sends bear it.
    pub mac: MacAddr,
    /// Bytes of IP packet that one frame of the link carries at most.
    pub mtu: u16,
}

/// Forwards the IPv4 packet in `frame`, which came in by `ingress`.
///
/// `interfaces` are those of the ports that the routes in `table` name. If the verdict is a
/// redirect, the TTL, the header checksum and both link addresses are rewritten; otherwise no byte
/// has changed.
///
/// # Cost
/// For a header without options it reads and writes bytes 0..34 of the frame only, beside a scan
/// of a small table.
#[inline]
pub fn forward_ipv4(
    frame: &mut [u8],
    ingress: &Interface,
    table: &Table,
    interfaces: &[Interface],
) -> Verdict {
    match rewrite(frame, ingress, table, interfaces) {
        Ok(port) => Verdict::Redirect(port),
        Err(reason) => Verdict::Drop(reason),
    }
}

#[inline]
fn rewrite(
    frame: &mut [u8],
    ingress: &Interface,
    table: &Table,
    interfaces: &[Interface],
) -> Result<u8, Reason> {
    let (link, packet) = Ethernet::parse_mut(frame)?;
    if link.ethertype() != ethernet::IPV4 {
        return Err(other_ethertype(link.ethertype()));
    }
    if link.dst != ingress.mac {
        return Err(other_station(link.dst));
    }
    let header = Ipv4::parse_mut(packet)?;
    if is_martian(header.src()) || is_martian(header.dst()) {
        return Err(Reason::Martian);
    }
    if header.ttl() <= 1 {
        return Err(Reason::TtlExpired);
    }
    let hop = table.lookup(header.dst()).ok_or(Reason::NoRoute)?;
    let egress = interfaces.get(usize::from(hop.port)).ok_or(Reason::NoRoute)?;
    if header.total_length() > usize::from(egress.mtu) {
        return Err(Reason::TooLong);
    }
    header.decrement_ttl();
    link.dst = hop.mac;
    link.src = egress.mac;
    Ok(hop.port)
}

#[cold]
fn other_ethertype(ethertype: u16) -> Reason {
    match ethertype {
        ethernet::ARP => Reason::Arp,
        ethernet::IPV6 => Reason::Ipv6,
        _ => Reason::UnknownEthertype,
    }
}

#[cold]
fn other_station(dst: MacAddr) -> Reason {
    if dst.is_group() { Reason::LinkMulticast } else { Reason::NotForUs }
}

/// Whether no packet from or to this address may be forwarded: this network (0/8), loopback
/// (127/8), multicast (which we do not route), class E with the limited broadcast (RFC 1812
/// §5.3.7), and link-local (RFC 3927 §2.7).
#[inline]
const fn is_martian(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    matches!(first, 0 | 127 | 224..) || (first == 169 && second == 254)
}

#[cfg(test)]
mod tests;
