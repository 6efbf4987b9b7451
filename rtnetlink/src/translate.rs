//! Translates the kernel's messages into events. Nothing in them is trusted: invalid contents are left out.

mod link;

use self::link::link;
use crate::addresses::AddressState;
use crate::distinguisher::distinguisher;
use crate::headers::{Message, RTM_NEWROUTE, messages};
use crate::unread::route_rank;
use crate::unsupported::Unsupported;
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_REPLACE, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourExtFlags, NeighbourFlags, NeighbourMessage,
    NeighbourState as NudState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteLwEnCapType, RouteMessage, RouteMetric, RouteNextHop,
    RouteNextHopFlags, RouteType, RouteVia,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netmem::wire::MacAddr;
use netmem_router::route::{Origin, RibRoute, Target, Via};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The meaning of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A change of a route in the kernel's local or main table.
    Route(RouteChange, RibRoute),
    /// The kernel's state of a neighbour.
    Neighbour {
        /// The link of the neighbour.
        link: u32,
        /// The address of the neighbour.
        address: IpAddr,
        /// The state.
        state: NeighbourState,
    },
    /// A link exists and has these properties.
    Link {
        /// The kernel's interface index.
        index: u32,
        /// The name of the link, followed by its alternative names, if the message has them.
        names: Vec<String>,
        /// Whether packets can pass over it.
        state: LinkState,
        /// The MAC address of an Ethernet link, if the message has it.
        mac: Option<MacAddr>,
        /// Maximum bytes of an IP packet in one frame. None in a message of a wireless driver, which has little more than the
        /// name (`net/wireless/wext-core.c` of Linux).
        mtu: Option<u32>,
    },
    /// The link with this index does not exist any more.
    LinkGone(u32),
    /// The router has an address, or does not have it any more.
    Address {
        /// The link of the address.
        link: u32,
        /// The address, and the length of the network on the link.
        net: IpNet,
        /// The use that may be made of the address, or None if the router does not have it any more.
        state: Option<AddressState>,
    },
    /// The kernel forwards packets by something that is not followed.
    Unsupported(Unsupported),
    /// A rule that was not supported is gone.
    RuleGone(Unsupported),
    /// The kernel has a route of this rank in its local or main table, and its target could not be read.
    RouteUnread {
        /// The destinations.
        prefix: IpNet,
        /// The table.
        origin: Origin,
        /// The metric.
        metric: u32,
    },
    /// Routes may have changed, and no other event reports which.
    RoutesMayHaveChanged,
    /// The end of an answer.
    Done,
    /// The kernel rejects the request with this error number.
    Refused(i32),
}

/// The change of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteChange {
    /// The route exists, in addition to others.
    Added,
    /// The route replaces the one of its prefix and metric.
    Replaced,
    /// The route does not exist any more.
    Removed,
}

/// Whether packets can pass over a link, as far as routes depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// The link is administratively down.
    Down,
    /// The link is up without a carrier. Routes over it are used, unless the kernel is set to ignore them
    /// (`ignore_routes_with_linkdown`).
    NoCarrier,
    /// The link is up.
    Up,
}

/// The kernel's state of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighbourState {
    /// The MAC address is known, and it is permanent or was confirmed recently (NUD_REACHABLE, NUD_PERMANENT, NUD_NOARP), or
    /// its owner keeps it up to date (NTF_EXT_LEARNED, NTF_EXT_MANAGED).
    Reachable(MacAddr),
    /// The MAC address is known and may be out of date (NUD_STALE, NUD_DELAY, NUD_PROBE).
    Stale(MacAddr),
    /// The neighbour did not answer (NUD_FAILED).
    Failed,
    /// Nothing is known, or nothing yet.
    Unknown,
    /// The entry belongs to others, and it has no MAC address of one station. A request (NTF_USE) would change the entry.
    Unusable,
    /// The entry belongs to others, and the kernel asks for its MAC address. A request (NTF_USE) would change the entry.
    Awaited,
}

/// Messages about next-hop objects. The kernel does not always report routes that change with them.
const NEXT_HOP_OBJECTS: std::ops::RangeInclusive<u16> = 104..=106;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
/// RTM_NEWLINK to RTM_DELNEIGH: the messages that routes are made of.
const FOLLOWED: std::ops::RangeInclusive<u16> = 16..=29;

/// Passes the event of each message in a datagram to `each`, in order. Returns the number of messages that could
/// not be read. Such a message also counts as [`Event::RouteUnread`] if it reports a route, and as
/// [`Event::RoutesMayHaveChanged`] if it may have been about routes otherwise.
pub fn events(datagram: &[u8], mut each: impl FnMut(Event)) -> usize {
    let (mut unread, mut messages) = (0, messages(datagram));
    for message in messages.by_ref() {
        match event(&message) {
            Some(Ok(event)) => {
                let unsupported = unsupported_part(&event);
                each(event);
                unsupported.map(Event::Unsupported).into_iter().for_each(&mut each);
            }
            Some(Err(Unread)) => {
                unread += 1;
                let route = (message.kind == RTM_NEWROUTE).then(|| route_rank(message.contents())).flatten();
                match route {
                    Some((prefix, origin, metric)) => each(Event::RouteUnread { prefix, origin, metric }),
                    None if FOLLOWED.contains(&message.kind) => each(Event::RoutesMayHaveChanged),
                    None => {}
                }
            }
            None => {}
        }
    }
    // A message that is longer than the socket's buffer ends the datagram.
    if !messages.rest.is_empty() {
        unread += 1;
        each(Event::RoutesMayHaveChanged);
    }
    unread
}

/// A malformed message.
struct Unread;

fn event(message: &Message) -> Option<Result<Event, Unread>> {
    let Message { bytes, kind, flags } = *message;
    match kind {
        RTM_NEWLINK | RTM_DELLINK => return link(message.contents(), kind == RTM_NEWLINK),
        kind if NEXT_HOP_OBJECTS.contains(&kind) => return Some(Ok(Event::RoutesMayHaveChanged)),
        _ => {}
    }
    let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes) else {
        return Some(Err(Unread));
    };
    let event = match message.payload {
        // An answer that ends with an error is not complete.
        NetlinkPayload::Done(done) if done.code < 0 => Some(Event::Refused(done.code.saturating_neg())),
        NetlinkPayload::Done(_) => Some(Event::Done),
        NetlinkPayload::Error(error) => error.code.map(|code| Event::Refused(code.get().saturating_neg())),
        NetlinkPayload::InnerMessage(message) => match message {
            RouteNetlinkMessage::NewRoute(route) => {
                let replaced = flags & NLM_F_REPLACE != 0;
                let change = if replaced { RouteChange::Replaced } else { RouteChange::Added };
                self::route(change, &route)
            }
            RouteNetlinkMessage::DelRoute(route) => self::route(RouteChange::Removed, &route),
            RouteNetlinkMessage::NewRule(rule) => Unsupported::rule(&rule).map(Event::Unsupported),
            RouteNetlinkMessage::DelRule(rule) => Unsupported::rule(&rule).map(Event::RuleGone),
            RouteNetlinkMessage::NewNeighbour(neighbour) => self::neighbour(&neighbour, true),
            RouteNetlinkMessage::DelNeighbour(neighbour) => self::neighbour(&neighbour, false),
            RouteNetlinkMessage::NewAddress(address) => self::address(&address, true),
            RouteNetlinkMessage::DelAddress(address) => self::address(&address, false),
            _ => None,
        },
        _ => None,
    };
    event.map(Ok)
}

/// Returns the change of a route. Only routes of the local or main table are used, for every type of service and
/// every source.
fn route(change: RouteChange, message: &RouteMessage) -> Option<Event> {
    let header = &message.header;
    let (mut table, mut metric) = (u32::from(header.table), 0);
    let mut destination = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(its) => table = *its,
            RouteAttribute::Priority(its) => metric = *its,
            RouteAttribute::Destination(its) => destination = ip(its)?,
            _ => {}
        }
    }
    if header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let prefix = IpNet::new(destination, header.destination_prefix_length).ok()?.trunc();
    let unsupported = |what: fn(IpNet) -> Unsupported| {
        (change != RouteChange::Removed).then(|| Event::Unsupported(what(prefix)))
    };
    let origin = match table {
        255 => Origin::Local,
        254 => Origin::Main,
        253 => return unsupported(Unsupported::DefaultTableRoute),
        // A route of another table. The rule that names the table is reported.
        _ => return None,
    };
    if header.tos != 0 {
        return unsupported(Unsupported::TosRoute);
    }
    if header.source_prefix_length != 0 {
        return unsupported(Unsupported::SourceSpecificRoute);
    }
    let event = |target| {
        let distinguisher = distinguisher(message, &target);
        Event::Route(change, RibRoute { prefix, origin, metric, target, distinguisher })
    };
    match message.header.kind {
        // All links of the route are down, so the route is not used. The message does not say which route it was
        // here, or if it still exists.
        RouteType::Unicast if !has_next_hop_object(message) && paths(message).is_empty() => {
            Some(Event::RoutesMayHaveChanged)
        }
        _ => target(message).map(event),
    }
}

/// Returns true if a route's paths belong to a next-hop object and are not in the message (`nexthop_compat_mode`
/// 0).
fn has_next_hop_object(message: &RouteMessage) -> bool {
    let has = |is: fn(&RouteAttribute) -> bool| message.attributes.iter().any(is);
    has(|attribute| matches!(attribute, RouteAttribute::NhId(_)))
        && !has(|attribute| matches!(attribute, RouteAttribute::Oif(_) | RouteAttribute::MultiPath(_)))
}

/// Returns the target of a route, or None for kinds that a router does not have.
fn target(message: &RouteMessage) -> Option<Target> {
    match message.header.kind {
        RouteType::Unicast => Some(Target::paths(paths(message))),
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast => {
            Some(Target::Local)
        }
        RouteType::BlackHole => Some(Target::Blackhole),
        RouteType::Unreachable => Some(Target::Unreachable),
        RouteType::Prohibit => Some(Target::Prohibit),
        RouteType::Throw => Some(Target::Throw),
        _ => None,
    }
}

/// Returns the part of a route that exists by which the kernel forwards packets and the router does not.
fn unsupported_part(event: &Event) -> Option<Unsupported> {
    let Event::Route(RouteChange::Added | RouteChange::Replaced, route) = event else { return None };
    let Target::Paths(paths) = &route.target else { return None };
    match &paths[..] {
        [] => Some(Unsupported::NextHopObjectRoute(route.prefix)),
        paths if paths.iter().any(|path| path.link == NO_LINK) => {
            Some(Unsupported::EncapsulatingRoute(route.prefix))
        }
        _ => None,
    }
}

/// The link of paths that do not exist here: no port is on it.
pub(crate) const NO_LINK: u32 = 0;

/// Returns the link of a path, or `NO_LINK` if the path encapsulates its packets.
fn link_unless_encapsulated(attributes: &[RouteAttribute], link: u32) -> u32 {
    let is_encapsulation = |attribute: &RouteAttribute| {
        matches!(attribute, RouteAttribute::Encap(_))
            || matches!(attribute, RouteAttribute::EncapType(kind) if *kind != RouteLwEnCapType::None)
    };
    if attributes.iter().any(is_encapsulation) { NO_LINK } else { link }
}

/// Returns a route's paths, without those whose link is down.
fn paths(message: &RouteMessage) -> Vec<Via> {
    let (mtu, source) = (mtu(message), preferred_source(message));
    let several = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::MultiPath(hops) => Some(hops),
        _ => None,
    });
    if let Some(hops) = several {
        let alive = |hop: &&RouteNextHop| !hop.flags.contains(RouteNextHopFlags::Dead);
        let via = |hop: &RouteNextHop| {
            let link = link_unless_encapsulated(&hop.attributes, hop.interface_index);
            let via = Via::new(link, gateway(&hop.attributes)).with_weight(u16::from(hop.hops) + 1);
            via.with_mtu(mtu).with_source(source)
        };
        return hops.iter().filter(alive).map(via).collect();
    }
    let link = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(link) => Some(link_unless_encapsulated(&message.attributes, *link)),
        _ => None,
    });
    let link = link.filter(|_| !message.header.flags.contains(RouteFlags::Dead));
    let via = |link| Via::new(link, gateway(&message.attributes)).with_mtu(mtu).with_source(source);
    link.map(via).into_iter().collect()
}

/// Returns a route's own MTU. The kernel has none larger than a packet. Whether the MTU is locked against path MTU
/// discovery does not matter to a router, which ignores such messages.
fn mtu(message: &RouteMessage) -> Option<u16> {
    let metrics = message.attributes.iter().filter_map(|attribute| match attribute {
        RouteAttribute::Metrics(metrics) => Some(metrics),
        _ => None,
    });
    let mtu = metrics.flatten().find_map(|metric| match metric {
        RouteMetric::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    mtu.filter(|mtu| *mtu > 0).map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX))
}

/// Returns the source that a route prefers for packets of this host.
fn preferred_source(message: &RouteMessage) -> Option<IpAddr> {
    message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::PrefSource(source) => ip(source),
        _ => None,
    })
}

fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(address) => ip(address),
        RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
        RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
        _ => None,
    })
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn neighbour(message: &NeighbourMessage, exists: bool) -> Option<Event> {
    let header = &message.header;
    if header.flags.contains(NeighbourFlags::Proxy) {
        return None;
    }
    let address = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)) => Some(IpAddr::from(*address)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(address)) => Some(IpAddr::from(*address)),
        _ => None,
    })?;
    // The kernel's own entries for groups. No packet to a group has a next hop.
    if address.is_multicast() {
        return None;
    }
    let state = if exists { neighbour_state(message) } else { NeighbourState::Unknown };
    Some(Event::Neighbour { link: header.ifindex, address, state })
}

/// Returns the state of an entry that exists. A request with NTF_USE clears the flags of an entry that a routing daemon has
/// learned or the kernel manages, and makes a permanent entry one that is not, so none is sent about these.
fn neighbour_state(message: &NeighbourMessage) -> NeighbourState {
    let bytes = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(bytes) => Some(&bytes[..]),
        _ => None,
    });
    let is_everybody = bytes == Some(&[0xff; 6]);
    let is_managed = |attribute: &NeighbourAttribute| match attribute {
        NeighbourAttribute::ExtFlags(flags) => flags.contains(NeighbourExtFlags::Managed),
        _ => false,
    };
    let is_foreign = message.header.flags.contains(NeighbourFlags::ExtLearned)
        || message.attributes.iter().any(is_managed);
    match (message.header.state, bytes.and_then(ethernet)) {
        (NudState::Reachable | NudState::Permanent | NudState::Noarp, Some(mac)) => {
            NeighbourState::Reachable(mac)
        }
        // The kernel's own entries for broadcast addresses.
        (NudState::Noarp, None) if is_everybody => NeighbourState::Unknown,
        (NudState::Permanent | NudState::Noarp, None) => NeighbourState::Unusable,
        (NudState::Stale | NudState::Delay | NudState::Probe, Some(mac)) if is_foreign => {
            NeighbourState::Reachable(mac)
        }
        (NudState::Stale | NudState::Delay | NudState::Probe, Some(mac)) => NeighbourState::Stale(mac),
        (NudState::Incomplete, _) if is_foreign => NeighbourState::Awaited,
        _ if is_foreign => NeighbourState::Unusable,
        (NudState::Failed, _) => NeighbourState::Failed,
        _ => NeighbourState::Unknown,
    }
}

/// Returns the MAC address of one station.
fn ethernet(bytes: &[u8]) -> Option<MacAddr> {
    <[u8; 6]>::try_from(bytes).ok().map(MacAddr::new).filter(|mac| !mac.is_multicast())
}

fn address(message: &AddressMessage, exists: bool) -> Option<Event> {
    // On a point-to-point link `Address` is that of the other end.
    let own = |attribute: &AddressAttribute| match attribute {
        AddressAttribute::Local(address) => Some((true, *address)),
        AddressAttribute::Address(address) => Some((false, *address)),
        _ => None,
    };
    let (_, address) = message.attributes.iter().filter_map(own).max_by_key(|(local, _)| *local)?;
    let net = IpNet::new(address, message.header.prefix_len).ok()?;
    Some(Event::Address { link: message.header.index, net, state: exists.then(|| address_state(message)) })
}

/// Returns the use that may be made of an address. An optimistic one may be used before detection is finished (RFC
/// 4429 §3.3).
fn address_state(message: &AddressMessage) -> AddressState {
    let all = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Flags(flags) => Some(*flags),
        _ => None,
    });
    // The header has room for the first eight flags.
    let first = AddressFlags::from_bits_retain(message.header.flags.bits().into());
    let has = |flag| all.unwrap_or(first).contains(flag);
    let is_unsure = has(AddressFlags::Tentative) && !has(AddressFlags::Optimistic);
    if is_unsure || has(AddressFlags::Dadfailed) {
        AddressState::Unusable
    } else if has(AddressFlags::Deprecated) {
        AddressState::Deprecated
    } else {
        AddressState::Preferred
    }
}
