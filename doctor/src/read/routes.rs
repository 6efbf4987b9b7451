//! The interfaces that have IPv6 routes of router advertisements. Source: `rt6_purge_dflt_routers` and
//! `ipv6_route_native_seq_show` of Linux.

use crate::change::{file_of, interface_key};
use std::collections::BTreeSet;
use std::fs;

/// Flags of a route (`linux/ipv6_route.h`): a default router, and any other route of an advertisement.
const DEFAULT: u32 = 0x1_0000;
const ADVERTISED: u32 = 0x4_0000;

/// Returns the interfaces that lose routes of advertisements when the kernel becomes a router on any interface. Those that take
/// advertisements also as routers (`accept_ra` of 2) keep them.
pub fn advertised() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
    let keeps = |name: &str| {
        let value = fs::read_to_string(file_of(&interface_key("ipv6", name, "accept_ra")));
        value.is_ok_and(|value| value.trim_end() == "2")
    };
    with_advertised(&text).into_iter().filter(|name| !keeps(name)).collect()
}

/// Returns the interfaces in the kernel's list of routes whose routes are of advertisements. The kernel removes none of them if none
/// is a default route.
fn with_advertised(text: &str) -> BTreeSet<String> {
    let flags = |line: &str| u32::from_str_radix(line.split_whitespace().nth(8)?, 16).ok();
    let is = |line: &&str, flag: u32| flags(line).is_some_and(|flags| flags & flag != 0);
    if !text.lines().any(|line| is(&line, DEFAULT)) {
        return BTreeSet::new();
    }
    let routes = text.lines().filter(|line| is(line, DEFAULT | ADVERTISED));
    routes.filter_map(|line| line.split_whitespace().nth(9).map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_of_advertisements_are_those_with_the_kernels_flags() {
        let line = |flags: &str, name: &str| {
            let any = "0".repeat(32);
            format!("{any} 00 {any} 00 {any} 00000400 00000001 00000000 {flags} {name:>8}\n")
        };
        let own = line("00000003", "eth0") + &line("80200001", "lo");
        let network = line("00440001", "eth1");
        let default = line("00450003", "eth2");
        assert_eq!(with_advertised(&own), BTreeSet::new());
        assert_eq!(with_advertised(&[&own[..], &network].concat()), BTreeSet::new());
        let all = with_advertised(&[&own[..], &network, &default].concat());
        assert_eq!(all, ["eth1", "eth2"].map(str::to_owned).into());
        assert_eq!(with_advertised("cut off"), BTreeSet::new());
    }
}
