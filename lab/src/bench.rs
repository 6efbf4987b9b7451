//! What an experiment is handed while it runs, and where its rows, ratios, checks and notes go.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::history::{History, Lengths};
use crate::json::{Check, Counters, Pauses, Published, Ratio, Report, Row, shared};
use crate::method::clock::{Clock, Tsc};
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

/// How much is measured of one set-up: rounds, and windows of every variant in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Rounds.
    pub rounds: usize,
    /// Windows per variant and round.
    pub windows: usize,
}

impl Effort {
    /// What is left for each when `groups` share the rounds; one round at least.
    pub fn shared_by(self, groups: usize) -> Self {
        Self { rounds: (self.rounds / groups.max(1)).max(1), ..self }
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

/// One set-up of one experiment.
pub struct Bench<'a> {
    /// The time stamp counter.
    pub clock: Tsc,
    /// Cores this process may use; the caller's thread is pinned to the first.
    pub cores: Vec<usize>,
    settings: &'a Settings,
    stop: &'a AtomicBool,
    /// Hears how many rounds are done, and how many there may be.
    progress: &'a mut dyn FnMut(usize, usize),
    /// Rounds finished by the group that was cut short.
    cut_short: Option<usize>,
    /// Groups measured, and sections done once.
    groups: usize,
    sections: usize,
    /// Checks of this set-up that did not hold.
    failed: Vec<Check>,
    history: History,
    report: Report,
}

impl<'a> Bench<'a> {
    /// A set-up that comes after those of `history` and fills `report`.
    pub fn new(
        report: Report,
        history: History,
        cores: Vec<usize>,
        settings: &'a Settings,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(usize, usize),
    ) -> Self {
        let (clock, failed) = (Tsc::new(), Vec::new());
        let (cut_short, groups, sections) = (None, 0, 0);
        Self { clock, cores, settings, stop, progress, cut_short, groups, sections, failed, history, report }
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

    /// This set-up's part of the effort that the method's settings ask for.
    pub fn effort(&self) -> Effort {
        let rounds = self.setting("rounds").div_ceil(self.setting("setups").max(1));
        Effort { rounds: rounds as usize, windows: self.setting("windows") as usize }
    }

    /// Measures `variants` in interleaved rounds and reports the ratios. The rows are the experiment's to report, from
    /// what this returns, which holds what earlier set-ups gave for the same group: the set-ups of an experiment measure
    /// the same groups in the same order.
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
        let Effort { rounds, windows } = effort;
        let seed = self.setting("seed");
        // Each set-up has its own shuffle.
        let plan = Plan { rounds, windows, seed: seed.wrapping_add(self.history.setups as u64) };
        let progress = &mut *self.progress;
        let heard = &mut |done| progress(done, rounds);
        let series = interleave(variants, &plan, self.stop, &mut self.history.during, heard);
        let done = series.first().map_or(0, |series| series.rounds.len());
        self.cut_short = self.cut_short.or(self.stopped().then_some(done));
        let series = self.history.add(self.groups, series);
        self.groups += 1;
        for lost in series.iter().filter(|series| done > 0 && series.per_op.is_empty()) {
            self.note(format!("no row for {}: no window of it counts", lost.label.variant));
        }
        for comparison in comparisons {
            self.ratio(&series, comparison, cores.half_width(), seed);
        }
        series
    }

    fn ratio(&mut self, series: &[Series], comparison: &Comparison, half_width: f64, seed: u64) {
        let Comparison { a, b, metric } = *comparison;
        let (a, b) = (&series[a], &series[b]);
        let Some(ticks) = a.over(b, seed) else { return };
        let undecided = !ticks.decided(half_width);
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

    /// Does and reports in the first set-up what is not worth repeating, because it comes out the same each time: what
    /// `body` adds to the report stands in that of every set-up. It must not measure groups.
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

    /// Reports whether something held in this set-up.
    pub fn check(&mut self, name: &str, ok: bool, detail: String) {
        let check = Check { name: name.to_owned(), ok, detail };
        if !ok {
            self.failed.push(check.clone());
        }
        self.report.checks.push(check);
    }

    /// Reports whether something holds of all set-ups so far: what an earlier one answered does not count beside it.
    pub fn judge(&mut self, name: &str, ok: bool, detail: String) {
        self.report.checks.push(Check { name: name.to_owned(), ok, detail });
    }

    /// Runs `body` beside the report and returns its checks: for a fault that is planted, and must be found.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn aside(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<(), SetUpError>,
    ) -> Result<Vec<Check>, SetUpError> {
        let (checks, failed) = (self.report.checks.len(), self.failed.len());
        let done = body(self);
        self.failed.truncate(failed);
        let aside = self.report.checks.split_off(checks);
        done.map(|()| aside)
    }

    /// Checks that the generator was the faster side in at least four windows of five.
    pub fn check_generator(&mut self, series: &[Series]) {
        let share =
            |s: &Series| s.starved as f64 / (s.per_op.len() as u64 + s.paused + s.starved).max(1) as f64;
        let lost: Vec<String> =
            series.iter().map(|s| format!("{} {:.1} %", s.label.variant, 100.0 * share(s))).collect();
        let ok = series.iter().all(|s| share(s) <= STARVED_MAX);
        self.judge(
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

    /// Ends the set-up: says what was cut short and what stayed open, what pauses took and who counted. The report is of
    /// all set-ups so far.
    pub fn into_report(mut self) -> (Report, History) {
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
        self.report.pauses = self.pauses();
        let counters = self.report.counted_by();
        self.report.counters = Some(counters);
        if counters == Counters::None {
            self.note(NO_COUNTERS);
        }
        let Self { mut report, mut history, failed, .. } = self;
        history.end(&mut report, failed);
        (report, history)
    }

    /// What pauses took before and during the run; `None` if nobody watched before.
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

/// Four decimals: more than any row is good for, and readable.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::json::{Params, tests::sample};
    use crate::method::pauses::Gaps;
    use crate::method::round::Label;
    use crate::method::window::Windows;

    impl Bench<'_> {
        /// Puts a ratio into the report that nobody measured.
        pub(crate) fn report_ratio(&mut self, ratio: Ratio) {
            self.report.ratios.push(ratio);
        }
    }

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

    /// The report of a quick run of one set-up in which `body` has the bench.
    pub(crate) fn report_of(stop: bool, body: impl FnOnce(&mut Bench<'_>)) -> Report {
        let mut body = Some(body);
        report_of_setups(1, stop, &mut |bench, _| body.take().expect("one set-up")(bench))
    }

    /// The last report of a quick run of so many set-ups; `body` hears which it is.
    fn report_of_setups(count: usize, stop: bool, body: &mut dyn FnMut(&mut Bench<'_>, usize)) -> Report {
        let empty = Report { rows: vec![], ratios: vec![], checks: vec![], notes: vec![], ..sample() };
        let set = [("setups".to_owned(), count.to_string())];
        let settings = Settings::new(&[], true, &set).unwrap();
        let (stop, mut progress) = (AtomicBool::new(stop), |_, _| {});
        let mut history = History::default();
        history.before.spend(1_000, 10);
        let mut last = None;
        for setup in 0..count {
            let mut bench = Bench::new(empty.clone(), history, vec![0], &settings, &stop, &mut progress);
            body(&mut bench, setup);
            let (report, so_far) = bench.into_report();
            history = so_far;
            last = Some(report);
        }
        last.expect("a set-up")
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
    fn groups_share_the_rounds_but_none_has_less_than_one() {
        let effort = Effort { rounds: 20, windows: 48 };
        assert_eq!(effort.shared_by(2), Effort { rounds: 10, windows: 48 });
        assert_eq!(effort.shared_by(100), Effort { rounds: 1, windows: 48 });
    }

    #[test]
    fn the_last_set_up_reports_the_windows_of_all_and_an_interval_as_wide_as_they_are_apart() {
        let report = report_of_setups(7, false, &mut |bench, setup| {
            let slower = constant("netmem", 100.0 + setup as f64, 0);
            let ns = Comparison { a: 0, b: 1, metric: Metric::NsPerOp };
            let series = bench.measure(&mut [slower, constant("limit", 100.0, 0)], &[ns], Cores::Same);
            bench.row(&series[0], Metric::CyclesPerOp, None);
        });
        let (row, ratio) = (&report.rows[0], &report.ratios[0]);
        assert_eq!((report.rows.len(), report.ratios.len()), (1, 1));
        assert_eq!((row.windows, row.windows_dropped, row.median), (21 * 48, 21, 103.0));
        assert_eq!(ratio.median, 1.03);
        assert!(ratio.low <= 1.01 && ratio.high >= 1.05, "{ratio:?}");
    }

    #[test]
    fn a_check_that_fails_in_one_set_up_fails_for_the_run() {
        let report = report_of_setups(3, false, &mut |bench, setup| {
            bench.check("ledger balanced", setup != 1, format!("set-up {setup}"));
        });
        assert!(!report.ok());
        let failed: Vec<&Check> = report.checks.iter().filter(|check| !check.ok).collect();
        assert_eq!((failed.len(), failed[0].name.as_str()), (1, "ledger balanced (set-up 2)"));
        assert_eq!(
            report.checks[0],
            Check { detail: "set-up 2".into(), ok: true, ..report.checks[0].clone() }
        );
    }

    #[test]
    fn what_comes_out_the_same_is_done_once_and_stands_in_every_report() {
        let mut done = 0;
        let report = report_of_setups(3, false, &mut |bench, setup| {
            bench.note(format!("set-up {setup}"));
            let counted = bench.once(|bench| {
                done += 1;
                bench.note("counted");
                bench.check("counts add up", true, String::new());
                Ok(())
            });
            assert_eq!(counted, Ok(()));
        });
        assert_eq!((done, &report.notes[..2]), (1, &["set-up 2".to_owned(), "counted".to_owned()][..]));
        assert_eq!(report.checks.len(), 1);
    }

    #[test]
    fn groups_are_not_mixed_up_and_one_of_other_variants_begins_anew() {
        let report = report_of_setups(2, false, &mut |bench, setup| {
            let second = if setup == 0 { "netmem/a" } else { "netmem/b" };
            for name in ["netmem", second] {
                let series = bench.measure(&mut [constant(name, 1.0, 0)], &[], Cores::Same);
                bench.row(&series[0], Metric::CyclesPerOp, None);
            }
        });
        let windows: Vec<u64> = report.rows.iter().map(|row| row.windows).collect();
        assert_eq!(windows, [22 * 48, 11 * 48]);
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
