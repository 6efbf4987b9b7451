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
    /// metric. Of two reports of one experiment on one machine in a run, the last counts, as on the page.
    ///
    /// An experiment that only one of the runs has on a machine is left out, and so is one that is void in a run. A
    /// ratio that is missing in one run counts as disagreeing, unless it is that of a placement: the hypervisor
    /// chooses the placements of a run.
    pub fn of(first: &[Report], second: &[Report]) -> Self {
        let (first, second) = (report::last_of_each(first), report::last_of_each(second));
        let mut agreement = Self::default();
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
                return self.leave_out(
                    report,
                    &format!("the {which} run lost {lost:.1} % of its time to pauses and is void"),
                );
            }
        }
        if first.quick != second.quick {
            let kind = |report: &Report| if report.quick { "quick" } else { "full" };
            self.notes.push(format!(
                "{}: the first run is {}, the second {}",
                first.experiment,
                kind(first),
                kind(second)
            ));
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
                    "{percent:.1} % agree: {} of {all} ratios have intervals that overlap",
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
        let agreement = Agreement::of(&[one()], &[Report { quick: false, ..one() }]);
        assert_eq!(counts(&agreement), (1, 0, 0));
        assert_eq!(agreement.notes, ["page-fast-path: the first run is quick, the second full"]);
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
