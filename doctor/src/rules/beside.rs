//! Who else is at an interface: programs, sockets, bridges, bonds, interfaces on top of it.

use super::{interface, listed};
use crate::finding::{Findings, Harm};
use crate::host::{Host, Interface};
use crate::wanted::{Device, Wanted, WantedPort, XdpPlace};

/// Kinds of interfaces that receive what another one received first.
const ON_TOP: [&str; 5] = ["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"];

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, place) in wanted.xdp() {
        let Some((name, its)) = interface(host, &place.interface) else { continue };
        if let Some(program) = &its.program {
            let what = format!("an XDP program is attached already, {program}");
            let remedy = format!("stop the program that holds it, or ip link set dev {name} xdp off");
            found.add("program", Harm::Fails, &port.name, what, remedy);
        }
        bound(port, place, its, found);
        on_top(host, (port, place), (name, its), found);
    }
    for (port, name) in wanted.interfaces() {
        if let Some((name, its)) = interface(host, name) {
            joined(host, wanted, port, (name, its), found);
        }
    }
}

fn bound(port: &WantedPort, place: &XdpPlace, its: &Interface, found: &mut Findings) {
    let end = place.queues.map_or(u32::MAX, |count| place.queue.saturating_add(count));
    let is_wanted = |queue: u32| (place.queue..end).contains(&queue);
    for socket in its.bound.iter().filter(|socket| is_wanted(socket.queue)) {
        let holder = socket.holder.as_deref().unwrap_or("a process that cannot be seen");
        let what = format!("queue {} has an AF_XDP socket of {holder}", socket.queue);
        found.add("bound", Harm::Fails, &port.name, what, "stop it, or take another queue".to_owned());
    }
}

/// The interfaces on top of one whose packets all come here.
fn on_top(
    host: &Host,
    (port, place): (&WantedPort, &XdpPlace),
    (name, its): (&str, &Interface),
    found: &mut Findings,
) {
    let loses_tags = its.offloads.contains("rx-vlan-hw-parse");
    let is_on_it = |other: &Interface| {
        let kind = other.kind.as_deref().unwrap_or_default();
        other.link.as_deref() == Some(name) && ON_TOP.contains(&kind) && !(kind == "vlan" && loses_tags)
    };
    let above = listed(host.interfaces.iter().filter(|(_, other)| is_on_it(other)).map(|(name, _)| name));
    if above.is_empty() || place.is_partial {
        return;
    }
    let what = format!("{above} on top of it will receive nothing");
    let remedy = format!("take a part alone (xdp:{name},take=RULES), or a port on each of them");
    found.add("on-top", Harm::Loses, &port.name, what, remedy);
}

/// Bridges and bonds.
fn joined(
    host: &Host,
    wanted: &Wanted,
    port: &WantedPort,
    (name, its): (&str, &Interface),
    found: &mut Findings,
) {
    let xdp = if let Device::Xdp(place) = &port.device { Some(place) } else { None };
    if let (Some(_), Some(kind @ ("bond" | "team"))) = (xdp, its.kind.as_deref()) {
        let is_member = |other: &Interface| other.controller.as_deref() == Some(name);
        let members = host.interfaces.iter().filter(|(_, other)| is_member(other));
        let members: Vec<_> = members.map(|(name, _)| format!("xdp:{name}")).collect();
        let what = format!("it is a {kind}: packets arrive on its members' queues, and on none of its own");
        let remedy =
            if members.is_empty() { format!("packet:{name}") } else { format!("take {}", listed(members)) };
        found.add("bond", Harm::Fails, &port.name, what, remedy);
    }
    let Some(controller) = &its.controller else { return };
    let kind = host.interfaces.get(controller).and_then(|its| its.kind.as_deref()).unwrap_or_default();
    let remedy = format!("ip link set dev {name} nomaster");
    let takes_all = xdp.is_some_and(|place| !place.is_partial);
    match kind {
        "bridge" if takes_all => {
            let what = format!("it is a port of the bridge {controller}, which will receive nothing by it");
            found.add("bridge", Harm::Loses, &port.name, what, remedy);
        }
        "bridge" if xdp.is_none() && wanted.forwards => {
            let what = format!("it is a port of the bridge {controller}, which forwards its packets as well");
            found.add("bridge", Harm::Loses, &port.name, what, remedy);
        }
        "bond" | "team" if takes_all => {
            let what =
                format!("it is a member of {controller}, which will receive nothing by it, LACP neither");
            found.add("bond-member", Harm::Loses, &port.name, what, remedy);
        }
        _ => {}
    }
}
