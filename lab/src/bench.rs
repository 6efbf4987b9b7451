//! The interface that an experiment uses during a run: settings, measurement, and the report's rows, ratios, checks
//! and notes.

mod checks;
mod lasting;

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::history::{History, Lengths, is_asked};
use crate::json::{Check, Counters, NOTHING, Params, Pauses, Published, Ratio, Report, Row, shared};
use crate::method::clock::{Clock, Tsc};
use crate::method::pauses::Gaps;
use crate::method::placement::{self, PARAMETER as PLACEMENT, Placement};
use crate::method::ratio::Interval;
use crate::method::round::{Label, Plan, Series, Variant, interleave};
use crate::metric::Metric;
use crate::settings::Settings;

/// The share of windows that may be lost to a slow generator before the run's result is void.
pub const STARVED_MAX: f64 = 0.2;

/// Minimum number of set-ups from which the ratio of a placement comes: an interval over fewer is too narrow.
const PLACEMENT_SETUPS: usize = 5;

/// Windows of a variant in a round that does not count.
const UNCOUNTED: usize = 8;

/// The note of a report that only counts time.
const NO_COUNTERS: &str = "no hardware counters in this experiment: slab-descriptor counts instructions, branches and \
    last-level loads, by perf_event_open where the machine has counters, and by cachegrind where valgrind is installed";

/// Whether a comparison stays on one core. This sets the maximum width of its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// One core: decided within 5 %.
    Same,
    /// Across cores: decided within 15 %.
    Cross,
}

impl Cores {
    /// Returns the half-width of an interval, as a share of its median, up to which the ratio counts as decided.
    pub fn half_width(self) -> f64 {
        match self {
            Self::Same => 0.05,
            Self::Cross => 0.15,
        }
    }
}

/// The amount of measurement in one set-up: rounds, and windows of every variant in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Rounds.
    pub rounds: usize,
    /// Windows per variant and round.
    pub windows: usize,
}

impl Effort {
    /// Returns the share of each group when `groups` share the rounds, at least one round.
    pub fn shared_by(self, groups: usize) -> Self {
        Self { rounds: (self.rounds / groups.max(1)).max(1), ..self }
    }
}

/// Two variants, by index, and the metric of their ratio.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// The numerator.
    pub a: usize,
    /// The denominator.
    pub b: usize,
    /// The metric that is divided.
    pub metric: Metric,
}

/// A failed step of an experiment's set-up, with the product's error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetUpError {
    /// The step.
    pub step: &'static str,
    /// The cause and its remedy.
    pub cause: String,
}

impl SetUpError {
    /// Returns a function for `map_err`: the error of `step`.
    pub fn at<E: Display>(step: &'static str) -> impl Fn(E) -> Self {
        move |cause| Self { step, cause: cause.to_string() }
    }
}

/// One set-up of one experiment.
pub struct Bench<'a> {
    /// The time stamp counter.
    pub clock: Tsc,
    /// Cores that this process may use. The caller's thread is pinned to the first.
    pub cores: Vec<usize>,
    settings: &'a Settings,
    stop: &'a AtomicBool,
    /// Called with the number of finished rounds, and the maximum number of rounds.
    progress: &'a mut dyn FnMut(usize, usize),
    /// Rounds finished by the group that was cut short.
    cut_short: Option<usize>,
    /// Number of measured groups, and of sections done once.
    groups: usize,
    sections: usize,
    /// Failed checks of this set-up.
    failed: Vec<Check>,
    /// Those of every variant's rounds across cores.
    placements: Vec<Option<Placement>>,
    history: History,
    report: Report,
}

impl<'a> Bench<'a> {
    /// Makes a set-up that follows those of `history` and fills `report`.
    pub fn new(
        report: Report,
        history: History,
        cores: Vec<usize>,
        settings: &'a Settings,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(usize, usize),
    ) -> Self {
        let (clock, failed, placements) = (Tsc::new(), Vec::new(), Vec::new());
        let (cut_short, groups, sections) = (None, 0, 0);
        Self {
            clock,
            cores,
            settings,
            stop,
            progress,
            cut_short,
            groups,
            sections,
            failed,
            placements,
            history,
            report,
        }
    }

    /// Returns the value of a key of this experiment.
    pub fn setting(&self, key: &str) -> u64 {
        self.settings.get(key)
    }

    /// Returns true once the run has been asked to end. Groups that have not begun need not be set up then.
    pub fn stopped(&self) -> bool {
        // Relaxed: the flag is a request and carries no data.
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns the flag that is set when the run has been asked to end, for code that waits elsewhere.
    pub fn stop(&self) -> &'a AtomicBool {
        self.stop
    }

    /// Returns this set-up's part of the effort that the method's settings ask for.
    pub fn effort(&self) -> Effort {
        let rounds = self.setting("rounds").div_ceil(self.setting("setups").max(1));
        Effort { rounds: rounds as usize, windows: self.setting("windows") as usize }
    }

    /// Measures `variants` in interleaved rounds and reports the ratios. The experiment itself reports the rows,
    /// from the returned series. These include earlier set-ups' values for the same group: the set-ups of an
    /// experiment measure the same groups in the same order.
    pub fn measure(
        &mut self,
        variants: &mut [Box<dyn Variant + '_>],
        comparisons: &[Comparison],
        cores: Cores,
    ) -> Vec<Series> {
        self.measure_with(variants, comparisons, cores, self.effort())
    }

    /// The same for one of several groups that share the effort of the run: see [`Effort::shared_by`].
    ///
    /// A group is not measured again if, at a check, its set-ups have decided all its ratios (see ADR 0030). Its
    /// variants then run for one short round that does not count, so that the experiment's checks of them have
    /// data.
    pub fn measure_with(
        &mut self,
        variants: &mut [Box<dyn Variant + '_>],
        comparisons: &[Comparison],
        cores: Cores,
        effort: Effort,
    ) -> Vec<Series> {
        let seed = self.setting("seed");
        let series = match self.settled(variants, comparisons, cores) {
            Some(series) => {
                let plan = Plan { rounds: 1, windows: UNCOUNTED, seed, peer: None };
                interleave(variants, &plan, self.stop, &mut Gaps::default(), &mut |_| {});
                series
            }
            None => self.measure_set_up(variants, effort, cores),
        };
        self.groups += 1;
        for comparison in comparisons {
            self.ratio(&series, comparison, cores.half_width(), seed);
        }
        if cores == Cores::Cross {
            self.placements.extend(series.iter().flat_map(|series| &series.placements));
        }
        series
    }

    /// Returns the values of earlier set-ups for the current group, if they suffice.
    fn settled(
        &self,
        variants: &[Box<dyn Variant + '_>],
        comparisons: &[Comparison],
        cores: Cores,
    ) -> Option<Vec<Series>> {
        let series = self.history.of(self.groups);
        let same = series.iter().map(|series| &series.label).eq(variants.iter().map(|one| one.label()));
        let decided = |Comparison { a, b, .. }: &Comparison| {
            let ratio = self.over(&series[*a], &series[*b]);
            ratio.is_some_and(|ratio| !ratio.too_few && ratio.decided(cores.half_width()))
        };
        let is_asked = || is_asked(setups(series), self.setting("setups").max(1) as usize);
        (same && is_asked() && comparisons.iter().all(decided)).then(|| series.to_vec())
    }

    /// Measures one more set-up's rounds of the current group, and appends them to the earlier ones.
    fn measure_set_up(
        &mut self,
        variants: &mut [Box<dyn Variant + '_>],
        effort: Effort,
        cores: Cores,
    ) -> Vec<Series> {
        let Effort { rounds, windows } = effort;
        // Each set-up has its own shuffle.
        let seed = self.setting("seed").wrapping_add(self.history.setups as u64);
        let peer = if cores == Cores::Cross { self.cores.get(1).copied() } else { None };
        let plan = Plan { rounds, windows, seed, peer };
        let progress = &mut *self.progress;
        let on_round = &mut |done| progress(done, rounds);
        let series = interleave(variants, &plan, self.stop, &mut self.history.during, on_round);
        let done = series.first().map_or(0, |series| series.rounds.len());
        self.cut_short = self.cut_short.or(self.stopped().then_some(done));
        let series = self.history.add(self.groups, series);
        for lost in series.iter().filter(|series| done > 0 && series.per_op.is_empty()) {
            self.note(format!("no row for {}: no window of it counts", lost.label.variant));
        }
        series
    }

    /// Reports the ratio over all rounds, and those of the placements in which it is decided if there were several.
    fn ratio(&mut self, series: &[Series], comparison: &Comparison, half_width: f64, seed: u64) {
        let Comparison { a, b, metric } = *comparison;
        let (a, b) = (&series[a], &series[b]);
        let Some(ticks) = self.over(a, b) else { return };
        let too_few = ticks.too_few;
        let undecided = too_few || !ticks.decided(half_width);
        let params = shared(&a.label.params, &b.label.params);
        let reported = |ticks: Interval, params: Params| {
            let Interval { median, low, high, .. } =
                if metric.falls_with_ticks() { ticks.inverted() } else { ticks };
            let [median, low, high] = [median, low, high].map(rounded);
            let [a, b] = [a, b].map(|series| series.label.variant.clone());
            let metric = metric.name().to_owned();
            Ratio { a, b, params, metric, median, low, high, undecided: too_few, too_few }
        };
        self.report.ratios.push(Ratio { undecided, ..reported(ticks, params.clone()) });
        let seen = Placement::ALL.map(|placement| (placement, a.over_in(b, placement, seed)));
        // If there was one placement only, its ratio is the one above.
        if seen.iter().filter(|(_, ticks)| ticks.is_some()).count() > 1 {
            for (placement, ticks) in seen {
                // The rounds of one set-up agree better than those of several.
                let stands = |ticks: &Interval| ticks.setups >= PLACEMENT_SETUPS && ticks.decided(half_width);
                let Some(ticks) = ticks.filter(stands) else { continue };
                let mut params = params.clone();
                params.insert(PLACEMENT.to_owned(), placement.name().into());
                self.report.ratios.push(reported(ticks, params));
            }
        }
    }

    /// Returns `a` divided by `b`, ticks by ticks, or `None` if no round has both.
    ///
    /// It is marked if it comes from fewer set-ups than the run shall have at least, or from fewer set-ups or rounds
    /// than an interval needs. So it is in a run that ended early, whenever its variants changed from one set-up to the
    /// next, and if a set-up has no round with counted windows of both.
    pub fn over(&self, a: &Series, b: &Series) -> Option<Interval> {
        let ticks = a.over(b, self.setting("seed"))?;
        let too_few = ticks.too_few || ticks.setups < self.setting("setups") as usize;
        Some(Interval { too_few, ..ticks })
    }

    /// Reports one metric of one variant. Reports nothing if no window of it counts, which
    /// [`measure`](Self::measure) notes.
    pub fn row(&mut self, series: &Series, metric: Metric, published: Option<Published>) {
        let at = |q: f64| {
            let q = if metric.falls_with_ticks() { 1.0 - q } else { q };
            series.at(q).map(|ticks| rounded(metric.of(ticks, self.clock.ticks_per_ns())))
        };
        let (Some(p10), Some(median), Some(p90)) = (at(0.1), at(0.5), at(0.9)) else { return };
        self.report.rows.push(Row {
            variant: series.label.variant.clone(),
            params: series.label.params.clone(),
            metric: metric.name().to_owned(),
            median,
            p10,
            p90,
            windows: series.per_op.len() as u64,
            windows_dropped: series.paused + series.starved,
            published,
        });
    }

    /// Reports latencies, in nanoseconds, of which each set-up has one of its own for each variant, such as a quantile.
    /// The row and the ratios are over the readings of all set-ups. All set-ups of an experiment must read the same
    /// variants, in the same place among its groups.
    pub fn latencies(
        &mut self,
        readings: Vec<(Label, Option<f64>)>,
        comparisons: &[Comparison],
        cores: Cores,
    ) {
        let per_ns = self.clock.ticks_per_ns();
        let series = |(label, ns): (Label, Option<f64>)| {
            let ticks = ns.map(|ns| ns * per_ns);
            let (rounds, placements, per_op) = (vec![ticks], vec![None], ticks.into_iter().collect());
            Series { rounds, placements, per_op, ..Series::new(label) }
        };
        let series = self.history.add(self.groups, readings.into_iter().map(series).collect());
        self.groups += 1;
        for comparison in comparisons {
            self.ratio(&series, comparison, cores.half_width(), self.setting("seed"));
        }
        series.iter().for_each(|one| self.row(one, Metric::LatencyNs, None));
    }

    /// Reports a figure that is not measured in windows but counted once.
    pub fn figure(&mut self, label: Label, metric: Metric, value: f64, published: Option<Published>) {
        self.figures(label, metric, vec![value], published);
    }

    /// The same of several counts: their median, and the least and the largest in place of the percentiles.
    pub fn figures(
        &mut self,
        label: Label,
        metric: Metric,
        mut values: Vec<f64>,
        published: Option<Published>,
    ) {
        values.sort_by(f64::total_cmp);
        let (Some(&least), Some(&most)) = (values.first(), values.last()) else { return };
        let [median, p10, p90] = [values[values.len() / 2], least, most].map(rounded);
        self.report.rows.push(Row {
            variant: label.variant,
            params: label.params,
            metric: metric.name().to_owned(),
            median,
            p10,
            p90,
            windows: values.len() as u64,
            windows_dropped: 0,
            published,
        });
    }

    /// Runs and reports a part in the first set-up only, because its result is the same each time. Everything that
    /// `body` adds to the report is in the report of every set-up. `body` must not measure groups.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn once(&mut self, body: impl FnOnce(&mut Self) -> Result<(), SetUpError>) -> Result<(), SetUpError> {
        self.sections += 1;
        if !self.history.repeat(self.sections - 1, &mut self.report) {
            let before = Lengths::of(&self.report);
            body(self)?;
            self.history.keep(&self.report, &before);
        }
        Ok(())
    }

    /// Adds a note for the reader.
    pub fn note(&mut self, note: impl Into<String>) {
        self.report.notes.push(note.into());
    }

    /// Notes why an experiment that needs root and network namespaces cannot measure here.
    pub fn note_nothing_measured(&mut self, why: impl Display) {
        self.note(format!("{NOTHING}it needs root and network namespaces: {why}"));
    }

    /// Returns the last reported ratio of these two variants over all rounds.
    pub fn reported_ratio(&self, a: &str, b: &str) -> Option<&Ratio> {
        self.last_ratio(|ratio| ratio.a == a && ratio.b == b)
    }

    /// The same of variants with this parameter: variants of other groups may have the same names.
    pub fn reported_ratio_with(&self, (name, value): (&str, &str), a: &str, b: &str) -> Option<&Ratio> {
        let has = |params: &Params| params.get(name).is_some_and(|of| of == value);
        self.last_ratio(|ratio| ratio.a == a && ratio.b == b && has(&ratio.params))
    }

    fn last_ratio(&self, is: impl Fn(&Ratio) -> bool) -> Option<&Ratio> {
        let is_of_all = |ratio: &&Ratio| !ratio.params.contains_key(PLACEMENT);
        self.report.ratios.iter().rev().filter(is_of_all).find(|ratio| is(ratio))
    }

    /// Ends the set-up. Reports what was cut short, what is undecided, the time lost to pauses and the source of
    /// counts. The report covers all set-ups so far.
    pub fn into_report(mut self) -> (Report, History) {
        if let Some(done) = self.cut_short {
            self.note(format!("stopped: the last rows are of the {done} rounds that were finished"));
        }
        let ratios = self.report.ratios.len();
        let count = |is: fn(&Ratio) -> bool| self.report.ratios.iter().filter(|ratio| is(ratio)).count();
        let (too_few, open) =
            (count(|ratio| ratio.too_few), count(|ratio| ratio.undecided && !ratio.too_few));
        if too_few > 0 {
            self.note(format!(
                "too few: {too_few} of {ratios} ratios, also marked as undecided, have fewer set-ups or rounds than an \
                 interval needs, and nothing is concluded from them; more time or rounds give them more"
            ));
        }
        if open > 0 {
            self.note(format!(
                "undecided: {open} of {ratios} ratios, marked so, have a wider interval than they may; \
                 --set rounds-max=… allows more rounds"
            ));
        }
        if let Some(note) = placement::note(&self.placements) {
            self.note(note);
        }
        self.report.pauses = self.pauses();
        let counters = self.report.counted_by();
        self.report.counters = Some(counters);
        if counters == Counters::None && !self.report.rows.is_empty() {
            self.note(NO_COUNTERS);
        }
        let Self { mut report, mut history, failed, .. } = self;
        history.end(&mut report, failed);
        (report, history)
    }

    /// Returns the time lost to pauses before and during the run, or `None` if it was not watched before.
    fn pauses(&self) -> Option<Pauses> {
        let History { before, during, .. } = &self.history;
        let longest = before.longest.max(during.longest) as f64;
        Some(Pauses {
            before_percent: rounded(before.percent()?),
            during_percent: during.percent().map(rounded),
            longest_us: rounded(longest / self.clock.ticks_per_ns() / 1e3),
        })
    }
}

/// Rounds to four decimals, more than the precision of any row.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

/// Returns the number of set-ups in which a group was measured.
fn setups(group: &[Series]) -> usize {
    group.first().map_or(0, |series| series.setups.len() + 1)
}

#[cfg(test)]
pub(crate) mod tests;
