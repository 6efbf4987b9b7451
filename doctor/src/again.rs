//! What a fix does between its changes and the next look at the host.

use crate::change::Change;
use crate::finding::Finding;
use crate::host::{Host, Interface, named};
use crate::read::links;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// The most looks of a fix at the host. A change may uncover a problem that it has hidden: of two joined interfaces that are down,
/// the far end is only known to be the cause once the near one is up.
pub const FIX_LOOKS: usize = 4;
/// The time between two looks at the links.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the changes that fix these problems, without those that were made or tried already.
#[must_use]
pub fn new_changes(found: &[Finding], tried: &[Change]) -> Vec<Change> {
    let all = found.iter().filter_map(|finding| finding.change.clone());
    all.filter(|change| !tried.iter().any(|tried| does_the_same(tried, change))).collect()
}

/// Returns true for two changes to the same state, whatever the state before was: the kernel may have made a part of the first.
fn does_the_same(one: &Change, other: &Change) -> bool {
    match (one, other) {
        (Change::Setting { key, to, .. }, Change::Setting { key: other, to: same, .. }) => {
            (key, to) == (other, same)
        }
        (Change::Run { command, .. }, Change::Run { command: other, .. }) => command == other,
        _ => false,
    }
}

/// Waits until the interfaces that `ip` and `ethtool` have just changed have a carrier, and at most this long. A card negotiates
/// with its peer for seconds after it was set up, and after a change of its queues or rings. `before` is the host before the changes.
///
/// # Cost
/// A list of the interfaces every 50 ms.
pub fn await_carriers(changes: &[Change], before: &Host, limit: Duration) {
    let begun = Instant::now();
    let names: Vec<String> = changes.iter().filter_map(Change::link).collect();
    while begun.elapsed() < limit
        && links::all().is_ok_and(|(now, _)| names.iter().any(|name| is_expected(name, before, &now)))
    {
        thread::sleep(PAUSE);
    }
}

/// Returns true if the interface has no carrier, and may get it back by itself.
fn is_expected(name: &str, before: &Host, now: &BTreeMap<String, Interface>) -> bool {
    let Some((_, its)) = named(now, name) else { return false };
    let had_none = before.interface(name).is_some_and(|(_, its)| its.is_up && !its.has_carrier);
    let is_down = |peer: &str| now.get(peer).is_some_and(|peer| !peer.is_up);
    let waits_for_peer = its.kind.as_deref() == Some("veth") && its.link.as_deref().is_some_and(is_down);
    its.is_up && !its.has_carrier && !had_none && !waits_for_peer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(interfaces: &[(&str, bool, bool, Option<&str>)]) -> Host {
        let of = |(name, is_up, has_carrier, peer): &(&str, bool, bool, Option<&str>)| {
            let (kind, link) = (peer.map(|_| "veth".to_owned()), peer.map(str::to_owned));
            let (is_up, has_carrier) = (*is_up, *has_carrier);
            ((*name).to_owned(), Interface { is_up, has_carrier, kind, link, ..Interface::default() })
        };
        Host { interfaces: interfaces.iter().map(of).collect(), ..Host::default() }
    }

    #[test]
    fn only_a_carrier_that_an_interface_may_get_by_itself_is_waited_for() {
        let is = |before: (bool, bool), now: (bool, bool)| {
            let [before, now] = [before, now].map(|(up, carrier)| host(&[("eth0", up, carrier, None)]));
            is_expected("eth0", &before, &now.interfaces)
        };
        assert!(is((false, false), (true, false)), "it was set up");
        assert!(is((true, true), (true, false)), "its rings were changed");
        assert!(!is((false, false), (true, true)), "it is there");
        assert!(!is((true, false), (true, false)), "its cable is not plugged in");
        assert!(!is((true, true), (false, false)), "it was set down");
        let before = host(&[]);
        let pair = |is_up| host(&[("x0", true, false, Some("x1")), ("x1", is_up, false, Some("x0"))]);
        assert!(!is_expected("x0", &before, &pair(false).interfaces), "its peer is down");
        assert!(is_expected("x0", &before, &pair(true).interfaces));
        assert!(!is_expected("x7", &before, &pair(true).interfaces), "it is gone");
    }

    #[test]
    fn changes_that_were_tried_are_not_made_again() {
        let change = |name: &str| {
            Change::run(&format!("ip link set dev {name} up"), &format!("ip link set dev {name} down"))
        };
        let mut found = crate::finding::Findings::default();
        for name in ["x0", "x1"] {
            found.mend("down", crate::Harm::Fails, name, String::new(), change(name));
        }
        assert_eq!(new_changes(&found.sorted(), &[change("x0")]), [change("x1")]);
        let pages = |from: &str, to: &str| {
            let (key, [from, to]) = ("vm.nr_hugepages".to_owned(), [from, to].map(str::to_owned));
            Change::Setting { key, from, to }
        };
        let mut found = crate::finding::Findings::default();
        found.mend("huge-pages", crate::Harm::Slow, "host", String::new(), pages("30", "42"));
        assert_eq!(new_changes(&found.sorted(), &[pages("10", "42")]), [], "memory had only some of them");
    }
}
