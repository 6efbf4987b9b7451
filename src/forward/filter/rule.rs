//! One rule: its match, its action, and its text form.

use super::Fields;
use super::fields::has_ports;
use crate::wire::{ethernet, icmp, ipv4};
use ipnet::Ipv4Net;
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The action of a rule on the packets that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Forwards them according to the mode.
    Accept,
    /// Drops them.
    Drop,
    /// Passes them to the local queue.
    Pass,
}

/// A rule: an action for all packets that match everything it names.
///
/// Written `ACTION,KEY=VALUE,…`, as in `drop,in=0,src=10.0.0.0/8,proto=udp,dport=53-99`. The keys are
/// - `in`: the number of the port of reception,
/// - `ethertype`: a number, `ipv4`, `ipv6` or `arp`,
/// - `src` and `dst`: IPv4 prefixes,
/// - `proto`: a number, `icmp`, `icmpv6`, `tcp` or `udp`,
/// - `sport` and `dport`: a port of TCP or UDP, or a range. Later fragments have none. They are refused beside a
///   `proto` other than these two.
///
/// A rule that names an address matches only IPv4. A rule with a protocol or ports and no address matches both
/// families; with `ethertype=ipv4` or `ethertype=ipv6` it matches one of them. For IPv6, the protocol is the one behind
/// the extension headers. A packet whose extension headers do not end within its first buffer, or are more than eight,
/// matches no rule that names a protocol or ports. Nor does a later fragment whose fragment header names another
/// extension header. `icmp` is only that of IPv4 (1). `icmpv6` is that of IPv6 (58), to which neighbour discovery
/// belongs.
///
/// Addresses, protocol and ports are those of the packet behind all VLAN tags (802.1Q and 802.1ad). If the tags do not
/// end within the frame's first buffer, no rule that names one of them matches. `ethertype` is the outer one: 0x8100 or
/// 0x88a8 in a tagged frame, so a rule with `ethertype=ipv4` does not match it. The tag of a priority-tagged frame
/// (802.1Q, VID 0) is skipped first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The action.
    pub action: Action,
    /// The port of reception.
    pub ingress: Option<u8>,
    /// The outer ethertype.
    pub ethertype: Option<u16>,
    /// A prefix that contains the source address.
    pub src: Option<Ipv4Net>,
    /// A prefix that contains the destination address.
    pub dst: Option<Ipv4Net>,
    /// The protocol behind IPv4, or behind the extension headers of IPv6.
    pub protocol: Option<u8>,
    /// The source port.
    pub src_ports: Option<RangeInclusive<u16>>,
    /// The destination port.
    pub dst_ports: Option<RangeInclusive<u16>>,
}

/// The text is not a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The first word is not an action.
    #[error("no action {seen:?}: begin with accept, drop or pass, as in drop,proto=udp,dport=53")]
    Action {
        /// The word.
        seen: String,
    },
    /// A part is not a key with a value.
    #[error("no key in {seen:?}: write in, ethertype, src, dst, proto, sport or dport, then = and a value")]
    Key {
        /// The part.
        seen: String,
    },
    /// A key has an invalid value.
    #[error("{key}={seen}: give {right}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        seen: String,
        /// The valid values.
        right: &'static str,
    },
    /// A key is given twice.
    #[error("{key} is given twice: leave one out")]
    Twice {
        /// The key.
        key: &'static str,
    },
    /// A port is named with a protocol whose ports rules do not use, so that no packet would match.
    #[error(
        "{key} beside proto={protocol}, which has no ports: give proto=tcp, proto=udp or no proto, or leave {key} out"
    )]
    Portless {
        /// The key.
        key: &'static str,
        /// The protocol's number.
        protocol: u8,
    },
}

impl Action {
    const NAMES: [(&'static str, Action); 3] =
        [("accept", Action::Accept), ("drop", Action::Drop), ("pass", Action::Pass)];
}

const ETHERTYPES: [(&str, u16); 3] =
    [("ipv4", ethernet::IPV4), ("ipv6", ethernet::IPV6), ("arp", ethernet::ARP)];
const PROTOCOLS: [(&str, u8); 4] =
    [("icmp", icmp::PROTOCOL), ("icmpv6", icmp::PROTOCOL_V6), ("tcp", ipv4::TCP), ("udp", ipv4::UDP)];

impl Rule {
    /// A rule that matches every packet.
    pub fn all(action: Action) -> Rule {
        let (ingress, ethertype, protocol) = (None, None, None);
        let (src, dst, src_ports, dst_ports) = (None, None, None, None);
        Rule { action, ingress, ethertype, src, dst, protocol, src_ports, dst_ports }
    }

    /// Returns whether a packet with these fields matches everything that the rule names.
    #[inline]
    pub fn matches(&self, fields: &Fields) -> bool {
        self.ingress.is_none_or(|port| port == fields.ingress)
            && self.ethertype.is_none_or(|ethertype| ethertype == fields.ethertype)
            && (!self.names_ip() || self.matches_ip(fields))
    }

    #[inline]
    fn names_ip(&self) -> bool {
        self.protocol.is_some() || self.src.is_some() || self.dst.is_some() || self.names_ports()
    }

    /// Returns whether it uses a packet's content: a protocol, or ports.
    pub(super) fn names_carried(&self) -> bool {
        self.protocol.is_some() || self.names_ports()
    }

    #[inline]
    fn names_ports(&self) -> bool {
        self.src_ports.is_some() || self.dst_ports.is_some()
    }

    #[inline]
    fn matches_ip(&self, fields: &Fields) -> bool {
        let Some(ip) = &fields.ipv4 else { return self.matches_ipv6(fields) };
        self.protocol.is_none_or(|protocol| protocol == ip.protocol)
            && self.src.is_none_or(|net| net.contains(&ip.src))
            && self.dst.is_none_or(|net| net.contains(&ip.dst))
            && self.matches_ports(ip.ports)
    }

    fn matches_ipv6(&self, fields: &Fields) -> bool {
        let Some(ip) = &fields.ipv6 else { return false };
        self.protocol.is_none_or(|protocol| protocol == ip.protocol)
            && self.src.is_none()
            && self.dst.is_none()
            && self.matches_ports(ip.ports)
    }

    #[inline]
    fn matches_ports(&self, ports: Option<(u16, u16)>) -> bool {
        !self.names_ports()
            || ports.is_some_and(|(src, dst)| {
                self.src_ports.as_ref().is_none_or(|range| range.contains(&src))
                    && self.dst_ports.as_ref().is_none_or(|range| range.contains(&dst))
            })
    }

    fn set(&mut self, part: &str) -> Result<(), RuleError> {
        let Some((key, value)) = part.split_once('=') else {
            return Err(RuleError::Key { seen: part.into() });
        };
        match key {
            "in" => put("in", &mut self.ingress, value.parse().ok(), value, "a port's number, from 0"),
            "ethertype" => {
                let right = "a number up to 65535 (0x0800), ipv4, ipv6 or arp";
                put("ethertype", &mut self.ethertype, named(value, &ETHERTYPES), value, right)
            }
            "src" => put("src", &mut self.src, prefix(value), value, PREFIX),
            "dst" => put("dst", &mut self.dst, prefix(value), value, PREFIX),
            "proto" => {
                let right = "a number up to 255, icmp, icmpv6, tcp or udp";
                put("proto", &mut self.protocol, named(value, &PROTOCOLS), value, right)
            }
            "sport" => put("sport", &mut self.src_ports, range(value), value, RANGE),
            "dport" => put("dport", &mut self.dst_ports, range(value), value, RANGE),
            _ => Err(RuleError::Key { seen: part.into() }),
        }
    }

    /// Refuses ports beside a protocol for which [`Fields`] has no ports.
    fn check_ports(&self) -> Result<(), RuleError> {
        let named = [("sport", &self.src_ports), ("dport", &self.dst_ports)];
        let named = named.into_iter().find_map(|(key, ports)| ports.as_ref().map(|_| key));
        match (named, self.protocol) {
            (Some(key), Some(protocol)) if !has_ports(protocol) => Err(RuleError::Portless { key, protocol }),
            _ => Ok(()),
        }
    }
}

const PREFIX: &str = "an IPv4 prefix without host bits, as 10.0.0.0/8, or an address";
const RANGE: &str = "a port, or two with - between, the lower first, as 1000-2000";

fn put<T>(
    key: &'static str,
    place: &mut Option<T>,
    value: Option<T>,
    seen: &str,
    right: &'static str,
) -> Result<(), RuleError> {
    let Some(value) = value else { return Err(RuleError::Value { key, seen: seen.into(), right }) };
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(RuleError::Twice { key }),
    }
}

/// Parses a number, decimal or hexadecimal, or a name for one.
fn named<T: Copy + TryFrom<u32>>(text: &str, names: &[(&str, T)]) -> Option<T> {
    if let Some((_, number)) = names.iter().find(|(name, _)| *name == text) {
        return Some(*number);
    }
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => text.parse().ok()?,
    };
    T::try_from(number).ok()
}

fn prefix(text: &str) -> Option<Ipv4Net> {
    let net: Ipv4Net = text.parse().or_else(|_| text.parse::<Ipv4Addr>().map(Ipv4Net::from)).ok()?;
    (net.trunc() == net).then_some(net)
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.parse().ok()?..=last.parse().ok()?;
    (!range.is_empty()).then_some(range)
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let mut parts = text.split(',').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let action = Action::NAMES.into_iter().find(|(name, _)| *name == first);
        let Some((_, action)) = action else { return Err(RuleError::Action { seen: first.into() }) };
        let mut rule = Rule::all(action);
        parts.try_for_each(|part| rule.set(part))?;
        rule.check_ports()?;
        Ok(rule)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Action::NAMES.into_iter().find(|(_, action)| action == self).map_or("", |(name, _)| name))
    }
}

impl fmt::Display for Rule {
    /// Writes the form that `from_str` parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |name: &'static str| move |number: String| format!(",{name}={number}");
        let ports = |range: &RangeInclusive<u16>| match range.start() == range.end() {
            true => range.start().to_string(),
            false => format!("{}-{}", range.start(), range.end()),
        };
        let parts = [
            self.ingress.map(|port| port.to_string()).map(name("in")),
            self.ethertype.map(|ethertype| format!("{ethertype:#06x}")).map(name("ethertype")),
            self.src.map(|net| net.to_string()).map(name("src")),
            self.dst.map(|net| net.to_string()).map(name("dst")),
            self.protocol.map(|protocol| protocol.to_string()).map(name("proto")),
            self.src_ports.as_ref().map(ports).map(name("sport")),
            self.dst_ports.as_ref().map(ports).map(name("dport")),
        ];
        write!(f, "{}{}", self.action, parts.into_iter().flatten().collect::<String>())
    }
}
