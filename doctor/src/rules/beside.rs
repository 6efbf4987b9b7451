//! Rules about other users of an interface: programs, sockets, bridges, bonds, and interfaces on top of it.

use super::{interface, listed};
use crate::finding::{Findings, Harm};
use crate::host::{Host, Interface};
use crate::wanted::{Device, Wanted, WantedPort, XdpPlace};
use netmem::port::xdp::XdpModePreference;

/// Kinds of interfaces that receive packets first received by another interface.
pub(super) const ON_TOP: [&str; 7] = ["vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "macsec", "dsa"];

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, place) in wanted.xdp() {
        let Some((name, its)) = interface(host, &place.interface) else { continue };
        // Without a program of its own, a port may be beside any. With zero-copy it has one.
        let offers = its.modes.is_some_and(|modes| modes.zero_copy);
        let is_zero_copy = offers && !place.copies && place.mode != XdpModePreference::Generic;
        let needs_none = place.takes_none && !is_zero_copy;
        if let Some(program) = its.program.as_ref().filter(|_| !needs_none) {
            let what = format!("an XDP program is attached already, {program}");
            let remedy = if program.starts_with("\"netmem_") {
                "netmem runs on it: netmem stat and netmem top show how it does; stop it before another run"
                    .to_owned()
            } else {
                removal(program, name)
            };
            found.add("program", Harm::Fails, &port.name, what, remedy);
        }
        bound(port, place, its, found);
    }
    on_top(host, wanted, found);
    bonds(host, wanted, found);
    bridges(host, wanted, found);
}

/// What removes the program from the interface. The text says how it is attached, if the kernel told.
fn removal(program: &str, name: &str) -> String {
    let is_seen = !program.ends_with("held by no process that can be seen");
    match program.contains(", by a BPF link), ") {
        true if is_seen => "stop that process, and any child that it forked".to_owned(),
        true => {
            "stop its process, if it is in another PID namespace; or remove the pin of its BPF link with rm, which bpftool -f link show lists"
                .to_owned()
        }
        false => format!(
            "stop the program that holds it; if none does, ip link set dev {name} xdp off (xdpgeneric off if it is in generic mode)"
        ),
    }
}

fn bound(port: &WantedPort, place: &XdpPlace, its: &Interface, found: &mut Findings) {
    let end = place.queues.map_or(u32::MAX, |count| place.queue.saturating_add(count));
    let is_wanted = |queue: u32| (place.queue..end).contains(&queue);
    for socket in its.bound.iter().filter(|socket| is_wanted(socket.queue)) {
        let holder = socket.holder.as_deref().unwrap_or("a process that cannot be seen");
        let what = format!("queue {} has an AF_XDP socket of {holder}", socket.queue);
        found.add(
            "bound",
            Harm::Fails,
            &port.name,
            what,
            "stop that process, or use another queue".to_owned(),
        );
    }
}

/// Finds interfaces on top of one whose packets all go to this dataplane.
pub fn on_top(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, place) in wanted.xdp() {
        let Some((name, its)) = interface(host, &place.interface) else { continue };
        let loses_tags = its.offloads.contains("rx-vlan-hw-parse");
        let is_on_it = |other: &Interface| {
            let kind = other.kind.as_deref().unwrap_or_default();
            other.link.as_deref() == Some(name) && ON_TOP.contains(&kind) && !(kind == "vlan" && loses_tags)
        };
        let above: Vec<_> = host.interfaces.iter().filter(|(_, other)| is_on_it(other)).collect();
        if place.is_partial {
            continue;
        }
        let what = match (&above[..], its.addresses_elsewhere) {
            ([], 0) => continue,
            ([], _) => format!(
                "an interface on top of it in another network namespace (macvlan) will receive nothing: it receives for a MAC address \
                 that no interface here has (bridge fdb show dev {name})"
            ),
            _ => format!("{} on top of it will receive nothing", listed(above.iter().map(|(name, _)| name))),
        };
        let has_mac = |kind: Option<&str>| matches!(kind, Some("macvlan" | "macvtap"));
        let with_mac = above.is_empty() || above.iter().any(|(_, other)| has_mac(other.kind.as_deref()));
        let vrrp = match wanted.routes && with_mac {
            true => "; for VRRP use the MAC address of the interface (keepalived without use_vmac)",
            false => "",
        };
        let remedy =
            format!("take only some packets (xdp:{name},take=RULES), or open a port on each of them{vrrp}");
        found.add("on-top", Harm::Loses, &port.name, what, remedy);
    }
}

/// Finds interfaces that are bonds or members of one.
fn bonds(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, place) in wanted.xdp() {
        let Some((name, its)) = interface(host, &place.interface) else { continue };
        let members: Vec<_> = members(host, name).map(|(name, _)| format!("xdp:{name}")).collect();
        // A card with members gets its packets from them as well: a virtual function below hv_netvsc or net_failover.
        let what = match its.kind.as_deref() {
            Some(kind @ ("bond" | "team")) => Some(format!(
                "it is a {kind}: packets arrive on the queues of its members, and never on its own"
            )),
            None if !members.is_empty() => Some(format!(
                "it is {} with members: packets that arrive on their queues do not come to its own",
                kind_of(its)
            )),
            _ => None,
        };
        if let Some(what) = what {
            let remedy = if members.is_empty() {
                format!("packet:{name}")
            } else {
                format!("take {}", listed(members))
            };
            found.add("bond", Harm::Fails, &port.name, what, remedy);
        }
        if let Some((controller, "bond" | "team")) = controller(host, its)
            && !place.is_partial
        {
            let what =
                format!("it is a member of {controller}, which will receive nothing from it, not even LACP");
            found.add("bond-member", Harm::Loses, &port.name, what, apart(name));
        }
    }
}

/// Finds interfaces that are ports of a kernel bridge, or members of another interface that takes their packets, such as
/// a switch (openvswitch) or a mesh (batadv).
pub fn bridges(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, name) in wanted.interfaces() {
        let Some((name, its)) = interface(host, name) else { continue };
        let Some((controller, kind)) = controller(host, its) else { continue };
        let (rule, part) = match kind {
            "bridge" => ("bridge", "a port of the bridge".to_owned()),
            // The members of a VRF keep their packets. Bonds have a rule of their own.
            "vrf" | "bond" | "team" => continue,
            kind => ("member", format!("a member of the {kind} interface")),
        };
        let suffers = match &port.device {
            Device::Xdp(place) if place.is_partial => continue,
            Device::Xdp(_) => "will receive nothing from it",
            _ if wanted.forwards && kind == "bridge" => "forwards its packets too",
            _ if wanted.forwards => "may forward its packets too",
            _ => continue,
        };
        let what = format!("it is {part} {controller}, which {suffers}");
        let remedy = match kind {
            // It has a command of its own for its members.
            "openvswitch" => format!("ovs-vsctl del-port {name}"),
            // The driver of a card does not give its virtual function away.
            _ if is_hardware(host, controller) => {
                format!(
                    "let the kernel have a part (take=), or reach the host by another interface than {controller}"
                )
            }
            _ => apart(name),
        };
        found.add(rule, Harm::Loses, &port.name, what, remedy);
    }
}

/// Iterates over the interfaces that belong to the one with this main name.
pub(super) fn members<'a>(host: &'a Host, name: &'a str) -> impl Iterator<Item = (&'a str, &'a Interface)> {
    let all = host.interfaces.iter().map(|(member, its)| (&member[..], its));
    all.filter(move |(_, its)| its.controller.as_deref() == Some(name))
}

/// Returns the interface that this one belongs to, and its kind.
fn controller<'a>(host: &'a Host, its: &'a Interface) -> Option<(&'a str, &'a str)> {
    let name = its.controller.as_deref()?;
    Some((name, kind_of(host.interfaces.get(name)?)))
}

/// Returns the kind of an interface, or the driver of its hardware.
fn kind_of(its: &Interface) -> &str {
    its.kind.as_deref().or(its.driver.as_deref()).unwrap_or("hardware")
}

/// Returns true for an interface without a kind.
fn is_hardware(host: &Host, name: &str) -> bool {
    host.interfaces.get(name).is_some_and(|its| its.kind.is_none())
}

/// Returns the command that detaches an interface from the one that it belongs to.
fn apart(name: &str) -> String {
    format!("ip link set dev {name} nomaster")
}
