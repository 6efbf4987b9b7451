//! A rule about the room in the kernel's tables of neighbours, which a router uses.

use crate::finding::{Findings, Harm};
use crate::host::{Host, NeighbourTable};
use crate::wanted::Wanted;

/// Finds a table that is nearly full. Above `gc_thresh2` entries the kernel removes neighbours in use that it has not
/// heard for five seconds, and at `gc_thresh3` it accepts no new ones. No change is offered: the numbers depend on the
/// network, and apply to all network namespaces.
pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    if !wanted.routes {
        return;
    }
    for (family, NeighbourTable { entries, refused }) in &host.neighbours {
        let key = |number| format!("net.{family}.neigh.default.gc_thresh{number}");
        let limit = |number| host.setting(&key(number)).and_then(|value| value.parse::<u64>().ok());
        let (Some(soft), Some(hard)) = (limit(2), limit(3)) else { continue };
        let entries = *entries;
        // Refusals are counted since the boot, and the limits may have been raised since.
        let was_full = *refused > 0 && entries >= hard / 4;
        if entries < soft / 4 * 3 && !was_full {
            continue;
        }
        let what = format!(
            "the kernel has {entries} neighbours ({family}), removes those in use from {soft} on, and takes none from {hard} \
             on, which has happened {refused} times since the boot"
        );
        let most =
            entries.saturating_mul(4).max(hard.saturating_mul(2)).clamp(4, 1 << 30).next_power_of_two();
        let remedy = format!(
            "sysctl -w {}={most} {}={} {}={}, if the network has so many hosts",
            key(3),
            key(2),
            most / 2,
            key(1),
            most / 4
        );
        found.add("neighbours", Harm::Loses, "host", what, remedy);
    }
}
