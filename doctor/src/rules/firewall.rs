//! A rule about the kernel's packet filter, which a dataplane in the kernel's place passes by.

use super::listed;
use crate::finding::{Findings, Harm};
use crate::host::Host;
use crate::wanted::Wanted;

/// Finds filters and NAT for packets that the kernel forwards. A router that follows the kernel's routes forwards these packets
/// itself, so an operator may expect that they still apply.
pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
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
