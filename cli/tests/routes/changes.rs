//! Whatever is done to the kernel's tables is done to netmem's.

use crate::comparison::assert_same;
use crate::router::Router;
use crate::testbed::wait_until;
use serde_json::Value;
use std::fs;

/// Does each of these with ip(8) and compares after each.
fn after_each(steps: &[&str]) {
    if let Some(router) = compared_after_each(steps) {
        router.end_saying("for one kind of service (tos)");
    }
}

fn compared_after_each(steps: &[&str]) -> Option<Router> {
    let router = Router::start(&["ping"], &[])?;
    assert_same(&router);
    for step in steps {
        router.bed.dut.ip(step);
        println!("after ip {step}: {} routes", assert_same(&router));
    }
    assert_eq!(router.number("netlink", "malformed"), 0);
    Some(router)
}

#[test]
fn routes_follow_the_kernel_when_they_are_added_replaced_changed_and_deleted() {
    after_each(&[
        "route add 10.1.0.0/16 via 10.77.1.1",
        "route replace 10.1.0.0/16 via 10.77.2.1",
        "route add 10.1.0.0/16 via 10.77.1.9 metric 7",
        "route change 10.1.0.0/16 via 10.77.1.8",
        "route append 10.1.0.0/16 via 10.77.1.7",
        "route prepend 10.1.0.0/16 via 10.77.1.6",
        "route del 10.1.0.0/16 via 10.77.1.8",
        "route del 10.1.0.0/16 metric 7",
        "route add 10.2.0.0/31 dev one scope link",
        "route add default via 10.77.1.1",
        "route add 10.3.0.0/16 via inet6 fd77:2::1 dev two",
        "route add 10.4.0.0/16 dev lo",
        "route add 10.5.0.0/16 via 10.77.1.1 table 100",
        "route add 10.5.0.0/16 via 10.77.1.1 tos 0x10",
        "route del default",
        "-6 route add fd01::/32 via fd77:1::1",
        "-6 route replace fd01::/32 via fd77:2::1",
        "-6 route add default via fe80::1 dev two",
        "-6 route del fd01::/32",
    ]);
}

#[test]
fn routes_with_several_paths_follow_the_kernel() {
    after_each(&[
        "route add 10.1.0.0/16 nexthop via 10.77.1.1 weight 3 nexthop via 10.77.2.1 weight 5",
        "route replace 10.1.0.0/16 nexthop via 10.77.1.1 nexthop via 10.77.1.2 nexthop dev two",
        "route replace 10.1.0.0/16 via 10.77.1.1",
        "-6 route add fd01::/32 nexthop via fd77:1::1 weight 2 nexthop via fd77:2::1",
        "-6 route append fd01::/32 via fd77:1::7",
        "-6 route del fd01::/32 via fd77:1::1",
        "-6 route del fd01::/32",
        "nexthop add id 1 via 10.77.1.1 dev one",
        "nexthop add id 2 via 10.77.2.1 dev two",
        "nexthop add id 3 group 1/2,7",
        "route add 10.2.0.0/16 nhid 3",
        "nexthop replace id 3 group 1",
        "nexthop replace id 1 via 10.77.1.5 dev one",
        "nexthop del id 1",
    ]);
}

/// Seen: of two routes that differed only in `proto` or `src`, netmem knew one, and with the deletion of either it had
/// none until the next resync.
#[test]
fn of_routes_that_differ_only_in_protocol_scope_or_source_the_one_that_is_not_deleted_stays() {
    after_each(&[
        "route add 10.1.0.0/16 via 10.77.1.1",
        "route append 10.1.0.0/16 via 10.77.1.1 proto bird",
        "route del 10.1.0.0/16 proto bird",
        "route append 10.1.0.0/16 via 10.77.1.1 proto bird",
        "route del 10.1.0.0/16 proto boot",
        "route append 10.1.0.0/16 via 10.77.1.1 proto bird src 10.77.2.254",
        "route append 10.1.0.0/16 via 10.77.1.1 proto bird src 10.77.2.254 window 9000",
        "route del 10.1.0.0/16 src 10.77.2.254",
        "route del 10.1.0.0/16 src 10.77.2.254",
        "route del 10.1.0.0/16",
        "route add blackhole 10.2.0.0/16 metric 7",
        "route append blackhole 10.2.0.0/16 metric 7 proto bird",
        "route del blackhole 10.2.0.0/16 metric 7 proto boot",
        "route add 10.3.0.0/16 dev two scope link",
        "route append 10.3.0.0/16 dev two scope host",
        "route del 10.3.0.0/16 scope link",
        "nexthop add id 1 via 10.77.1.1 dev one",
        "route add 10.4.0.0/16 via 10.77.1.1",
        "route append 10.4.0.0/16 nhid 1",
        "route del 10.4.0.0/16 nhid 1",
    ]);
}

/// Seen: the kernel had changed the MTU of IPv6 routes with that of their link, without a word, and netmem went by the
/// old one until the next resync.
#[test]
fn ipv6_routes_with_an_mtu_of_their_own_while_the_mtu_of_their_link_changes() {
    let router = compared_after_each(&[
        "-6 route add fd01::/32 via fd77:2::1 mtu 1400",
        "-6 route add fd02::/32 via fd77:2::1 mtu lock 1400",
        "-6 route add fd03::/32 mtu 1350 nexthop via fd77:1::1 nexthop via fd77:2::1",
        "link set two mtu 1300",
        "link set two mtu 1450",
        "link set one mtu 1290",
        "link set one mtu 1500",
    ]);
    if let Some(router) = router {
        router.end_saying(" now has address ");
    }
}

/// Seen: a route's own MTU was not heeded.
#[test]
fn routes_with_an_mtu_of_their_own_follow_the_kernel() {
    after_each(&[
        "route add 10.1.0.0/16 via 10.77.1.1 mtu 1300",
        "route change 10.1.0.0/16 via 10.77.1.1 mtu 1200",
        "route replace 10.1.0.0/16 via 10.77.1.1 mtu lock 1100",
        "route append 10.1.0.0/16 via 10.77.2.1 mtu 1000 window 9000",
        "route replace 10.1.0.0/16 via 10.77.1.1",
        "route add 10.2.0.0/16 mtu 1250 nexthop via 10.77.1.1 nexthop via 10.77.2.1",
        "route del 10.2.0.0/16",
        "route add 10.3.0.0/16 dev two scope link mtu 1290",
        "route add 10.4.0.0/16 via 10.77.1.1 mtu 100000",
        "nexthop add id 1 via 10.77.1.1 dev one",
        "nexthop add id 2 via 10.77.2.1 dev two",
        "nexthop add id 3 group 1/2",
        "route add 10.5.0.0/16 nhid 3 mtu 1280",
        "route add 10.6.0.0/16 nhid 1 mtu 1270",
        "nexthop replace id 1 via 10.77.1.7 dev one",
        "-6 route add fd01::/32 via fd77:1::1 mtu 1300",
        "-6 route change fd01::/32 via fd77:1::1 mtu lock 1290",
        "-6 route del fd01::/32",
        "-6 route add fd02::/32 mtu 1350 nexthop via fd77:1::1 nexthop via fd77:2::1",
    ]);
}

#[test]
fn blackhole_unreachable_prohibit_and_throw_routes_follow_the_kernel() {
    after_each(&[
        "route add blackhole 10.1.0.0/16",
        "route add unreachable 10.2.0.0/16",
        "route add prohibit 10.3.0.0/16",
        "route add throw 10.4.0.0/16",
        "-6 route add blackhole fd01::/32",
        "-6 route add unreachable fd02::/32",
        "-6 route add prohibit fd03::/32",
        "route replace blackhole 10.2.0.0/16",
        "route del blackhole 10.1.0.0/16",
    ]);
}

#[test]
fn routes_follow_the_kernel_when_addresses_and_links_come_and_go() {
    let router = compared_after_each(&[
        "addr add 10.78.0.1/24 dev one",
        "route add 10.1.0.0/16 via 10.78.0.9",
        "route add 10.2.0.0/16 via 10.77.2.1 src 10.78.0.1",
        "addr del 10.78.0.1/24 dev one",
        "addr add fd78::1/64 dev two nodad",
        "route add 10.6.0.0/16 nexthop via 10.77.1.1 nexthop via 10.77.2.1",
        "route add 10.7.0.0/16 via 10.77.2.1",
        "link set two down",
        "link set two up",
        "link add name extra type veth peer name other",
        "link set extra up",
        "addr add 10.79.0.1/24 dev extra",
        "route add 10.8.0.0/16 via 10.79.0.2",
        "link set extra down",
        "link set extra name renamed",
        "link set renamed up",
        "link del renamed",
    ]);
    if let Some(router) = router {
        // A port looks for its interface now and then, and a run that ends with one down has failed.
        wait_until("the port is up again", || router.pings("10.77.2.1"));
        router.end_saying("port packet:two ");
    }
}

/// The kernel uses the paths again without an event. In the end both have the same.
#[test]
fn paths_over_a_link_that_flaps_come_back_in_both_families() {
    let router = compared_after_each(&[
        "route add 10.1.0.0/16 nexthop via 10.77.1.1 nexthop via 10.77.2.1",
        "-6 route add fd01::/32 nexthop via fd77:1::1 nexthop via fd77:2::1",
        "link set two down",
        "link set two up",
        "link set one down",
        "link set one up",
    ]);
    if let Some(router) = router {
        wait_until("the ports are up again", || router.pings("10.77.2.1"));
        router.end_saying("port packet:");
    }
}

/// Seen: with routes over links without carrier ignored, a carrier that went or came changed nothing here, and a route that
/// was deleted meanwhile stayed.
#[test]
fn routes_over_a_link_without_carrier_follow_the_kernel_where_it_ignores_them() {
    let Some(router) = Router::start(&[], &[]) else { return };
    for family in ["ipv4", "ipv6"] {
        for link in ["all", "default", "one", "two"] {
            let path = format!("/proc/sys/net/{family}/conf/{link}/ignore_routes_with_linkdown");
            router.bed.dut.inside(|| fs::write(&path, "1")).expect("the sysctl");
        }
    }
    let (dut, h2) = (&router.bed.dut, &router.bed.h2);
    let steps = [
        (dut, "route add 10.1.0.0/16 via 10.77.2.1"),
        (dut, "route add 10.1.0.0/16 via 10.77.1.1 metric 20"),
        (dut, "route add 10.2.0.0/16 via 10.77.2.1"),
        (dut, "-6 route add fd01::/32 via fd77:2::1"),
        (h2, "link set eth0 down"),
        (dut, "route del 10.2.0.0/16"),
        (h2, "link set eth0 up"),
        (h2, "link set eth0 down"),
        (dut, "route del 10.1.0.0/16 via 10.77.2.1"),
        (h2, "link set eth0 up"),
    ];
    assert_same(&router);
    for (place, step) in steps {
        place.ip(step);
        println!("after ip {step}: {} routes", assert_same(&router));
    }
    router.end_saying("port packet:two ");
}

/// Seen: of two routes with one prefix and metric, netmem used the one whose next hop had the lower number in netmem.
#[test]
fn of_routes_with_one_prefix_and_metric_the_one_that_the_kernel_uses_is_used() {
    let Some(router) = Router::start(&[], &[]) else { return };
    for step in [
        "route add 10.9.0.0/16 via 10.77.1.1",
        "route prepend 10.9.0.0/16 via 10.77.2.1",
        "route append 10.9.0.0/16 via 10.77.1.7",
        "route prepend 10.9.0.0/16 via 10.77.1.8",
        "route del 10.9.0.0/16 via 10.77.1.8",
        "route del 10.9.0.0/16 via 10.77.2.1",
        "route prepend 10.9.0.0/16 via 10.77.2.3",
    ] {
        router.bed.dut.ip(step);
        assert_same(&router);
        let got: Value = serde_json::from_str(&router.bed.dut.ip("-j route get 10.9.0.1")).expect("JSON");
        let [gateway, dev] = ["gateway", "dev"].map(|name| got[0][name].as_str().expect("a way").to_owned());
        let way = format!("via {gateway} dev {dev} weight 1");
        wait_until(&format!("packets go {way} after ip {step}"), || {
            let routes = router.stat("routes");
            let first = routes.iter().find(|route| route["name"] == "10.9.0.0/16").expect("a route");
            first["paths"] == way
        });
    }
    router.end();
}
