//! The paths of a group's frees, by SLUB's own counters. Frees called warm must not reach a slab's word, and those
//! called cold must.

use super::usage::Use;
use crate::bench::Bench;
use crate::experiments::slab_working_set::Frees;

/// Frees of all groups of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Paths {
    warm: Frees,
    cold: Frees,
    /// Groups whose counters did not prove their name.
    false_names: u64,
}

impl Paths {
    /// Adds the paths of a group's frees.
    pub(super) fn add(&mut self, usage: Use, frees: Frees) {
        let (sum, is_so) = match usage {
            Use::Warm => (&mut self.warm, frees.slow == 0),
            Use::Cold | Use::ColdWrite => (&mut self.cold, frees.slow >= frees.fast),
            Use::InTurn | Use::Hot | Use::All => return,
        };
        *sum = Frees { fast: sum.fast + frees.fast, slow: sum.slow + frees.slow };
        self.false_names += u64::from(!is_so);
    }

    /// Checks that all warm frees were fast ones, and that every cold group had slow ones.
    pub(super) fn check(self, bench: &mut Bench<'_>) {
        let Self { warm, cold, false_names } = self;
        let detail = format!(
            "free_slowpath {} of {} warm frees, {} of {} cold ones; {false_names} groups against their name",
            warm.slow,
            warm.fast + warm.slow,
            cold.slow,
            cold.fast + cold.slow
        );
        bench.check("warm frees reach no slab's word, and most cold ones do", false_names == 0, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;

    #[test]
    fn a_slow_free_among_warm_ones_and_fast_ones_among_cold_are_seen() {
        let holds = |usage, fast, slow| {
            let mut paths = Paths::default();
            paths.add(usage, Frees { fast, slow });
            report_of(false, |bench| paths.check(bench)).ok()
        };
        assert!(holds(Use::Warm, 1_000, 0) && !holds(Use::Warm, 1_000, 1));
        assert!(holds(Use::ColdWrite, 400, 600) && !holds(Use::ColdWrite, 600, 400));
        assert!(holds(Use::All, 600, 400) && holds(Use::Hot, 600, 400));
    }
}
