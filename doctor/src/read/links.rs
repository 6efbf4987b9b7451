//! The interfaces of this network namespace, by rtnetlink. Source: rtnetlink(7).

use super::netlink::{Asker, Extent, find};
use crate::host::Interface;
use netlink_packet_core::Parseable;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage, Prop};
use netlink_sys::protocols::NETLINK_ROUTE;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const GET_LINK: u16 = 18;
/// Bytes of `struct ifinfomsg`.
const HEADER: usize = 16;
/// RTM_GETNEIGH of the family of bridges, which also lists the addresses for which an interface itself receives.
const GET_NEIGHBOUR: u16 = 30;
const AF_BRIDGE: u8 = 7;
/// Bytes of `struct ndmsg`, and the offsets of its fields.
const NEIGHBOUR: usize = 12;
const INDEX: usize = 4;
const STATE: usize = 8;
const FLAGS: usize = 10;
/// NUD_PERMANENT and NTF_SELF: an address of the interface's own list.
const PERMANENT: u16 = 0x80;
const ITSELF: u8 = 2;
/// NDA_DST, which only tunnels have, and NDA_LLADDR.
const FAR_END: u16 = 1;
const MAC: u16 = 2;

/// An interface as a message describes it. It refers to other interfaces by index.
struct Link {
    name: String,
    interface: Interface,
    mac: Vec<u8>,
    controller: Option<u32>,
    below: Option<u32>,
    /// The bus and the device's name on it, for hardware.
    parent: Option<(String, String)>,
}

/// The names of the bus and of the device on it, for interfaces that are hardware.
pub type Parents = BTreeMap<String, (String, String)>;

/// Returns all interfaces by name, and the bus and device of each that is hardware.
pub fn all() -> io::Result<(BTreeMap<String, Interface>, Parents)> {
    let asker = Asker::new(NETLINK_ROUTE)?;
    let answers = asker.ask(GET_LINK, Extent::All, &[0; HEADER])?;
    let links: Vec<Link> = answers.iter().filter_map(|body| link(body)).collect();
    let names: BTreeMap<u32, String> =
        links.iter().map(|link| (link.interface.index, link.name.clone())).collect();
    let parents = links.iter().filter_map(|link| Some((link.name.clone(), link.parent.clone()?))).collect();
    let mut request = [0; HEADER];
    request[0] = AF_BRIDGE;
    // A kernel without such lists has no such interfaces.
    let received = asker.ask(GET_NEIGHBOUR, Extent::All, &request).unwrap_or_default();
    let received: Vec<_> = received.iter().filter_map(|body| received_address(body)).collect();
    let macs: BTreeSet<Vec<u8>> = links.iter().map(|link| link.mac.clone()).collect();
    let elsewhere = |index: u32| {
        received.iter().filter(|(its, mac)| *its == index && !macs.contains(*mac)).count() as u32
    };
    let named = |index: Option<u32>| names.get(&index?).cloned();
    let interfaces = links.into_iter().map(|link| {
        let Link { name, interface, controller, below, .. } = link;
        let addresses_elsewhere = elsewhere(interface.index);
        let (controller, link) = (named(controller), named(below));
        let interface = Interface { controller, link, addresses_elsewhere, ..interface };
        (name, interface)
    });
    Ok((interfaces.collect(), parents))
}

/// Returns the index of an interface and a MAC address that it receives frames for. None for an entry of another kind.
fn received_address(body: &[u8]) -> Option<(u32, &[u8])> {
    let (header, attributes) = body.split_at_checked(NEIGHBOUR)?;
    let state = u16::from_ne_bytes(*header[STATE..].first_chunk()?);
    let is_own = header[0] == AF_BRIDGE && state & PERMANENT != 0 && header[FLAGS] & ITSELF != 0;
    let mac = find(attributes, MAC).filter(|mac| mac.len() == 6 && mac[0] & 1 == 0)?;
    let index = u32::from_ne_bytes(*header[INDEX..].first_chunk()?);
    (is_own && find(attributes, FAR_END).is_none()).then_some((index, mac))
}

/// Returns true if no interface has this name, also as an alternative one. False if the kernel does not say.
pub fn is_gone(name: &str) -> bool {
    socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .is_ok_and(|socket| name_to_index(socket, name) == Err(Errno::NODEV))
}

fn link(body: &[u8]) -> Option<Link> {
    let message = LinkMessage::parse(body).ok()?;
    let mut interface = Interface {
        index: message.header.index,
        is_up: message.header.flags.contains(LinkFlags::Up),
        has_carrier: message.header.flags.contains(LinkFlags::LowerUp),
        frame_type: Some(message.header.link_layer_type.into()),
        ..Interface::default()
    };
    let (mut name, mut controller, mut below) = (String::new(), None, None);
    let (mut is_elsewhere, mut bus, mut device, mut mac) = (false, None, None, Vec::new());
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = text,
            LinkAttribute::Address(address) => mac = address,
            LinkAttribute::Mtu(mtu) => interface.mtu = mtu,
            LinkAttribute::Controller(index) => controller = Some(index),
            LinkAttribute::Link(index) => below = Some(index),
            LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
            LinkAttribute::ParentDevBusName(text) => bus = Some(text),
            LinkAttribute::ParentDevName(text) => device = Some(text),
            LinkAttribute::LinkInfo(infos) => interface.kind = kind(&infos),
            LinkAttribute::PropList(props) => interface.other_names = other_names(props),
            _ => {}
        }
    }
    let below = below.filter(|_| !is_elsewhere);
    Some(Link { name, interface, mac, controller, below, parent: bus.zip(device) })
}

fn kind(infos: &[LinkInfo]) -> Option<String> {
    infos.iter().find_map(|info| match info {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    })
}

fn other_names(props: Vec<Prop>) -> Vec<String> {
    let name = |prop| if let Prop::AltIfName(name) = prop { Some(name) } else { None };
    props.into_iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::netlink::attribute;
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_with_its_mtu() {
        let (interfaces, parents) = all().unwrap();
        let lo = &interfaces["lo"];
        assert_eq!(lo.frame_type, Some(772));
        assert!(lo.index > 0 && lo.mtu > 0 && lo.kind.is_none() && !parents.contains_key("lo"), "{lo:?}");
    }

    #[test]
    fn an_address_counts_if_the_interface_itself_receives_for_it_and_it_is_of_one_station() {
        let body = |state: u16, flags: u8, attributes: &[Vec<u8>]| {
            let mut body = vec![AF_BRIDGE, 0, 0, 0, 3, 0, 0, 0, 0, 0, flags, 0];
            body[STATE..STATE + 2].copy_from_slice(&state.to_ne_bytes());
            body[INDEX..INDEX + 4].copy_from_slice(&3_u32.to_ne_bytes());
            body.extend(attributes.concat());
            body
        };
        let (mac, group) = ([2, 0, 0, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]);
        let of = |mac: &[u8]| attribute(MAC, mac);
        let own = body(PERMANENT, ITSELF, &[of(&mac)]);
        assert_eq!(received_address(&own), Some((3, &mac[..])));
        for other in [
            body(PERMANENT, ITSELF, &[of(&group)]),
            body(PERMANENT, 4, &[of(&mac)]),
            body(2, ITSELF, &[of(&mac)]),
            body(PERMANENT, ITSELF, &[of(&mac), attribute(FAR_END, &[10, 0, 0, 1])]),
            body(PERMANENT, ITSELF, &[of(&mac[..4])]),
            own[..11].to_vec(),
        ] {
            assert_eq!(received_address(&other), None, "{other:?}");
        }
    }
}
