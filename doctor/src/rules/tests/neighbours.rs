//! Faults of the rule about tables of neighbours that were seen.

use super::{good_host, wanted};
use crate::finding::Finding;
use crate::host::{Host, NeighbourTable};
use crate::rules::findings;

/// Puts this many neighbours into a table of the default size, which has refused others.
pub fn fill(host: &mut Host, entries: u64, refused: u64) {
    host.neighbours.insert("ipv6".into(), NeighbourTable { entries, refused });
    for (number, limit) in [(2, "512"), (3, "1024")] {
        host.settings.insert(format!("net.ipv6.neigh.default.gc_thresh{number}"), limit.into());
    }
}

/// Returns the findings on a good host with such a table. `routes`: whether the dataplane uses it.
fn found(entries: u64, refused: u64, routes: bool) -> Vec<Finding> {
    let (mut host, mut wanted) = (good_host(), wanted());
    fill(&mut host, entries, refused);
    wanted.routes = routes;
    findings(&host, &wanted)
}

/// Seen: a router reached no new hosts, because the kernel's table was full, and nothing said so.
#[test]
fn a_table_of_neighbours_is_found_that_is_nearly_full_or_was_full_if_a_router_uses_it() {
    assert_eq!((found(383, 0, true), found(800, 7, false)), (vec![], vec![]));
    assert_eq!(found(255, 7, true), [], "it has room now");
    let [full] = &found(256, 7, true)[..] else { panic!("{:?}", found(256, 7, true)) };
    assert!(
        full.what.contains("256 neighbours (ipv6)") && full.what.ends_with("7 times since the boot"),
        "{full}"
    );
    assert_eq!(found(u64::MAX, 7, true).len(), 1, "a host that was written by hand");
    let [nearly] = &found(800, 0, true)[..] else { panic!("{:?}", found(800, 0, true)) };
    let to = "sysctl -w net.ipv6.neigh.default.gc_thresh3=4096 net.ipv6.neigh.default.gc_thresh2=2048 \
              net.ipv6.neigh.default.gc_thresh1=1024, ";
    assert!(nearly.remedy.starts_with(to) && nearly.change.is_none(), "{nearly}");
}
