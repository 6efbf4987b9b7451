//! The source addresses of a router's errors: those of a route, and of a router whose ports have link-local addresses alone,
//! as routing daemons need no others (RFC 5549, RFC 7404).

use crate::router::{Router, set};
use crate::testbed::{Namespace, Testbed, Wiring, wait_until};

/// Two hosts, each behind a link with link-local addresses alone. The router's other addresses are on its loopback
/// interface. The second link is narrow.
fn unnumbered() -> Option<Testbed> {
    let bed = Testbed::lay(Wiring::Routed, &["ping"])?;
    for place in [&bed.h1, &bed.dut, &bed.h2] {
        place.set_ipv6(true);
        set(place, &[("ipv6/conf/all/accept_dad", "0"), ("ipv6/conf/default/accept_dad", "0")]);
    }
    set(
        &bed.dut,
        &[("ipv4/ip_forward", "0"), ("ipv6/conf/one/accept_ra", "0"), ("ipv6/conf/two/accept_ra", "0")],
    );
    for address in ["10.255.0.1/32", "2001:db8::1/128"] {
        bed.dut.ip(&format!("addr add {address} dev lo"));
    }
    bed.dut.ip("link set lo up");
    for (host, net, port) in [(&bed.h1, 1, "one"), (&bed.h2, 2, "two")] {
        host.ip("addr add fe80::1/64 dev eth0 nodad");
        host.ip(&format!("addr add 2001:db8:{net}::1/64 dev eth0 nodad"));
        host.ip("route replace default via inet6 fe80::fe dev eth0");
        host.ip("-6 route replace default via fe80::fe dev eth0");
        bed.dut.ip(&format!("addr add fe80::fe/64 dev {port} nodad"));
        bed.dut.ip(&format!("route add 10.77.{net}.0/24 via inet6 fe80::1 dev {port}"));
        bed.dut.ip(&format!("-6 route add 2001:db8:{net}::/64 via fe80::1 dev {port}"));
    }
    bed.dut.ip("link set two mtu 1400");
    Some(bed)
}

/// What one ping prints.
fn ping(from: &Namespace, words: &str) -> String {
    let words = ["-n", "-c", "1", "-W", "1"].into_iter().chain(words.split(' '));
    let out = from.command("ping").args(words).output().expect("ping");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Seen: no error was sent, and no path MTU was learned: `no_address`.
#[test]
fn errors_of_a_router_with_addresses_on_lo_alone_come_from_there() {
    let Some(bed) = unnumbered() else { return };
    let router = Router::start_in(bed, ["packet:one", "packet:two"], &[]);
    for (own, to, longest) in [("10.255.0.1", "10.77.2.1", 1372), ("2001:db8::1", "2001:db8:2::1", 1352)] {
        wait_until("the hosts reach each other", || router.pings(to));
        let gets_error = |words: &str, what: &str| {
            let said = ping(&router.bed.h1, words);
            said.contains(&format!("From {own} ")) && said.contains(what)
        };
        wait_until("the hop limit is too small", || gets_error(&format!("-t 1 {to}"), "exceeded"));
        let long = format!("-M do -s {} {to}", longest + 1);
        wait_until("the packet is too big", || gets_error(&long, "1400"));
    }
    assert_eq!(router.number("icmp", "no_address"), 0);
    router.end();
}

/// Seen: the preferred source of a route (`src`) was not used for errors, but the first address of the interface.
#[test]
fn errors_come_from_the_preferred_source_of_the_route_back_as_it_changes() {
    let Some(router) = Router::start(&["ping"], &[]) else { return };
    crate::traffic::add_ipv6(&router);
    let bed = &router.bed;
    for (net, own, host, via, usual, to) in [
        ("10.78.0.0/16", "192.0.2.7", "10.78.0.1", "10.77.1.1", "10.77.1.254", "10.77.2.1"),
        ("fd78::/16", "2001:db8::7", "fd78::1", "fd77:1::1", "fd77:1::254", "fd77:2::1"),
    ] {
        // Without `nodad` an IPv6 address can be tentative for a moment, and a route then refuses it as its source.
        let nodad = if own.contains(':') { " nodad" } else { "" };
        bed.dut.ip(&format!("addr add {own} dev lo{nodad}"));
        bed.h1.ip(&format!("addr add {host} dev lo{nodad}"));
        let is_from = |source: &str| {
            ping(&bed.h1, &format!("-I {host} -t 1 {to}")).contains(&format!("From {source} "))
        };
        bed.dut.ip(&format!("route add {net} via {via} src {own}"));
        wait_until("the route's source is used", || is_from(own));
        bed.dut.ip(&format!("route replace {net} via {via}"));
        wait_until("the interface's address is used", || is_from(usual));
    }
    router.end();
}
