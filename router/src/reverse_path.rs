//! Whether a packet may come from where it says: the reverse path check (RFC 1812 §5.3.8, RFC 3704 §2).

use crate::interface::Interface;
use crate::ip;
use crate::route::Fib;
use netmem::wire::{Ethernet, Ipv4, Ipv6, ethernet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// What a port asks of the sources of packets that come in by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReversePath {
    /// Nothing.
    #[default]
    Off,
    /// That some route leads to them, by whatever interface (RFC 3704 §2.4); a default route leads everywhere. Where paths are not
    /// the same both ways.
    Loose,
    /// That the longest route to them leads out of this port, or one of its paths does (RFC 3704 §2.2, §2.3).
    Strict,
}

/// There is no check of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{seen:?} is no reverse path check: write strict, loose or off")]
pub struct ReversePathError {
    /// What was written.
    pub seen: String,
}

impl FromStr for ReversePath {
    type Err = ReversePathError;

    fn from_str(text: &str) -> Result<ReversePath, ReversePathError> {
        let all = [ReversePath::Off, ReversePath::Loose, ReversePath::Strict];
        let found = all.into_iter().find(|how| how.to_string() == text);
        found.ok_or_else(|| ReversePathError { seen: text.to_owned() })
    }
}

impl fmt::Display for ReversePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReversePath::Off => "off",
            ReversePath::Loose => "loose",
            ReversePath::Strict => "strict",
        })
    }
}

impl ReversePath {
    /// Whether the packet in `frame`, which came in by this port, may not come from there. Of what is no packet of IP for this router, or
    /// is from nobody, others say so.
    ///
    /// # Cost
    /// A lookup in the table of routes, beside that of the destination.
    #[inline(never)]
    pub(crate) fn refuses(self, frame: &[u8], port: u8, ingress: &Interface, fib: &Fib) -> bool {
        source(frame, ingress)
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
