//! Rules about offloads of cards and hosts.

use super::beside::{ON_TOP, members};
use super::interface;
use crate::change::Change;
use crate::finding::{Findings, Harm};
use crate::host::{Host, Interface};
use crate::wanted::{Wanted, WantedPort, XdpPlace};
use netmem::port::xdp::XdpModePreference;
use std::collections::BTreeSet;

/// The segmentation of UDP by a sender, in the kernel and in `ethtool -K`.
const UDP_SEGMENTS: &str = "tx-udp-segmentation";

/// The segmentation of packets within UDP tunnels by a sender, in the kernel and in `ethtool -K`.
const TUNNEL_SEGMENTS: [&str; 2] = ["tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation"];

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, name) in wanted.interfaces() {
        if let Some((name, its)) = interface(host, name) {
            joined(host, port, (name, its), found);
        }
    }
    for (port, place) in wanted.xdp() {
        if let Some((name, its)) = interface(host, &place.interface) {
            joined_for_xdp(port, (name, its), found);
            tags(host, port, (name, its), found);
            if is_generic(place, its) {
                segments(host, port, its, found);
                tunnel_segments(host, port, its, found);
            }
        }
    }
    for (port, name) in wanted.packet() {
        if let Some((_, its)) = interface(host, name) {
            tunnel_segments(host, port, its, found);
        }
    }
}

/// An offload that is on.
struct Offload<'a> {
    interface: (&'a str, &'a Interface),
    /// Its name in the kernel.
    kernel: &'a str,
    /// Its name in `ethtool -K`.
    name: &'a str,
}

impl Offload<'_> {
    /// Adds a problem that ends when the offload is turned off. Where the driver keeps it on, only the problem is
    /// reported: the change would fail.
    fn report(
        &self,
        (rule, harm): (&'static str, Harm),
        port: &WantedPort,
        what: String,
        found: &mut Findings,
    ) {
        let Offload { interface: (interface, its), kernel, name } = self;
        if its.fixed_offloads.contains(*kernel) {
            let remedy = format!(
                "use another interface: the driver keeps it on ({kernel} is fixed in ethtool -k {interface})"
            );
            found.add(rule, harm, &port.name, what, remedy);
            return;
        }
        let set = |state: &str| format!("ethtool -K {interface} {name} {state}");
        found.mend(rule, harm, &port.name, what, Change::run(&set("off"), &set("on")));
    }
}

/// Finds LRO: packets that a card has merged by LRO cannot be split into the original packets.
fn joined(host: &Host, port: &WantedPort, (name, its): (&str, &Interface), found: &mut Findings) {
    let cards = cards(host, (name, its));
    for (card, its) in cards.into_iter().filter(|(_, its)| its.offloads.contains("rx-lro")) {
        let below = if card == name { String::new() } else { format!(" {card} below it") };
        let what = format!(
            "the card{below} merges received packets (LRO), which then cannot be forwarded as received"
        );
        let offload = Offload { interface: (card, its), kernel: "rx-lro", name: "large-receive-offload" };
        offload.report(("lro", Harm::Loses), port, what, found);
    }
}

/// Returns the interfaces that receive the packets of this one: itself, or the members of a bond or team, or what a VLAN and the
/// like is on top of. What an upper interface says of LRO is not what they do. Where it is turned off, the kernel turns it off on
/// all interfaces below, and does not turn it on again with the upper one (`netdev_sync_lower_features`).
fn cards<'a>(host: &'a Host, top: (&'a str, &'a Interface)) -> Vec<(&'a str, &'a Interface)> {
    let (mut cards, mut left) = (Vec::new(), vec![top]);
    // Of a saved host nothing is certain. Its interfaces may be on top of each other in a circle.
    let mut seen = BTreeSet::new();
    while let Some((name, its)) = left.pop() {
        if !seen.insert(name) {
            continue;
        }
        match its.kind.as_deref() {
            Some("bond" | "team") => left.extend(members(host, name)),
            Some(kind) if ON_TOP.contains(&kind) => {
                left.extend(its.link.as_deref().and_then(|below| interface(host, below)))
            }
            _ => cards.push((name, its)),
        }
    }
    cards.sort_by_key(|(name, _)| *name);
    cards
}

/// Finds GRO in hardware. The card says how it merged packets, but not to XDP: native mode may be refused, and
/// generic mode must segment the packets again.
fn joined_for_xdp(port: &WantedPort, (name, its): (&str, &Interface), found: &mut Findings) {
    if its.offloads.contains("rx-gro-hw") {
        let what = "the card merges received packets (GRO in hardware): native mode may be refused, and generic mode segments them again";
        let offload = Offload { interface: (name, its), kernel: "rx-gro-hw", name: "rx-gro-hw" };
        offload.report(("gro-hw", Harm::Slow), port, what.to_owned(), found);
    }
}

/// Finds VLAN tags that the card takes off: an XDP program does not see them.
fn tags(host: &Host, port: &WantedPort, (name, its): (&str, &Interface), found: &mut Findings) {
    let is_on_it = |its: &Interface| its.link.as_deref() == Some(name) && its.kind.as_deref() == Some("vlan");
    let vlan = host.interfaces.iter().find(|(_, its)| is_on_it(its));
    if let (Some((vlan, _)), true) = (vlan, its.offloads.contains("rx-vlan-hw-parse")) {
        let what = format!(
            "VLAN tags are removed before the XDP program sees them: packets of {vlan} look untagged"
        );
        let offload = Offload { interface: (name, its), kernel: "rx-vlan-hw-parse", name: "rx-vlan-offload" };
        offload.report(("vlan-tags", Harm::Loses), port, what, found);
    }
}

/// Returns whether the port will be in generic mode, in which the packets of a peer host arrive unsegmented.
fn is_generic(place: &XdpPlace, its: &Interface) -> bool {
    match place.mode {
        XdpModePreference::Generic => true,
        XdpModePreference::Native => false,
        XdpModePreference::NativeThenGeneric => its.modes.is_some_and(|modes| !modes.native),
    }
}

/// Returns the other end of a veth, if it is in this namespace.
fn peer<'a>(host: &'a Host, its: &'a Interface) -> Option<(&'a str, &'a Interface)> {
    let peer = its.link.as_deref().filter(|_| its.kind.as_deref() == Some("veth"))?;
    Some((peer, host.interfaces.get(peer)?))
}

/// Finds UDP segmentation of a peer host: nothing says how to segment its packets. A packet that fits the link's MTU is
/// taken for one datagram.
fn segments(host: &Host, port: &WantedPort, its: &Interface, found: &mut Findings) {
    let Some((peer, its)) = peer(host, its) else { return };
    if its.offloads.contains(UDP_SEGMENTS) {
        let what = format!(
            "{peer} sends UDP packets unsegmented, and generic mode does not give the segment size: they are dropped if longer than the link's MTU, otherwise joined into one datagram"
        );
        let offload = Offload { interface: (peer, its), kernel: UDP_SEGMENTS, name: UDP_SEGMENTS };
        offload.report(("udp-segments", Harm::Loses), port, what, found);
    }
}

/// Finds segmentation within UDP tunnels of a peer host that has such tunnels: no port cuts its packets.
fn tunnel_segments(host: &Host, port: &WantedPort, its: &Interface, found: &mut Findings) {
    let is_tunnel = |its: &Interface| matches!(its.kind.as_deref(), Some("vxlan" | "geneve"));
    let has_tunnel = host.interfaces.values().any(is_tunnel);
    let Some((peer, its)) = peer(host, its).filter(|_| has_tunnel) else { return };
    for name in TUNNEL_SEGMENTS.into_iter().filter(|name| its.offloads.contains(*name)) {
        let what = format!(
            "{peer} sends TCP within VXLAN and Geneve unsegmented ({name}), and no port cuts such packets: they are dropped"
        );
        let offload = Offload { interface: (peer, its), kernel: name, name };
        offload.report(("tunnel-segments", Harm::Loses), port, what, found);
    }
}
