//! Rules and routes that the kernel uses and a follower does not.

use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use std::collections::BTreeSet;
use std::fmt;

/// Maximum number of reported rules.
const RULES: usize = 16;
/// The rules of every kernel: priority and table (`local`, `main`, `default`).
const USUAL: [(u32, u32); 3] = [(0, 255), (32_766, 254), (32_767, 253)];

/// Something that the kernel would use to forward packets, and the follower does not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LeftOut {
    /// A rule (`ip rule`) other than those of every kernel.
    Rule {
        /// True for an IPv6 rule.
        is_ipv6: bool,
        /// Its priority.
        priority: u32,
    },
    /// A route of the table `default` (253).
    InDefault(IpNet),
    /// A route for one type of service (`tos`).
    OfService(IpNet),
    /// A route for packets from some sources (`from`).
    FromSources(IpNet),
}

/// `ip rule 100 (IPv4): …`
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let these = "and others like it";
        match self {
            LeftOut::Rule { is_ipv6, priority } => {
                let (family, option) = if *is_ipv6 { ("IPv6", " -6") } else { ("IPv4", "") };
                write!(
                    f,
                    "rule {priority} of {family} (ip{option} rule): packets go by the tables local and main alone"
                )
            }
            LeftOut::InDefault(prefix) => {
                write!(f, "route {prefix} of the table default (253), {these}: local and main alone count")
            }
            LeftOut::OfService(prefix) => {
                write!(
                    f,
                    "route {prefix} for one kind of service (tos), {these}: routes for all packets alone count"
                )
            }
            LeftOut::FromSources(prefix) => {
                write!(
                    f,
                    "route {prefix} for some sources (from), {these}: routes for all packets alone count"
                )
            }
        }
    }
}

impl LeftOut {
    /// Returns the rule that a message reports as existing, or None for one of the usual rules.
    pub(crate) fn rule(message: &RuleMessage) -> Option<LeftOut> {
        let header = &message.header;
        let (mut priority, mut table, mut is_usual) = (0, u32::from(header.table), true);
        for attribute in &message.attributes {
            match attribute {
                RuleAttribute::Priority(its) => priority = *its,
                RuleAttribute::Table(its) => table = *its,
                // The kernel sends these with every rule. A `SuppressPrefixLen` of all ones means none.
                RuleAttribute::SuppressPrefixLen(u32::MAX) | RuleAttribute::Protocol(_) => {}
                _ => is_usual = false,
            }
        }
        let of_all = (header.dst_len, header.src_len, header.tos) == (0, 0, 0);
        let is_ipv6 = header.family == AddressFamily::Inet6;
        let is_usual = is_usual && of_all && USUAL.contains(&(priority, table));
        (!is_usual).then_some(LeftOut::Rule { is_ipv6, priority })
    }
}

/// What was left out: each rule once, and the first route of each kind.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    rules: BTreeSet<LeftOut>,
    /// The kinds of routes that were noted.
    kinds: [bool; 3],
    new: Vec<LeftOut>,
}

impl Noted {
    /// Notes an item, which may have been noted before.
    pub(crate) fn note(&mut self, what: LeftOut) {
        let kind = match &what {
            LeftOut::Rule { .. } => {
                if self.rules.len() < RULES && self.rules.insert(what.clone()) {
                    self.new.push(what);
                }
                return;
            }
            LeftOut::InDefault(_) => 0,
            LeftOut::OfService(_) => 1,
            LeftOut::FromSources(_) => 2,
        };
        if !std::mem::replace(&mut self.kinds[kind], true) {
            self.new.push(what);
        }
    }

    /// Returns the items that are new since the last call.
    pub(crate) fn take(&mut self) -> Vec<LeftOut> {
        std::mem::take(&mut self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_route_is_told_once_and_of_many_rules_the_first() {
        let mut noted = Noted::default();
        let prefix = |n: u8| IpNet::new([10, n, 0, 0].into(), 16).unwrap();
        (0..9).for_each(|n| noted.note(LeftOut::OfService(prefix(n))));
        noted.note(LeftOut::InDefault(prefix(1)));
        assert_eq!(noted.take(), [LeftOut::OfService(prefix(0)), LeftOut::InDefault(prefix(1))]);
        let rule = |priority| LeftOut::Rule { is_ipv6: false, priority };
        (0..99).chain(0..99).for_each(|priority| noted.note(rule(priority)));
        noted.note(LeftOut::OfService(prefix(9)));
        assert_eq!(noted.take(), (0..16).map(rule).collect::<Vec<_>>());
        assert_eq!(noted.take(), []);
    }
}
