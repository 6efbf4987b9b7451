//! Packets with IPv4 options. COLD.

use crate::interface::Allow;
use crate::route::Fib;
use netmem::forward::Reason;
use netmem::wire::Ipv4;
use netmem::wire::options::{self, Stamp, Strictness};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{SystemTime, UNIX_EPOCH};

const MILLISECONDS_OF_A_DAY: u128 = 86_400_000;

/// Checks the options of `packet`, whose header was checked. Returns true if the router must write into them.
pub(super) fn check(packet: &[u8], allow: Allow) -> Result<bool, Reason> {
    let requested = options::requested(packet).map_err(|_| Reason::BadOptions)?;
    match requested.source_route {
        Some(Strictness::Loose) if !allow.source_routes => Err(Reason::SourceRoute),
        // All routers of the path are listed, and this router is not the next (RFC 791 §3.1).
        Some(Strictness::Strict) => Err(Reason::SourceRoute),
        _ => Ok(requested.records),
    }
}

/// Writes the router's address and the time into the options that ask for them. The address is one of `egress`, the
/// interface that the packet leaves by, or of any interface if that one has none (RFC 1812 §2.2.7).
pub(super) fn record(packet: &mut [u8], egress: u8, fib: &Fib) {
    let Ok((header, _)) = Ipv4::parse(packet) else { return };
    let to = header.dst().into();
    let own = fib
        .source(&[egress], to, fib.table.flows.between(to, to))
        .and_then(|own| if let IpAddr::V4(own) = own { Some(own) } else { None });
    let is_own = |its: Ipv4Addr| fib.has_address(its.into());
    options::record(packet, &Stamp { own, is_own, milliseconds: milliseconds() });
}

/// Returns milliseconds since midnight UT (RFC 791 §3.1).
fn milliseconds() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_millis() % MILLISECONDS_OF_A_DAY) as u32
}
