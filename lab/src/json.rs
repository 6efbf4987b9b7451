//! The report's schema, version 1. No promise is made for it: any version of netmem may change it (README.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::method::machine::Machine;
use crate::method::ratio::BesideOne;

/// The schema's version, first field of every report.
pub const SCHEMA: u32 = 1;

/// The properties of a variant, as names and values: `work`, `burst`, `cores`, `bytes`, `touch`, and others that
/// vary.
pub type Params = Map<String, Value>;

/// One run of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: u32,
    /// The version of the lab. Absent from older reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// A hash of the file of the program, which tells builds of one version apart. Absent from older reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// When the run ended, in UTC by RFC 3339. Absent from older reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The experiment's name.
    pub experiment: String,
    /// The key of the text that published the experiment (`docs/sources.md`), or `none`.
    pub source: String,
    /// True if run with fewer rounds.
    pub quick: bool,
    /// The keys of `--set` that this experiment has, with their values. Absent without one, and from older reports.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Whether the program was built with the feature `rivals`. Absent from older reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rivals: Option<bool>,
    /// Present and true if the run was ended early. Its values are then those of the finished set-ups, or rounds.
    #[serde(default, skip_serializing_if = "is_false")]
    pub interrupted: bool,
    /// The machine of the run.
    pub machine: Machine,
    /// The time that the machine stood still. Absent from older reports.
    #[serde(default)]
    pub pauses: Option<Pauses>,
    /// The source of counts of instructions, branches and cache misses. Absent from older reports.
    #[serde(default)]
    pub counters: Option<Counters>,
    /// One row per variant and metric.
    pub rows: Vec<Row>,
    /// Variants compared inside the same rounds.
    pub ratios: Vec<Ratio>,
    /// Conditions that must hold.
    pub checks: Vec<Check>,
    /// Information that a reader needs to interpret the rows.
    pub notes: Vec<String>,
}

/// The share of time in which the machine did not run this process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pauses {
    /// While only the clock was watched, just before the run.
    pub before_percent: f64,
    /// In the windows of the run: their duration beyond the time of their work. Null if there were no windows.
    pub during_percent: Option<f64>,
    /// The longest pause of both, in microseconds.
    pub longest_us: f64,
}

/// The share of lost time, in percent, from which on a run is not used for conclusions.
const PAUSES_TOO_MANY: f64 = 50.0;

impl Pauses {
    /// Returns the share of its time that a run lost, in percent, if the share is so large that no time of the run
    /// is valid.
    pub fn too_many(&self) -> Option<f64> {
        self.during_percent.filter(|lost| *lost >= PAUSES_TOO_MANY)
    }
}

/// The source of a report's rows of instructions, branches and cache misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counters {
    /// The processor's own counters, by perf_event_open(2).
    Perf,
    /// A simulator: cachegrind or callgrind.
    Simulated,
    /// There are no such rows.
    None,
}

/// One metric of one variant, over all windows of the run that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `netmem`, `netmem/…`, `limit`, or a rival's name.
    pub variant: String,
    /// The properties of the variant.
    pub params: Params,
    /// `ns_per_op`, `cycles_per_op`, `pps`, `ns_per_packet`, `count`, `bytes`, `percent` or `latency_ns`.
    pub metric: String,
    /// The 50th percentile over windows.
    pub median: f64,
    /// The 10th percentile over windows.
    pub p10: f64,
    /// The 90th percentile over windows.
    pub p90: f64,
    /// Windows that count.
    pub windows: u64,
    /// Windows that were dropped for a pause or a short burst.
    pub windows_dropped: u64,
    /// The source's figure for the same quantity, if it gives one.
    pub published: Option<Published>,
}

/// A figure as the source printed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The quantity that was measured there, and the hardware.
    pub of: String,
}

/// Two variants compared: `a / b` inside each round, then the median over rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The numerator.
    pub a: String,
    /// The denominator.
    pub b: String,
    /// The common properties of both.
    pub params: Params,
    /// The metric that was divided.
    pub metric: String,
    /// Median over rounds.
    pub median: f64,
    /// Lower end of the median's 95 % interval.
    pub low: f64,
    /// Upper end of the median's 95 % interval.
    pub high: f64,
    /// Present and true if the interval was still too wide after the last allowed round, or [too few](Self::too_few)
    /// set-ups are behind it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub undecided: bool,
    /// Present and true if it has fewer set-ups or rounds than an interval needs. The interval is then too narrow, and
    /// nothing is concluded from it, not even the side of 1 on which it lies.
    #[serde(default, skip_serializing_if = "is_false")]
    pub too_few: bool,
}

/// A condition that must hold at the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The condition.
    pub name: String,
    /// Whether it held.
    pub ok: bool,
    /// The figures on which the result is based.
    pub detail: String,
}

/// How the name of the check begins that a set-up which failed leaves.
const SET_UP: &str = "set-up: ";

impl Check {
    /// Returns the check of a set-up whose `step` failed.
    pub(crate) fn of_set_up(step: &str, cause: String) -> Self {
        Self { name: format!("{SET_UP}{step}"), ok: false, detail: cause }
    }

    /// Returns true if it says that a set-up failed.
    pub(crate) fn is_of_set_up(&self) -> bool {
        !self.ok && self.name.starts_with(SET_UP)
    }
}

impl Ratio {
    /// Returns the side of 1 on which its whole interval lies.
    pub(crate) fn beside_one(&self) -> BesideOne {
        BesideOne::of((self.low, self.high), self.too_few)
    }
}

/// How the note of an experiment begins that cannot measure on its host.
pub(crate) const NOTHING: &str = "nothing is measured: ";

impl Report {
    /// Returns the note that says why the experiment could not measure on this host. None if it measured, or if its loop is
    /// counted by valgrind and not timed.
    pub fn unmeasured(&self) -> Option<&str> {
        let note = self.notes.iter().find(|note| note.starts_with(NOTHING))?;
        self.rows.is_empty().then_some(note)
    }

    /// Returns true if every check held.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    /// Returns the worth of a report, to compare: it has rows, it was not interrupted, each set-up succeeded.
    pub(crate) fn worth(&self) -> [bool; 3] {
        let has_failed = self.checks.iter().any(Check::is_of_set_up);
        [!self.rows.is_empty(), !self.interrupted, !has_failed]
    }

    /// Returns the source of counts, by the parameter `by` of the rows. The processor's counters take precedence
    /// over a simulator.
    pub fn counted_by(&self) -> Counters {
        let by = |names: &[&str]| {
            let mut counters = self.rows.iter().filter_map(|row| row.params.get("by")?.as_str());
            counters.any(|name| names.contains(&name))
        };
        match () {
            () if by(&["perf"]) => Counters::Perf,
            () if by(&["cachegrind", "callgrind"]) => Counters::Simulated,
            () => Counters::None,
        }
    }
}

/// Collects parameters: `params([("work", "page".into()), ("burst", 1.into())])`.
pub fn params<const N: usize>(entries: [(&str, Value); N]) -> Params {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the common properties of two variants.
pub fn shared(a: &Params, b: &Params) -> Params {
    a.iter()
        .filter(|(name, value)| b.get(*name) == Some(value))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect()
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::method::machine::Cache;

    /// Returns a report that uses every field.
    pub(crate) fn sample() -> Report {
        Report {
            schema: SCHEMA,
            version: Some("0.1.0".into()),
            program: None,
            time: None,
            experiment: "page-fast-path".into(),
            source: "brouer17-pages".into(),
            quick: true,
            set: BTreeMap::new(),
            rivals: None,
            interrupted: false,
            machine: Machine {
                cpu: Some("a processor".into()),
                cores: 2,
                kernel: Some("6.1".into()),
                is_virtual: Some(true),
                tsc_ghz: 2.6,
                tsc_invariant: Some(true),
                caches: vec![Cache { level: 1, kind: "data".into(), bytes: 49_152, shared_by: 1 }],
                hugepages: None,
                governor: None,
            },
            pauses: Some(Pauses { before_percent: 1.5, during_percent: Some(2.5), longest_us: 400.0 }),
            counters: Some(Counters::None),
            rows: vec![Row {
                variant: "netmem".into(),
                params: params([("order", 0.into()), ("stats", "on".into())]),
                metric: "ns_per_op".into(),
                median: 5.5,
                p10: 5.0,
                p90: 6.0,
                windows: 64,
                windows_dropped: 1,
                published: Some(Published { value: 143.0, unit: "cycles".into(), of: "the same".into() }),
            }],
            ratios: vec![Ratio {
                a: "netmem".into(),
                b: "limit".into(),
                params: params([("order", 0.into())]),
                metric: "ns_per_op".into(),
                median: 2.0,
                low: 1.9,
                high: 2.1,
                undecided: false,
                too_few: false,
            }],
            checks: vec![Check { name: "ledger balanced".into(), ok: true, detail: "16 = 16".into() }],
            notes: vec!["a note".into()],
        }
    }

    fn names(value: &Value) -> Vec<String> {
        let mut names: Vec<String> =
            value.as_object().expect("an object").keys().map(String::to_owned).collect();
        names.sort();
        names
    }

    #[test]
    fn a_report_survives_the_way_through_json() {
        let mut report = sample();
        (report.ratios[0].undecided, report.ratios[0].too_few) = (true, true);
        report.set.insert("ring".into(), "512".into());
        report.rivals = Some(true);
        (report.version, report.time) = (Some("0.1.0".into()), Some("2026-11-25T12:00:00Z".into()));
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }

    #[test]
    fn field_names_are_those_of_the_contract() {
        let value = serde_json::to_value(sample()).unwrap();
        assert_eq!(
            names(&value),
            [
                "checks",
                "counters",
                "experiment",
                "machine",
                "notes",
                "pauses",
                "quick",
                "ratios",
                "rows",
                "schema",
                "source",
                "version"
            ]
        );
        assert_eq!(
            names(&value["machine"]),
            [
                "caches",
                "cores",
                "cpu",
                "governor",
                "hugepages",
                "kernel",
                "tsc_ghz",
                "tsc_invariant",
                "virtual"
            ]
        );
        assert_eq!(names(&value["machine"]["caches"][0]), ["bytes", "kind", "level", "shared_by"]);
        assert_eq!(names(&value["pauses"]), ["before_percent", "during_percent", "longest_us"]);
        assert_eq!(value["counters"], "none");
        assert_eq!(
            names(&value["rows"][0]),
            [
                "median",
                "metric",
                "p10",
                "p90",
                "params",
                "published",
                "variant",
                "windows",
                "windows_dropped"
            ]
        );
        assert_eq!(names(&value["rows"][0]["published"]), ["of", "unit", "value"]);
        assert_eq!(names(&value["ratios"][0]), ["a", "b", "high", "low", "median", "metric", "params"]);
        assert_eq!(names(&value["checks"][0]), ["detail", "name", "ok"]);
        assert_eq!(value["machine"]["hugepages"], Value::Null);
    }

    #[test]
    fn a_report_of_before_pauses_and_caches_is_still_read() {
        let mut value = serde_json::to_value(sample()).unwrap();
        for name in ["pauses", "counters"] {
            value.as_object_mut().unwrap().remove(name);
        }
        for name in ["caches", "tsc_invariant"] {
            value["machine"].as_object_mut().unwrap().remove(name);
        }
        let report: Report = serde_json::from_value(value).unwrap();
        assert_eq!((report.pauses, report.counters), (None, None));
        assert_eq!((report.machine.caches, report.machine.tsc_invariant), (vec![], None));
    }

    #[test]
    fn the_processors_counters_stand_before_a_simulators() {
        let mut report = sample();
        assert_eq!(report.counted_by(), Counters::None);
        for (by, counters) in [("callgrind", Counters::Simulated), ("perf", Counters::Perf)] {
            report.rows.push(Row { params: params([("by", by.into())]), ..report.rows[0].clone() });
            assert_eq!(report.counted_by(), counters);
        }
    }

    #[test]
    fn an_undecided_ratio_says_so_beside_the_contract_fields() {
        let mut ratio = sample().ratios.remove(0);
        ratio.undecided = true;
        assert_eq!(serde_json::to_value(ratio).unwrap()["undecided"], Value::Bool(true));
    }

    #[test]
    fn two_variants_share_only_equal_parameters() {
        let a = params([("burst", 32.into()), ("free", "bulk".into()), ("bytes", 64.into())]);
        let b = params([("burst", 32.into()), ("free", "single".into())]);
        assert_eq!(shared(&a, &b), params([("burst", 32.into())]));
    }
}
