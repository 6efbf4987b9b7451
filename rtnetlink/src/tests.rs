//! Tests the meaning of messages, and that malformed messages do no harm.

mod neighbours;

use crate::addresses::AddressState;
use crate::distinguisher::{distinguisher, is_by_object};
use crate::follower::{FollowError, Follower, FollowerConfig};
use crate::port_interface::PortInterface;
use crate::translate::{Event, LinkState, NeighbourState, RouteChange, events};
use crate::unsupported::Unsupported;
use netlink_packet_core::{DoneMessage, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, Prop};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState as NudState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteLwEnCapType, RouteMessage, RouteMetric, RouteNextHop,
    RouteNextHopFlags, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netmem::wire::MacAddr;
use netmem_router::Interface;
use netmem_router::route::{Origin, Rib, RibRoute, Target, Via};
use proptest::prelude::*;
use std::error::Error;
use std::io;
use std::net::Ipv4Addr;

pub(super) fn bytes(message: RouteNetlinkMessage, flags: u16) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len().next_multiple_of(4)];
    message.serialize(&mut bytes);
    bytes
}

/// 10.1.0.0/16 in the main table.
fn route(kind: RouteType, more: Vec<RouteAttribute>) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = 16;
    message.header.table = 254;
    message.header.kind = kind;
    message.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet(Ipv4Addr::new(10, 1, 0, 0)))];
    message.attributes.extend(more);
    message
}

fn gateway(last: u8) -> RouteAttribute {
    RouteAttribute::Gateway(RouteAddress::Inet(Ipv4Addr::new(10, 77, 0, last)))
}

fn via(link: u32, last: u8, weight: u16) -> Via {
    Via::new(link, Some(Ipv4Addr::new(10, 77, 0, last).into())).with_weight(weight)
}

pub(super) fn read(datagram: &[u8]) -> (Vec<Event>, usize) {
    let mut all = Vec::new();
    let unread = events(datagram, |event| all.push(event));
    (all, unread)
}

/// Seen: a message that was longer than the buffer it was received into left nothing but its absence.
#[test]
fn a_message_that_is_cut_off_counts_as_one_that_could_not_be_read_and_routes_may_have_changed() {
    let whole = bytes(RouteNetlinkMessage::NewRoute(route(RouteType::Unicast, vec![gateway(1)])), 0);
    let (one, none) = read(&whole);
    assert_eq!((one.len(), none), (1, 0));
    for rest in [1, 15, 16, whole.len() - 1] {
        let (all, unread) = read(&[&whole, &whole[..rest]].concat());
        assert_eq!((all, unread), (vec![one[0].clone(), Event::RoutesMayHaveChanged], 1), "{rest} bytes");
    }
}

fn targets(message: RouteMessage) -> Vec<Target> {
    let (all, _) = read(&bytes(RouteNetlinkMessage::NewRoute(message), 0));
    let target = |event| match event {
        Event::Route(_, route) => Some(route.target),
        Event::Unsupported(_) => None,
        event => panic!("{event:?}"),
    };
    all.into_iter().filter_map(target).collect()
}

fn next_hop(link: u32, last: u8, weight: u8, flags: RouteNextHopFlags) -> RouteNextHop {
    let mut hop = RouteNextHop::default();
    hop.interface_index = link;
    hop.hops = weight - 1;
    hop.flags = flags;
    hop.attributes = vec![gateway(last)];
    hop
}

#[test]
fn a_route_message_is_read_with_its_rank_its_paths_and_its_change() {
    let route =
        route(RouteType::Unicast, vec![RouteAttribute::Oif(3), gateway(1), RouteAttribute::Priority(7)]);
    let means = RibRoute {
        prefix: "10.1.0.0/16".parse().unwrap(),
        origin: Origin::Main,
        metric: 7,
        target: Target::paths(vec![via(3, 1, 1)]),
        distinguisher: distinguisher(&route, &Target::Blackhole),
    };
    for (message, flags, change) in [
        (RouteNetlinkMessage::NewRoute(route.clone()), 0, RouteChange::Added),
        (RouteNetlinkMessage::NewRoute(route.clone()), 0x100, RouteChange::Replaced),
        (RouteNetlinkMessage::DelRoute(route.clone()), 0, RouteChange::Removed),
    ] {
        assert_eq!(read(&bytes(message, flags)), (vec![Event::Route(change, means.clone())], 0));
    }
}

/// Seen: errors came from another address than the one that the route prefers.
#[test]
fn the_preferred_source_of_a_route_is_that_of_each_of_its_paths() {
    let own = Ipv4Addr::new(192, 0, 2, 7);
    let source = RouteAttribute::PrefSource(RouteAddress::Inet(own));
    let one = route(RouteType::Unicast, vec![RouteAttribute::Oif(3), gateway(1), source.clone()]);
    let hops = [3, 4].map(|link| next_hop(link, 1, 1, RouteNextHopFlags::empty())).to_vec();
    let several = route(RouteType::Unicast, vec![RouteAttribute::MultiPath(hops), source]);
    let with = |link| via(link, 1, 1).with_source(Some(own.into()));
    assert_eq!(targets(one), [Target::paths(vec![with(3)])]);
    assert_eq!(targets(several), [Target::paths(vec![with(3), with(4)])]);
}

/// Seen: of two routes that differed only in `proto` or `src`, one was known, and with the deletion of either none was.
#[test]
fn routes_that_differ_in_unused_fields_are_distinct_and_one_that_is_reported_twice_is_one() {
    let source = |last| RouteAttribute::PrefSource(RouteAddress::Inet(Ipv4Addr::new(10, 77, 0, last)));
    let with = |more: Vec<RouteAttribute>| {
        route(RouteType::Unicast, [vec![RouteAttribute::Oif(3), gateway(1)], more].concat())
    };
    let (mut protocol, mut scope) = (with(vec![]), with(vec![]));
    protocol.header.protocol = RouteProtocol::Bird;
    scope.header.scope = RouteScope::Link;
    let window = RouteAttribute::Metrics(vec![RouteMetric::Window(9)]);
    let all = [vec![], vec![source(1)], vec![source(2)], vec![window], vec![RouteAttribute::NhId(7)]];
    let all: Vec<_> = all.into_iter().map(with).chain([protocol, scope]).collect();
    let read_route = |message: RouteNetlinkMessage| match &read(&bytes(message, 0)).0[..] {
        [Event::Route(change, route)] => (*change, route.clone()),
        other => panic!("{other:?}"),
    };
    let mut rib = Rib::default();
    for (number, message) in all.iter().enumerate() {
        let (change, route) = read_route(RouteNetlinkMessage::NewRoute(message.clone()));
        assert_eq!(change.apply(&mut rib, &route), number == 0, "the order of several is not known");
        assert!(change.apply(&mut rib, &route), "by a dump and by the event before it");
        assert_eq!(is_by_object(&route), number == 4);
        assert_eq!(rib.len(), number + 1);
    }
    let whole: Vec<_> = rib.routes().collect();
    for message in [3, 0, 1, 0, 2, 1, 0].into_iter().scan(all, |left, at| Some(left.remove(at))) {
        let (change, route) = read_route(RouteNetlinkMessage::DelRoute(message));
        let before = rib.len();
        assert!(change.apply(&mut rib, &route) && whole.contains(&route));
        assert!(rib.len() + 1 == before && !rib.routes().any(|other| other == route), "{route:?}");
    }
}

/// Seen: a route that was dumped while its link was down, and a route that was deleted then, were silently skipped.
#[test]
fn paths_over_a_link_that_is_down_are_left_out_and_a_route_without_another_path_causes_a_resync() {
    let causes_resync = |message: RouteMessage| {
        for change in [RouteNetlinkMessage::NewRoute(message.clone()), RouteNetlinkMessage::DelRoute(message)]
        {
            assert_eq!(read(&bytes(change, 0)).0, [Event::RoutesMayHaveChanged]);
        }
    };
    let dead = RouteNextHopFlags::Dead;
    let hops = vec![next_hop(3, 1, 5, dead), next_hop(4, 2, 9, RouteNextHopFlags::empty())];
    let several = |hops| route(RouteType::Unicast, vec![RouteAttribute::MultiPath(hops)]);
    assert_eq!(targets(several(hops)), [Target::paths(vec![via(4, 2, 1)])]);
    causes_resync(several(vec![next_hop(3, 1, 1, dead)]));
    let mut single = route(RouteType::Unicast, vec![RouteAttribute::Oif(3), gateway(1)]);
    single.header.flags = RouteFlags::Dead;
    causes_resync(single);
}

#[test]
fn a_routes_own_mtu_is_that_of_each_of_its_paths_locked_or_not() {
    let metrics = |mtu: u32, more: &[RouteMetric]| {
        RouteAttribute::Metrics([&[RouteMetric::Window(9), RouteMetric::Mtu(mtu)], more].concat())
    };
    let lock = [RouteMetric::Lock(1 << 2)];
    for (metrics, mtu) in [
        (metrics(1300, &[]), Some(1300)),
        (metrics(1300, &lock), Some(1300)),
        (metrics(65_520, &[]), Some(65_520)),
        (metrics(1_000_000, &[]), Some(u16::MAX)),
        (metrics(0, &[]), None),
        (RouteAttribute::Metrics(lock.into()), None),
    ] {
        let with = |hop: Via| hop.with_mtu(mtu);
        let single = route(RouteType::Unicast, vec![RouteAttribute::Oif(3), gateway(1), metrics.clone()]);
        assert_eq!(targets(single), [Target::paths(vec![with(via(3, 1, 1))])]);
        let hops = [(3, 1), (4, 2)].map(|(link, last)| next_hop(link, last, 1, RouteNextHopFlags::empty()));
        let several = route(RouteType::Unicast, vec![RouteAttribute::MultiPath(hops.into()), metrics]);
        assert_eq!(targets(several), [Target::paths(vec![with(via(3, 1, 1)), with(via(4, 2, 1))])]);
    }
}

#[test]
fn a_route_that_names_only_a_next_hop_object_has_no_path_and_is_not_left_out() {
    let id = RouteAttribute::NhId(7);
    assert_eq!(targets(route(RouteType::Unicast, vec![id.clone()])), [Target::paths(Vec::new())]);
    let whole = route(RouteType::Unicast, vec![id.clone(), RouteAttribute::Oif(3), gateway(1)]);
    assert_eq!(targets(whole), [Target::paths(vec![via(3, 1, 1)])]);
    let mut of_ipv6 = route(RouteType::Unicast, Vec::new());
    (of_ipv6.header.address_family, of_ipv6.header.destination_prefix_length) = (AddressFamily::Inet6, 0);
    for (more, distinguisher) in [(vec![RouteAttribute::Oif(3)], 0), (vec![RouteAttribute::Oif(3), id], 1)] {
        of_ipv6.attributes = more;
        let [Event::Route(_, its)] = &read(&bytes(RouteNetlinkMessage::NewRoute(of_ipv6.clone()), 0)).0[..]
        else {
            panic!("no route")
        };
        assert_eq!((its.distinguisher, is_by_object(its)), (distinguisher, distinguisher == 1));
    }
}

/// Seen: only the administrative state of a link was checked, and a port given by an alternative name of its link
/// was never found.
#[test]
fn a_link_is_reported_with_its_carrier_and_all_its_names() {
    let read_link = |flags: LinkFlags| {
        let mut message = LinkMessage::default();
        message.header.index = 3;
        message.header.flags = flags;
        let others = ["enp1s0", "wan"].map(|name| Prop::AltIfName(name.to_owned()));
        message.attributes =
            vec![LinkAttribute::PropList(others.to_vec()), LinkAttribute::IfName("eth0".to_owned())];
        read(&bytes(RouteNetlinkMessage::NewLink(message), 0)).0
    };
    for (flags, its) in [
        (LinkFlags::Up | LinkFlags::Running | LinkFlags::LowerUp, LinkState::Up),
        (LinkFlags::Up, LinkState::NoCarrier),
        (LinkFlags::empty(), LinkState::Down),
    ] {
        let [Event::Link { index: 3, names, state, .. }] = &read_link(flags)[..] else { panic!("no link") };
        assert_eq!((*state, &names[..]), (its, &["eth0", "enp1s0", "wan"].map(str::to_owned)[..]));
    }
}

/// Seen: a message with an attribute of a newer kernel's length was counted, and its contents were never known.
#[test]
fn a_message_that_cannot_be_read_and_may_be_about_routes_causes_a_resync() {
    let mut message = bytes(RouteNetlinkMessage::NewRoute(route(RouteType::Unicast, vec![gateway(1)])), 0);
    let at = message.len() - 8;
    assert_eq!(message[at..at + 2], [8, 0], "the gateway");
    message[at] = 7;
    let rank = Event::RouteUnread { prefix: "10.1.0.0/16".parse().unwrap(), origin: Origin::Main, metric: 0 };
    assert_eq!(read(&message), (vec![rank], 1));
    // RTM_DELROUTE.
    message[4] = 25;
    assert_eq!(read(&message), (vec![Event::RoutesMayHaveChanged], 1));
    // RTM_NEWMDB: not relevant.
    message[4] = 84;
    assert_eq!(read(&message).0, []);
}

#[test]
fn paths_that_encapsulate_packets_are_on_no_link() {
    let mpls = || RouteAttribute::EncapType(RouteLwEnCapType::Mpls);
    let single = route(RouteType::Unicast, vec![RouteAttribute::Oif(3), gateway(1), mpls()]);
    assert_eq!(targets(single), [Target::paths(vec![via(0, 1, 1)])]);
    let mut hops = [(3, 1), (4, 2)].map(|(link, last)| next_hop(link, last, 1, RouteNextHopFlags::empty()));
    hops[0].attributes.push(mpls());
    let several = route(RouteType::Unicast, vec![RouteAttribute::MultiPath(hops.into())]);
    assert_eq!(targets(several), [Target::paths(vec![via(0, 1, 1), via(4, 2, 1)])]);
}

#[test]
fn a_dump_that_ends_with_an_error_is_refused_and_is_not_complete() {
    let done = |code: i32| {
        let mut done = DoneMessage::default();
        done.code = code;
        let payload = NetlinkPayload::<RouteNetlinkMessage>::Done(done);
        let mut message = NetlinkMessage::new(NetlinkHeader::default(), payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len().next_multiple_of(4)];
        message.serialize(&mut bytes);
        read(&bytes)
    };
    assert_eq!(done(-105), (vec![Event::Refused(105)], 0));
    assert_eq!(done(0), (vec![Event::Done], 0));
}

#[test]
fn routes_of_other_tables_and_of_unknown_kinds_are_left_out() {
    let unicast = || route(RouteType::Unicast, vec![RouteAttribute::Oif(3)]);
    let edits: [fn(&mut RouteMessage); 3] = [
        |message| message.attributes.push(RouteAttribute::Table(1_000)),
        |message| message.header.flags = RouteFlags::Cloned,
        |message| message.header.destination_prefix_length = 33,
    ];
    for edit in edits {
        let mut message = unicast();
        edit(&mut message);
        assert_eq!(targets(message.clone()), [], "{message:?}");
    }
    assert_eq!(targets(route(RouteType::Other(99), Vec::new())), []);
    for (kind, target) in [
        (RouteType::BlackHole, Target::Blackhole),
        (RouteType::Prohibit, Target::Prohibit),
        (RouteType::Unreachable, Target::Unreachable),
        (RouteType::Broadcast, Target::Local),
        (RouteType::Throw, Target::Throw),
    ] {
        assert_eq!(targets(route(kind, Vec::new())), [target]);
    }
}

pub(super) fn neighbour(state: NudState, mac: Option<Vec<u8>>) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = 3;
    message.header.state = state;
    let address = NeighbourAddress::Inet(Ipv4Addr::new(10, 77, 0, 1));
    message.attributes.push(NeighbourAttribute::Destination(address));
    message.attributes.extend(mac.map(NeighbourAttribute::LinkLayerAddress));
    message
}

#[test]
fn the_state_of_an_address_follows_from_its_flags_in_the_header_or_in_the_attribute() {
    let state_with = |flags: AddressFlags, in_attribute: bool| {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet6;
        (message.header.index, message.header.prefix_len) = (3, 64);
        message.header.flags = AddressHeaderFlags::from_bits_retain(flags.bits() as u8);
        message.attributes.push(AddressAttribute::Address("fd00::1".parse().unwrap()));
        message.attributes.extend(in_attribute.then_some(AddressAttribute::Flags(flags)));
        match &read(&bytes(RouteNetlinkMessage::NewAddress(message), 0)).0[..] {
            [Event::Address { link: 3, state: Some(state), .. }] => *state,
            other => panic!("{other:?}"),
        }
    };
    let tentative = AddressFlags::Tentative;
    for (flags, means) in [
        (AddressFlags::Permanent, AddressState::Preferred),
        (AddressFlags::Deprecated, AddressState::Deprecated),
        (tentative | AddressFlags::Permanent, AddressState::Unusable),
        (tentative | AddressFlags::Optimistic, AddressState::Preferred),
        (tentative | AddressFlags::Dadfailed, AddressState::Unusable),
        (AddressFlags::Optimistic | AddressFlags::Dadfailed, AddressState::Unusable),
    ] {
        assert_eq!([state_with(flags, false), state_with(flags, true)], [means; 2], "{flags:?}");
    }
}

proptest! {
    /// Concatenated messages, truncated and with changed bytes. They are read as far as they are valid.
    #[test]
    fn no_datagram_causes_a_panic(
        cut in 0..400_usize,
        edits in prop::collection::vec((0..400_usize, any::<u8>()), 0..8),
    ) {
        let hops = vec![next_hop(3, 1, 5, RouteNextHopFlags::empty()), next_hop(4, 2, 9, RouteNextHopFlags::Dead)];
        let mut datagram = Vec::new();
        datagram.extend(bytes(RouteNetlinkMessage::NewRoute(route(RouteType::Unicast, vec![RouteAttribute::MultiPath(hops)])), 0));
        let mac = Some(vec![2, 0, 0, 0, 0, 1]);
        datagram.extend(bytes(RouteNetlinkMessage::NewNeighbour(neighbour(NudState::Stale, mac)), 0));
        datagram.extend(bytes(RouteNetlinkMessage::DelRoute(route(RouteType::Unicast, vec![RouteAttribute::Oif(3), gateway(1)])), 0));
        prop_assert_eq!(read(&datagram).0.len(), 3);
        for (at, byte) in edits {
            if let Some(place) = datagram.get_mut(at) {
                *place = byte;
            }
        }
        datagram.truncate(cut);
        let (all, unread) = read(&datagram);
        prop_assert!(all.len().max(unread) <= datagram.len() / 16 + 1);
    }
}

/// D7 of an early review: rules, other tables and routes of some packets were silently skipped.
#[test]
fn rules_and_routes_that_are_not_supported_are_reported_except_the_rules_of_every_kernel() {
    let rule = |family, priority, table: u8, more: &[RuleAttribute]| {
        let mut message = RuleMessage::default();
        message.header.family = family;
        message.header.table = table;
        message.attributes =
            [&[RuleAttribute::Priority(priority), RuleAttribute::Table(table.into())], more].concat();
        read(&bytes(RouteNetlinkMessage::NewRule(message), 0)).0
    };
    for (family, priority, table) in [
        (AddressFamily::Inet, 0, 255),
        (AddressFamily::Inet, 32_766, 254),
        (AddressFamily::Inet, 32_767, 253),
        (AddressFamily::Inet6, 0, 255),
        (AddressFamily::Inet6, 32_766, 254),
    ] {
        let none = [RuleAttribute::SuppressPrefixLen(u32::MAX)];
        assert_eq!(rule(family, priority, table, &none), [], "{priority}");
    }
    let mark = [RuleAttribute::FwMark(7)];
    for (events, is_ipv6, priority) in [
        (rule(AddressFamily::Inet, 100, 100, &[]), false, 100),
        (rule(AddressFamily::Inet6, 32_767, 254, &[]), true, 32_767),
        (rule(AddressFamily::Inet, 32_766, 254, &mark), false, 32_766),
    ] {
        assert_eq!(events, [Event::Unsupported(Unsupported::Rule { is_ipv6, priority })]);
    }
    let prefix = "10.1.0.0/16".parse().unwrap();
    let (mut default, mut service, mut sources) = {
        let route = || route(RouteType::Unicast, vec![RouteAttribute::Oif(3)]);
        (route(), route(), route())
    };
    default.header.table = 253;
    service.header.tos = 0x10;
    sources.header.source_prefix_length = 48;
    for (message, what) in [
        (default, Unsupported::DefaultTableRoute(prefix)),
        (service, Unsupported::TosRoute(prefix)),
        (sources, Unsupported::SourceSpecificRoute(prefix)),
    ] {
        let gone = RouteNetlinkMessage::DelRoute(message.clone());
        assert_eq!(read(&bytes(RouteNetlinkMessage::NewRoute(message), 0)).0, [Event::Unsupported(what)]);
        assert_eq!(read(&bytes(gone, 0)).0, []);
    }
}

/// Seen: packets of such routes were dropped as `no_route`, and no line said so.
#[test]
fn a_route_that_encapsulates_and_one_without_the_paths_of_its_object_are_reported_while_they_come() {
    let prefix = "10.1.0.0/16".parse().unwrap();
    let encap = RouteAttribute::EncapType(RouteLwEnCapType::Mpls);
    for (attributes, what) in [
        (vec![RouteAttribute::Oif(3), encap], Unsupported::EncapsulatingRoute(prefix)),
        (vec![RouteAttribute::NhId(7)], Unsupported::NextHopObjectRoute(prefix)),
    ] {
        let message = route(RouteType::Unicast, attributes);
        let added = read(&bytes(RouteNetlinkMessage::NewRoute(message.clone()), 0)).0;
        assert!(
            matches!(&added[..], [Event::Route(..), Event::Unsupported(its)] if *its == what),
            "{added:?}"
        );
        let removed = read(&bytes(RouteNetlinkMessage::DelRoute(message), 0)).0;
        assert!(matches!(&removed[..], [Event::Route(RouteChange::Removed, _)]), "{removed:?}");
    }
}

/// Found in a review: port 256 counted as port 0.
#[test]
fn more_ports_than_there_are_numbers_for_are_refused() {
    let port = (Interface { mac: MacAddr::default(), mtu: 1500 }, PortInterface::Absent);
    let refused = |ports| {
        let started =
            Follower::start(FollowerConfig { ports: vec![port.clone(); ports], ..Default::default() });
        started.err().map(|error| error.to_string())
    };
    for ports in [256, 257] {
        let line = format!("follow the kernel's routes for {ports} ports: give at most 255");
        assert_eq!(refused(ports), Some(line));
    }
    assert!(!refused(255).is_some_and(|line| line.contains("ports")));
}

/// Found in a review: there was neither a step nor a remedy in the line, and no source.
#[test]
fn each_failure_of_a_follower_names_the_step_and_the_remedy_and_has_its_cause() {
    let why = || io::Error::from_raw_os_error(16);
    for (error, step, remedy) in [
        (FollowError::Socket(why()), "rtnetlink socket: ", "RestrictAddressFamilies)?"),
        (
            FollowError::Request { what: "links", why: why() },
            "request the kernel's links: ",
            "start it again",
        ),
        (FollowError::Events(why()), "read the kernel's events: ", "start the follower again"),
    ] {
        let line = error.to_string();
        assert!(line.contains(step) && line.ends_with(remedy) && line.lines().count() == 1, "{line}");
        assert!(error.source().is_some_and(|source| line.contains(&source.to_string())), "{line}");
    }
}

/// Seen: a follower without free descriptors asked whether there were any, and named no limit.
#[test]
fn a_follower_without_free_descriptors_names_the_limit() {
    for (errno, remedy) in
        [(24, "; raise the limit of open files (`ulimit -n`)"), (23, "; raise `sysctl fs.file-max`")]
    {
        let why = || io::Error::from_raw_os_error(errno);
        for error in [FollowError::Socket(why()), FollowError::Request { what: "links", why: why() }] {
            assert!(error.to_string().contains(remedy), "{error}");
        }
    }
}
