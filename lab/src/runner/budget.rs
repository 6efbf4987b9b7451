//! The time limit of a run, and its distribution.

use std::time::{Duration, Instant};

use super::turn::Turns;

/// The factor by which a turn may exceed its estimate.
pub(super) const MARGIN: f64 = 1.25;

/// The time limit from the beginning of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    begun: Instant,
    most: Option<Duration>,
}

impl Budget {
    /// Begins now. `None` is no limit.
    pub(super) fn new(most: Option<Duration>) -> Self {
        Self { begun: Instant::now(), most }
    }

    /// Returns true if a turn with this estimate still ends within the limit.
    pub(super) fn affords(&self, seconds: f64) -> bool {
        self.most
            .is_none_or(|most| self.begun.elapsed().as_secs_f64() + MARGIN * seconds <= most.as_secs_f64())
    }

    /// Returns the remaining time, if there is a limit.
    pub(super) fn left(&self) -> Option<Duration> {
        self.most.map(|most| most.saturating_sub(self.begun.elapsed()))
    }
}

/// Returns the unfinished experiments in the order of their turns. The registry's order applies while one has fewer
/// set-ups than the minimum. After that the widest intervals come first.
pub(super) fn order(all: &[Turns<'_>], setup: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..all.len()).filter(|&place| !all[place].over).collect();
    if places.iter().all(|&place| setup > all[place].least()) {
        places.sort_by(|&a, &b| all[b].widest().total_cmp(&all[a].widest()));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::EXPERIMENTS;
    use crate::json::{Ratio, Report, tests::sample};
    use crate::runner::Options;
    use crate::settings::Settings;

    #[test]
    fn after_the_least_set_ups_those_with_the_widest_intervals_go_first() {
        let (settings, options) = (Settings::new(&[], true, &[]).unwrap(), Options::default());
        let turns = |half: f64, undecided: bool| {
            let mut turns = Turns::new(&EXPERIMENTS[0], &settings, &options);
            let (low, median, high) = (1.0 - half, 1.0, 1.0 + half);
            let ratio = Ratio { low, median, high, undecided, ..sample().ratios.remove(0) };
            turns.report = Some(Report { ratios: vec![ratio], ..sample() });
            turns
        };
        let mut all = [turns(0.1, true), turns(0.9, false), turns(0.3, true), turns(0.2, true)];
        let least = all[0].least();
        assert_eq!(order(&all, least), [0, 1, 2, 3], "before that in turn");
        assert_eq!(order(&all, least + 1), [2, 3, 0, 1]);
        all[2].over = true;
        assert_eq!(order(&all, least + 1), [3, 0, 1]);
    }

    #[test]
    fn a_turn_that_would_go_over_the_budget_is_not_afforded() {
        let budget = Budget::new(Some(Duration::from_secs(100)));
        assert!(budget.affords(70.0) && !budget.affords(81.0));
        assert!(Budget::new(None).affords(1e9) && Budget::new(None).left().is_none());
        assert!(!Budget::new(Some(Duration::ZERO)).affords(0.1));
    }
}
