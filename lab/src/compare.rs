//! Compares two runs: whether their ratios agree within their own intervals.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::json::{Ratio, Report};

/// The agreement of two runs, for every ratio that at least one of them has.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Agreement {
    /// Ratios whose intervals overlap, decided in both runs.
    pub agreeing: usize,
    /// All others.
    pub disagreeing: Vec<Disagreement>,
}

/// One ratio on which two runs disagree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disagreement {
    /// The experiment that has it.
    pub experiment: String,
    /// The ratio in each run, or `None` if the run does not have it.
    pub ratios: [Option<Ratio>; 2],
}

impl Agreement {
    /// Compares two runs. Ratios belong together if they have the same experiment, variants, parameters and metric.
    ///
    /// A ratio that is undecided in a run, or missing in one, counts as disagreeing.
    pub fn of(first: &[Report], second: &[Report]) -> Self {
        let mut pairs: BTreeMap<String, Disagreement> = BTreeMap::new();
        for (run, reports) in [first, second].into_iter().enumerate() {
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            for (report, ratio) in
                reports.iter().flat_map(|report| report.ratios.iter().map(move |r| (report, r)))
            {
                let name = name(&report.experiment, ratio);
                let count = seen.entry(name.clone()).or_default();
                // Two groups of an experiment may have the same comparison: the first of one run belongs to the
                // first of the other.
                *count += 1;
                let pair = pairs.entry(format!("{name} {count:04}")).or_insert_with(|| Disagreement {
                    experiment: report.experiment.clone(),
                    ratios: [None, None],
                });
                pair.ratios[run] = Some(ratio.clone());
            }
        }
        let (agreeing, disagreeing): (Vec<_>, Vec<_>) = pairs.into_values().partition(Disagreement::agrees);
        Self { agreeing: agreeing.len(), disagreeing }
    }

    /// Returns the share that agrees, times 100, or `None` if neither run has a ratio.
    pub fn percent(&self) -> Option<f64> {
        let all = self.agreeing + self.disagreeing.len();
        (all > 0).then(|| 100.0 * self.agreeing as f64 / all as f64)
    }
}

impl Disagreement {
    fn agrees(&self) -> bool {
        let [Some(a), Some(b)] = &self.ratios else { return false };
        !a.undecided && !b.undecided && a.low <= b.high && b.low <= a.high
    }
}

/// Returns a ratio's identity in a run as text. Equal identities have equal text: parameters are sorted by name.
fn name(experiment: &str, ratio: &Ratio) -> String {
    let params: BTreeMap<_, _> = ratio.params.iter().map(|(name, value)| (name, value.to_string())).collect();
    format!("{experiment} {} / {} {} {params:?}", ratio.a, ratio.b, ratio.metric)
}

/// One line: `experiment: a / b name=value … metric: first run; second run`.
impl fmt::Display for Disagreement {
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

/// All disagreeing ratios, one line each, then the share that agrees.
impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for disagreement in &self.disagreeing {
            writeln!(f, "{disagreement}")?;
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
            None => writeln!(f, "neither run has a ratio"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{params, tests::sample};

    fn ratio(b: &str, low: f64, high: f64) -> Ratio {
        let params = params([("order", 0.into())]);
        let (a, b, metric) = ("netmem".into(), b.into(), "ns_per_op".into());
        Ratio { a, b, params, metric, median: (low + high) / 2.0, low, high, undecided: false }
    }

    fn run(ratios: Vec<Ratio>) -> Vec<Report> {
        vec![Report { ratios, ..sample() }]
    }

    #[test]
    fn intervals_that_touch_agree_and_those_apart_do_not() {
        let first = run(vec![ratio("limit", 1.0, 1.1), ratio("glibc", 1.0, 1.1), ratio("dpdk", 1.0, 1.1)]);
        let second = run(vec![ratio("limit", 1.1, 1.2), ratio("glibc", 1.11, 1.2), ratio("dpdk", 0.8, 0.99)]);
        let agreement = Agreement::of(&first, &second);
        assert_eq!((agreement.agreeing, agreement.disagreeing.len()), (1, 2));
        assert_eq!(agreement.percent().map(f64::round), Some(33.0));
        assert_eq!(
            agreement.to_string(),
            "page-fast-path: netmem / dpdk order=0 ns_per_op: 1.050 (1.000 to 1.100); 0.895 (0.800 to 0.990)\n\
             page-fast-path: netmem / glibc order=0 ns_per_op: 1.050 (1.000 to 1.100); 1.155 (1.110 to 1.200)\n\
             33.3 % agree: 1 of 3 ratios have intervals that overlap\n"
        );
    }

    #[test]
    fn an_undecided_ratio_disagrees_though_its_interval_overlaps() {
        let first = run(vec![ratio("limit", 1.0, 1.1)]);
        let second = run(vec![Ratio { undecided: true, ..ratio("limit", 0.5, 2.0) }]);
        for agreement in [Agreement::of(&first, &second), Agreement::of(&second, &first)] {
            assert_eq!((agreement.agreeing, agreement.disagreeing.len()), (0, 1));
        }
        assert!(Agreement::of(&first, &second).to_string().contains("2.000, undecided)"));
    }

    #[test]
    fn a_ratio_that_one_run_lacks_disagrees() {
        let first = run(vec![ratio("limit", 1.0, 1.1), ratio("glibc", 1.0, 1.1)]);
        let second = run(vec![ratio("limit", 1.0, 1.1)]);
        let agreement = Agreement::of(&first, &second);
        assert_eq!((agreement.agreeing, agreement.disagreeing.len()), (1, 1));
        assert!(agreement.disagreeing[0].to_string().ends_with("; missing"), "{agreement}");
        assert_eq!(Agreement::of(&first, &[]).agreeing, 0);
        assert_eq!(Agreement::of(&[], &[]).percent(), None);
    }

    #[test]
    fn the_same_variants_with_other_parameters_are_not_compared() {
        let other = Ratio { params: params([("order", 1.into())]), ..ratio("limit", 1.0, 1.1) };
        let agreement = Agreement::of(&run(vec![ratio("limit", 1.0, 1.1)]), &run(vec![other]));
        assert_eq!((agreement.agreeing, agreement.disagreeing.len()), (0, 2));
    }

    #[test]
    fn ratios_of_the_same_name_belong_together_in_their_order() {
        let twice = || run(vec![ratio("limit", 1.0, 1.1), ratio("limit", 2.0, 2.1)]);
        assert_eq!(Agreement::of(&twice(), &twice()).agreeing, 2);
        let swapped = run(vec![ratio("limit", 2.0, 2.1), ratio("limit", 1.0, 1.1)]);
        assert_eq!(Agreement::of(&twice(), &swapped).agreeing, 0);
    }
}
