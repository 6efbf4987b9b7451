//! What became of packets besides the drops: rules and ICMP errors. And the tables by which they are routed.

use super::super::page::{Kind, Page};
use crate::forward::report::IcmpReport;
use netmem::forward::filter::RuleCount;
use std::collections::BTreeMap;

/// Writes the counts of the rules. Rules with the same text are one.
pub fn rules(page: &mut Page, rules: &[RuleCount], unmatched: u64) {
    let mut sums = BTreeMap::<String, (u64, u64)>::new();
    for count in rules {
        let sum = sums.entry(count.rule.to_string()).or_default();
        *sum = (sum.0 + count.packets, sum.1 + count.bytes);
    }
    let help = "Packets for which this rule was the first that matched, of all workers.";
    let mut family = page.family("netmem_rule_packets", Kind::Counter, help);
    sums.iter().for_each(|(rule, (packets, _))| family.sample(&[("rule", rule)], packets));
    let mut family = page.family("netmem_rule_bytes", Kind::Counter, "Bytes of these packets.");
    sums.iter().for_each(|(rule, (_, bytes))| family.sample(&[("rule", rule)], bytes));
    let help = "Packets that no rule matched, of all workers.";
    page.family("netmem_rule_unmatched_packets", Kind::Counter, help).sample(&[], unmatched);
}

/// Writes the counts of ICMP errors.
pub fn icmp(page: &mut Page, icmp: &IcmpReport) {
    let help = "ICMP errors made, by message, of all workers.";
    let mut family = page.family("netmem_icmp_errors", Kind::Counter, help);
    icmp.sent.iter().for_each(|(message, count)| family.sample(&[("message", message)], count));
    let help = "Dropped packets about which an ICMP error could have been sent and was not, by reason, of all workers.";
    let mut family = page.family("netmem_icmp_suppressed_errors", Kind::Counter, help);
    icmp.suppressed.iter().for_each(|(reason, count)| family.sample(&[("reason", reason)], count));
}

/// Writes the sizes of the tables that follow the kernel's: the routes, and the neighbours that answer and those that do not.
pub fn tables(page: &mut Page, routes: usize, (known, failed): (usize, usize)) {
    let help = "Routes, static ones and the kernel's. Each of several for one prefix counts.";
    page.family("netmem_routes", Kind::Gauge, help).sample(&[], routes);
    let mut family = page.family("netmem_neighbours", Kind::Gauge, "Neighbours whose state is known.");
    family.sample(&[("state", "known")], known);
    family.sample(&[("state", "failed")], failed);
}
