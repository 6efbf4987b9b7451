//! Text form of routes.

use std::fmt;
use std::str::FromStr;

use ipnet::IpNet;

use netmem::wire::MacAddr;

/// A route in text form: `PREFIX,port,mac`.
///
/// ```
/// use netmem_router::Route;
///
/// let route: Route = "10.0.2.0/24,1,02:00:00:00:00:02".parse()?;
/// assert_eq!(route.port, 1);
/// assert_eq!(route.to_string(), "10.0.2.0/24,1,02:00:00:00:00:02");
/// let route: Route = "fd00:2::/64,1,02:00:00:00:00:02".parse()?;
/// # Ok::<(), netmem_router::route::RouteError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The destinations, IPv4 or IPv6.
    pub prefix: IpNet,
    /// The number of the egress port.
    pub port: u8,
    /// The MAC address of the next hop.
    pub mac: MacAddr,
}

/// An error in a route's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// The text does not have three parts.
    #[error("route {seen:?}: write PREFIX,port,mac, as in 10.0.2.0/24,1,02:00:00:00:00:02")]
    Parts {
        /// The whole text.
        seen: String,
    },
    /// The first part is not a prefix.
    #[error("route prefix {seen:?}: write a network and its length, as in 10.0.2.0/24 or fd00:2::/64")]
    Prefix {
        /// The first part.
        seen: String,
    },
    /// The first part names a host in the network, not the network.
    #[error("route prefix {seen:?} has bits set behind its length: write {network}")]
    HostBits {
        /// The first part.
        seen: String,
        /// The network that contains the host.
        network: IpNet,
    },
    /// The second part is not a port number.
    #[error("route port {seen:?}: write the number of a --port in the order given, from 0 to 255")]
    Port {
        /// The second part.
        seen: String,
    },
    /// No port has this number.
    #[error("route port {seen}: there are {ports} ports, numbered from 0")]
    NoSuchPort {
        /// The port's number.
        seen: u8,
        /// Number of ports.
        ports: usize,
    },
    /// The third part is not a MAC address.
    #[error("route mac {seen:?}: write six pairs of hex digits, as in 02:00:00:00:00:02")]
    Mac {
        /// The third part.
        seen: String,
    },
    /// The MAC address is all zeros, which no next hop has.
    #[error("route mac 00:00:00:00:00:00 is no address: write the next hop's own")]
    NoMac,
    /// The MAC address is a multicast address.
    #[error("route mac {seen} is a multicast address: write the next hop's own, whose first byte is even")]
    GroupMac {
        /// The third part.
        seen: MacAddr,
    },
}

impl Route {
    /// Checks that the route's port is one of `ports`.
    ///
    /// # Errors
    /// [`RouteError::NoSuchPort`].
    pub fn check_port(&self, ports: usize) -> Result<(), RouteError> {
        if usize::from(self.port) < ports {
            Ok(())
        } else {
            Err(RouteError::NoSuchPort { seen: self.port, ports })
        }
    }
}

impl FromStr for Route {
    type Err = RouteError;

    fn from_str(text: &str) -> Result<Self, RouteError> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let [prefix, port, mac] = parts[..] else { return Err(RouteError::Parts { seen: text.into() }) };
        let network: IpNet = prefix.parse().map_err(|_| RouteError::Prefix { seen: prefix.into() })?;
        if network.trunc() != network {
            return Err(RouteError::HostBits { seen: prefix.into(), network: network.trunc() });
        }
        let port = port.parse().map_err(|_| RouteError::Port { seen: port.into() })?;
        let mac: MacAddr = mac.parse().map_err(|_| RouteError::Mac { seen: mac.into() })?;
        if mac == MacAddr::new([0; 6]) {
            return Err(RouteError::NoMac);
        }
        if mac.is_multicast() {
            return Err(RouteError::GroupMac { seen: mac });
        }
        Ok(Route { prefix: network, port, mac })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.prefix, self.port, self.mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str) -> Route {
        text.parse().unwrap()
    }

    #[test]
    fn the_error_of_a_wrong_route_names_the_part_and_the_right_form() {
        let error = |text: &str| text.parse::<Route>().expect_err(text).to_string();
        for (text, says) in [
            ("", "PREFIX,port,mac"),
            ("10.0.0.0/8,1", "PREFIX,port,mac"),
            ("10.0.0.0/8,1,02:00:00:00:00:02,", "PREFIX,port,mac"),
            ("10.0.0.0/33,1,02:00:00:00:00:02", "prefix \"10.0.0.0/33\""),
            ("10.0.0/8,1,02:00:00:00:00:02", "prefix \"10.0.0/8\""),
            ("10.0.0.1,1,02:00:00:00:00:02", "prefix \"10.0.0.1\""),
            ("10.0.2.7/24,1,02:00:00:00:00:02", "write 10.0.2.0/24"),
            ("fd00:2::7/64,1,02:00:00:00:00:02", "write fd00:2::/64"),
            ("fd00:2::/129,1,02:00:00:00:00:02", "or fd00:2::/64"),
            ("10.0.0.0/8,-1,02:00:00:00:00:02", "port \"-1\""),
            ("10.0.0.0/8,256,02:00:00:00:00:02", "from 0 to 255"),
            ("10.0.0.0/8,1,02:00:00:00:00", "mac \"02:00:00:00:00\""),
            ("10.0.0.0/8,1,ff:ff:ff:ff:ff:ff", "multicast"),
            // Seen: it was taken.
            ("10.0.0.0/8,1,00:00:00:00:00:00", "no address"),
        ] {
            let seen = error(text);
            assert!(seen.contains(says) && !seen.contains('\n'), "{text}: {seen}");
        }
        let route = route("10.0.0.0/8,2,02:00:00:00:00:02");
        assert_eq!(route.check_port(3), Ok(()));
        assert!(route.check_port(2).unwrap_err().to_string().contains("2 ports"));
    }
}
