//! Rules and routes that the kernel uses and a follower does not support.

use ipnet::IpNet;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of rules that one call reports by name.
const NAMED_MAX: usize = 16;
/// Maximum number of rules that are remembered.
const RULES_MAX: usize = 1024;
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
    /// Further rules that came at the same time. They are not named.
    FurtherRules {
        /// Their number.
        count: usize,
    },
    /// A route of the table `default` (253).
    DefaultTableRoute(IpNet),
    /// A route for one type of service (`tos`).
    TosRoute(IpNet),
    /// A route for packets from some sources (`from`).
    SourceSpecificRoute(IpNet),
    /// A route with a path that encapsulates its packets (`encap`).
    EncapsulatingRoute(IpNet),
    /// A route whose paths belong to a next-hop object (`nhid`), and that the kernel reports without them.
    NextHopObjectRoute(IpNet),
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
            Unsupported::FurtherRules { count } => {
                write!(
                    f,
                    "{count} more rules (ip rule, ip -6 rule): packets go by the tables local and main alone"
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
            Unsupported::EncapsulatingRoute(prefix) => {
                write!(
                    f,
                    "route {prefix} that encapsulates packets (encap), {these}: packets of such a path are dropped (no_route)"
                )
            }
            Unsupported::NextHopObjectRoute(prefix) => {
                write!(
                    f,
                    "route {prefix} with a next-hop object (nhid), {these}: the kernel reports it without paths and its packets are \
                     dropped (no_route): sysctl -w net.ipv4.nexthop_compat_mode=1, then change a next-hop object or restart"
                )
            }
        }
    }
}

impl Unsupported {
    /// Returns the rule that a message is about, or None for one of the usual rules.
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

/// The unsupported features that were reported, or are to be: each rule once while it exists, and the first route of each
/// kind.
#[derive(Debug, Default)]
pub(crate) struct UnsupportedReport {
    /// The number of existing rules of each family and priority.
    rules: BTreeMap<Unsupported, usize>,
    /// The kinds of routes that were added.
    kinds: [bool; 5],
    new: Vec<Unsupported>,
}

impl UnsupportedReport {
    /// Adds a feature. A route may have been added before.
    pub(crate) fn add(&mut self, what: Unsupported) {
        let kind = match &what {
            Unsupported::Rule { .. } | Unsupported::FurtherRules { .. } => return self.add_rule(what),
            Unsupported::DefaultTableRoute(_) => 0,
            Unsupported::TosRoute(_) => 1,
            Unsupported::SourceSpecificRoute(_) => 2,
            Unsupported::EncapsulatingRoute(_) => 3,
            Unsupported::NextHopObjectRoute(_) => 4,
        };
        if !std::mem::replace(&mut self.kinds[kind], true) {
            self.new.push(what);
        }
    }

    fn add_rule(&mut self, rule: Unsupported) {
        if let Some(count) = self.rules.get_mut(&rule) {
            *count += 1;
        } else {
            // Beyond the maximum, a rule is reported each time that the whole state is read.
            if self.rules.len() < RULES_MAX {
                self.rules.insert(rule.clone(), 1);
            }
            self.new.push(rule);
        }
    }

    /// Removes a rule, so that it is reported again if it comes back.
    pub(crate) fn remove_rule(&mut self, rule: &Unsupported) {
        if let Some(count) = self.rules.get_mut(rule) {
            *count -= 1;
            if *count == 0 {
                self.rules.remove(rule);
            }
        }
    }

    /// Replaces all rules by those of a dump. Those that were known are not reported again.
    pub(crate) fn replace_rules(&mut self, rules: impl Iterator<Item = Unsupported>) {
        let before = std::mem::take(&mut self.rules);
        let reported = self.new.len();
        rules.for_each(|rule| self.add_rule(rule));
        let new = self.new.split_off(reported);
        self.new.extend(new.into_iter().filter(|rule| !before.contains_key(rule)));
    }

    /// Returns the number of rules that exist and are not supported, up to a maximum.
    pub(crate) fn rules(&self) -> usize {
        self.rules.values().sum()
    }

    /// Returns the features that are new since the last call. If many rules are new, the last entry counts those that
    /// are not named.
    pub(crate) fn take_new(&mut self) -> Vec<Unsupported> {
        let (mut rules, mut new): (Vec<_>, Vec<_>) = std::mem::take(&mut self.new)
            .into_iter()
            .partition(|what| matches!(what, Unsupported::Rule { .. }));
        let count = rules.split_off(rules.len().min(NAMED_MAX)).len();
        new.append(&mut rules);
        if count > 0 {
            new.push(Unsupported::FurtherRules { count });
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_route_of_a_kind_and_each_rule_are_reported_once() {
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
        let further = Unsupported::FurtherRules { count: 99 - 16 };
        assert_eq!(report.take_new(), (0..16).map(rule).chain([further]).collect::<Vec<_>>());
        assert_eq!((report.take_new(), report.rules()), (vec![], 2 * 99));
    }

    /// Seen: 16 rules were named in a run. After all had been deleted, a rule by which the kernel routed one host's
    /// packets elsewhere was not named, and these packets were forwarded by the main table.
    #[test]
    fn a_rule_that_comes_after_many_others_came_and_went_is_reported() {
        let mut report = UnsupportedReport::default();
        let rule = |priority| Unsupported::Rule { is_ipv6: false, priority };
        (0..3000).for_each(|priority| report.add(rule(priority)));
        assert_eq!(report.take_new().len(), 17);
        (0..3000).for_each(|priority| report.remove_rule(&rule(priority)));
        assert_eq!(report.rules(), 0);
        report.add(rule(5));
        assert_eq!(report.take_new(), [rule(5)]);
        // Removed and added while the follower could not see it.
        report.replace_rules([rule(5), rule(6)].into_iter());
        assert_eq!((report.take_new(), report.rules()), (vec![rule(6)], 2));
        report.replace_rules([].into_iter());
        report.replace_rules([rule(5)].into_iter());
        assert_eq!(report.take_new(), [rule(5)]);
    }
}
