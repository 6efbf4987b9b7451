//! Netlink messages that another program sends in the kernel's place.

use crate::router::Router;
use crate::testbed::wait_until;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SendFlags, SocketType, sendto, socket};
use serde_json::Value;
use std::fs;

/// RTM_NEWROUTE for 66.66.66.0/24 in the main table, via 10.77.2.1 on the link of that number.
fn forged_route(link: u32) -> Vec<u8> {
    const NEW_ROUTE: u16 = 24;
    let attribute =
        |kind: u16, value: [u8; 4]| [&8_u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value].concat();
    let (main, of_boot, universe, unicast) = (254, 3, 0, 1);
    let body = [
        vec![2, 24, 0, 0, main, of_boot, universe, unicast, 0, 0, 0, 0],
        attribute(1, [66, 66, 66, 0]),
        attribute(4, link.to_ne_bytes()),
        attribute(5, [10, 77, 2, 1]),
    ]
    .concat();
    let len = (16 + body.len() as u32).to_ne_bytes();
    [&len[..], &NEW_ROUTE.to_ne_bytes(), &[0; 10], &body].concat()
}

/// Sends it to every rtnetlink socket of this network namespace, as a process with CAP_NET_ADMIN may. Returns their
/// number.
fn send_to_all(message: &[u8]) -> usize {
    let sockets = fs::read_to_string("/proc/thread-self/net/netlink").expect("a list of netlink sockets");
    let from = socket(AddressFamily::NETLINK, SocketType::DGRAM, None).expect("a netlink socket");
    let addresses = sockets.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (protocol, address) = (words.next()?, words.next()?);
        address.parse().ok().filter(|address| protocol == "0" && *address != 0)
    });
    let sent = addresses.filter(|&address: &u32| {
        sendto(&from, message, SendFlags::empty(), &SocketAddrNetlink::new(address, 0)).is_ok()
    });
    sent.count()
}

/// Seen: netmem took the route, which the kernel does not have, and kept it.
#[test]
fn a_route_message_that_is_not_from_the_kernel_is_ignored() {
    let Some(router) = Router::start(&[], &[]) else { return };
    let has = |prefix: &str| router.stat("routes").iter().any(|route: &Value| route["name"] == prefix);
    let link = router.bed.dut.ip("-o link show dev two");
    let link = link.split(':').next().and_then(|number| number.parse().ok()).expect("its number");
    let message = forged_route(link);
    let sent = router.bed.dut.inside(|| send_to_all(&message));
    assert!(sent > 0, "netmem has no netlink socket");
    // It arrives after what was sent before.
    router.bed.dut.ip("route add 10.99.0.0/24 via 10.77.2.1");
    wait_until("the kernel's own route is not followed", || has("10.99.0.0/24"));
    assert!(!has("66.66.66.0/24"), "a route that the kernel does not have");
    assert!(router.number("netlink", "forged") > 0, "it is counted");
    router.end_saying("in the kernel's place");
}
