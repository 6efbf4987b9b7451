//! Packets with IPv4 options. COLD.

use super::Allow;
use crate::forward::icmp::own_address;
use crate::forward::verdict::Reason;
use crate::wire::Ipv4;
use crate::wire::options::{self, Strictness};
use ipnet::IpNet;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

const MILLISECONDS_OF_A_DAY: u128 = 86_400_000;

/// Whether the router is to write into the options of `packet`, whose header is a checked one.
pub(super) fn check(packet: &[u8], allow: Allow) -> Result<bool, Reason> {
    let wishes = options::wishes(packet).map_err(|_| Reason::BadOptions)?;
    match wishes.source_route {
        Some(Strictness::Loose) if !allow.source_routes => Err(Reason::SourceRoute),
        // All routers on the way are named, and this one is not the next (RFC 791 §3.1).
        Some(Strictness::Strict) => Err(Reason::SourceRoute),
        _ => Ok(wishes.records),
    }
}

/// Writes into the options what they ask for: the router's address among those of the interface that the packet leaves by, and the
/// time. Without an address nothing is written.
pub(super) fn record(packet: &mut [u8], addresses: &[IpNet]) {
    let Ok((header, _)) = Ipv4::parse(packet) else { return };
    if let Some(IpAddr::V4(own)) = own_address(addresses, header.dst().into()) {
        options::record(packet, own, milliseconds());
    }
}

/// Milliseconds since midnight UT (RFC 791 §3.1).
fn milliseconds() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_millis() % MILLISECONDS_OF_A_DAY) as u32
}
