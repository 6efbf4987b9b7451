//! What distinguishes a route of the kernel from others that a router would use in the same way.

use netlink_packet_core::Emitable;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netmem_router::route::{Origin, RibRoute, Target};
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

/// The bit of the distinguisher of a route that leads by a next-hop object.
const BY_OBJECT: u32 = 1;

/// Returns the distinguisher of a route with this target ([`RibRoute`](netmem_router::route::RibRoute)): a hash of the
/// fields that the kernel compares and a router does not use.
///
/// Of IPv6 routes with one metric and one path the kernel has only one. Of own addresses, one is kept for all links.
///
/// The lowest bit is set if the route leads by a next-hop object.
pub(crate) fn distinguisher(message: &RouteMessage, target: &Target) -> u32 {
    let header = &message.header;
    if *target == Target::Local {
        return 0;
    }
    let names_object =
        message.attributes.iter().any(|attribute| matches!(attribute, RouteAttribute::NhId(_)));
    let by_object = if names_object { BY_OBJECT } else { 0 };
    if header.address_family != AddressFamily::Inet {
        return by_object;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(&[header.protocol.into(), header.scope.into()]);
    for attribute in message.attributes.iter().filter(|attribute| is_compared(attribute)) {
        let mut bytes = vec![0; attribute.buffer_len()];
        attribute.emit(&mut bytes);
        hasher.write(&bytes);
    }
    hasher.finish() as u32 & !BY_OBJECT | by_object
}

/// Returns true if a route of the kernel leads by a next-hop object.
pub(crate) fn is_by_object(route: &RibRoute) -> bool {
    route.origin != Origin::Static && route.distinguisher & BY_OBJECT != 0
}

/// Returns true for a field that the kernel compares, and that does not depend on the state of a link.
fn is_compared(attribute: &RouteAttribute) -> bool {
    matches!(attribute, RouteAttribute::PrefSource(_) | RouteAttribute::Metrics(_) | RouteAttribute::NhId(_))
}
