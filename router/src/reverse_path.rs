//! Whether a packet may come from where it says: the reverse path check (RFC 1812 §5.3.8, RFC 3704 §2).

use crate::interface::{Interface, ReversePath};
use crate::ip;
use crate::route::Fib;
use netmem::wire::{Ethernet, Ipv4, Ipv6, ethernet};
use std::net::IpAddr;

impl ReversePath {
    /// Whether the packet in `frame`, which came in by this port, may not come from there. Of what is no packet of IP for this router, or
    /// is from nobody, others say so.
    ///
    /// # Cost
    /// A lookup in the table of routes, beside that of the destination.
    #[inline(never)]
    pub(crate) fn refuses(self, frame: &[u8], port: u8, ingress: &Interface, fib: &Fib) -> bool {
        self != ReversePath::Off
            && source(frame, ingress)
                .is_some_and(|source| !fib.table.leads_to(source, port, self == ReversePath::Strict))
    }
}

/// Whom the packet in `frame` is from; None where that is not asked.
fn source(frame: &[u8], ingress: &Interface) -> Option<IpAddr> {
    let (link, _) = Ethernet::parse(frame).ok()?;
    if !link.is_for(ingress.mac) {
        return None;
    }
    let (link, packet) = Ethernet::parse(ethernet::behind_priority_tag(frame).unwrap_or(frame)).ok()?;
    match link.ethertype() {
        ethernet::IPV4 => {
            Some(Ipv4::parse(packet).ok()?.0.src()).filter(|src| !ip::is_martian(*src)).map(IpAddr::V4)
        }
        ethernet::IPV6 => {
            Some(Ipv6::parse(packet).ok()?.src()).filter(|src| !ip::v6::is_martian(*src)).map(IpAddr::V6)
        }
        _ => None,
    }
}
