//! Router advertisements of a host, to which a router does not listen (RFC 4861 §6.2.7).

use crate::frames::Wire;
use crate::router::{Router, addressed, set};
use crate::testbed::{Testbed, scratch, wait_until};
use netmem::wire::checksum::Sum;
use std::fs;
use std::net::Ipv6Addr;

/// A network that only an advertisement announces.
const ANNOUNCED: &str = "2001:db8:bad::/64";

/// Two hosts and the machine between them, whose kernel is a host on the first link, as it is by default.
fn laid() -> Option<Testbed> {
    let bed = addressed(&[])?;
    set(&bed.dut, &[("ipv6/conf/one/accept_ra", "1"), ("ipv6/conf/one/forwarding", "0")]);
    Some(bed)
}

/// An advertisement, by which its sender is a default router, and the network is on the link.
fn advertisement() -> Vec<u8> {
    const FROM: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0xbad);
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    const NETWORK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, 0);
    let addresses = [FROM.octets(), ALL_NODES.octets()].concat();
    let hour = 3600_u32.to_be_bytes();
    let prefix = [&[3, 4, 64, 0xc0][..], &hour, &hour, &[0; 4], &NETWORK.octets()].concat();
    let mut message = [&[134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0][..], &prefix].concat();
    let length = message.len() as u16;
    let sum = Sum::new().bytes(&addresses).word(length).word(58).bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let link = [0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1, 0x86, 0xdd];
    [&link[..], &[0x60, 0, 0, 0], &length.to_be_bytes(), &[58, 255], &addresses, &message].concat()
}

/// Sends two from the first host. When the second is counted, the kernel has done with the first.
fn advertise(bed: &Testbed) {
    let mut wire = Wire::of(&bed.h1);
    (0..2).for_each(|_| wire.send(&advertisement()));
    wait_until("the kernel receives them", || {
        let counters =
            bed.dut.inside(|| fs::read_to_string("/proc/thread-self/net/snmp6")).expect("counters");
        let line = counters.lines().find_map(|line| line.strip_prefix("Icmp6InRouterAdvertisements"));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0) >= 2
    });
}

fn has(router: &Router, prefix: &str) -> bool {
    router.stat("routes").iter().any(|route| route["name"] == prefix)
}

/// Found in a review: nothing said that any host on a port's link can change the routes.
#[test]
fn a_run_whose_kernel_takes_routes_from_advertisements_says_so_at_its_start() {
    let Some(bed) = laid() else { return };
    let router = Router::start_in(bed, ["xdp:one", "xdp:two"], &[]);
    advertise(&router.bed);
    wait_until("the kernel's route is followed", || has(&router, ANNOUNCED));
    let (_, said) = router.end_with();
    let line =
        "netmem: xdp:one: a router advertisement of any host on the link changes the kernel's IPv6 routes";
    let remedy = "sysctl -w net.ipv6.conf.one.forwarding=1 (--fix FILE does it for one run)";
    assert!(said.lines().count() == 1 && said.starts_with(line) && said.trim().ends_with(remedy), "{said}");
}

/// Found in a review: `--fix` removed the default route of an interface that is no port. This also checks that the kernel does so.
#[test]
fn with_fix_an_interface_that_is_no_port_keeps_its_routes_of_advertisements() {
    let Some(bed) = laid() else { return };
    let dut = &bed.dut;
    set(dut, &[("ipv6/conf/two/accept_ra", "1"), ("ipv6/conf/two/forwarding", "0")]);
    advertise(&bed);
    let has_default = || dut.ip("-6 route").contains("default via fe80::bad dev one");
    wait_until("the kernel has the route", has_default);
    set(dut, &[("ipv6/conf/two/forwarding", "1")]);
    assert!(!has_default(), "the kernel removes it");
    set(dut, &[("ipv6/conf/two/forwarding", "0")]);
    advertise(&bed);
    wait_until("the kernel has the route again", has_default);
    let journal = scratch("advertised-other");
    let fixed = || {
        let mut command = dut.command(env!("CARGO_BIN_EXE_netmem"));
        command.args(["forward", "--port=packet:two", "--port=tap:t0", "--routes=kernel", "--seconds=0.1"]);
        let out = command.arg(format!("--fix={}", journal.display())).output().expect("netmem");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let made = "changed for this run: sysctl -w net.ipv6.conf.two.forwarding=1";
    let remedy =
        "sysctl -w net.ipv6.conf.one.accept_ra=2 net.ipv6.conf.two.forwarding=1; without the first, ";
    let said = fixed();
    assert!(has_default() && !said.contains(made) && said.contains(remedy), "{said}");
    set(dut, &[("ipv6/conf/one/accept_ra", "2")]);
    let said = fixed();
    assert!(has_default() && said.contains(made), "{said}");
}

/// As above.
#[test]
fn with_fix_an_advertisement_of_a_host_changes_no_route() {
    let journal = scratch("advertised");
    let fix = format!("--fix={}", journal.display());
    for ports in [["xdp:one", "xdp:two"], ["packet:one", "packet:two"]] {
        let Some(bed) = laid() else { return };
        let router = Router::start_in(bed, ports, &[&fix]);
        advertise(&router.bed);
        // It is followed after what came before.
        router.bed.dut.ip("-6 route add blackhole fd99::/16");
        wait_until("the kernel's own route is followed", || has(&router, "fd99::/16"));
        assert!(!has(&router, ANNOUNCED), "{ports:?}");
        assert!(!router.bed.dut.ip("-6 route").contains("fe80::bad"), "{ports:?}");
        router.end_saying("netmem: changed for this run: sysctl -w net.ipv6.conf.one.forwarding=1");
    }
    assert!(!journal.exists());
}
