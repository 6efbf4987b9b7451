//! The counts of the rules, over all workers.

use netmem::forward::filter::{FilterControl, RuleCount};

/// Returns the rules, which are the same for every worker, with the sum of their counts.
pub fn counted(controls: &[FilterControl]) -> Vec<RuleCount> {
    let add = |mut all: Vec<RuleCount>, its: Vec<RuleCount>| {
        for (sum, one) in all.iter_mut().zip(its) {
            (sum.packets, sum.bytes) = (sum.packets + one.packets, sum.bytes + one.bytes);
        }
        all
    };
    controls.iter().map(FilterControl::rules).reduce(add).unwrap_or_default()
}

/// Returns the packets that no rule matched.
pub fn unmatched(controls: &[FilterControl]) -> u64 {
    controls.iter().map(FilterControl::unmatched).sum()
}
