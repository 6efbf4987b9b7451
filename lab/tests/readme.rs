//! Tests of the README's table of results: every figure is that of the report in the repository.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A row of the README: its first and last columns, and the ratio that its figure is, by its two variants and settings.
struct Row {
    work: &'static str,
    experiment: &'static str,
    over: (&'static str, &'static str),
    settings: &'static [(&'static str, &'static str)],
}

const ROWS: [Row; 8] = [
    Row {
        work: "A frame taken and given back",
        experiment: "rivals",
        over: ("netmem", "dpdk"),
        settings: &[("work", "frame"), ("burst", "1"), ("touch", "false"), ("cores", "same")],
    },
    Row {
        work: "Packets by 32, made, written and freed",
        experiment: "rivals",
        over: ("netmem", "dpdk"),
        settings: &[("work", "packet"), ("burst", "32"), ("touch", "true"), ("cores", "same")],
    },
    Row {
        work: "Packets by 32, from core to core",
        experiment: "rivals",
        over: ("netmem", "dpdk"),
        settings: &[("work", "packet"), ("burst", "32"), ("cores", "cross")],
    },
    Row {
        work: "Objects of 256 bytes by 64, written",
        experiment: "rivals",
        over: ("netmem", "mimalloc"),
        settings: &[
            ("work", "object"),
            ("burst", "64"),
            ("bytes", "256"),
            ("touch", "true"),
            ("cores", "same"),
        ],
    },
    Row {
        work: "Forwarding from memif to memif, copying",
        experiment: "forward-memif",
        over: ("netmem", "dpdk"),
        settings: &[("role", "server"), ("bytes", "64")],
    },
    Row {
        work: "Frames by 32, 64 bytes of each written",
        experiment: "rivals",
        over: ("netmem", "dpdk"),
        settings: &[("work", "frame"), ("burst", "32"), ("touch", "true"), ("cores", "same")],
    },
    Row {
        work: "A page of 4 KiB taken and given back",
        experiment: "page-fast-path",
        over: ("netmem", "tcmalloc"),
        settings: &[("bytes", "4096"), ("touch", "false")],
    },
    Row {
        work: "Routing between veths by AF_XDP, all cores",
        experiment: "forward-xdp",
        over: ("netmem/ip", "kernel"),
        settings: &[("routes", "true")],
    },
];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The published runs, one of each of the table's machines, in the order of its columns.
const RUNS: [&str; 3] = ["docs/report/all.json", "docs/report/epyc.json", "docs/report/epyc-zen4.json"];

fn reports(run: &str) -> Vec<Value> {
    serde_json::from_str(&read(run)).expect("reports")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// All ratios of a report.
fn ratios(report: &Value) -> &[Value] {
    report["ratios"].as_array().map_or(&[], Vec::as_slice)
}

impl Row {
    /// The one ratio that it is; None if the experiment did not run on that machine.
    fn measured(&self, reports: &[Value]) -> Option<f64> {
        let fits = |ratio: &&Value| {
            let is_set = |(name, value): &(&str, &str)| text(&ratio["params"][name]) == *value;
            let over_all = ratio["params"]["placement"].is_null();
            ratio["a"] == self.over.0
                && ratio["b"] == self.over.1
                && self.settings.iter().all(is_set)
                && over_all
        };
        let report = reports.iter().find(|report| report["experiment"] == self.experiment)?;
        let found: Vec<&Value> = ratios(report).iter().filter(fits).collect();
        assert_eq!(found.len(), 1, "{}: {found:?}", self.work);
        Some(found[0]["median"].as_f64().expect("a median"))
    }
}

/// The cells of the README's table of results, by their first one.
fn cells(readme: &str) -> BTreeMap<String, Vec<String>> {
    let (_, table) = readme
        .split_once("| work | beside | Xeon | EPYC, Zen 3 | EPYC, Zen 4 | experiment |")
        .expect("the table of results");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect());
    cells.map(|cells: Vec<String>| (cells[0].clone(), cells)).collect()
}

#[test]
fn the_eight_figures_of_the_readme_are_those_of_the_reports_and_losses_are_marked() {
    let (readme, runs) = (read("README.md"), RUNS.map(reports));
    let cells = cells(&readme);
    assert_eq!(cells.len(), ROWS.len(), "{cells:?}");
    let (mut losses, mut lost) = ([0; RUNS.len()], 0);
    for row in &ROWS {
        let measured = runs.each_ref().map(|reports| row.measured(reports));
        let printed = measured.map(|ratio| match ratio {
            Some(ratio) if ratio > 1.0 => format!("**{ratio:.2}**"),
            Some(ratio) => format!("{ratio:.2}"),
            None => "–".to_owned(),
        });
        let cells = cells.get(row.work).unwrap_or_else(|| panic!("README.md has no row {:?}", row.work));
        assert_eq!(cells[2..5], printed, "{}", row.work);
        assert_eq!(cells[5..], [format!("`{}`", row.experiment)], "{}", row.work);
        let is_loss = measured.map(|ratio| ratio.is_some_and(|ratio| ratio > 1.0));
        lost += usize::from(is_loss.contains(&true));
        for (losses, is_loss) in losses.iter_mut().zip(is_loss) {
            *losses += usize::from(is_loss);
        }
    }
    let [xeon, zen3, zen4] =
        losses.map(|n| ["none", "one", "two", "three", "four", "five", "six", "seven", "eight"][n]);
    let said = format!(
        "{xeon} of the eight on the Xeon, {zen3} on the EPYC of Zen 3 and {zen4} on that of Zen 4 are **losses**"
    );
    assert!(readme.replace('\n', " ").contains(&said), "README.md does not say {said:?}");
    assert!(lost >= 3, "{lost} losses: a table of gains alone says too little");
}

#[test]
fn the_readme_names_the_machines_of_the_reports() {
    let readme = read("README.md").replace('\n', " ");
    for report in RUNS.iter().flat_map(|run| reports(run)) {
        let machine = &report["machine"];
        let kernel = text(&machine["kernel"]);
        let kernel = kernel.split('-').next().expect("a version");
        let kind = if machine["virtual"] == true { ", virtual" } else { "" };
        let runs = if report["quick"] == true { "quick runs" } else { "full runs" };
        let said =
            format!("{}{kind}, {} cores, Linux {kernel}, {runs}", text(&machine["cpu"]), machine["cores"]);
        assert!(readme.contains(&said), "README.md does not say {said:?}");
    }
}

#[test]
fn the_largest_loss_of_the_readme_is_the_largest_of_the_reports() {
    let mut worst = (0.0, String::new());
    for report in &RUNS.map(reports).concat() {
        for ratio in ratios(report) {
            let variant = |side: &str| text(&ratio[side]).split('/').next().unwrap_or_default().to_owned();
            let is_race = variant("a") == "netmem" && !["netmem", "limit"].contains(&&*variant("b"));
            let median = ratio["median"].as_f64().expect("a median");
            let cost = if ratio["metric"] == "pps" { 1.0 / median } else { median };
            if is_race && cost > worst.0 {
                let pages = ratio["params"]["bytes"].as_u64().unwrap_or_default() / 4096;
                let said = format!(
                    "{pages} pages ({} KiB) taken and given back: {cost:.0} times {}'s time",
                    pages * 4,
                    variant("b")
                );
                worst = (cost, format!("{said}, in `{}`", text(&report["experiment"])));
            }
        }
    }
    assert!(worst.0 > 1.0, "no race was lost");
    assert!(read("README.md").contains(&worst.1), "README.md does not say {:?}", worst.1);
}
