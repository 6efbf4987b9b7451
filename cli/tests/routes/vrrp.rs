//! VRRP with a virtual MAC address, which routing daemons put on an interface of its own (macvlan).

use crate::router::{Router, addressed};
use crate::testbed::wait_until;

/// Seen: packets to the virtual MAC address were dropped (`not_for_us`), and nothing said why.
#[test]
fn an_interface_with_a_virtual_mac_address_on_a_port_is_named_at_the_start() {
    let Some(bed) = addressed(&["ping"]) else { return };
    const VIRTUAL: &str = "00:00:5e:00:01:01";
    if !bed.dut.makes("ip", &format!("link add vrrp0 link one address {VIRTUAL} type macvlan mode bridge")) {
        return;
    }
    bed.dut.ip("link set vrrp0 up");
    let router = Router::start_in(bed, ["xdp:one", "xdp:two"], &[]);
    wait_until("the hosts reach each other", || router.pings("10.77.2.1"));
    router.bed.h1.ip(&format!("neigh replace 10.77.1.254 lladdr {VIRTUAL} dev eth0"));
    wait_until("packets to the other address are dropped", || {
        router.pings("10.77.2.1");
        router.number("drops", "not_for_us") > 0
    });
    let (_, said) = router.end_with();
    let line = "xdp:one: vrrp0 on top of it will receive nothing: ";
    assert!(said.contains(line) && said.contains("without use_vmac"), "{said}");
}

/// Seen: neither the start nor the doctor named such an interface in another namespace, as a container has.
#[test]
fn an_interface_in_another_namespace_on_top_of_a_port_is_named_at_the_start() {
    let Some(bed) = addressed(&[]) else { return };
    if !bed.dut.makes("ip", "link add mv0 link one type macvlan mode bridge") {
        return;
    }
    bed.dut.ip(&format!("link set mv0 netns {}", bed.h2.name()));
    bed.h2.ip("link set mv0 up");
    let router = Router::start_in(bed, ["xdp:one", "xdp:two"], &[]);
    let (_, said) = router.end_with();
    let line =
        "xdp:one: an interface on top of it in another network namespace (macvlan) will receive nothing: ";
    assert!(said.contains(line), "{said}");
}
