//! Text form of the router's own addresses.

use super::rib::{Origin, RibRoute, Target};
use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address of the router on a port's link: `ADDRESS/LENGTH,port`. The length is that of the link's network.
///
/// ```
/// use netmem_router::route::OwnAddress;
///
/// let own: OwnAddress = "10.0.2.254/24,1".parse()?;
/// assert_eq!((own.net.addr().to_string().as_str(), own.port), ("10.0.2.254", 1));
/// assert_eq!(own.to_string(), "10.0.2.254/24,1");
/// # Ok::<(), netmem_router::route::OwnAddressError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnAddress {
    /// The address, with the length of the link's network.
    pub net: IpNet,
    /// The number of the port.
    pub port: u8,
}

/// An error in an own address's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnAddressError {
    /// The text has another form.
    #[error("address {seen:?}: write ADDRESS/LENGTH,port, as in 10.0.2.254/24,1")]
    Form {
        /// The whole text.
        seen: String,
    },
    /// The address cannot be a host's.
    #[error("address {seen}: write one of a single host, which others can send to")]
    NoHost {
        /// The address.
        seen: IpNet,
    },
    /// No port has this number.
    #[error("address {seen}: there are {ports} ports, numbered from 0")]
    NoSuchPort {
        /// The whole own address.
        seen: OwnAddress,
        /// Number of ports.
        ports: usize,
    },
}

/// The longest IPv4 prefix of a network with a broadcast address (RFC 3021 §2.1).
const BROADCAST_MAX: u8 = 30;

/// Returns the broadcast address of the network of an address, if it has one.
pub(super) fn broadcast(net: IpNet) -> Option<IpAddr> {
    match net {
        IpNet::V4(net) if net.prefix_len() <= BROADCAST_MAX => Some(net.broadcast().into()),
        _ => None,
    }
}

impl OwnAddress {
    /// Returns the routes of the address. Packets to the address are the router's own. So are packets to the
    /// network's broadcast address, which no router forwards by default (RFC 2644).
    pub fn routes(&self) -> impl Iterator<Item = RibRoute> + use<> {
        let local = |address: IpAddr| RibRoute {
            prefix: IpNet::from(address),
            origin: Origin::Static,
            metric: 0,
            target: Target::Local,
            distinguisher: 0,
        };
        [self.net.addr()].into_iter().chain(broadcast(self.net)).map(local)
    }

    /// Checks that the port is one of `ports`.
    ///
    /// # Errors
    /// [`OwnAddressError::NoSuchPort`].
    pub fn check_port(&self, ports: usize) -> Result<(), OwnAddressError> {
        match usize::from(self.port) < ports {
            true => Ok(()),
            false => Err(OwnAddressError::NoSuchPort { seen: *self, ports }),
        }
    }
}

impl FromStr for OwnAddress {
    type Err = OwnAddressError;

    fn from_str(text: &str) -> Result<OwnAddress, OwnAddressError> {
        let parts = text.split_once(',').and_then(|(net, port)| {
            let net: IpNet = net.trim().parse().ok()?;
            Some(OwnAddress { net, port: port.trim().parse().ok()? })
        });
        let own = parts.ok_or_else(|| OwnAddressError::Form { seen: text.to_owned() })?;
        let address = own.net.addr();
        let is_everyone = match own.net {
            IpNet::V4(net) if net.prefix_len() <= BROADCAST_MAX => {
                [net.network(), net.broadcast()].contains(&net.addr())
            }
            IpNet::V4(net) => net.addr().is_broadcast(),
            IpNet::V6(_) => false,
        };
        if address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_everyone {
            return Err(OwnAddressError::NoHost { seen: own.net });
        }
        Ok(own)
    }
}

impl fmt::Display for OwnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.net, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_wrong_address_names_the_right_form_or_the_reason() {
        let error = |text: &str| text.parse::<OwnAddress>().expect_err(text).to_string();
        for text in
            ["", "10.0.0.1", "10.0.0.1/24", "10.0.0.1,1", "10.0.0.1/33,1", "10.0.0.1/24,256", "a/24,0"]
        {
            assert!(error(text).contains("write ADDRESS/LENGTH,port"), "{text}");
        }
        for text in [
            "0.0.0.0/0,0",
            "127.0.0.1/8,0",
            "224.0.0.1/4,0",
            "255.255.255.255/32,0",
            "10.0.2.255/24,0",
            "10.0.2.0/24,0",
            "10.0.2.3/30,0",
            "::1/128,0",
            "ff02::1/16,0",
        ] {
            assert!(error(text).contains("a single host"), "{text}");
        }
        let own: OwnAddress = "fd00::1/64, 2".parse().unwrap();
        assert_eq!(own.check_port(3), Ok(()));
        let nets =
            |text: &str| text.parse::<OwnAddress>().unwrap().routes().map(|route| route.prefix.to_string());
        assert_eq!(nets("10.0.2.254/24,1").collect::<Vec<_>>(), ["10.0.2.254/32", "10.0.2.255/32"]);
        assert_eq!(nets("10.0.2.0/31,1").chain(nets("fd00::1/64,1")).count(), 2);
        assert!(own.check_port(2).unwrap_err().to_string().contains("2 ports"));
    }
}
