//! Compares two runs: whether their ratios agree within their own intervals.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::json::{Ratio, Report};
use crate::method::placement::PARAMETER as PLACEMENT;
use crate::report;

/// The agreement of two runs of one machine, over the experiments that both have.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Agreement {
    /// Ratios that are decided in both runs and whose intervals overlap.
    pub agreeing: usize,
    /// Ratios that are decided in both runs and whose intervals do not overlap, and those that only one run has.
    pub disagreeing: Vec<Pair>,
    /// Ratios that are undecided in a run. They count neither as agreeing nor as disagreeing.
    pub undecided: Vec<Pair>,
    /// What was left out, and what makes the runs unequal, one sentence each.
    pub notes: Vec<String>,
    /// Experiments that were left out.
    #[serde(skip)]
    pub left_out: usize,
    /// Those of them that are void in a run.
    #[serde(skip)]
    pub void: usize,
}

/// One ratio in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// The experiment that has it.
    pub experiment: String,
    /// The ratio in each run, or `None` if the run does not have it.
    pub ratios: [Option<Ratio>; 2],
}

impl Agreement {
    /// Compares two runs. Ratios belong together if they have the same machine, experiment, variants, parameters and
    /// metric. Of several reports of one experiment on one machine in a run, the best counts, as on the page.
    ///
    /// An experiment that only one of the runs has on a machine is left out, and so is one that is void in a run. A
    /// ratio that is missing in one run counts as disagreeing, unless it is that of a placement: the hypervisor
    /// chooses the placements of a run.
    pub fn of(first: &[Report], second: &[Report]) -> Self {
        let mut agreement = Self::default();
        let [first, second] = [(first, "first"), (second, "second")].map(|(run, which)| {
            let best = report::best_of_each(run);
            if let more @ 1.. = run.len() - best.len() {
                agreement.notes.push(format!(
                    "the {which} run has {more} more reports of the same experiments: of each, one that was finished counts \
                     before one that was not, a full one before a quick one, and then the last"
                ));
            }
            best
        });
        let alike =
            |a: &Report, b: &Report| a.experiment == b.experiment && a.machine.is_named_as(&b.machine);
        for report in &first {
            match second.iter().find(|other| alike(report, other)) {
                Some(other) => agreement.add(report, other),
                None => agreement.leave_out(report, "only the first run has it on this machine"),
            }
        }
        for report in second.iter().filter(|other| !first.iter().any(|report| alike(report, other))) {
            agreement.leave_out(report, "only the second run has it on this machine");
        }
        agreement
    }

    fn leave_out(&mut self, report: &Report, why: &str) {
        self.left_out += 1;
        self.notes.push(format!(
            "{} ({}) is left out: {why}",
            report.experiment,
            report::machine_name(report)
        ));
    }

    /// Compares two reports of one experiment on one machine.
    fn add(&mut self, first: &Report, second: &Report) {
        for (report, which) in [(first, "first"), (second, "second")] {
            if let Some(lost) = report::does_not_stand(report) {
                self.void += 1;
                return self.leave_out(
                    report,
                    &format!("the {which} run lost {lost:.1} % of its time to pauses and is void"),
                );
            }
        }
        let [a, b] = [first, second].map(traits);
        for (a, b) in a.into_iter().zip(b).filter(|(a, b)| a != b) {
            self.notes.push(format!("{}: the first run is {a}, the second {b}", first.experiment));
        }
        for pair in pairs(first, second) {
            match &pair.ratios {
                ratios if ratios.iter().flatten().any(|ratio| ratio.undecided) => self.undecided.push(pair),
                [Some(a), Some(b)] if a.low <= b.high && b.low <= a.high => self.agreeing += 1,
                [Some(one), None] | [None, Some(one)] if one.params.contains_key(PLACEMENT) => {}
                _ => self.disagreeing.push(pair),
            }
        }
    }

    /// Returns the share that agrees, times 100, or `None` if the runs have no decided ratio of one experiment and
    /// machine.
    pub fn percent(&self) -> Option<f64> {
        let all = self.agreeing + self.disagreeing.len();
        (all > 0).then(|| 100.0 * self.agreeing as f64 / all as f64)
    }
}

/// Returns what should be equal in both runs.
fn traits(report: &Report) -> [String; 6] {
    let Report { quick, set, interrupted, rivals, version, program, .. } = report;
    let set: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let set = if set.is_empty() { "without --set".into() } else { format!("with --set {}", set.join(" ")) };
    let rivals = match rivals {
        Some(true) => "built with rivals",
        Some(false) => "built without rivals",
        None => "of a build that may have rivals",
    };
    let version = version.as_ref().map_or("of an unknown version".into(), |it| format!("of version {it}"));
    let program = program.as_ref().map_or("of an unknown program".into(), |it| format!("of program {it}"));
    let kind = if *quick { "quick" } else { "full" };
    let end = if *interrupted { "interrupted" } else { "finished" };
    [kind.into(), set, end.into(), rivals.into(), version, program]
}

/// Returns the ratios of two reports of one experiment, in the order of their names.
fn pairs(first: &Report, second: &Report) -> impl Iterator<Item = Pair> {
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    for (run, report) in [first, second].into_iter().enumerate() {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for ratio in &report.ratios {
            let name = name(ratio);
            let count = seen.entry(name.clone()).or_default();
            // Two groups of an experiment may have the same comparison: the first of one run belongs to the
            // first of the other.
            *count += 1;
            let pair = pairs
                .entry(format!("{name} {count:04}"))
                .or_insert_with(|| Pair { experiment: report.experiment.clone(), ratios: [None, None] });
            pair.ratios[run] = Some(ratio.clone());
        }
    }
    pairs.into_values()
}

/// Returns a ratio's identity in a report as text. Equal identities have equal text: parameters are sorted by name.
fn name(ratio: &Ratio) -> String {
    let params: BTreeMap<_, _> = ratio.params.iter().map(|(name, value)| (name, value.to_string())).collect();
    format!("{} / {} {} {params:?}", ratio.a, ratio.b, ratio.metric)
}

/// One line: `experiment: a / b name=value … metric: first run; second run`.
impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.experiment)?;
        if let Some(ratio) = self.ratios.iter().flatten().next() {
            write!(f, " {} / {}", ratio.a, ratio.b)?;
            for (name, value) in &ratio.params {
                match value.as_str() {
                    Some(text) => write!(f, " {name}={text}")?,
                    None => write!(f, " {name}={value}")?,
                }
            }
            write!(f, " {}:", ratio.metric)?;
        }
        let [first, second] = self.ratios.each_ref().map(|ratio| match ratio {
            Some(ratio) => {
                let open = if ratio.undecided { ", undecided" } else { "" };
                format!("{:.3} ({:.3} to {:.3}{open})", ratio.median, ratio.low, ratio.high)
            }
            None => "missing".to_owned(),
        });
        write!(f, " {first}; {second}")
    }
}

/// All disagreeing ratios, one line each, the undecided ones and the notes, then the share that agrees.
impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for pair in &self.disagreeing {
            writeln!(f, "{pair}")?;
        }
        if !self.undecided.is_empty() {
            writeln!(f, "undecided in a run, and not counted:")?;
            for pair in &self.undecided {
                writeln!(f, "{pair}")?;
            }
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        let all = self.agreeing + self.disagreeing.len();
        match self.percent() {
            Some(percent) => {
                writeln!(
                    f,
                    "{:.1} % agree: {} of {all} ratios have intervals that overlap",
                    // Rounded down: 94.997 is not 95.
                    (percent * 10.0).floor() / 10.0,
                    self.agreeing
                )
            }
            None => writeln!(f, "the runs have no decided ratio of one experiment and machine in common"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Pauses, params, tests::sample};

    fn ratio(b: &str, low: f64, high: f64) -> Ratio {
        let params = params([("order", 0.into())]);
        let median = f64::midpoint(low, high);
        Ratio { a: "netmem".into(), b: b.into(), params, median, low, high, ..sample().ratios.remove(0) }
    }

    fn undecided(b: &str, low: f64, high: f64) -> Ratio {
        Ratio { undecided: true, ..ratio(b, low, high) }
    }

    fn run(ratios: Vec<Ratio>) -> Vec<Report> {
        vec![Report { ratios, ..sample() }]
    }

    /// Agreeing, disagreeing, undecided.
    fn counts(agreement: &Agreement) -> (usize, usize, usize) {
        (agreement.agreeing, agreement.disagreeing.len(), agreement.undecided.len())
    }

    #[test]
    fn intervals_that_touch_agree_and_those_apart_do_not() {
        let first = run(vec![ratio("limit", 1.0, 1.1), ratio("glibc", 1.0, 1.1), ratio("dpdk", 1.0, 1.1)]);
        let second = run(vec![ratio("limit", 1.1, 1.2), ratio("glibc", 1.11, 1.2), ratio("dpdk", 0.8, 0.99)]);
        let agreement = Agreement::of(&first, &second);
        assert_eq!(counts(&agreement), (1, 2, 0));
        assert_eq!(agreement.percent().map(f64::round), Some(33.0));
        assert_eq!(
            agreement.to_string(),
            "page-fast-path: netmem / dpdk order=0 ns_per_op: 1.050 (1.000 to 1.100); 0.895 (0.800 to 0.990)\n\
             page-fast-path: netmem / glibc order=0 ns_per_op: 1.050 (1.000 to 1.100); 1.155 (1.110 to 1.200)\n\
             33.3 % agree: 1 of 3 ratios have intervals that overlap\n"
        );
    }

    /// Seen: a run did not agree with itself, because its own undecided ratios counted as disagreeing.
    #[test]
    fn a_run_agrees_with_itself_and_its_undecided_ratios_are_printed_apart() {
        let same = run(vec![ratio("limit", 1.0, 1.1), undecided("glibc", 0.5, 2.0)]);
        let agreement = Agreement::of(&same, &same);
        assert_eq!((counts(&agreement), agreement.percent()), ((1, 0, 1), Some(100.0)));
        let text = agreement.to_string();
        assert!(
            text.starts_with("undecided in a run, and not counted:\npage-fast-path: netmem / glibc"),
            "{text}"
        );
        assert!(text.contains("2.000, undecided)") && text.contains("100.0 % agree: 1 of 1"), "{text}");
    }

    #[test]
    fn a_ratio_that_is_undecided_in_one_run_does_not_count_wherever_its_interval_lies() {
        let first = run(vec![ratio("limit", 1.0, 1.1)]);
        let second = run(vec![undecided("limit", 5.0, 9.0)]);
        for agreement in [Agreement::of(&first, &second), Agreement::of(&second, &first)] {
            assert_eq!((counts(&agreement), agreement.percent()), ((0, 0, 1), None));
        }
    }

    #[test]
    fn a_ratio_that_one_run_lacks_disagrees() {
        let first = run(vec![ratio("limit", 1.0, 1.1), ratio("glibc", 1.0, 1.1)]);
        let second = run(vec![ratio("limit", 1.0, 1.1)]);
        let agreement = Agreement::of(&first, &second);
        assert_eq!(counts(&agreement), (1, 1, 0));
        assert!(agreement.disagreeing[0].to_string().ends_with("; missing"), "{agreement}");
        assert_eq!(Agreement::of(&[], &[]).percent(), None);
    }

    /// Seen: the placements that one run happened to have disagreed with the other run, which had others.
    #[test]
    fn the_ratio_of_a_placement_that_one_run_lacks_is_left_out() {
        let near = |low, high| {
            let mut ratio = ratio("limit", low, high);
            ratio.params.insert(PLACEMENT.into(), "near".into());
            ratio
        };
        let both = run(vec![ratio("limit", 1.0, 1.1), near(1.0, 1.1)]);
        let without = run(vec![ratio("limit", 1.0, 1.1)]);
        assert_eq!(counts(&Agreement::of(&both, &without)), (1, 0, 0));
        assert_eq!(counts(&Agreement::of(&without, &both)), (1, 0, 0));
        let apart = run(vec![ratio("limit", 1.0, 1.1), near(2.0, 2.1)]);
        assert_eq!(counts(&Agreement::of(&both, &apart)), (1, 1, 0));
    }

    /// Seen: reports of two machines in one file were compared with each other, by their order.
    #[test]
    fn reports_are_paired_by_machine_and_what_only_one_run_has_is_noted() {
        let on = |cpu: &str, low: f64| {
            let mut report = run(vec![ratio("limit", low, low + 0.1)]).remove(0);
            report.machine.cpu = Some(cpu.into());
            report
        };
        let first = [on("xeon", 1.0), on("epyc", 2.0)];
        let agreement = Agreement::of(&first, &[on("epyc", 2.0), on("xeon", 1.0)]);
        assert_eq!((counts(&agreement), agreement.notes.len()), ((2, 0, 0), 0));
        let agreement = Agreement::of(&first, &[on("zen4", 1.0)]);
        assert_eq!((counts(&agreement), agreement.notes.len()), ((0, 0, 0), 3));
        assert!(agreement.notes[2].contains("(zen4, 2 cores, Linux 6.1)"), "{:?}", agreement.notes);
    }

    #[test]
    fn a_void_run_is_left_out_and_a_quick_run_beside_a_full_one_is_noted() {
        let one = || run(vec![ratio("limit", 1.0, 1.1)]).remove(0);
        let pauses = Pauses { before_percent: 1.0, during_percent: Some(60.0), longest_us: 1e3 };
        let agreement = Agreement::of(&[one()], &[Report { pauses: Some(pauses), ..one() }]);
        assert_eq!((counts(&agreement), agreement.percent()), ((0, 0, 0), None));
        assert!(agreement.notes[0].contains("the second run lost 60.0 %"), "{:?}", agreement.notes);
        assert_eq!((agreement.left_out, agreement.void), (1, 1));
        let agreement = Agreement::of(&[one()], &[Report { quick: false, ..one() }]);
        assert_eq!(counts(&agreement), (1, 0, 0));
        assert_eq!(agreement.notes, ["page-fast-path: the first run is quick, the second full"]);
    }

    /// Seen: "100.0 % agree", without a note, for runs with other settings, without rivals, or interrupted.
    #[test]
    fn runs_of_other_settings_rivals_versions_or_an_interrupted_one_are_noted() {
        let one = || run(vec![ratio("limit", 1.0, 1.1)]).remove(0);
        let other = Report {
            set: BTreeMap::from([("ring".to_owned(), "512".to_owned())]),
            rivals: Some(true),
            version: Some("0.2.0".into()),
            program: Some("0123456789abcdef".into()),
            interrupted: true,
            ..one()
        };
        let first = Report { rivals: Some(false), version: Some("0.1.0".into()), ..one() };
        let notes = [
            "page-fast-path: the first run is without --set, the second with --set ring=512",
            "page-fast-path: the first run is finished, the second interrupted",
            "page-fast-path: the first run is built without rivals, the second built with rivals",
            "page-fast-path: the first run is of version 0.1.0, the second of version 0.2.0",
            // Seen: of two builds of one version nothing was said.
            "page-fast-path: the first run is of an unknown program, the second of program 0123456789abcdef",
        ];
        assert_eq!(Agreement::of(std::slice::from_ref(&first), &[other]).notes, notes);
        assert_eq!(Agreement::of(std::slice::from_ref(&first), std::slice::from_ref(&first)).notes, [""; 0]);
    }

    /// Seen: a quick, interrupted report behind a full one in the same file was compared instead of it.
    #[test]
    fn of_several_reports_in_a_run_the_best_is_compared_and_the_others_are_noted() {
        let full = Report { quick: false, ..run(vec![ratio("limit", 1.0, 1.1)]).remove(0) };
        let quick = run(vec![ratio("limit", 5.0, 5.1)]).remove(0);
        let agreement = Agreement::of(&[full.clone(), quick], &[full]);
        assert_eq!((counts(&agreement), agreement.notes.len()), ((1, 0, 0), 1));
        assert!(agreement.notes[0].starts_with("the first run has 1 more reports"), "{:?}", agreement.notes);
    }

    /// Seen: "95.0 % of the decided ratios agree, less than 95 %".
    #[test]
    fn a_share_that_is_less_than_a_limit_is_not_printed_as_the_limit() {
        let disagreeing = vec![Pair { experiment: "page-order".into(), ratios: [None, None] }; 1001];
        let agreement = Agreement { agreeing: 19_010, disagreeing, ..Agreement::default() };
        assert!(agreement.percent().unwrap() < 95.0);
        assert!(
            agreement
                .to_string()
                .ends_with("94.9 % agree: 19010 of 20011 ratios have intervals that overlap\n")
        );
    }

    #[test]
    fn the_same_variants_with_other_parameters_are_not_compared() {
        let other = Ratio { params: params([("order", 1.into())]), ..ratio("limit", 1.0, 1.1) };
        let agreement = Agreement::of(&run(vec![ratio("limit", 1.0, 1.1)]), &run(vec![other]));
        assert_eq!(counts(&agreement), (0, 2, 0));
    }

    #[test]
    fn ratios_of_the_same_name_belong_together_in_their_order() {
        let twice = || run(vec![ratio("limit", 1.0, 1.1), ratio("limit", 2.0, 2.1)]);
        assert_eq!(Agreement::of(&twice(), &twice()).agreeing, 2);
        let swapped = run(vec![ratio("limit", 2.0, 2.1), ratio("limit", 1.0, 1.1)]);
        assert_eq!(Agreement::of(&twice(), &swapped).agreeing, 0);
    }
}
