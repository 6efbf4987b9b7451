//! A rule about the router advertisements that the kernel accepts on the ports of a router.

use super::{interface, listed};
use crate::change::{Change, interface_key};
use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::{Device, Wanted};

/// Finds ports on whose interface the kernel is a host of IPv6, and not a router. There it takes prefixes, a default route
/// and an MTU from every advertisement, and a router that follows its routes takes them too. As a router the kernel ignores
/// advertisements (RFC 4861 §6.2.7), and its own say so that it is one (§7.2.5). This does not make it forward, which
/// depends on `conf.all.forwarding` and `force_forwarding`. `accept_ra` of 2 is the explicit wish to take them. It is no remedy to
/// take none (`accept_ra` of 0): the kernel's own advertisements would still say that it is no router, and hosts would drop it as one.
pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    if !wanted.kernel_routes {
        return;
    }
    for port in &wanted.ports {
        let Some(name) = received_by_the_kernel(&port.device) else { continue };
        let name = interface(host, name).map_or(name, |(own, _)| own);
        if !has_ipv6(host, name) || host.setting(&accepts(name)) != Some("1") {
            continue;
        }
        let key = as_router(name);
        if host.setting(&key) == Some("0") {
            let what = "a router advertisement of any host on the link changes the kernel's IPv6 routes, which netmem follows \
                        (accept_ra)"
                .to_owned();
            const RULE: &str = "router-advertisements";
            match &losing(host, wanted)[..] {
                [] => {
                    let change = Change::Setting { key, from: "0".to_owned(), to: "1".to_owned() };
                    found.mend(RULE, Harm::Loses, &port.name, what, change);
                }
                others => {
                    let kept: Vec<_> = others.iter().map(|other| format!("{}=2", accepts(other))).collect();
                    let remedy = format!(
                        "sysctl -w {} {key}=1; without the first, the kernel also removes the routes that advertisements gave {}",
                        kept.join(" "),
                        listed(others)
                    );
                    found.add(RULE, Harm::Loses, &port.name, what, remedy);
                }
            }
        }
    }
}

/// Returns the interfaces that are not of the plan, and that lose their routes of advertisements when the kernel becomes a router on
/// a port: it then removes those of every interface whose `accept_ra` is not 2.
fn losing<'a>(host: &'a Host, wanted: &Wanted) -> Vec<&'a str> {
    let ports: Vec<_> = wanted.interfaces().filter_map(|(_, name)| interface(host, name)).collect();
    let is_port = |name: &str| ports.iter().any(|(own, _)| *own == name);
    host.advertised.iter().map(String::as_str).filter(|name| !is_port(name)).collect()
}

/// Returns the setting by which the kernel takes advertisements.
fn accepts(interface: &str) -> String {
    interface_key("ipv6", interface, "accept_ra")
}

/// Returns the settings with which the kernel is a router, and no host, on each interface of the ports, as arguments of
/// sysctl(8) that follow others. Empty if the plan does not route.
pub fn as_routers(host: &Host, wanted: &Wanted) -> String {
    let names = wanted.interfaces().filter(|_| wanted.routes);
    let names = names.map(|(_, name)| interface(host, name).map_or(name, |(own, _)| own));
    names.filter(|name| has_ipv6(host, name)).map(|name| format!(" {}=1", as_router(name))).collect()
}

/// Returns true if the kernel receives IPv6 on this interface.
pub fn has_ipv6(host: &Host, interface: &str) -> bool {
    host.setting(&interface_key("ipv6", interface, "disable_ipv6")) == Some("0")
}

/// Returns the setting by which the kernel is a router in neighbour discovery.
fn as_router(interface: &str) -> String {
    interface_key("ipv6", interface, "forwarding")
}

/// Returns the interface of a port whose advertisements the kernel receives.
fn received_by_the_kernel(device: &Device) -> Option<&str> {
    match device {
        Device::Xdp(place) => Some(&place.interface[..]).filter(|_| place.leaves_control || place.is_partial),
        Device::Packet(name) => Some(name),
        // No host but the kernel is there.
        Device::Tap(_) | Device::Memif { .. } | Device::Files { .. } => None,
    }
}
