//! Forwarding of IPv6 packets, as RFC 8200 and RFC 4291 ask of a router.
//!
//! Extension headers are left to the destination, including the options that a router may examine (RFC 8200 §4.3).
//! Routers do not fragment IPv6 packets (§5).

use std::net::Ipv6Addr;

use super::{Packet, is_own, other_station, way};
use crate::interface::Interface;
use crate::route::{Fib, Hop};
use netmem::forward::{Reason, Verdict};
use netmem::wire::{Ethernet, Ipv6, Malformed, ipv6};

/// The next header of hop-by-hop options.
const HOP_BY_HOP: u8 = 0;

/// Forwards the IPv6 packet in `frame`, one check after the other. The first check that fails gives the reason.
/// Without an `ingress` the packet was admitted before.
///
/// # Cost
/// Reads bytes 0..54 of the frame and walks down the tree of routes. There is no further call if the route names a
/// station.
#[inline(never)]
pub(super) fn forward(
    frame: &mut [u8],
    ingress: Option<&Interface>,
    longest: Option<usize>,
    fib: &Fib,
) -> Result<Verdict, Reason> {
    let packet = check(frame, ingress, fib)?.in_segments(longest);
    let Some(way) = way(frame, &packet, fib)? else {
        return Ok(Verdict::Wait);
    };
    let (link, packet) = Ethernet::parse_mut(frame)?;
    Ipv6::parse_mut(packet)?.decrement_hop_limit();
    Ok(way.take(link))
}

/// Makes all checks that do not depend on the route of the destination. For a received frame, also checks its MAC
/// addresses and the addresses that it may be from and to.
fn check(frame: &[u8], ingress: Option<&Interface>, fib: &Fib) -> Result<Packet, Reason> {
    let (link, packet) = Ethernet::parse(frame)?;
    if ingress.is_some_and(|ingress| link.dst != ingress.mac) {
        return Err(other_station(link.dst));
    }
    let header = Ipv6::parse(packet)?;
    if is_jumbogram(header, packet) {
        return Err(Malformed::BadTotalLength.into());
    }
    if ingress.is_some() {
        if is_martian(header.src()) || is_martian(header.dst()) {
            return Err(martian(header, fib));
        }
        if fib.own_sources.may_have_v6(header.src()) && is_own(header.src().into(), fib) {
            return Err(Reason::Martian);
        }
    }
    Ok(Packet {
        destination: header.dst().into(),
        length: header.total_length(),
        hops: header.hop_limit(),
        may_be_cut: false,
    })
}

/// Returns true for a packet whose length, if it has one, is in its hop-by-hop options (RFC 2675 §2). What follows its
/// header is then part of it and no padding of the link. Such packets are not supported: none is as long as a frame.
#[inline]
pub(super) fn is_jumbogram(header: &Ipv6, packet: &[u8]) -> bool {
    header.payload_length() == 0 && header.next_header() == HOP_BY_HOP && packet.len() > ipv6::HEADER_LEN
}

/// Returns the reason for dropping a packet with a martian address. A packet from a link-local source to a
/// destination elsewhere is beyond the scope of its source (RFC 4443 §3.1), unless the destination is the router.
#[cold]
fn martian(header: &Ipv6, fib: &Fib) -> Reason {
    let (src, dst) = (header.src(), header.dst());
    if !src.is_unicast_link_local() || is_martian(dst) {
        return Reason::Martian;
    }
    match fib.table.next_hop(dst.into(), || 0) {
        Some(Hop::Local) => Reason::LocalAddress,
        _ => Reason::BeyondScope,
    }
}

/// Returns true if no packet from or to this address may be forwarded: unspecified (RFC 4291 §2.5.2), loopback
/// (§2.5.3), IPv4-mapped (RFC 6890 §2.2.3), link-local (RFC 4291 §2.5.6), and multicast (never a source, §2.7, and not
/// routed here).
pub(crate) fn is_martian(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    let is_link_local = first & 0xffc0 == 0xfe80;
    first >= 0xff00 || is_link_local || address.to_bits() <= 1 || address.to_ipv4_mapped().is_some()
}

#[cfg(test)]
mod tests;
