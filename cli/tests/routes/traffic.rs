//! Tests that packets take the paths of the kernel's tables.

use crate::comparison::assert_same;
use crate::router::{Router, addressed, set};
use crate::testbed::wait_until;
use std::process::Output;

/// One ping that is not answered.
fn vain_ping(router: &Router, address: &str) {
    assert!(!router.pings(address), "{address} answered");
}

fn dropped(router: &Router, reason: &str) -> u64 {
    router.number("drops", reason)
}

/// Asserts that pings of the address are not answered, and counted as dropped for that reason.
fn assert_counts(router: &Router, address: &str, reason: &str) {
    let before = dropped(router, reason);
    wait_until(&format!("packets to {address} are dropped as {reason}"), || {
        vain_ping(router, address);
        dropped(router, reason) > before
    });
}

#[test]
fn hosts_reach_each_other_and_the_first_packet_waits_for_its_neighbour() {
    let Some(router) = Router::start(&["ping"], &[]) else { return };
    assert!(router.stat("neighbours").iter().all(|one| one["name"] != "10.77.2.1"), "no host has asked");
    router.bed.h1.ping("10.77.2.1", 20, "-i 0.05");
    router.bed.h2.ping("10.77.1.1", 20, "-i 0.05");
    let summary = router.end();
    assert_eq!(summary["dropped"]["neigh_queue_full"], 0, "{summary}");
}

/// Gives the hosts IPv6 addresses, and the router for everything else.
pub fn add_ipv6(router: &Router) {
    for (host, net) in [(&router.bed.h1, 1), (&router.bed.h2, 2)] {
        host.set_ipv6(true);
        host.ip(&format!("addr add fd77:{net}::1/64 dev eth0 nodad"));
        host.ip(&format!("-6 route add default via fd77:{net}::254"));
    }
    wait_until("there is a way", || router.pings("fd77:2::1"));
}

#[test]
fn hosts_reach_each_other_by_ipv6_and_their_neighbours_are_discovered_by_the_kernel() {
    let Some(router) = Router::start(&["ping"], &[]) else { return };
    add_ipv6(&router);
    router.bed.h1.ping("fd77:2::1", 20, "-i 0.05");
    router.bed.h2.ping("fd77:1::1", 20, "-i 0.05");
    // The router's own address: the kernel answers.
    router.bed.h1.ping("fd77:2::254", 3, "-i 0.05");
    router.bed.dut.ip("-6 route add blackhole fd99::/16");
    assert_counts(&router, "fd99::1", "blackhole");
    router.end();
}

/// Three pings of the other host, of its family, from an address that is the host's own as far as it knows.
fn pings_from(router: &Router, source: &str) -> Output {
    let to = if source.contains(':') { "fd77:2::1" } else { "10.77.2.1" };
    let words = ["-c", "3", "-i", "0.05", "-W", "1", "-I", source, to];
    router.bed.h1.command("ping").args(words).output().expect("ping")
}

/// Whether three pings from that source are not answered, and each is counted as dropped for that reason.
fn all_are_dropped(router: &Router, source: &str, reason: &str) -> bool {
    let before = dropped(router, reason);
    !pings_from(router, source).status.success() && dropped(router, reason) >= before + 3
}

/// RFC 1812 §5.3.7: the router's own addresses, and those of everyone on a link of its.
#[test]
fn packets_from_others_with_the_routers_addresses_are_dropped() {
    let Some(router) = Router::start(&["ping"], &[]) else { return };
    router.bed.dut.ip("addr add 10.99.0.1/32 dev lo");
    router.bed.h1.ping("10.77.2.1", 3, "-i 0.05");
    for source in ["10.77.2.254", "10.77.2.255", "10.99.0.1"] {
        router.bed.h1.ip(&format!("addr add {source}/32 dev lo"));
        wait_until("all are dropped", || all_are_dropped(&router, source, "martian"));
    }
    router.end();
}

#[test]
fn addresses_are_martian_sources_while_they_are_the_routers_and_no_longer() {
    let Some(router) = Router::start(&["ping"], &[]) else { return };
    add_ipv6(&router);
    let (dut, h1) = (&router.bed.dut, &router.bed.h1);
    for (source, length, via) in [("10.99.0.1", 32, "10.77.1.1"), ("fd99::1", 128, "fd77:1::1")] {
        h1.ip(&format!("addr add {source}/{length} dev lo nodad"));
        for _ in 0..2 {
            dut.ip(&format!("route add {source} via {via}"));
            wait_until("the host sends from its address", || pings_from(&router, source).status.success());
            dut.ip(&format!("route del {source} via {via}"));
            dut.ip(&format!("addr add {source}/{length} dev lo nodad"));
            wait_until("it is the router's", || all_are_dropped(&router, source, "martian"));
            dut.ip(&format!("addr del {source}/{length} dev lo"));
        }
    }
    router.end();
}

/// Seen: it was a route back for the loose check.
#[test]
fn a_throw_route_is_no_route_back_to_a_source() {
    let loose = ["--reverse-path", "loose"];
    let Some(router) = Router::start(&["ping"], &loose) else { return };
    add_ipv6(&router);
    let (dut, h1) = (&router.bed.dut, &router.bed.h1);
    for (source, prefix, via) in
        [("10.66.0.9", "10.66.0.0/16", "10.77.1.1"), ("fd66::9", "fd66::/16", "fd77:1::1")]
    {
        h1.ip(&format!("addr add {source} dev lo nodad"));
        dut.ip(&format!("route add {prefix} via {via}"));
        wait_until("the host sends from its address", || pings_from(&router, source).status.success());
        dut.ip(&format!("route del {prefix}"));
        dut.ip(&format!("route add throw {prefix}"));
        assert_same(&router);
        // The table has the routes a moment before the workers do.
        wait_until("all are dropped", || all_are_dropped(&router, source, "ip_rpfilter"));
    }
    router.end();
}

#[test]
fn by_xdp_ports_hosts_reach_each_other_and_the_routers_own_addresses_in_both_families() {
    let Some(router) = Router::start_on(["xdp:one", "xdp:two"], &["ping"], &[]) else { return };
    add_ipv6(&router);
    for (host, others) in [
        (&router.bed.h1, ["10.77.2.1", "10.77.2.254", "fd77:2::1", "fd77:1::254"]),
        (&router.bed.h2, ["10.77.1.1", "10.77.1.254", "fd77:1::1", "fd77:1::254"]),
    ] {
        others.iter().for_each(|address| host.ping(address, 10, "-i 0.05"));
    }
    router.bed.dut.ip("addr add 10.77.2.253/24 dev two");
    wait_until("the kernel answers for its new address", || router.pings("10.77.2.253"));
    router.end();
}

/// D8 of an early review: xdp ports dropped them.
#[test]
fn by_xdp_ports_prefixes_of_the_local_table_and_subnet_router_anycast_addresses_are_the_kernels() {
    let Some(router) = Router::start_on(["xdp:one", "xdp:two"], &["ping"], &[]) else { return };
    add_ipv6(&router);
    let dut = &router.bed.dut;
    set(dut, &[("ipv6/conf/all/forwarding", "1")]);
    dut.ip("route add local 10.75.0.0/24 dev lo");
    dut.ip("route add local fd75::/64 dev lo");
    for address in ["10.75.0.9", "fd75::9", "fd77:1::", "fd77:2::"] {
        wait_until(address, || router.pings(address));
    }
    dut.ip("route del local 10.75.0.0/24 dev lo");
    wait_until("it is the host's no more", || !router.pings("10.75.0.9"));
    router.end();
}

/// D7 of an early review: they were silently ignored. Each is reported once, also one that appears while packets pass.
#[test]
fn rules_other_tables_and_routes_of_some_packets_are_named_at_start_and_when_they_come() {
    let Some(bed) = addressed(&["ping"]) else { return };
    bed.dut.ip("rule add from 10.77.1.1 lookup 100 priority 100");
    bed.dut.ip("route add 10.99.0.0/16 via 10.77.2.1 table default");
    bed.dut.ip("route add 10.98.0.0/16 tos 0x10 via 10.77.2.1");
    let router = Router::start_in(bed, ["packet:one", "packet:two"], &[]);
    router.bed.dut.ip("-6 rule add from fd77::/48 lookup 101 priority 101");
    router.bed.dut.ip("route add 10.97.0.0/16 tos 0x10 via 10.77.2.1");
    // When this counts, the events after it have been read.
    router.bed.dut.ip("route add blackhole 10.96.0.0/16");
    wait_until("the last change counts", || {
        router.stat("routes").iter().any(|route| route["name"] == "10.96.0.0/16")
    });
    let (_, said) = router.end_with();
    let named = [
        "rule 100 of IPv4 (ip rule): packets go by the tables local and main alone",
        "route 10.99.0.0/16 of the table default (253), and others like it: local and main alone count",
        "route 10.98.0.0/16 for one kind of service (tos), and others like it: routes for all packets alone count",
        "rule 101 of IPv6 (ip -6 rule): packets go by the tables local and main alone",
    ];
    let mut lines: Vec<_> =
        said.lines().filter_map(|line| line.strip_prefix("netmem: not followed: ")).collect();
    let mut named = named.to_vec();
    lines.sort_unstable();
    named.sort_unstable();
    assert_eq!((lines, said.lines().count()), (named, 4), "{said}");
}

#[test]
fn packets_follow_a_neighbour_that_changes_its_mac_address_and_are_dropped_for_a_silent_one() {
    let Some(router) = Router::start(&["ping"], &[]) else { return };
    router.bed.h1.ping("10.77.2.1", 3, "-i 0.05");
    router.bed.h2.ip("link set eth0 address 02:00:00:00:02:77");
    router.bed.h2.ip("neigh replace 10.77.2.254 lladdr 02:00:00:00:02:fe dev eth0");
    router.bed.h2.ip("route replace default via 10.77.2.254");
    router.bed.dut.ip("neigh flush dev two");
    // Until the router has followed the change, packets go to the old address.
    wait_until("packets go to the new address", || router.pings("10.77.2.1"));
    router.bed.h1.ping("10.77.2.1", 3, "-i 0.05");
    let mac = |one: &serde_json::Value| one["name"] == "10.77.2.1" && one["mac"] == "02:00:00:00:02:77";
    assert!(router.stat("neighbours").iter().any(mac));
    vain_ping(&router, "10.77.2.99");
    wait_until("the neighbour counts as silent", || dropped(&router, "neigh_failed") > 0);
    // Seen: the page said that `failures` counts these.
    assert!(router.number("netlink", "failed_neighbours") > 0);
    assert_eq!(router.number("netlink", "failures"), 0);
    let summary = router.end();
    assert_eq!(summary["held"], 0);
}

#[test]
fn packets_to_nowhere_are_counted_by_the_kind_of_their_route() {
    let Some(router) = Router::start(&["ping"], &[]) else { return };
    for (kind, net, reason) in
        [("blackhole", 1, "blackhole"), ("unreachable", 2, "unreachable"), ("prohibit", 3, "prohibited")]
    {
        router.bed.dut.ip(&format!("route add {kind} 10.10.{net}.0/24"));
        assert_same(&router);
        assert_counts(&router, &format!("10.10.{net}.1"), reason);
    }
    assert_counts(&router, "10.11.0.1", "no_route");
    let left = || router.number("ports", "rx_kernel");
    let before = left();
    router.bed.h1.ping("10.77.2.254", 3, "-i 0.05");
    wait_until("what the kernel answered is counted as left to it", || left() >= before + 3);
    assert_eq!(dropped(&router, "local_address"), 0, "what is left to the kernel is no drop");
    router.end();
}

#[test]
fn packets_find_another_way_when_a_link_goes_down_and_the_old_one_when_it_is_back() {
    let Some(router) = Router::start(&["ping"], &[]) else { return };
    let dut = &router.bed.dut;
    router.bed.h2.ip("addr add 10.88.0.1/32 dev lo");
    dut.ip("route add 10.88.0.0/16 via 10.77.2.1");
    dut.ip("route add blackhole 10.88.0.0/16 metric 9");
    wait_until("the route is in use", || router.pings("10.88.0.1"));
    router.bed.h1.ping("10.88.0.1", 3, "-i 0.05");
    dut.ip("link set two down");
    assert_same(&router);
    assert_counts(&router, "10.88.0.1", "blackhole");
    dut.ip("link set two up");
    dut.ip("route add 10.88.0.0/16 via 10.77.2.1");
    assert_same(&router);
    // A port looks for its interface now and then.
    wait_until("the port is up again", || router.pings("10.88.0.1"));
    router.bed.h1.ping("10.88.0.1", 3, "-i 0.05");
    router.end_saying("port packet:two ");
}

#[test]
fn flows_take_each_of_several_paths_and_a_given_route_counts_before_the_kernels() {
    let given = ["--route", "10.89.0.0/16,1,02:00:00:00:02:01"];
    let Some(router) = Router::start(&["ping"], &given) else { return };
    let (h2, dut) = (&router.bed.h2, &router.bed.dut);
    for address in ["10.77.2.2/24 dev eth0", "10.88.0.1/32 dev lo", "10.89.0.1/32 dev lo"] {
        h2.ip(&format!("addr add {address}"));
    }
    // So many that by no seed of the hash all of them take one path.
    for host in 2..=30 {
        router.bed.h1.ip(&format!("addr add 10.77.1.{host}/24 dev eth0"));
    }
    dut.ip("route add 10.88.0.0/16 nexthop via 10.77.2.1 nexthop via 10.77.2.2");
    dut.ip("route add blackhole 10.89.0.0/16");
    wait_until("netmem has both routes", || {
        let has = |net| router.stat("routes").iter().filter(|route| route["name"] == net).count();
        has("10.88.0.0/16") == 1 && has("10.89.0.0/16") == 2
    });
    // The table has them a moment before the workers do.
    wait_until("the routes are in use", || router.pings("10.88.0.1"));
    for host in 1..=30 {
        router.bed.h1.ping("10.88.0.1", 1, &format!("-I 10.77.1.{host}"));
    }
    let resolved = |address: &str| router.stat("neighbours").iter().any(|one| one["name"] == address);
    assert!(resolved("10.77.2.1") && resolved("10.77.2.2"), "{:?}", router.stat("neighbours"));
    router.bed.h1.ping("10.89.0.1", 3, "-i 0.05");
    router.end();
}
