//! Rules about settings of the kernel's own forwarding.

use super::advertisements::{as_routers, has_ipv6};
use super::interface;
use crate::change::{Change, interface_key};
use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::{Device, Wanted, WantedPort};

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    forwarding(host, wanted, found);
    if wanted.routes && wanted.ports.len() > 1 {
        reverse_path(host, wanted, found);
    }
    if wanted.kernel_routes {
        next_hop_objects(host, found);
    }
}

/// Finds that the kernel's messages about a route do not have the next hops of the object that the route names.
fn next_hop_objects(host: &Host, found: &mut Findings) {
    const KEY: &str = "net.ipv4.nexthop_compat_mode";
    if host.setting(KEY) == Some("0") {
        let what = format!(
            "packets of routes with next-hop objects are dropped (no_route): the kernel sends these routes in full only while {KEY} is 1"
        );
        found.add("nexthop-objects", Harm::Loses, "host", what, format!("sysctl -w {KEY}=1"));
    }
}

/// The first kernel with programs at an interface's ingress that are detached when their process ends (TCX).
const INGRESS: (u32, u32) = (6, 6);
/// The setting by which the kernel forwards IPv6 between all interfaces.
const ALL_IPV6: &str = "net.ipv6.conf.all.forwarding";

/// The value of a new interface's filter.
const OF_NEW: &str = "net.ipv4.conf.default.rp_filter";

/// Finds forwarding by the kernel. The kernel gets a copy of the packets that a packet port receives, and forwards
/// them too unless this is prevented.
fn forwarding(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let has = |name: &str| host.process.capabilities.contains(name);
    let may_load = has("CAP_SYS_ADMIN") || has("CAP_NET_ADMIN") && has("CAP_BPF");
    let is_new = host.kernel_version().is_some_and(|version| version >= INGRESS);
    if !wanted.forwards || wanted.packets_alone && may_load && is_new {
        return;
    }
    for (port, name) in wanted.packet() {
        let name = interface(host, name).map_or(name, |(own, _)| own);
        by_ipv4(host, port, name, found);
        by_ipv6(host, wanted, (port, name), found);
    }
}

fn twice(name: &str, family: &str) -> String {
    format!("the kernel also forwards the packets of {name} ({family}), so packets arrive twice")
}

/// Returns the change that sets a setting to 0, if it is another number now.
fn to_zero(host: &Host, key: String) -> Option<Change> {
    let from = host.setting(&key).filter(|value| *value != "0")?.to_owned();
    Some(Change::Setting { key, from, to: "0".to_owned() })
}

fn by_ipv4(host: &Host, port: &WantedPort, name: &str, found: &mut Findings) {
    if let Some(change) = to_zero(host, interface_key("ipv4", name, "forwarding")) {
        found.mend("forwarding", Harm::Loses, &port.name, twice(name, "ipv4"), change);
    }
}

/// IPv6 is forwarded from an interface if `conf.all.forwarding` is set, or (since Linux 6.17) its `force_forwarding`.
/// Its own `forwarding` has no effect on that. No change is offered for `conf.all.forwarding`: a write sets
/// `forwarding` of every interface, and the second write of an undo does not bring their values back. After a write of 0
/// the kernel is a host on every interface, which takes routes from router advertisements. The remedy of a router
/// therefore makes it a router again on the ports.
fn by_ipv6(host: &Host, wanted: &Wanted, (port, name): (&WantedPort, &str), found: &mut Findings) {
    if !has_ipv6(host, name) {
        return;
    }
    if to_zero(host, ALL_IPV6.to_owned()).is_some() {
        let remedy = format!(
            "sysctl -w {ALL_IPV6}=0{} if no interface of this host is to forward IPv6, or sysctl -w {}=1",
            as_routers(host, wanted),
            interface_key("ipv6", name, "disable_ipv6")
        );
        found.add("forwarding", Harm::Loses, &port.name, twice(name, "ipv6"), remedy);
    } else if let Some(change) = to_zero(host, interface_key("ipv6", name, "force_forwarding")) {
        found.mend("forwarding", Harm::Loses, &port.name, twice(name, "ipv6"), change);
    }
}

/// Returns true if the kernel forwards packets that arrive on the interface with this main name.
pub(super) fn is_forwarded(host: &Host, name: &str) -> bool {
    let is_on = |key: String| to_zero(host, key).is_some();
    let by_ipv6 = || is_on(ALL_IPV6.to_owned()) || is_on(interface_key("ipv6", name, "force_forwarding"));
    is_on(interface_key("ipv4", name, "forwarding")) || has_ipv6(host, name) && by_ipv6()
}

/// Finds a strict reverse path filter (1; the larger value of the host and the interface applies). With it, the
/// kernel drops packets to its own addresses that come in on another interface than the one by which it would
/// answer.
fn reverse_path(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let number = |key: &str| host.setting(key).and_then(|value| value.parse::<u32>().ok());
    let of_all = number("net.ipv4.conf.all.rp_filter").unwrap_or(0);
    let is_strict = |own: u32| own.max(of_all) == 1;
    for port in &wanted.ports {
        let (name, is_made) = match &port.device {
            Device::Xdp(place) if place.leaves_control => (&place.interface, false),
            Device::Packet(name) => (name, false),
            Device::Tap(name) => (name, interface(host, name).is_none()),
            _ => continue,
        };
        let key = interface_key("ipv4", interface(host, name).map_or(name, |(own, _)| own), "rp_filter");
        let what = "the kernel drops packets to its own addresses if they arrive by another port than the answers leave by \
                    (strict rp_filter)"
            .to_owned();
        // A change needs the value that was found: an undo writes it back.
        if let Some(own) = number(&key) {
            if is_strict(own) {
                let change = Change::Setting { key, from: own.to_string(), to: "2".to_owned() };
                found.mend("rp-filter", Harm::Loses, &port.name, what, change);
            }
        } else if is_made && is_strict(number(OF_NEW).unwrap_or(0)) {
            let remedy = format!("sysctl -w {OF_NEW}=2 before the interface is made");
            found.add("rp-filter", Harm::Loses, &port.name, what, remedy);
        }
    }
}
