//! Rules and routes that the kernel uses and a follower does not support.

use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use std::collections::BTreeSet;
use std::fmt;

/// Maximum number of reported rules.
const RULES: usize = 16;
/// The rules of every kernel: priority and table (`local`, `main`, `default`).
const USUAL: [(u32, u32); 3] = [(0, 255), (32_766, 254), (32_767, 253)];

/// A feature by which the kernel forwards packets and that the follower does not support.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Unsupported {
    /// A rule (`ip rule`) other than those of every kernel.
    Rule {
        /// True for an IPv6 rule.
        is_ipv6: bool,
        /// Its priority.
        priority: u32,
    },
    /// A route of the table `default` (253).
    DefaultTableRoute(IpNet),
    /// A route for one type of service (`tos`).
    TosRoute(IpNet),
    /// A route for packets from some sources (`from`).
    SourceSpecificRoute(IpNet),
}

/// `ip rule 100 (IPv4): …`
impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let these = "and others like it";
        match self {
            Unsupported::Rule { is_ipv6, priority } => {
                let (family, option) = if *is_ipv6 { ("IPv6", " -6") } else { ("IPv4", "") };
                write!(
                    f,
                    "rule {priority} of {family} (ip{option} rule): packets go by the tables local and main alone"
                )
            }
            Unsupported::DefaultTableRoute(prefix) => {
                write!(f, "route {prefix} of the table default (253), {these}: local and main alone count")
            }
            Unsupported::TosRoute(prefix) => {
                write!(
                    f,
                    "route {prefix} for one kind of service (tos), {these}: routes for all packets alone count"
                )
            }
            Unsupported::SourceSpecificRoute(prefix) => {
                write!(
                    f,
                    "route {prefix} for some sources (from), {these}: routes for all packets alone count"
                )
            }
        }
    }
}

impl Unsupported {
    /// Returns the rule that a message reports as existing, or None for one of the usual rules.
    pub(crate) fn rule(message: &RuleMessage) -> Option<Unsupported> {
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
        (!is_usual).then_some(Unsupported::Rule { is_ipv6, priority })
    }
}

/// The unsupported features that were reported, or are to be: each rule once, and the first route of each kind.
#[derive(Debug, Default)]
pub(crate) struct UnsupportedReport {
    rules: BTreeSet<Unsupported>,
    /// The kinds of routes that were added.
    kinds: [bool; 3],
    new: Vec<Unsupported>,
}

impl UnsupportedReport {
    /// Adds a feature, which may have been added before.
    pub(crate) fn add(&mut self, what: Unsupported) {
        let kind = match &what {
            Unsupported::Rule { .. } => {
                if self.rules.len() < RULES && self.rules.insert(what.clone()) {
                    self.new.push(what);
                }
                return;
            }
            Unsupported::DefaultTableRoute(_) => 0,
            Unsupported::TosRoute(_) => 1,
            Unsupported::SourceSpecificRoute(_) => 2,
        };
        if !std::mem::replace(&mut self.kinds[kind], true) {
            self.new.push(what);
        }
    }

    /// Returns the features that are new since the last call.
    pub(crate) fn take_new(&mut self) -> Vec<Unsupported> {
        std::mem::take(&mut self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_route_of_a_kind_and_the_first_rules_are_reported_once() {
        let mut report = UnsupportedReport::default();
        let prefix = |n: u8| IpNet::new([10, n, 0, 0].into(), 16).unwrap();
        (0..9).for_each(|n| report.add(Unsupported::TosRoute(prefix(n))));
        report.add(Unsupported::DefaultTableRoute(prefix(1)));
        assert_eq!(
            report.take_new(),
            [Unsupported::TosRoute(prefix(0)), Unsupported::DefaultTableRoute(prefix(1))]
        );
        let rule = |priority| Unsupported::Rule { is_ipv6: false, priority };
        (0..99).chain(0..99).for_each(|priority| report.add(rule(priority)));
        report.add(Unsupported::TosRoute(prefix(9)));
        assert_eq!(report.take_new(), (0..16).map(rule).collect::<Vec<_>>());
        assert_eq!(report.take_new(), []);
    }
}
