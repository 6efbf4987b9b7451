//! Rules about settings of the kernel's own forwarding.

use super::interface;
use crate::change::{Change, interface_key};
use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::{Device, Wanted};

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    forwarding(host, wanted, found);
    if wanted.routes && wanted.ports.len() > 1 {
        reverse_path(host, wanted, found);
    }
}

/// The first kernel with programs at an interface's ingress that are detached when their process ends (TCX).
const INGRESS: (u32, u32) = (6, 6);

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
        for family in ["ipv4", "ipv6"] {
            let key = interface_key(family, name, "forwarding");
            let Some(from) = host.setting(&key).filter(|value| *value != "0") else { continue };
            let change = Change::Setting { key: key.clone(), from: from.to_owned(), to: "0".to_owned() };
            let what =
                format!("the kernel also forwards the packets of {name} ({family}), so packets arrive twice");
            found.mend("forwarding", Harm::Loses, &port.name, what, change);
        }
    }
}

/// Finds a strict reverse path filter (1; the larger value of the host and the interface applies). With it, the
/// kernel drops packets to its own addresses that come in on another interface than the one by which it would
/// answer.
fn reverse_path(host: &Host, wanted: &Wanted, found: &mut Findings) {
    let number = |key: &str| host.setting(key).and_then(|value| value.parse::<u32>().ok()).unwrap_or(0);
    let of_all = number("net.ipv4.conf.all.rp_filter");
    for port in &wanted.ports {
        let name = match &port.device {
            Device::Xdp(place) if place.leaves_control => &place.interface,
            Device::Packet(name) | Device::Tap(name) => name,
            _ => continue,
        };
        let key = interface_key("ipv4", interface(host, name).map_or(name, |(own, _)| own), "rp_filter");
        let own = number(&key);
        if own.max(of_all) == 1 {
            let change = Change::Setting { key, from: own.to_string(), to: "2".to_owned() };
            let what = "the kernel drops packets to its own addresses if they arrive by another port than the answers leave by \
                        (strict rp_filter)";
            found.mend("rp-filter", Harm::Loses, &port.name, what.to_owned(), change);
        }
    }
}
