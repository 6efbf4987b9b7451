//! The report's schema, version 1: the names that any script may read.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::method::machine::Machine;

/// The schema's version, first field of every report.
pub const SCHEMA: u32 = 1;

/// What a variant did, as names and values: `work`, `burst`, `cores`, `bytes`, `touch`, and what else varies.
pub type Params = Map<String, Value>;

/// One run of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: u32,
    /// The experiment's name.
    pub experiment: String,
    /// The key of the text that published the experiment (`docs/sources.md`), or `none`.
    pub source: String,
    /// True if run with fewer rounds.
    pub quick: bool,
    /// Present and true if the run was ended before its time: what it has is of the set-ups, or the rounds, that were finished.
    #[serde(default, skip_serializing_if = "is_false")]
    pub interrupted: bool,
    /// Where it ran.
    pub machine: Machine,
    /// The time that the machine stood still; absent from reports of before it was watched.
    #[serde(default)]
    pub pauses: Option<Pauses>,
    /// Who counted instructions, branches and cache misses; absent from reports of before this was said.
    #[serde(default)]
    pub counters: Option<Counters>,
    /// One row per variant and metric.
    pub rows: Vec<Row>,
    /// Variants compared inside the same rounds.
    pub ratios: Vec<Ratio>,
    /// What had to hold.
    pub checks: Vec<Check>,
    /// What a reader must know to read the rows.
    pub notes: Vec<String>,
}

/// The share of time in which the machine did not run this process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pauses {
    /// While nothing but the clock was watched, just before the run.
    pub before_percent: f64,
    /// In the windows of the run: what they lasted beyond what their work takes. Null where none was taken.
    pub during_percent: Option<f64>,
    /// The longest pause of both, in microseconds.
    pub longest_us: f64,
}

/// The share of lost time from which on nothing is concluded from a run, in percent.
const PAUSES_TOO_MANY: f64 = 50.0;

impl Pauses {
    /// The share of its time that a run lost, in percent, if that is so much that no time of it stands.
    pub fn too_many(&self) -> Option<f64> {
        self.during_percent.filter(|lost| *lost >= PAUSES_TOO_MANY)
    }
}

/// Where a report's rows of instructions, branches and cache misses come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counters {
    /// The processor's own counters, by perf_event_open(2).
    Perf,
    /// A simulator's: cachegrind or callgrind.
    Simulated,
    /// There are no such rows.
    None,
}

/// One metric of one variant, over all windows of the run that count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `netmem`, `netmem/…`, `limit`, or a rival's name.
    pub variant: String,
    /// What the variant did.
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
    /// Windows that a pause or a short burst made worthless.
    pub windows_dropped: u64,
    /// The source's figure for the same thing, if it gives one.
    pub published: Option<Published>,
}

/// A figure as the source printed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// What was measured there, and on what.
    pub of: String,
}

/// Two variants compared: `a / b` inside each round, then the median over rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The variant above the line.
    pub a: String,
    /// The variant below the line.
    pub b: String,
    /// What both have in common.
    pub params: Params,
    /// The metric that was divided.
    pub metric: String,
    /// Median over rounds.
    pub median: f64,
    /// Lower end of the median's 95 % interval.
    pub low: f64,
    /// Upper end of the median's 95 % interval.
    pub high: f64,
    /// Present and true if the interval stayed too wide after the last round that was allowed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub undecided: bool,
}

/// Something that had to hold at the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Whether it held.
    pub ok: bool,
    /// The figures behind the answer.
    pub detail: String,
}

impl Report {
    /// True if every check held.
    pub fn ok(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }

    /// Who counted, by the parameter `by` of the rows: the processor's counters before a simulator's.
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

/// What two variants have in common.
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

    /// A report with every field in use.
    pub(crate) fn sample() -> Report {
        Report {
            schema: SCHEMA,
            experiment: "page-fast-path".into(),
            source: "brouer17-pages".into(),
            quick: true,
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
        report.ratios[0].undecided = true;
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
                "source"
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
