//! What an experiment is handed while it runs, and where its rows, ratios, checks and notes go.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::json::{Check, Counters, Pauses, Published, Ratio, Report, Row, shared};
use crate::method::clock::{Clock, Tsc};
use crate::method::pauses::Gaps;
use crate::method::ratio::Interval;
use crate::method::round::{Label, Plan, Series, Variant, interleave};
use crate::metric::Metric;
use crate::settings::Settings;

/// Share of windows that may be lost to a slow generator before the run says nothing.
pub const STARVED_MAX: f64 = 0.2;

/// What a report says that counts nothing but time.
const NO_COUNTERS: &str = "no hardware counters in this experiment: slab-descriptor counts instructions, branches and \
    last-level loads, by perf_event_open where the machine has counters for it, else by cachegrind where valgrind is installed";

/// Whether a comparison stays on one core: what its interval may be wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// One core: decided within 5 %.
    Same,
    /// Across cores: decided within 15 %.
    Cross,
}

impl Cores {
    /// The half-width of an interval, as a share of its median, from which on the ratio counts as decided.
    pub fn half_width(self) -> f64 {
        match self {
            Self::Same => 0.05,
            Self::Cross => 0.15,
        }
    }
}

/// How much is measured: rounds, and windows of every variant in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Rounds run at least.
    pub rounds: usize,
    /// Rounds run at most.
    pub rounds_max: usize,
    /// Windows per variant and round.
    pub windows: usize,
}

/// Rounds that a group has at least, however many share the effort: below, no ratio is believed.
const ROUNDS_OF_A_GROUP: usize = 5;

impl Effort {
    /// What is left for each when `groups` share the rounds; never more than there was.
    pub fn shared_by(self, groups: usize) -> Self {
        let share = |rounds: usize| (rounds / groups.max(1)).max(ROUNDS_OF_A_GROUP).min(rounds);
        Self { rounds: share(self.rounds), rounds_max: share(self.rounds_max), ..self }
    }
}

/// Two variants, by their places, and the metric whose ratio is asked.
#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    /// Above the line.
    pub a: usize,
    /// Below the line.
    pub b: usize,
    /// What is divided.
    pub metric: Metric,
}

/// A step of an experiment's set-up that failed, with what the product said about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetUpError {
    /// The step.
    pub step: &'static str,
    /// The cause and its remedy.
    pub cause: String,
}

impl SetUpError {
    /// For `map_err`: the error of `step`.
    pub fn at<E: Display>(step: &'static str) -> impl Fn(E) -> Self {
        move |cause| Self { step, cause: cause.to_string() }
    }
}

/// One run of one experiment.
pub struct Bench<'a> {
    /// The time stamp counter.
    pub clock: Tsc,
    /// Cores this process may use; the caller's thread is pinned to the first.
    pub cores: Vec<usize>,
    settings: &'a Settings,
    stop: &'a AtomicBool,
    /// Hears how many rounds are done, and how many there may be.
    progress: &'a mut dyn FnMut(usize, usize),
    /// What the windows of all groups lost to pauses.
    gaps: Gaps,
    /// Rounds finished by the group that was cut short.
    cut_short: Option<usize>,
    report: Report,
}

impl<'a> Bench<'a> {
    /// A run that adds to `report`.
    pub fn new(
        report: Report,
        cores: Vec<usize>,
        settings: &'a Settings,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(usize, usize),
    ) -> Self {
        Self {
            clock: Tsc::new(),
            cores,
            settings,
            stop,
            progress,
            gaps: Gaps::default(),
            cut_short: None,
            report,
        }
    }

    /// The value of a key of this experiment.
    pub fn setting(&self, key: &str) -> u64 {
        self.settings.get(key)
    }

    /// True once the run has been asked to end: groups that have not begun are not worth their set-up.
    pub fn stopped(&self) -> bool {
        // Relaxed: the flag is a wish and carries no data.
        self.stop.load(Ordering::Relaxed)
    }

    /// The effort that the method's settings ask for.
    pub fn effort(&self) -> Effort {
        let rounds = self.setting("rounds") as usize;
        Effort {
            rounds,
            rounds_max: rounds.max(self.setting("rounds-max") as usize),
            windows: self.setting("windows") as usize,
        }
    }

    /// Measures `variants` in interleaved rounds until every comparison is decided or the rounds are used up, and
    /// reports the ratios. The rows are the experiment's to report, from what this returns.
    pub fn measure(
        &mut self,
        variants: &mut [Box<dyn Variant + '_>],
        comparisons: &[Comparison],
        cores: Cores,
    ) -> Vec<Series> {
        self.measure_with(variants, comparisons, cores, self.effort())
    }

    /// The same for one group of several that share the effort of the run: see [`Effort::shared_by`].
    pub fn measure_with(
        &mut self,
        variants: &mut [Box<dyn Variant + '_>],
        comparisons: &[Comparison],
        cores: Cores,
        effort: Effort,
    ) -> Vec<Series> {
        let Effort { rounds: rounds_min, rounds_max, windows } = effort;
        let (half_width, seed) = (cores.half_width(), self.setting("seed"));
        let plan = Plan { rounds_min, rounds_max, windows, half_width, seed };
        let pairs: Vec<(usize, usize)> = comparisons.iter().map(|c| (c.a, c.b)).collect();
        let progress = &mut *self.progress;
        let progress = &mut |done| progress(done, rounds_max);
        let series = interleave(variants, &pairs, &plan, self.stop, &mut self.gaps, progress);
        let done = series.first().map_or(0, |series| series.rounds.len());
        self.cut_short = self.cut_short.or(self.stopped().then_some(done));
        for lost in series.iter().filter(|series| done > 0 && series.per_op.is_empty()) {
            self.note(format!("no row for {}: no window of it counts", lost.label.variant));
        }
        for comparison in comparisons {
            self.ratio(&series, comparison, &plan);
        }
        series
    }

    fn ratio(&mut self, series: &[Series], comparison: &Comparison, plan: &Plan) {
        let Comparison { a, b, metric } = *comparison;
        let (a, b) = (&series[a], &series[b]);
        let Some(ticks) = a.over(b, plan.seed) else { return };
        let undecided = !ticks.decided(plan.half_width);
        let Interval { median, low, high, .. } =
            if metric.falls_with_ticks() { ticks.inverted() } else { ticks };
        let [median, low, high] = [median, low, high].map(rounded);
        let (a, b) = (&a.label, &b.label);
        self.report.ratios.push(Ratio {
            a: a.variant.clone(),
            b: b.variant.clone(),
            params: shared(&a.params, &b.params),
            metric: metric.name().to_owned(),
            median,
            low,
            high,
            undecided,
        });
    }

    /// Reports one metric of one variant; nothing if no window of it counts, which [`measure`](Self::measure) notes.
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

    /// Reports a figure that is not taken in windows: what was counted once.
    pub fn figure(&mut self, label: Label, metric: Metric, value: f64, published: Option<Published>) {
        let value = rounded(value);
        self.report.rows.push(Row {
            variant: label.variant,
            params: label.params,
            metric: metric.name().to_owned(),
            median: value,
            p10: value,
            p90: value,
            windows: 1,
            windows_dropped: 0,
            published,
        });
    }

    /// Reports whether something held.
    pub fn check(&mut self, name: &str, ok: bool, detail: String) {
        self.report.checks.push(Check { name: name.to_owned(), ok, detail });
    }

    /// Checks that the generator was the faster side in at least four windows of five.
    pub fn check_generator(&mut self, series: &[Series]) {
        let share =
            |s: &Series| s.starved as f64 / (s.per_op.len() as u64 + s.paused + s.starved).max(1) as f64;
        let lost: Vec<String> =
            series.iter().map(|s| format!("{} {:.1} %", s.label.variant, 100.0 * share(s))).collect();
        let ok = series.iter().all(|s| share(s) <= STARVED_MAX);
        self.check(
            "generator kept a full burst waiting",
            ok,
            format!("windows lost to it: {}", lost.join(", ")),
        );
    }

    /// Tells the reader something.
    pub fn note(&mut self, note: impl Into<String>) {
        self.report.notes.push(note.into());
    }

    /// The ratio reported last for these two variants.
    pub fn reported_ratio(&self, a: &str, b: &str) -> Option<&Ratio> {
        self.report.ratios.iter().rev().find(|ratio| ratio.a == a && ratio.b == b)
    }

    /// Ends the run: says what was cut short and what stayed open, what pauses took and who counted. `before` is what
    /// was seen of pauses before the run.
    pub fn into_report(mut self, before: &Gaps) -> Report {
        if let Some(done) = self.cut_short {
            self.note(format!("stopped: the last rows are of the {done} rounds that were finished"));
        }
        let ratios = self.report.ratios.len();
        let open = self.report.ratios.iter().filter(|ratio| ratio.undecided).count();
        if open > 0 {
            self.note(format!(
                "undecided: {open} of {ratios} ratios, marked so, have a wider interval than they may; \
                 --set rounds-max=… allows more rounds"
            ));
        }
        self.report.pauses = self.pauses(before);
        let counters = self.report.counted_by();
        self.report.counters = Some(counters);
        if counters == Counters::None {
            self.note(NO_COUNTERS);
        }
        self.report
    }

    /// What pauses took before and during the run; `None` if nobody watched before.
    fn pauses(&self, before: &Gaps) -> Option<Pauses> {
        let longest = before.longest.max(self.gaps.longest) as f64;
        Some(Pauses {
            before_percent: rounded(before.percent()?),
            during_percent: self.gaps.percent().map(rounded),
            longest_us: rounded(longest / self.clock.ticks_per_ns() / 1e3),
        })
    }
}

/// Four decimals: more than any row is good for, and readable.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::json::{Params, tests::sample};
    use crate::method::round::Label;
    use crate::method::window::Windows;

    struct Constant(Label, f64, u64);

    impl Variant for Constant {
        fn label(&self) -> &Label {
            &self.0
        }
        fn round(&mut self, windows: usize) -> Windows {
            let gaps = Gaps { watched: 100, lost: 50, longest: 50 };
            Windows { per_op: vec![self.1; windows], paused: 1, starved: self.2, gaps }
        }
    }

    fn constant(name: &str, ticks: f64, starved: u64) -> Box<dyn Variant> {
        Box::new(Constant(Label { variant: name.into(), params: Params::new() }, ticks, starved))
    }

    /// The report of a quick run in which `body` has the bench.
    pub(crate) fn report_of(stop: bool, body: impl FnOnce(&mut Bench<'_>)) -> Report {
        let empty = Report { rows: vec![], ratios: vec![], checks: vec![], notes: vec![], ..sample() };
        let settings = Settings::new(&[], true, &[]).unwrap();
        let (stop, mut progress) = (AtomicBool::new(stop), |_, _| {});
        let mut bench = Bench::new(empty, vec![0], &settings, &stop, &mut progress);
        body(&mut bench);
        bench.into_report(&Gaps { watched: 1_000, lost: 10, longest: 10 })
    }

    fn run(variants: &mut [Box<dyn Variant>], stop: bool) -> Report {
        report_of(stop, |bench| {
            let pps = Comparison { a: 0, b: 1, metric: Metric::Pps };
            let series = bench.measure(variants, &[pps], Cores::Cross);
            for one in &series {
                bench.row(one, Metric::Pps, None);
                bench.row(one, Metric::NsPerPacket, None);
            }
            bench.check_generator(&series);
        })
    }

    #[test]
    fn half_the_ticks_are_twice_the_packets() {
        let report = run(&mut [constant("netmem/bulk", 100.0, 0), constant("netmem/base", 200.0, 0)], false);
        assert_eq!(report.ratios[0].median, 2.0);
        assert!(!report.ratios[0].undecided);
        assert!((report.rows[0].median / report.rows[2].median - 2.0).abs() < 1e-6);
        assert_eq!((report.rows[0].windows, report.rows[0].windows_dropped), (21 * 48, 21));
        assert!(report.ok());
    }

    #[test]
    fn a_generator_that_starves_the_device_fails_its_check() {
        let report = run(&mut [constant("netmem/bulk", 100.0, 0), constant("netmem/base", 200.0, 20)], false);
        assert!(!report.ok(), "{:?}", report.checks);
    }

    #[test]
    fn a_run_stopped_before_its_first_round_has_no_row_and_says_why() {
        let report = run(&mut [constant("netmem/bulk", 100.0, 0), constant("netmem/base", 200.0, 0)], true);
        assert_eq!((report.rows.len(), report.ratios.len()), (0, 0));
        assert!(report.notes[0].starts_with("stopped: "), "{:?}", report.notes);
    }

    #[test]
    fn a_ratio_that_stays_wide_is_marked_and_noted() {
        struct Wild(Label, f64);
        impl Variant for Wild {
            fn label(&self) -> &Label {
                &self.0
            }
            fn round(&mut self, _: usize) -> Windows {
                self.1 = if self.1 == 100.0 { 500.0 } else { 100.0 };
                Windows { per_op: vec![self.1], ..Windows::default() }
            }
        }
        let wild = Wild(Label { variant: "netmem".into(), params: Params::new() }, 100.0);
        let report = run(&mut [Box::new(wild), constant("limit", 100.0, 0)], false);
        assert!(report.ratios[0].undecided);
        assert!(report.notes[0].starts_with("undecided: 1 of 1 ratios"), "{:?}", report.notes);
    }

    #[test]
    fn groups_share_the_rounds_but_none_has_too_few_for_a_ratio() {
        let effort = Effort { rounds: 20, rounds_max: 80, windows: 48 };
        assert_eq!(effort.shared_by(2), Effort { rounds: 10, rounds_max: 40, windows: 48 });
        assert_eq!(effort.shared_by(100), Effort { rounds: 5, rounds_max: 5, windows: 48 });
        let smallest = Effort { rounds: 1, rounds_max: 3, windows: 8 };
        assert_eq!(smallest.shared_by(4), smallest);
    }

    #[test]
    fn what_pauses_took_before_and_during_the_run_is_reported_apart() {
        let report = run(&mut [constant("netmem/bulk", 100.0, 0), constant("netmem/base", 200.0, 0)], false);
        let pauses = report.pauses.unwrap();
        assert_eq!((pauses.before_percent, pauses.during_percent), (1.0, Some(50.0)));
        assert!(pauses.longest_us > 0.0);
        let counted_once = report_of(false, |_| ());
        assert_eq!(counted_once.pauses.unwrap().during_percent, None);
    }

    #[test]
    fn a_run_that_counts_nothing_says_who_does() {
        let report = report_of(false, |_| ());
        assert_eq!(report.counters, Some(Counters::None));
        assert!(report.notes[0].starts_with("no hardware counters"), "{:?}", report.notes);
    }

    #[test]
    fn a_stopped_run_of_several_groups_says_so_once() {
        let report = report_of(true, |bench| {
            for _ in 0..3 {
                bench.measure(&mut [constant("netmem", 1.0, 0)], &[], Cores::Same);
            }
        });
        let stopped = report.notes.iter().filter(|note| note.starts_with("stopped: "));
        assert_eq!(stopped.count(), 1, "{:?}", report.notes);
    }

    #[test]
    fn what_was_counted_once_is_a_row_of_one_window() {
        let label = Label { variant: "netmem".into(), params: Params::new() };
        let report = report_of(false, |bench| bench.figure(label, Metric::Bytes, 32_768.0, None));
        let row = &report.rows[0];
        assert_eq!((row.metric.as_str(), row.p10, row.median, row.p90), ("bytes", 32768.0, 32768.0, 32768.0));
        assert_eq!((row.windows, row.windows_dropped), (1, 0));
    }
}
