//! The packets that a port takes from an interface that the kernel continues to use, and the text form of these rules.

use ipnet::IpNet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Maximum number of rules: each is some twenty instructions, and old kernels limit the number that they verify.
const RULES_MAX: usize = 64;

/// Protocols with a name, and whether they have ports (at the position where UDP has them).
const PROTOCOLS: [(&str, u8, bool); 5] =
    [("icmp", 1, false), ("tcp", 6, true), ("udp", 17, true), ("icmpv6", 58, false), ("sctp", 132, true)];

/// Extension headers of IPv6, behind which the packet's protocol lies: hop-by-hop, routing, fragment, destination
/// options, mobility, HIP, shim6 (IANA, IPv6 Extension Header Types; without ESP and AH, which are protocols of their
/// own to a rule).
pub(super) const EXTENSIONS: [u8; 7] = [0, 43, 44, 60, 135, 139, 140];

/// The packets that a port receives; all others stay with the kernel, as if there were no port.
///
/// It is a list of [rules](TakeRule), of which one has to match. The text form has `+` between rules, and each rule is
/// `PROTOCOL[:PORT][@ADDRESS]`. The protocol is a name (`udp`, `tcp`, `sctp`, `icmp`, `icmpv6`, or `ip` for any) or a
/// number. The port is the destination port. The address is the destination address of IPv4 or IPv6, or a prefix.
/// `none` takes nothing.
///
/// With any rules, these packets stay with the kernel:
///
/// - all that is not IP
/// - frames with a VLAN tag, also one of a priority alone
/// - fragments, first ones too
/// - IPv4 headers with options, and IPv6 packets with extension headers
/// - neighbour discovery (ICMPv6 of type 133 to 137 with a hop limit of 255)
/// - headers that are cut short
/// - frames for another station than the interface (another MAC address)
/// - frames for a group (broadcast, multicast), unless a rule with a multicast address matches
///
/// No checksum is checked.
///
/// ```
/// use netmem::port::xdp::{Take, TakeRule};
///
/// let take: Take = "udp:53+tcp:53@192.0.2.1+udp:443@2001:db8::/64".parse()?;
/// assert_eq!(take.rules().len(), 3);
/// assert_eq!(take.rules()[0], TakeRule { protocol: Some(17), port: Some(53), to: None });
/// assert_eq!(take.to_string(), "udp:53+tcp:53@192.0.2.1+udp:443@2001:db8::/64");
/// # Ok::<(), netmem::port::xdp::TakeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Take {
    rules: Vec<TakeRule>,
}

/// A rule that matches packets with all of the named properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct TakeRule {
    /// The protocol behind the IP header; None for any.
    pub protocol: Option<u8>,
    /// The destination port; None for any.
    pub port: Option<u16>,
    /// The prefix of the destination address; None for any address of either family.
    pub to: Option<IpNet>,
}

/// The rules are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// The text is not a protocol.
    #[error(
        "no protocol {seen:?}: write udp, tcp, sctp, icmp, icmpv6, ip or a number up to 255, as in udp:53@192.0.2.1"
    )]
    Protocol {
        /// The text in its place.
        seen: String,
    },
    /// The text is not a port.
    #[error("no port {seen:?}: write a number from 1 to 65535, as in udp:53")]
    Port {
        /// The text in its place.
        seen: String,
    },
    /// A port was given for a protocol that has none.
    #[error("port {port} of {protocol}: only udp, tcp and sctp have ports")]
    NoPorts {
        /// The protocol.
        protocol: String,
        /// The port.
        port: u16,
    },
    /// The text is not an address.
    #[error(
        "no address {seen:?}: write one of IPv4 or IPv6, or a prefix without bits beyond its length, as in udp:53@192.0.2.0/24"
    )]
    Address {
        /// The text in its place.
        seen: String,
    },
    /// The number belongs to an extension header of IPv6, behind which the protocol lies.
    #[error("protocol {number} is an extension header of IPv6: packets that have one stay with the kernel")]
    Extension {
        /// The number.
        number: u8,
    },
    /// More rules than a program may have.
    #[error("{seen} rules: give {RULES_MAX} at most")]
    TooMany {
        /// The number of rules.
        seen: usize,
    },
}

impl Take {
    /// Makes a list of up to 64 rules. A packet has to match one of them.
    ///
    /// # Errors
    /// [`TakeError`]: `NoPorts`, `Extension`, `Address` for a prefix with bits beyond its length, `TooMany`.
    pub fn new(rules: impl IntoIterator<Item = TakeRule>) -> Result<Take, TakeError> {
        let rules: Vec<TakeRule> = rules.into_iter().collect();
        rules.iter().try_for_each(TakeRule::check)?;
        if rules.len() > RULES_MAX {
            Err(TakeError::TooMany { seen: rules.len() })
        } else {
            Ok(Take { rules })
        }
    }

    /// The rules, in order.
    pub fn rules(&self) -> &[TakeRule] {
        &self.rules
    }
}

impl TakeRule {
    fn check(&self) -> Result<(), TakeError> {
        let has_ports = PROTOCOLS.iter().any(|&(_, number, ports)| ports && Some(number) == self.protocol);
        match (self.protocol, self.port, self.to) {
            (Some(number), ..) if EXTENSIONS.contains(&number) => Err(TakeError::Extension { number }),
            (_, Some(0), _) => Err(TakeError::Port { seen: "0".into() }),
            (_, Some(port), _) if !has_ports => Err(TakeError::NoPorts {
                protocol: TakeRule { port: None, to: None, ..*self }.to_string(),
                port,
            }),
            (.., Some(to)) if to != to.trunc() => Err(TakeError::Address { seen: to.to_string() }),
            _ => Ok(()),
        }
    }

    /// Whether the rule is for packets to groups.
    pub(super) fn is_of_groups(&self) -> bool {
        match self.to {
            Some(IpNet::V4(net)) => net.prefix_len() >= 4 && net.addr().is_multicast(),
            Some(IpNet::V6(net)) => net.prefix_len() >= 8 && net.addr().is_multicast(),
            None => false,
        }
    }
}

impl FromStr for Take {
    type Err = TakeError;

    /// Reads rules with `+` between them, or `none`.
    ///
    /// # Errors
    /// [`TakeError`] of the first rule that is not valid.
    fn from_str(text: &str) -> Result<Take, TakeError> {
        match text {
            "none" => Ok(Take::default()),
            _ => Take::new(text.split('+').map(rule).collect::<Result<Vec<_>, _>>()?),
        }
    }
}

/// Reads one rule.
fn rule(text: &str) -> Result<TakeRule, TakeError> {
    let (what, to) = text.split_once('@').map_or((text, None), |(what, to)| (what, Some(to)));
    let (name, port) = what.split_once(':').map_or((what, None), |(name, port)| (name, Some(port)));
    let known = PROTOCOLS.iter().find(|(known, ..)| *known == name).map(|&(_, number, _)| number);
    let protocol = match name {
        "ip" => None,
        _ => {
            let number = known.or_else(|| digits(name)?.parse().ok());
            Some(number.ok_or_else(|| TakeError::Protocol { seen: name.into() })?)
        }
    };
    let no_port = |seen: &str| TakeError::Port { seen: seen.into() };
    let port = port.map(|port| digits(port).and_then(|text| text.parse().ok()).ok_or_else(|| no_port(port)));
    let no_address = |seen: &str| TakeError::Address { seen: seen.into() };
    let net = |text: &str| text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let to = to.map(|to| net(to).map_err(|_| no_address(to)));
    Ok(TakeRule { protocol, port: port.transpose()?, to: to.transpose()? })
}

/// Returns `text` if it has only digits: the standard library also reads a plus sign.
fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

impl fmt::Display for Take {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, rest)) = self.rules.split_first() else { return f.write_str("none") };
        write!(f, "{first}")?;
        rest.iter().try_for_each(|rule| write!(f, "+{rule}"))
    }
}

impl fmt::Display for TakeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = PROTOCOLS.iter().find(|(_, number, _)| Some(*number) == self.protocol);
        match (known, self.protocol) {
            (Some((name, ..)), _) => f.write_str(name)?,
            (None, Some(number)) => write!(f, "{number}")?,
            (None, None) => f.write_str("ip")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))?;
        match self.to {
            None => Ok(()),
            Some(to) if to.prefix_len() == to.max_prefix_len() => write!(f, "@{}", to.addr()),
            Some(to) => write!(f, "@{to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in [
            "none",
            "udp:53",
            "udp:53+tcp:53+sctp:38412",
            "ip@192.0.2.1",
            "icmp+icmpv6@2001:db8::1",
            "47@198.51.100.0/24",
            "udp@0.0.0.0/0",
            "udp:5000@239.1.0.0/16+udp:5000@ff02::/16",
        ] {
            assert_eq!(text.parse::<Take>().unwrap().to_string(), text);
        }
        assert_eq!("17:53@192.0.2.1/32".parse::<Take>().unwrap().to_string(), "udp:53@192.0.2.1");
    }

    #[test]
    fn what_is_no_rule_is_refused_in_one_line_that_says_what_would_be() {
        for (text, said) in [
            ("", "udp, tcp"),
            ("dns", "no protocol \"dns\""),
            ("256", "up to 255"),
            ("+17", "no protocol"),
            ("udp:", "from 1 to 65535"),
            ("udp:0", "from 1 to 65535"),
            ("udp:+53", "from 1 to 65535"),
            ("udp:65536", "from 1 to 65535"),
            ("icmp:53", "port 53 of icmp"),
            ("ip:53", "port 53 of ip"),
            ("udp@", "no address \"\""),
            ("udp@192.0.2.1/24", "bits beyond its length"),
            ("udp@[::1]", "no address"),
            ("44", "extension header"),
            ("udp:53+none", "no protocol \"none\""),
        ] {
            let error = text.parse::<Take>().expect_err(text).to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{text}: {error}");
        }
        let many = vec!["udp:53"; 65].join("+");
        assert_eq!(many.parse::<Take>(), Err(TakeError::TooMany { seen: 65 }));
        assert!(many[7..].parse::<Take>().is_ok());
    }

    #[test]
    fn a_rule_is_of_groups_where_all_of_its_prefix_are_multicast_addresses() {
        let is = |text: &str| rule(text).unwrap().is_of_groups();
        assert!(is("udp@224.0.0.0/4") && is("udp@239.1.2.3") && is("ip@ff00::/8") && is("udp@ff02::fb"));
        assert!(!is("udp@0.0.0.0/0") && !is("udp@224.0.0.0/3") && !is("udp@fe00::/7") && !is("udp"));
    }
}
