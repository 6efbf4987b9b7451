//! Rules about queues and rings of the devices below xdp ports.

use super::interface;
use crate::change::Change;
use crate::finding::{Findings, Harm};
use crate::host::{Host, Interface, QueueCounts};
use crate::wanted::{Wanted, WantedPort, XdpPlace};

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, place) in wanted.xdp() {
        let Some((name, its)) = interface(host, &place.interface) else { continue };
        if let Some(queues) = its.queues {
            too_few(host, wanted, (port, place), (name, queues), found);
            not_taken(host, wanted, (port, place), (name, queues), found);
        }
        rings(port, (name, its), found);
    }
}

/// Returns the number of queues that a port uses out of `queues`.
fn taken(place: &XdpPlace, queues: QueueCounts) -> u32 {
    place.queues.unwrap_or(queues.now.saturating_sub(place.queue))
}

/// `combined 4`, or `rx 4 tx 4`
fn channels(queues: QueueCounts, count: u32) -> String {
    if queues.is_combined { format!("combined {count}") } else { format!("rx {count} tx {count}") }
}

/// Returns the number of queues that the interface must have for a port.
fn needed(place: &XdpPlace, queues: QueueCounts) -> u32 {
    place.queue.saturating_add(taken(place, queues).max(1))
}

/// Iterates over the xdp ports on the interface with this main name.
fn on<'a>(
    host: &'a Host,
    wanted: &'a Wanted,
    name: &'a str,
) -> impl Iterator<Item = (&'a WantedPort, &'a XdpPlace)> {
    let is_it = move |place: &XdpPlace| interface(host, &place.interface).is_some_and(|(own, _)| own == name);
    wanted.xdp().filter(move |(_, place)| is_it(place))
}

/// Finds a port with queues that the interface does not have. Ports of one interface get the same change, with queues
/// for all of them that the interface can have.
fn too_few(
    host: &Host,
    wanted: &Wanted,
    (port, place): (&WantedPort, &XdpPlace),
    (name, queues): (&str, QueueCounts),
    found: &mut Findings,
) {
    let its = needed(place, queues);
    if its <= queues.now {
        return;
    }
    let what =
        format!("the port takes queues up to number {}, and the interface has {}", its - 1, queues.now);
    if its <= queues.most {
        let of_all = on(host, wanted, name).map(|(_, place)| needed(place, queues));
        let enough = of_all.filter(|count| *count <= queues.most).max().unwrap_or(its);
        let set = |count| format!("ethtool -L {name} {}", channels(queues, count));
        found.mend("queues", Harm::Fails, &port.name, what, Change::run(&set(enough), &set(queues.now)));
    } else {
        let remedy = format!("the interface can have {}: give fewer queues, or fewer --workers", queues.most);
        found.add("queues", Harm::Fails, &port.name, what, remedy);
    }
}

/// Finds queues that no port uses. Their packets go to the kernel, which is intended only if a port takes a part of
/// the packets.
fn not_taken(
    host: &Host,
    wanted: &Wanted,
    (port, place): (&WantedPort, &XdpPlace),
    (name, queues): (&str, QueueCounts),
    found: &mut Findings,
) {
    let takes = |queue: u32| {
        on(host, wanted, name).any(|(_, other)| {
            (other.queue..other.queue.saturating_add(taken(other, queues))).contains(&queue)
        })
    };
    let is_first = on(host, wanted, name).next().is_some_and(|(first, _)| first == port);
    let left = (0..queues.now).filter(|queue| !takes(*queue)).count();
    if left == 0 || place.is_partial || !is_first {
        return;
    }
    let what = format!(
        "no port takes {left} of its {} queues: packets that arrive there go to the kernel",
        queues.now
    );
    let taken = queues.now as usize - left;
    let fewer = format!("ethtool -L {name} {}", channels(queues, taken.max(1) as u32));
    found.add("other-queues", Harm::Loses, &port.name, what, format!("xdp:{name},queues=all, or {fewer}"));
}

/// Finds rings whose sizes are not powers of two. With these, drivers with zero copy refuse a socket (ice, i40e).
fn rings(port: &WantedPort, (name, its): (&str, &Interface), found: &mut Findings) {
    let Some(rings) = its.rings.filter(|_| its.modes.is_some_and(|modes| modes.zero_copy)) else { return };
    if rings.rx.is_power_of_two() && rings.tx.is_power_of_two() {
        return;
    }
    let set = |rx: u32, tx: u32| format!("ethtool -G {name} rx {rx} tx {tx}");
    // Rounded down, because a device may not support larger rings.
    let below =
        |size: u32| if size.is_power_of_two() || size == 0 { size } else { size.next_power_of_two() / 2 };
    let what = format!(
        "its rings have {} and {} descriptors, which are not powers of two: drivers refuse zero copy",
        rings.rx, rings.tx
    );
    let change = Change::run(&set(below(rings.rx), below(rings.tx)), &set(rings.rx, rings.tx));
    found.mend("rings", Harm::Fails, &port.name, what, change);
}
