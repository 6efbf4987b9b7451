//! Rules about queues and rings of the devices below xdp ports.

use super::settings::is_forwarded;
use super::{interface, is_ethernet};
use crate::change::Change;
use crate::finding::{Findings, Harm};
use crate::host::{Host, Interface, QueueCounts};
use crate::wanted::{Wanted, WantedPort, XdpPlace};
use netmem::port::xdp::XdpModePreference;

pub fn check(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, place) in wanted.xdp() {
        let Some((name, its)) = interface(host, &place.interface) else { continue };
        if !is_ethernet(its, &port.device) {
            continue;
        }
        match its.queues {
            Some(queues) => {
                too_few(host, wanted, (port, place), (name, queues), found);
                not_taken(host, wanted, (port, place), (name, queues), found);
                not_paired(host, wanted, (port, place), (name, queues), found);
            }
            None => not_known((port, place), (name, its), found),
        }
        rings((port, place), (name, its), found);
    }
}

/// Finds queues without a port.
pub(super) fn left(host: &Host, wanted: &Wanted, found: &mut Findings) {
    for (port, place) in wanted.xdp() {
        let its = interface(host, &place.interface).filter(|(_, its)| is_ethernet(its, &port.device));
        if let Some((name, queues)) = its.and_then(|(name, its)| Some((name, its.queues?))) {
            not_taken(host, wanted, (port, place), (name, queues), found);
            not_paired(host, wanted, (port, place), (name, queues), found);
        }
    }
}

/// Returns the number of queues that a port uses out of `queues`.
fn taken(place: &XdpPlace, queues: QueueCounts) -> u32 {
    place.queues.unwrap_or(queues.now.saturating_sub(place.queue))
}

/// Returns the numbers that ethtool(8) counts as `rx`, `tx` and `combined`.
fn numbers(queues: QueueCounts) -> [u32; 3] {
    match [queues.rx, queues.tx, queues.combined] {
        // Saved by an older version.
        [0, 0, 0] if queues.is_combined => [0, 0, queues.now],
        [0, 0, 0] => [queues.now, queues.now, 0],
        numbers => numbers,
    }
}

/// Returns the change that gives an interface at least `count` queues, and its own numbers back. A number that is large
/// enough stays.
fn raised(name: &str, queues: QueueCounts, count: u32) -> Change {
    let [rx, tx, combined] = numbers(queues);
    if queues.is_combined {
        let set = |count| format!("ethtool -L {name} combined {count}");
        Change::run(&set(count.saturating_sub(rx.min(tx)).max(combined)), &set(combined))
    } else {
        let set = |rx, tx| format!("ethtool -L {name} rx {rx} tx {tx}");
        Change::run(&set(rx.max(count), tx.max(count)), &set(rx, tx))
    }
}

/// Returns the command that leaves an interface only the first `count` queues, if there is one.
fn lowered(name: &str, queues: QueueCounts, count: u32) -> Option<String> {
    let [rx, tx, _] = numbers(queues);
    match queues.is_combined {
        true if rx.min(tx) > 0 => None,
        true => Some(format!("ethtool -L {name} combined {count}")),
        false => Some(format!("ethtool -L {name} rx {count} tx {count}")),
    }
}

/// Returns the number of queues that the interface must have for a port. If the port takes all, each worker needs one.
fn needed(place: &XdpPlace, queues: QueueCounts, workers: usize) -> u32 {
    let least = if place.queues.is_none() { u32::try_from(workers).unwrap_or(u32::MAX) } else { 1 };
    place.queue.saturating_add(taken(place, queues).max(least).max(1))
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
    let workers = wanted.workers;
    let its = needed(place, queues, workers);
    if its <= queues.now {
        return;
    }
    let what = match (place.queues, taken(place, queues)) {
        (None, all @ 1..) => {
            format!("its {all} queues are too few for {workers} workers, which need one each")
        }
        _ => format!("the port takes queues up to number {}, and the interface has {}", its - 1, queues.now),
    };
    if its <= queues.most {
        let of_all = on(host, wanted, name).map(|(_, place)| needed(place, queues, workers));
        let enough = of_all.filter(|count| *count <= queues.most).max().unwrap_or(its);
        found.mend("queues", Harm::Fails, &port.name, what, raised(name, queues, enough));
    } else {
        let remedy = format!("the interface can have {}: give fewer queues, or fewer --workers", queues.most);
        found.add("queues", Harm::Fails, &port.name, what, remedy);
    }
}

/// Finds a port that takes all queues of an interface whose driver does not say how many there are.
fn not_known((port, place): (&WantedPort, &XdpPlace), (name, its): (&str, &Interface), found: &mut Findings) {
    // Every interface has an offload that is on. Without any, the kernel was not asked, or did not answer.
    if place.queues.is_some() || its.offloads.is_empty() {
        return;
    }
    let what = format!("the port takes all queues, and {name} does not say how many it has");
    found.add("queues", Harm::Fails, &port.name, what, "give queues=N".to_owned());
}

/// Finds queues that no port uses. Their packets go to the kernel. Also those that ports of a server would take: for
/// these the kernel has no socket, and it refuses the clients.
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
    let left = (0..queues.now).map(|queue| u32::from(!takes(queue))).sum::<u32>();
    if left == 0 || !is_first(host, wanted, port, name) {
        return;
    }
    let loss = loss(host, wanted, (name, place));
    let what = format!("no port takes {left} of its {} queues: {loss}", queues.now);
    // With fewer queues an interface keeps the first ones.
    let taken = queues.now - left;
    let fewer = lowered(name, queues, taken).filter(|_| taken > 0 && (0..taken).all(takes));
    let other = fewer.unwrap_or_else(|| "move its ports to the first queues".to_owned());
    found.add("other-queues", Harm::Loses, &port.name, what, format!("xdp:{name},queues=all, or {other}"));
}

/// Returns whether this is the first port on the interface with this main name.
fn is_first(host: &Host, wanted: &Wanted, port: &WantedPort, name: &str) -> bool {
    on(host, wanted, name).next().is_some_and(|(first, _)| first == port)
}

/// Returns what happens to packets that arrive at a queue without a port.
fn loss(host: &Host, wanted: &Wanted, (name, place): (&str, &XdpPlace)) -> &'static str {
    match place.is_partial {
        true => {
            "the kernel refuses clients whose packets arrive there, as it has no socket for them (none do if `ethtool -N` or \
             `-X` steers all to the ports' queues)"
        }
        false if wanted.forwards && is_forwarded(host, name) => {
            "packets that arrive there go to the kernel, which forwards them past the dataplane's rules and checks"
        }
        false => "packets that arrive there go to the kernel",
    }
}

/// Finds queues that only receive, which no port can take. A port of all queues is refused for them. Not while a port has
/// too few queues, as that change gives the interface other numbers.
fn not_paired(
    host: &Host,
    wanted: &Wanted,
    (port, place): (&WantedPort, &XdpPlace),
    (name, queues): (&str, QueueCounts),
    found: &mut Findings,
) {
    let [rx, tx, combined] = numbers(queues);
    let alone = rx.saturating_sub(tx);
    if alone == 0 || !is_first(host, wanted, port, name) {
        return;
    }
    if on(host, wanted, name).any(|(_, place)| needed(place, queues, wanted.workers) > queues.now) {
        return;
    }
    let is_refused = on(host, wanted, name).any(|(_, place)| place.queues.is_none());
    let harm = if is_refused { Harm::Fails } else { Harm::Loses };
    let what = format!(
        "{alone} of its {} receive queues have no transmit queue, so that no port takes them: {}",
        rx.saturating_add(combined),
        loss(host, wanted, (name, place))
    );
    let pairs = rx.min(tx).max(u32::from(combined == 0));
    found.add("other-queues", harm, &port.name, what, format!("ethtool -L {name} rx {pairs} tx {pairs}"));
}

/// Finds rings whose sizes are not powers of two. With these, drivers with zero copy refuse a socket (ice, i40e), and the
/// port gets one that copies.
fn rings((port, place): (&WantedPort, &XdpPlace), (name, its): (&str, &Interface), found: &mut Findings) {
    let offers = its.modes.is_some_and(|modes| modes.zero_copy) && place.mode != XdpModePreference::Generic;
    let Some(rings) = its.rings.filter(|_| offers) else { return };
    if rings.rx.is_power_of_two() && rings.tx.is_power_of_two() {
        return;
    }
    let set = |rx: u32, tx: u32| format!("ethtool -G {name} rx {rx} tx {tx}");
    // Rounded down, because a device may not support larger rings.
    let below =
        |size: u32| if size.is_power_of_two() || size == 0 { size } else { size.next_power_of_two() / 2 };
    let what = format!(
        "its rings have {} and {} descriptors, which are not powers of two: drivers refuse zero copy, so packets are copied",
        rings.rx, rings.tx
    );
    let change = Change::run(&set(below(rings.rx), below(rings.tx)), &set(rings.rx, rings.tx));
    found.mend("rings", Harm::Slow, &port.name, what, change);
}
