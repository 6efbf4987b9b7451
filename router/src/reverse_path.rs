//! The reverse path check of packets' sources (RFC 1812 §5.3.8, RFC 3704 §2).

use crate::interface::{Interface, ReversePath};
use crate::ip;
use crate::route::Fib;
use netmem::wire::{Ethernet, Ipv4, Ipv6, ethernet};
use std::net::IpAddr;

impl ReversePath {
    /// Returns true if the packet in `frame`, which came in on this port, may not have its source address. Other
    /// checks reject a frame that is not an IP packet for this router, and an invalid source.
    ///
    /// # Cost
    /// A lookup in the table of routes, in addition to that of the destination.
    #[inline(never)]
    pub(crate) fn refuses(self, frame: &[u8], port: u8, ingress: &Interface, fib: &Fib) -> bool {
        let leads_back = |source| {
            // The martian check rejects the router's own addresses, and counts them, unless `Allow::martians` is set. Any other
            // address of a local prefix has no sender.
            let is_own = || fib.own_sources.has(source) || fib.allow.martians;
            fib.table.leads_to(source, port, self == ReversePath::Strict, is_own)
        };
        self != ReversePath::Off && source(frame, ingress, fib).is_some_and(|source| !leads_back(source))
    }
}

/// Returns the source of the packet in `frame`, or None if it is not checked: other checks drop the packet.
fn source(frame: &[u8], ingress: &Interface, fib: &Fib) -> Option<IpAddr> {
    let (link, _) = Ethernet::parse(frame).ok()?;
    if !link.is_for(ingress.mac) {
        return None;
    }
    let (link, packet) = Ethernet::parse(ethernet::behind_priority_tag(frame).unwrap_or(frame)).ok()?;
    match link.ethertype() {
        ethernet::IPV4 => {
            Some(Ipv4::parse(packet).ok()?.0.src()).filter(|src| !ip::is_refused(*src, fib)).map(IpAddr::V4)
        }
        ethernet::IPV6 => {
            Some(Ipv6::parse(packet).ok()?.src()).filter(|src| !ip::v6::is_martian(*src)).map(IpAddr::V6)
        }
        _ => None,
    }
}
