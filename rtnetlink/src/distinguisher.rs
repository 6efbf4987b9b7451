//! What distinguishes a route of the kernel from others that a router would use in the same way.

use netlink_packet_core::Emitable;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netmem_router::route::Target;
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

/// Returns the distinguisher of a route with this target ([`RibRoute`](netmem_router::route::RibRoute)): a hash of the
/// fields that the kernel compares and a router does not use.
///
/// Of IPv6 routes with one metric and one path the kernel has only one. Of own addresses, one is kept for all links.
pub(crate) fn distinguisher(message: &RouteMessage, target: &Target) -> u32 {
    let header = &message.header;
    if header.address_family != AddressFamily::Inet || *target == Target::Local {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(&[header.protocol.into(), header.scope.into()]);
    for attribute in message.attributes.iter().filter(|attribute| is_compared(attribute)) {
        let mut bytes = vec![0; attribute.buffer_len()];
        attribute.emit(&mut bytes);
        hasher.write(&bytes);
    }
    hasher.finish() as u32
}

/// Returns true for a field that the kernel compares, and that does not depend on the state of a link.
fn is_compared(attribute: &RouteAttribute) -> bool {
    matches!(attribute, RouteAttribute::PrefSource(_) | RouteAttribute::Metrics(_) | RouteAttribute::NhId(_))
}
