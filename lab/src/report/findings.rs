//! The page's contents for programs: claims, targets and losses, without plots and tables.

use serde::Serialize;

use super::claims::SOURCES;
use super::page::best_of_each;
use super::{losses, machine, targets};
use crate::experiments::EXPERIMENTS;
use crate::json::{Report, SCHEMA};

/// The findings of reports, as `netmem lab report --json` writes them.
#[derive(Debug, Serialize)]
pub struct Findings {
    schema: u32,
    /// One for each experiment with a report, in the order of the page.
    experiments: Vec<Run>,
    /// Experiments of the registry without a report.
    not_run: Vec<&'static str>,
    claims: Vec<Claim>,
    targets: Vec<targets::Outcome>,
    losses: Vec<losses::Outcome>,
}

#[derive(Debug, Serialize)]
struct Run {
    experiment: String,
    quick: bool,
    interrupted: bool,
    cpu: Option<String>,
    checks: usize,
    /// Names of the failed checks.
    failed: Vec<String>,
    ratios: usize,
    undecided: usize,
}

#[derive(Debug, Serialize)]
struct Claim {
    name: &'static str,
    /// The source's key.
    source: &'static str,
    experiment: &'static str,
    says: &'static str,
    published: &'static str,
    measured: String,
    verdict: &'static str,
    /// The reason, in a sentence or two.
    sentence: String,
    /// The finding of each machine, the worst first, which is also the claim's. Empty with one machine.
    machines: Vec<OnMachine>,
}

#[derive(Debug, Serialize)]
struct OnMachine {
    machine: String,
    measured: String,
    verdict: &'static str,
    sentence: String,
}

/// Returns the contents of the page for the same reports. Of several reports of one experiment on one machine
/// the best counts.
pub fn findings(reports: &[Report]) -> Findings {
    let reports = best_of_each(reports);
    let ran = |name: &&str| reports.iter().any(|report| report.experiment == *name);
    Findings {
        schema: SCHEMA,
        experiments: reports.iter().map(Run::of).collect(),
        not_run: EXPERIMENTS.iter().map(|experiment| experiment.name).filter(|name| !ran(name)).collect(),
        claims: claims(&reports),
        targets: targets::outcomes(&reports),
        losses: losses::find(&reports).iter().map(losses::Losses::outcome).collect(),
    }
}

impl Run {
    fn of(report: &Report) -> Self {
        let failed = report.checks.iter().filter(|check| !check.ok).map(|check| check.name.clone());
        Self {
            experiment: report.experiment.clone(),
            quick: report.quick,
            interrupted: report.interrupted,
            cpu: report.machine.cpu.clone(),
            checks: report.checks.len(),
            failed: failed.collect(),
            ratios: report.ratios.len(),
            undecided: report.ratios.iter().filter(|ratio| ratio.undecided).count(),
        }
    }
}

fn claims(reports: &[Report]) -> Vec<Claim> {
    let all = SOURCES.iter().flat_map(|source| source.claims.iter().map(move |claim| (source, claim)));
    all.map(|(source, claim)| {
        let all = claim.findings(reports);
        let machines = all.iter().filter(|_| all.len() > 1).map(|(report, finding)| OnMachine {
            machine: report.map(machine::name).unwrap_or_default(),
            measured: finding.measured.clone(),
            verdict: finding.verdict.name(),
            sentence: finding.sentence.clone(),
        });
        let (machines, worst) = (machines.collect(), claim.finding(reports));
        Claim {
            name: claim.name,
            source: source.text.key,
            experiment: claim.experiment,
            says: claim.says,
            published: claim.published,
            measured: worst.measured,
            verdict: worst.verdict.name(),
            sentence: worst.sentence,
            machines,
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Check, params, tests::sample};
    use serde_json::Value;

    fn of(reports: &[Report]) -> Value {
        serde_json::to_value(findings(reports)).unwrap()
    }

    #[test]
    fn without_reports_all_is_there_and_nothing_is_measured() {
        let value = of(&[]);
        assert_eq!(value["not_run"].as_array().map(Vec::len), Some(EXPERIMENTS.len()));
        let all = |what: &str, field: &str| {
            let of = value[what].as_array().unwrap();
            assert!(!of.is_empty() && of.iter().all(|each| each[field] == "not-measured"), "{what}");
        };
        all("claims", "verdict");
        all("targets", "standing");
        assert!(value["targets"][0]["ratio"].is_null() && value["targets"][0]["cause"].is_null());
    }

    #[test]
    fn a_missed_target_is_reported_with_its_ratio_and_counts_among_the_losses() {
        let mut report = sample();
        report.ratios[0].b = "dpdk".into();
        report.ratios[0].params = params([
            ("work", "frame".into()),
            ("burst", 1.into()),
            ("touch", false.into()),
            ("cores", "same".into()),
        ]);
        (report.ratios[0].low, report.ratios[0].median, report.ratios[0].high) = (1.5, 1.6, 1.7);
        report.checks.push(Check { name: "pages conserved".into(), ok: false, detail: String::new() });
        let value = of(&[sample(), report]);
        let target = &value["targets"][0];
        assert_eq!((&target["standing"], &target["must"]), (&"missed".into(), &0.45.into()));
        assert_eq!((&target["ratio"]["median"], &target["ratio"]["high"]), (&1.6.into(), &1.7.into()));
        assert_eq!((&target["over"], &target["better"]), (&"dpdk".into(), &"less".into()));
        assert_eq!(value["losses"].as_array().map(Vec::len), Some(1));
        assert_eq!((&value["losses"][0]["lost"], &value["losses"][0]["worst"]), (&1.into(), &1.6.into()));
        // Of two reports of one experiment the last.
        assert_eq!(value["experiments"].as_array().map(Vec::len), Some(1));
        assert_eq!(value["experiments"][0]["failed"][0], "pages conserved");
    }
}
