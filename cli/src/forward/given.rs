//! Checks of the given routes and own addresses of a plan, against each other. COLD.

use super::unfit::refuse;
use crate::args::{ModeArg, RoutesArg};
use crate::failure::Failure;
use netmem_router::route::{OwnAddress, RibRoute, Route};
use netmem_router::{Allow, Unforwarded};
use std::collections::HashSet;
use std::net::IpAddr;

/// Rejects routes to ports that do not exist, two for one prefix, and a router without routes.
pub fn check_routes(routes: &[Route], from: RoutesArg, ports: usize, mode: ModeArg) -> Result<(), Failure> {
    if mode == ModeArg::Ip && routes.is_empty() && from == RoutesArg::Static {
        return refuse(
            "--mode ip without a --route would drop every packet: give --route PREFIX,PORT,MAC, \
             or --routes kernel, or --mode cross-connect",
        );
    }
    let mut prefixes = HashSet::new();
    for route in routes {
        route.check_port(ports).map_err(Failure::input)?;
        if !prefixes.insert(route.prefix) {
            return refuse(format!("--route for {} is given twice: leave one out", route.prefix));
        }
    }
    Ok(())
}

/// Rejects routes that would forward nothing, since packets to all their destinations are dropped as martians.
pub fn check_destinations(routes: &[Route], allow: Allow) -> Result<(), Failure> {
    for Route { prefix, .. } in routes {
        let Some(why) = allow.unforwarded(*prefix) else { continue };
        let switch =
            if matches!(why, Unforwarded::Switched(_)) { ", or give --martians forward" } else { "" };
        return refuse(format!("--route for {prefix} has no effect: {why}; leave it out{switch}"));
    }
    Ok(())
}

/// Rejects own addresses beside the kernel's, on ports that do not exist, and two that are the same. A link-local address
/// is one of its link only, so that several ports may have the same.
pub fn check_own_addresses(own: &[OwnAddress], from: RoutesArg, ports: usize) -> Result<(), Failure> {
    if !own.is_empty() && from == RoutesArg::Kernel {
        return refuse("--address is for --route: with --routes kernel the kernel's addresses are followed");
    }
    for (i, one) in own.iter().enumerate() {
        one.check_port(ports).map_err(Failure::input)?;
        let address = one.net.addr();
        let is_of_link = matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
        let is_same =
            |other: &OwnAddress| other.net.addr() == address && (other.port == one.port || !is_of_link);
        if own[..i].iter().any(is_same) {
            return refuse(format!("--address {address} is given twice: leave one out"));
        }
    }
    Ok(())
}

/// Rejects routes for the router's own addresses. They would rank behind the local routes and never be used.
pub fn check_own_routes(routes: &[Route], own: &[OwnAddress]) -> Result<(), Failure> {
    for route in routes {
        let prefix = RibRoute::from(*route).prefix;
        if let Some(own) = own.iter().find(|own| own.routes().any(|its| its.prefix == prefix)) {
            return refuse(format!(
                "--route for {prefix} has no effect beside --address {own}: leave one out"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: the same link-local address on two links was refused as given twice.
    #[test]
    fn ports_may_have_the_same_link_local_address_and_no_other_address_in_common() {
        let check = |own: [&str; 2]| {
            let own = own.map(|text| text.parse().expect("an address"));
            check_own_addresses(&own, RoutesArg::Static, 2).is_ok()
        };
        assert!(check(["fe80::1/64,0", "fe80::1/64,1"]) && !check(["fe80::1/64,1", "fe80::1/64,1"]));
        assert!(!check(["fd00::1/64,0", "fd00::1/64,1"]) && !check(["169.254.0.1/16,0", "169.254.0.1/16,1"]));
    }

    #[test]
    fn a_martian_destination_may_be_routed_to_if_martians_are_forwarded() {
        let check = |prefix: &str, martians: bool| {
            let route = format!("{prefix},1,02:00:00:00:00:02").parse().expect("a route");
            check_destinations(&[route], Allow { martians, ..Allow::default() }).is_ok()
        };
        assert!(check("240.0.0.0/4", true) && !check("240.0.0.0/4", false));
        assert!(!check("255.255.255.255/32", true) && !check("224.0.0.0/4", true));
        assert!(check("::/0", false) && check("0.0.0.0/1", false) && check("fd00::/8", false));
    }
}
