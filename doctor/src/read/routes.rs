//! The interfaces that have IPv6 routes of router advertisements. Source: `rt6_purge_dflt_routers` and
//! `ipv6_route_native_seq_show` of Linux.

use crate::change::{file_of, interface_key};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;

/// Flags of a route (`linux/ipv6_route.h`): a default router, and any other route of an advertisement.
const DEFAULT: u32 = 0x1_0000;
const ADVERTISED: u32 = 0x4_0000;

/// Maximum number of bytes that are read, of some 7,000 routes. For each 4 KiB the kernel walks over all routes before, so the
/// list of a full table would take a minute.
const BYTES_MAX: u64 = 1 << 20;

/// Returns those of these interfaces that lose routes of advertisements when the kernel becomes a router on any interface, or that
/// may lose them if the list of routes is too long to be read. Those that take advertisements also as routers (`accept_ra` of 2)
/// keep them.
///
/// # Cost
/// Up to 256 reads of /proc, of a list that takes the kernel some milliseconds.
pub fn advertised<'a>(interfaces: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let accepts = |name: &str| {
        let value = fs::read_to_string(file_of(&interface_key("ipv6", name, "accept_ra")));
        value.map_or_else(|_| String::new(), |value| value.trim_end().to_owned())
    };
    match list(BYTES_MAX) {
        Some(text) => with_advertised(&text).into_iter().filter(|name| accepts(name) != "2").collect(),
        None => interfaces.filter(|name| accepts(name) == "1").cloned().collect(),
    }
}

/// Returns the kernel's list of IPv6 routes, or None if it has more bytes than these. Empty without IPv6.
fn list(bytes_max: u64) -> Option<String> {
    let mut text = String::new();
    if let Ok(file) = File::open("/proc/thread-self/net/ipv6_route") {
        // An error: what was read so far is a list too.
        let _ = file.take(bytes_max + 1).read_to_string(&mut text);
    }
    Some(text).filter(|text| text.len() as u64 <= bytes_max)
}

/// Returns the interfaces of the routes that the kernel took from router advertisements, by its list of routes. If no such route is a
/// default route, the kernel keeps them all, and the set is empty.
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
    fn a_list_that_is_too_long_is_not_read_to_its_end() {
        let Some(all) = list(BYTES_MAX) else { return };
        assert_eq!(list(all.len() as u64).map(|text| text.len()), Some(all.len()));
        if !all.is_empty() {
            assert_eq!(list(all.len() as u64 - 1), None);
        }
    }

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
