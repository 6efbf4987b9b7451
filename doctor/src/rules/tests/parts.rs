//! Tests of findings about ports that take a part of the packets.

use super::seen::{after, one};
use super::*;

/// Seen: a server took its port from an interface whose packets a chain at the hook input dropped, and answered all.
#[test]
fn a_port_that_takes_some_packets_is_beside_the_filter_of_the_hosts_packets() {
    let found = |is_partial, takes_none| {
        after(|host, wanted| {
            host.own_firewall.insert("nftables inet fw input".into());
            let place = place(wanted);
            (place.is_partial, place.takes_none) = (is_partial, takes_none);
        })
    };
    let finding = one(found(true, false));
    assert_eq!((finding.rule, &finding.about[..]), ("firewall", "xdp:eth0"));
    assert!(finding.what.contains("(nftables inet fw input) does not apply"), "{finding}");
    assert_eq!(found(false, false), []);
    assert_eq!(found(true, true), []);
}

#[test]
fn a_granted_port_needs_no_capability_and_locks_its_memory_all_the_same() {
    let found = after(|host, wanted| {
        host.process.capabilities.clear();
        wanted.kernel_routes = false;
        wanted.ports.truncate(1);
        let place = place(wanted);
        (place.is_granted, place.is_partial) = (true, true);
    });
    assert_eq!(rules(&found), [("locked-memory", Harm::Fails)]);
}
