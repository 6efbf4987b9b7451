//! A rule about the kernel's packet filter, which a dataplane in the kernel's place passes by.

use super::listed;
use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::Wanted;

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    forwarded(host, wanted, found);
    own(host, wanted, found);
}

/// Finds filters and NAT for packets that the kernel forwards. A router that follows the kernel's routes forwards these packets
/// itself, so an operator may expect that they still apply.
fn forwarded(host: &Host, wanted: &Wanted, found: &mut Findings) {
    if !wanted.kernel_routes || !wanted.forwards || wanted.ports.is_empty() || host.firewall.is_empty() {
        return;
    }
    let what = format!(
        "the kernel's packet filter and NAT ({}) do not apply to what netmem forwards",
        listed(&host.firewall)
    );
    let remedy = "give netmem rules for what they forbid (--path full --rule), and do not use it where NAT or connection tracking is \
                  needed"
        .to_owned();
    found.add("firewall", Harm::Loses, "host", what, remedy);
}

/// Finds filters for packets to and from this host. A port that takes some of them has them before these filters, and sends
/// behind them.
fn own(host: &Host, wanted: &Wanted, found: &mut Findings) {
    if host.own_firewall.is_empty() {
        return;
    }
    for (port, _) in wanted.xdp().filter(|(_, place)| place.takes_some()) {
        let what = format!(
            "the kernel's packet filter ({}) does not apply to the packets that the port takes and sends",
            listed(&host.own_firewall)
        );
        let remedy =
            "filter in the server or before this host, or leave the packets to the kernel (take=)".to_owned();
        found.add("firewall", Harm::Loses, &port.name, what, remedy);
    }
}
