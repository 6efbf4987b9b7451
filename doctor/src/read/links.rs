//! The interfaces of this network namespace, by rtnetlink. Source: rtnetlink(7).

use super::netlink::{Asker, Extent};
use crate::host::Interface;
use netlink_packet_core::Parseable;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo, LinkMessage, Prop};
use netlink_sys::protocols::NETLINK_ROUTE;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::collections::BTreeMap;
use std::io;

const GET_LINK: u16 = 18;
/// Bytes of `struct ifinfomsg`.
const HEADER: usize = 16;

/// An interface as a message describes it. It refers to other interfaces by index.
struct Link {
    name: String,
    interface: Interface,
    controller: Option<u32>,
    below: Option<u32>,
    /// The bus and the device's name on it, for hardware.
    parent: Option<(String, String)>,
}

/// The names of the bus and of the device on it, for interfaces that are hardware.
pub type Parents = BTreeMap<String, (String, String)>;

/// Returns all interfaces by name, and the bus and device of each that is hardware.
pub fn all() -> io::Result<(BTreeMap<String, Interface>, Parents)> {
    let answers = Asker::new(NETLINK_ROUTE)?.ask(GET_LINK, Extent::All, &[0; HEADER])?;
    let links: Vec<Link> = answers.iter().filter_map(|body| link(body)).collect();
    let names: BTreeMap<u32, String> =
        links.iter().map(|link| (link.interface.index, link.name.clone())).collect();
    let parents = links.iter().filter_map(|link| Some((link.name.clone(), link.parent.clone()?))).collect();
    let named = |index: Option<u32>| names.get(&index?).cloned();
    let interfaces = links.into_iter().map(|link| {
        let Link { name, interface, controller, below, .. } = link;
        let interface = Interface { controller: named(controller), link: named(below), ..interface };
        (name, interface)
    });
    Ok((interfaces.collect(), parents))
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
    let (mut is_elsewhere, mut bus, mut device) = (false, None, None);
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(text) => name = text,
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
    Some(Link { name, interface, controller, below, parent: bus.zip(device) })
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
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_with_its_mtu() {
        let (interfaces, parents) = all().unwrap();
        let lo = &interfaces["lo"];
        assert_eq!(lo.frame_type, Some(772));
        assert!(lo.index > 0 && lo.mtu > 0 && lo.kind.is_none() && !parents.contains_key("lo"), "{lo:?}");
    }
}
