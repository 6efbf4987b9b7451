//! What is known of a route whose message cannot be read as a whole.

use crate::headers::{Attributes, is_exception, word};
use ipnet::IpNet;
use netmem_router::route::Origin;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of `struct rtmsg`.
const HEADER: usize = 12;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

const RTA_DST: u16 = 1;
const RTA_PRIORITY: u16 = 6;
const RTA_TABLE: u16 = 15;

/// Returns the prefix, origin and metric of a route that is followed. `contents` follow the message's header.
pub(crate) fn route_rank(contents: &[u8]) -> Option<(IpNet, Origin, u32)> {
    let [family, length, source_length, tos, table, ..] = *contents.first_chunk::<HEADER>()?;
    let is_followed = source_length == 0 && tos == 0 && !is_exception(contents);
    let (mut destination, mut table, mut metric) = (None, u32::from(table), 0);
    for (kind, value) in Attributes::of(contents, HEADER) {
        match kind {
            RTA_DST => destination = Some(address(family, value)?),
            RTA_PRIORITY => metric = word(value, 0)?,
            RTA_TABLE => table = word(value, 0)?,
            _ => {}
        }
    }
    let destination = destination.or_else(|| match (length, family) {
        (0, AF_INET) => Some(Ipv4Addr::UNSPECIFIED.into()),
        (0, AF_INET6) => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    })?;
    let origin = match table {
        255 => Origin::Local,
        254 => Origin::Main,
        _ => return None,
    };
    is_followed.then_some((IpNet::new(destination, length).ok()?.trunc(), origin, metric))
}

fn address(family: u8, value: &[u8]) -> Option<IpAddr> {
    match family {
        AF_INET => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        AF_INET6 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}
