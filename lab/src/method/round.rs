//! The interleaving: in each round every variant runs once, in shuffled order, on the same cores.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::pauses::Gaps;
use super::placement::{self, Placement};
use super::quantile::{median, quantile};
use super::random::Random;
use super::ratio::Interval;
use super::window::Windows;
use crate::json::Params;

/// A variant's name and parameters, as they are in the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Label {
    /// `netmem`, `netmem/…`, `limit`, or a rival's name.
    pub variant: String,
    /// The properties of the variant.
    pub params: Params,
}

/// Something that can be measured together with others.
pub trait Variant {
    /// Returns its name and parameters.
    fn label(&self) -> &Label;

    /// Runs it for `windows` windows.
    fn round(&mut self, windows: usize) -> Windows;
}

/// The amount of measurement in one set-up.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Rounds.
    pub rounds: usize,
    /// Windows per variant and round.
    pub windows: usize,
    /// Seed of the shuffle.
    pub seed: u64,
    /// The core on which each variant has its other side, or `None` if a variant stays on one core.
    pub peer: Option<usize>,
}

/// The values of one variant over all finished rounds. Every variant has the same number of rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The variant.
    pub label: Label,
    /// The median ticks per operation of each round, or `None` if the round has no window.
    pub rounds: Vec<Option<f64>>,
    /// The placement of the two cores in each round: `None` on one core, and if it was not the same before and after.
    #[serde(default)]
    pub placements: Vec<Option<Placement>>,
    /// The number of rounds at the end of each set-up but the last, in rising order. Empty if there was one set-up.
    pub setups: Vec<usize>,
    /// Ticks per operation of every window that counts.
    pub per_op: Vec<f64>,
    /// Windows dropped for a pause.
    pub paused: u64,
    /// Windows dropped because the generator was too slow.
    pub starved: u64,
}

impl Series {
    /// Returns the series of a variant that has not run yet.
    pub fn new(label: Label) -> Self {
        let (rounds, placements) = (Vec::new(), Vec::new());
        Self { label, rounds, placements, setups: Vec::new(), per_op: Vec::new(), paused: 0, starved: 0 }
    }

    fn add(&mut self, (round, placement): (Windows, Option<Placement>)) {
        self.rounds.push(median(&round.per_op));
        self.placements.push(placement);
        self.per_op.extend(round.per_op);
        self.paused += round.paused;
        self.starved += round.starved;
    }

    /// Returns the same variant over both: `self` from the set-ups so far, `last` from one more.
    pub fn followed_by(mut self, last: Self) -> Self {
        self.setups.push(self.rounds.len());
        self.rounds.extend(last.rounds);
        self.placements.extend(last.placements);
        self.per_op.extend(last.per_op);
        self.paused += last.paused;
        self.starved += last.starved;
        self
    }

    /// Returns the ticks per operation at quantile `q` over all windows, or `None` if none counts.
    pub fn at(&self, q: f64) -> Option<f64> {
        quantile(&self.per_op, q)
    }

    /// Returns this series divided by `other`, ticks by ticks inside each round: the median over rounds and its
    /// interval, which includes the differences between set-ups. Returns `None` if no round has both.
    pub fn over(&self, other: &Self, seed: u64) -> Option<Interval> {
        self.over_where(other, seed, |_| true)
    }

    /// The same over the rounds in which the two cores had this placement for both series.
    pub fn over_in(&self, other: &Self, placement: Placement, seed: u64) -> Option<Interval> {
        let is_in = |series: &Self, round: usize| series.placements.get(round) == Some(&Some(placement));
        self.over_where(other, seed, |round| is_in(self, round) && is_in(other, round))
    }

    /// The same over the rounds that `counts` picks.
    fn over_where(&self, other: &Self, seed: u64, counts: impl Fn(usize) -> bool) -> Option<Interval> {
        let ratio = |round: usize| Some((self.rounds[round])? / (*other.rounds.get(round)?)?);
        let ends = self.setups.iter().copied().chain([self.rounds.len()]);
        let mut begin = 0;
        let setups = ends.map(|end| {
            let rounds = (std::mem::replace(&mut begin, end)..end).filter(|round| counts(*round));
            rounds.filter_map(ratio).filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect()
        });
        let setups: Vec<Vec<f64>> = setups.collect();
        Interval::of_median(&setups.iter().map(Vec::as_slice).collect::<Vec<_>>(), seed)
    }
}

/// Runs `variants` round by round until all rounds are done or `stop` is set. A round that was cut short does not
/// count for any variant. The time lost to pauses is added to `gaps`, and `progress` is called with the number of
/// finished rounds.
pub fn interleave(
    variants: &mut [Box<dyn Variant + '_>],
    plan: &Plan,
    stop: &AtomicBool,
    gaps: &mut Gaps,
    progress: &mut dyn FnMut(usize),
) -> Vec<Series> {
    let mut random = Random::new(plan.seed);
    let mut order: Vec<usize> = (0..variants.len()).collect();
    let mut series: Vec<Series> = variants.iter().map(|v| Series::new(v.label().clone())).collect();
    let placement = || plan.peer.and_then(placement::round_trip).map(Placement::of_round_trip);
    let mut before = placement();
    for done in 0..plan.rounds {
        random.shuffle(&mut order);
        let mut round = vec![(Windows::default(), None); variants.len()];
        for &turn in &order {
            // Relaxed: the flag is a request and carries no data.
            if stop.load(Ordering::Relaxed) {
                return series;
            }
            let windows = variants[turn].round(plan.windows);
            gaps.add(windows.gaps);
            let after = placement();
            round[turn] = (windows, after.filter(|_| after == before));
            before = after;
        }
        series.iter_mut().zip(round).for_each(|(series, round)| series.add(round));
        progress(done + 1);
    }
    series
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::method::clock::{Clock, tests::Synthetic};
    use crate::method::window::OpLoop;

    pub(crate) const PLAN: Plan = Plan { rounds: 21, windows: 40, seed: 1, peer: None };

    /// `cost` ticks an operation, up to a tenth more at random. The machine is up to twice as slow from round to
    /// round, and one window of twenty has a pause.
    fn synthetic<'a>(clock: &'a Synthetic, name: &str, cost: f64, seed: u64) -> Box<dyn Variant + 'a> {
        let mut random = Random::new(seed);
        let body = move |ops: u32| {
            let slow = 1.0 + (clock.ticks() / 80_000_000 % 5) as f64 / 5.0;
            let noise = 1.0 + random.below(100) as f64 / 1_000.0;
            let pause = if random.below(20) == 0 { 1_500_000 } else { 0 };
            clock.advance((f64::from(ops) * cost * noise * slow) as u64 + pause);
        };
        let label = Label { variant: name.to_owned(), params: Params::new() };
        Box::new(OpLoop::new(label, clock, Box::new(body)))
    }

    fn compare(cost_a: f64, cost_b: f64) -> Interval {
        let clock = Synthetic::default();
        let mut variants = [synthetic(&clock, "a", cost_a, 1), synthetic(&clock, "b", cost_b, 2)];
        let series =
            interleave(&mut variants, &PLAN, &AtomicBool::new(false), &mut Gaps::default(), &mut |_| {});
        series[0].over(&series[1], PLAN.seed).unwrap()
    }

    #[test]
    fn two_identical_variants_tie() {
        let interval = compare(10.0, 10.0);
        assert!(interval.low <= 1.0 && 1.0 <= interval.high, "{interval:?}");
        assert!(interval.decided(0.05), "{interval:?}");
    }

    #[test]
    fn ten_percent_more_cost_is_found_with_its_size() {
        let interval = compare(11.0, 10.0);
        assert!(interval.low > 1.05 && interval.high < 1.15, "{interval:?}");
        assert!((1.08..1.12).contains(&interval.median), "{interval:?}");
    }

    #[test]
    fn every_variant_runs_once_a_round_and_not_always_in_the_same_order() {
        struct Turn<'a>(Label, usize, &'a std::cell::RefCell<Vec<usize>>);
        impl Variant for Turn<'_> {
            fn label(&self) -> &Label {
                &self.0
            }
            fn round(&mut self, _: usize) -> Windows {
                self.2.borrow_mut().push(self.1);
                Windows { per_op: vec![1.0], ..Windows::default() }
            }
        }
        let turns = std::cell::RefCell::new(Vec::new());
        let label = Label { variant: "a".into(), params: Params::new() };
        let mut variants: Vec<Box<dyn Variant + '_>> =
            (0..3).map(|i| Box::new(Turn(label.clone(), i, &turns)) as Box<dyn Variant>).collect();
        interleave(&mut variants, &PLAN, &AtomicBool::new(false), &mut Gaps::default(), &mut |_| {});
        drop(variants);
        let turns = turns.into_inner();
        let rounds: Vec<&[usize]> = turns.chunks(3).collect();
        assert_eq!(rounds.len(), PLAN.rounds);
        assert!(rounds.iter().all(|round| (0..3).all(|i| round.contains(&i))));
        assert!(rounds.iter().any(|round| *round != rounds[0]));
    }

    #[test]
    fn a_raised_stop_keeps_the_finished_rounds() {
        let clock = Synthetic::default();
        let mut variants = [synthetic(&clock, "a", 10.0, 1), synthetic(&clock, "b", 10.0, 2)];
        let stop = AtomicBool::new(false);
        let series = interleave(&mut variants, &PLAN, &stop, &mut Gaps::default(), &mut |done| {
            stop.store(done == 3, Ordering::Relaxed);
        });
        assert!(series.iter().all(|series| series.rounds.len() == 3 && !series.per_op.is_empty()));
    }

    #[test]
    fn a_round_without_windows_is_left_out_of_the_ratio() {
        let label = Label { variant: "a".into(), params: Params::new() };
        let mut a = Series::new(label);
        let b = Series { rounds: vec![Some(1.0); 6], ..a.clone() };
        a.rounds = vec![Some(2.0), None, Some(2.0), Some(2.0), Some(2.0), Some(2.0)];
        assert_eq!(a.over(&b, 1).map(|interval| (interval.median, interval.count)), Some((2.0, 5)));
    }

    #[test]
    fn a_ratio_of_a_placement_is_of_the_rounds_in_which_both_series_had_it() {
        let label = Label { variant: "a".into(), params: Params::new() };
        let of = |rounds: [f64; 6], placements: [Option<Placement>; 6]| Series {
            rounds: rounds.map(Some).to_vec(),
            placements: placements.to_vec(),
            ..Series::new(label.clone())
        };
        let [near, far] = [Some(Placement::Near), Some(Placement::Far)];
        let a = of([2.0, 2.0, 3.0, 3.0, 9.0, 9.0], [near, near, far, far, near, None]);
        let b = of([1.0; 6], [near, near, far, far, far, None]);
        let median =
            |placement| a.over_in(&b, placement, 1).map(|interval| (interval.median, interval.count));
        assert_eq!(Placement::ALL.map(median), [None, Some((2.0, 2)), Some((3.0, 2))]);
        assert_eq!(a.over(&b, 1).map(|interval| interval.count), Some(6));
    }

    #[test]
    fn rounds_across_cores_know_their_placement_and_those_on_one_core_have_none() {
        let clock = Synthetic::default();
        for peer in [None, netmem::system::cpu::allowed().unwrap().last().copied()] {
            let mut variants = [synthetic(&clock, "a", 10.0, 1)];
            let plan = Plan { peer, ..PLAN };
            let series =
                interleave(&mut variants, &plan, &AtomicBool::new(false), &mut Gaps::default(), &mut |_| {});
            assert_eq!(series[0].placements.len(), plan.rounds);
            // The machine may move the cores, but not in each of 21 rounds of a few microseconds.
            assert_eq!(series[0].placements.iter().any(Option::is_some), peer.is_some());
        }
    }

    #[test]
    fn set_ups_that_differ_widen_the_interval_of_a_ratio() {
        let label = Label { variant: "a".into(), params: Params::new() };
        let of = |ticks: &[f64]| {
            let rounds = ticks.iter().map(|ticks| Some(*ticks)).collect();
            Series { rounds, ..Series::new(label.clone()) }
        };
        let base = of(&[1.0; 15]);
        let apart = of(&[2.0; 5]).followed_by(of(&[3.0; 5])).followed_by(of(&[4.0; 5]));
        assert_eq!((apart.rounds.len(), &apart.setups[..]), (15, &[5, 10][..]));
        let interval = apart.over(&base, 1).unwrap();
        assert_eq!((interval.low, interval.median, interval.high), (2.0, 3.0, 4.0));
    }
}
