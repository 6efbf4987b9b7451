//! Tests of the answers of the kernel's own table of routes to [`RouteLookup`], for both families.

use crate::netns::{in_namespace, ip};
use netmem::system::bpf::{Answer, RouteLookup};
use netmem::system::netdev::Netdev;
use std::net::IpAddr;

/// BPF_FIB_LKUP_RET_UNREACHABLE, _PROHIBIT, _NOT_FWDED and _NO_NEIGH of `linux/bpf.h`.
const UNREACHABLE: u32 = 2;
const PROHIBIT: u32 = 3;
const NOT_FORWARDED: u32 = 4;
const NO_NEIGHBOUR: u32 = 7;

const NEAR: [u8; 6] = [2, 0, 0, 0, 9, 5];
const FAR: [u8; 6] = [2, 0, 0, 0, 9, 6];

/// A pair of interfaces, with forwarding of both families.
fn set_up() {
    for (setting, value) in [
        ("ipv4/conf/all/forwarding", "1"),
        ("ipv6/conf/all/disable_ipv6", "0"),
        ("ipv6/conf/default/disable_ipv6", "0"),
        ("ipv6/conf/all/forwarding", "1"),
    ] {
        std::fs::write(format!("/proc/sys/net/{setting}"), value).unwrap();
    }
    for words in [
        "link add one type veth peer name two",
        "link set one up",
        "link set two up",
        "addr add 10.9.0.1/24 dev one",
        "addr add fd09::1/64 dev one nodad",
    ] {
        ip(words);
    }
}

#[test]
fn the_kernels_table_is_asked_for_one_destination_after_the_other() {
    in_namespace("lookup::the_kernels_table_is_asked_for_one_destination_after_the_other", || {
        set_up();
        let near = |v6| if v6 { "fd09::" } else { "10.9.0." };
        for (v6, net) in [(false, ["198.51.100", ".0/24", "."]), (true, ["2001:db8:0:5", "::/64", "::"])] {
            let [prefix, len, host] = net;
            let (half, single) = if v6 { (":8000::/65", "/128") } else { (".128/25", "/32") };
            let upper = if v6 { ":8000::1" } else { ".129" };
            for (last, mac) in [("5", "02:00:00:00:09:05"), ("6", "02:00:00:00:09:06")] {
                ip(&format!("neigh add {}{last} lladdr {mac} dev one nud permanent", near(v6)));
            }
            ip(&format!("route add {prefix}{len} via {}5", near(v6)));
            ip(&format!("route add {prefix}{half} via {}6", near(v6)));
            for (kind, last) in [("blackhole", "2"), ("unreachable", "3"), ("prohibit", "4")] {
                ip(&format!("route add {kind} {prefix}{host}{last}{single}"));
            }
            let elsewhere = if v6 { "2001:db8:9::1" } else { "203.0.113.1" };
            let own = if v6 { "fd09::1" } else { "10.9.0.1" };
            let silent = format!("{}77", near(v6));
            let cases: Vec<(String, Answer)> = vec![
                (format!("{prefix}{host}1"), Answer::Station(NEAR)),
                (format!("{prefix}{upper}"), Answer::Station(FAR)),
                (format!("{prefix}{host}2"), Answer::BLACKHOLE),
                (format!("{prefix}{host}3"), Answer::Other(UNREACHABLE)),
                (format!("{prefix}{host}4"), Answer::Other(PROHIBIT)),
                (elsewhere.to_owned(), Answer::Other(NOT_FORWARDED)),
                (own.to_owned(), Answer::Other(NOT_FORWARDED)),
                (silent, Answer::Other(NO_NEIGHBOUR)),
            ];
            let interface = Netdev::open("two").unwrap().index();
            let to: Vec<IpAddr> = cases.iter().map(|(address, _)| address.parse().unwrap()).collect();
            let lookup = RouteLookup::load(interface, &to).unwrap();
            for (place, (address, expected)) in (0..).zip(&cases) {
                assert_eq!(lookup.answer(place).unwrap(), *expected, "{address}");
            }
            // Each in turn, and from the first again behind the last.
            assert_eq!(lookup.answer(0).unwrap(), Answer::Station(NEAR));
            lookup.pass_over(3).unwrap();
            assert_eq!(lookup.others().unwrap(), 0, "nothing was asked");
            lookup.ask(4).unwrap();
            assert_eq!(lookup.others().unwrap(), 4, "the last four lead to no station");
            lookup.ask(8).unwrap();
            assert_eq!(lookup.others().unwrap(), 10);
        }
    });
}
