//! Tests of the figures in the README's table of results, in `docs/results.md` and on the pages of the sources: each is that
//! of a report in the repository.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A row of both tables of results: its first and last columns, and the ratio that its figures are, by its two variants and
/// settings.
struct Row {
    work: &'static str,
    experiment: &'static str,
    over: (&'static str, &'static str),
    settings: &'static [(&'static str, &'static str)],
}

const ROWS: [Row; 9] = [
    Row {
        work: "A frame allocated and freed (not written)",
        experiment: "rivals",
        over: ("netmem", "dpdk"),
        settings: &[("work", "frame"), ("burst", "1"), ("touch", "false"), ("cores", "same")],
    },
    Row {
        work: "A frame allocated, written and freed",
        experiment: "rivals",
        over: ("netmem", "dpdk"),
        settings: &[("work", "frame"), ("burst", "1"), ("touch", "true"), ("cores", "same")],
    },
    Row {
        work: "Packets in bursts of 32, allocated, written and freed",
        experiment: "rivals",
        over: ("netmem", "dpdk"),
        settings: &[("work", "packet"), ("burst", "32"), ("touch", "true"), ("cores", "same")],
    },
    Row {
        work: "Packets in bursts of 32, from core to core",
        experiment: "rivals",
        over: ("netmem", "dpdk"),
        settings: &[("work", "packet"), ("burst", "32"), ("cores", "cross")],
    },
    Row {
        work: "Objects of 256 bytes, 64 in one call, written",
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
        work: "Frames in bursts of 32, 64 bytes of each written",
        experiment: "rivals",
        over: ("netmem", "dpdk"),
        settings: &[("work", "frame"), ("burst", "32"), ("touch", "true"), ("cores", "same")],
    },
    Row {
        work: "A page of 4 KiB allocated and freed",
        experiment: "page-fast-path",
        over: ("netmem", "tcmalloc"),
        settings: &[("bytes", "4096"), ("touch", "false")],
    },
    Row {
        work: "Routing between veths over AF_XDP, all cores",
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
const RUNS: [&str; 6] = [
    "docs/report/xeon-167.json",
    "docs/report/xeon-207.json",
    "docs/report/epyc.json",
    "docs/report/epyc-zen4.json",
    "docs/report/epyc-zen5.json",
    "docs/report/epyc-zen1.json",
];

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
    /// The median of the one ratio that it is, and whether its interval is wider than the lab allows. None if the
    /// experiment did not run on that machine.
    fn measured(&self, reports: &[Value]) -> Option<(f64, bool)> {
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
        let [median, low, high] = numbers(found[0], ["median", "low", "high"]);
        let is_undecided = found[0]["undecided"] == true;
        assert!(!is_undecided || high < 1.0 || low > 1.0, "the pages say which side of 1: {}", self.work);
        Some((median, is_undecided))
    }
}

/// A figure of a table: a loss in bold, and one of which no amount is concluded behind the mark that the pages explain.
fn cell((ratio, is_undecided): (f64, bool)) -> String {
    let figure = format!("{}{ratio:.2}", if is_undecided { "~" } else { "" });
    if ratio > 1.0 { format!("**{figure}**") } else { figure }
}

/// The page with the figures of each machine.
const RESULTS: &str = "docs/results.md";

/// The cells of a page's table with this header, by their first one. There is a row for each of [`ROWS`].
fn cells(page: &str, header: &str) -> BTreeMap<String, Vec<String>> {
    let text = read(page);
    let (_, table) = text.split_once(header).unwrap_or_else(|| panic!("{page} has no table {header:?}"));
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect());
    let cells: Vec<Vec<String>> = cells.collect();
    assert_eq!(cells.len(), ROWS.len(), "{page}: {cells:?}");
    cells.into_iter().map(|cells| (cells[0].clone(), cells)).collect()
}

/// The text of a page on one line.
fn sentences(page: &str) -> String {
    read(page).replace("\n  ", " ").replace('\n', " ")
}

fn assert_says(page: &str, said: &str) {
    assert!(sentences(page).contains(said), "{page} does not say {said:?}");
}

/// A number as the pages write it in sentences.
fn word(number: usize) -> &'static str {
    ["none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"][number]
}

#[test]
fn the_figures_of_each_machine_are_those_of_its_report_and_losses_and_undecided_ones_are_marked() {
    let runs = RUNS.map(reports);
    let cells = cells(
        RESULTS,
        "| work | compared with | Xeon 167 | Xeon 207 | EPYC, Zen 3 | EPYC, Zen 4 | EPYC, Zen 5 | EPYC, Zen 1 | experiment |",
    );
    let mut losses = [0; RUNS.len()];
    for row in &ROWS {
        let measured = runs.each_ref().map(|reports| row.measured(reports));
        let printed = measured.map(|ratio| ratio.map_or("–".to_owned(), cell));
        let cells = cells.get(row.work).unwrap_or_else(|| panic!("{RESULTS} has no row {:?}", row.work));
        assert_eq!(cells[2..8], printed, "{}", row.work);
        assert_eq!(cells[8..], [format!("`{}`", row.experiment)], "{}", row.work);
        for (losses, measured) in losses.iter_mut().zip(measured) {
            *losses += usize::from(measured.is_some_and(|(ratio, _)| ratio > 1.0));
        }
    }
    let [xeon_167, xeon_207, zen3, zen4, zen5, zen1] = losses.map(word);
    assert_says(
        RESULTS,
        &format!(
            "Figures in bold are **losses**: {xeon_167} of the nine on the Xeon 167, {xeon_207} on the Xeon 207, {zen3} on the EPYC of Zen 3, {zen4} on that of Zen 4, {zen5} on that of Zen 5 and {zen1} on that of Zen 1."
        ),
    );
}

#[test]
fn the_readme_has_the_best_and_the_worst_figure_of_all_machines_and_counts_the_losses() {
    let runs = RUNS.map(reports);
    let cells =
        cells("README.md", "| work | compared with | time of netmem / time of the other | experiment |");
    let (mut always, mut sometimes) = (0, 0);
    for row in &ROWS {
        let missing = |run| panic!("{run} has no {:?}, and README.md says all machines", row.work);
        let measured =
            RUNS.iter().zip(&runs).map(|(run, it)| row.measured(it).unwrap_or_else(|| missing(run)));
        let mut measured: Vec<(f64, bool)> = measured.collect();
        measured.sort_by(|a, b| a.0.total_cmp(&b.0));
        let printed = format!("{} to {}", cell(measured[0]), cell(measured[RUNS.len() - 1]));
        let cells = cells.get(row.work).unwrap_or_else(|| panic!("README.md has no row {:?}", row.work));
        assert_eq!(cells[2..], [printed, format!("`{}`", row.experiment)], "{}", row.work);
        let lost = measured.iter().filter(|(ratio, _)| *ratio > 1.0).count();
        always += usize::from(lost == RUNS.len());
        sometimes += usize::from(lost > 0 && lost < RUNS.len());
    }
    let mut said = format!(
        "{} of the nine are losses on all {} machines, and {} more on some of them.",
        word(always),
        word(RUNS.len()),
        word(sometimes)
    );
    said[..1].make_ascii_uppercase();
    assert_says("README.md", &said);
    assert!(always + sometimes >= 3, "{said} A table of gains alone says too little");
}

#[test]
fn the_page_of_results_names_the_machines_of_the_reports_and_the_readme_what_they_have_in_common() {
    let page = sentences(RESULTS);
    for (run, report) in RUNS.iter().flat_map(|run| reports(run).into_iter().map(move |report| (run, report)))
    {
        let machine = &report["machine"];
        let kernel = text(&machine["kernel"]);
        let kernel = kernel.split('-').next().expect("a version");
        let kind = if machine["virtual"] == true { ", virtual" } else { "" };
        let runs = if report["quick"] == true { "quick runs" } else { "full runs" };
        let said = format!("{}{kind}, {} cores, Linux {kernel}, ", text(&machine["cpu"]), machine["cores"]);
        let behind = page.split_once(&said).unwrap_or_else(|| panic!("{RESULTS} does not say {said:?}")).1;
        let (line, linked) = behind.split_once("([JSON](").expect("a link to the run");
        assert!(line.contains(runs), "{RESULTS} does not say {runs:?} of {said:?}");
        assert!(linked.starts_with(&run.replace("docs/", "")), "{RESULTS} does not link {run} at {said:?}");
        let cores = &machine["cores"];
        assert_says(
            "README.md",
            &format!("The machines are{} and have {cores} cores", kind.replace(',', "")),
        );
    }
}

#[test]
fn the_largest_loss_of_both_pages_is_the_largest_of_the_reports() {
    let mut worst = (0.0, String::new());
    for report in &RUNS.map(reports).concat() {
        for ratio in ratios(report) {
            let variant = |side: &str| text(&ratio[side]).split('/').next().unwrap_or_default().to_owned();
            let is_race = variant("a") == "netmem" && !["netmem", "limit"].contains(&&*variant("b"));
            let median = ratio["median"].as_f64().expect("a median");
            let cost = if ratio["metric"] == "pps" { 1.0 / median } else { median };
            if is_race && cost > worst.0 {
                let [ours, theirs] = ["a", "b"].map(|side| text(&ratio[side]));
                let experiment = text(&report["experiment"]);
                worst = (cost, format!("(`{ours}` over `{theirs}` in `{experiment}`) takes {cost:.0} times"));
            }
        }
    }
    assert!(worst.0 > 1.0, "no race was lost");
    for page in ["README.md", RESULTS] {
        assert_says(page, &worst.1);
    }
}

/// The pages of a folder.
fn pages(folder: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let names = entries.map(|entry| entry.expect("a page").file_name().into_string().expect("a name"));
    names.map(|name| format!("{folder}/{name}")).collect()
}

/// The pages of the sources, which print intervals.
fn pages_of_the_sources() -> Vec<String> {
    pages("docs/sources").into_iter().chain(["docs/sources.md".to_owned()]).collect()
}

/// The numbers of each text "median (low to high)" or "median (low–high)" in a line.
fn intervals(line: &str) -> Vec<[&str; 3]> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(" (") {
        let median = line[..at].rsplit(|letter: char| !letter.is_ascii_digit() && letter != '.').next();
        let Some((inside, _)) = line[at + 2..].split_once(')') else { continue };
        let ends = inside.split_once(" to ").or_else(|| inside.split_once('–'));
        let (Some(median), Some((low, high))) = (median, ends) else { continue };
        let interval = [median, low, high];
        if interval.iter().all(|number| number.parse::<f64>().is_ok()) {
            found.push(interval);
        }
    }
    found
}

/// Whether `printed` is `value`, to its precision.
fn is_rounded(printed: &str, value: f64) -> bool {
    let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half = 0.5 / 10_f64.powf(decimals as f64);
    printed.parse::<f64>().is_ok_and(|printed| (printed - value).abs() <= half + 1e-9)
}

fn numbers(of: &Value, names: [&str; 3]) -> [f64; 3] {
    names.map(|name| of[name].as_f64().unwrap_or(f64::NAN))
}

/// The intervals of a report that a line may print: its ratios of a variant that the line names, and those of two rows
/// that it names, by their 10th and 90th percentiles.
fn measured(report: &Value, line: &str) -> Vec<[f64; 3]> {
    let is_named = |variant: &Value| line.contains(&format!("`{}`", text(variant)));
    let of_line = ratios(report).iter().filter(|ratio| is_named(&ratio["a"]) || is_named(&ratio["b"]));
    let mut found: Vec<_> = of_line.map(|ratio| numbers(ratio, ["median", "low", "high"])).collect();
    let rows = report["rows"].as_array().into_iter().flatten();
    let rows: Vec<&Value> = rows.filter(|row| is_named(&row["variant"])).collect();
    for &a in &rows {
        for &b in rows.iter().filter(|b| a["metric"] == b["metric"]) {
            let [a, b] = [a, b].map(|row| numbers(row, ["median", "p10", "p90"]));
            found.push([a[0] / b[0], a[1] / b[2], a[2] / b[1]]);
        }
    }
    found
}

/// Whether the report has the printed interval, measured or said in a note.
fn has(report: &Value, line: &str, printed: [&str; 3]) -> bool {
    let is_it =
        |found: [f64; 3]| printed.iter().zip(found).all(|(printed, value)| is_rounded(printed, value));
    let [median, low, high] = printed;
    let said = format!("{median} ({low} to {high})");
    let mut notes = report["notes"].as_array().into_iter().flatten();
    measured(report, line).into_iter().any(is_it) || notes.any(|note| text(note).contains(&said))
}

#[test]
fn intervals_are_found_in_a_line_and_compared_to_their_precision() {
    let line = "a gain, 1.2 (1.1 to 1.3), of 5 (-4–6) ns, in part (6, 12 to 15), 3 (of 4 to 5)";
    assert_eq!(intervals(line), [["1.2", "1.1", "1.3"], ["5", "-4", "6"]]);
    assert!(is_rounded("1.017", 1.0174) && is_rounded("1.017", 1.0165) && is_rounded("-4", -4.4));
    assert!(!is_rounded("1.018", 1.0174) && !is_rounded("1.017", f64::NAN));
}

/// Seen: a run was published again, and the pages had the figures of the one before.
#[test]
fn each_interval_on_the_pages_of_the_sources_is_in_a_report_of_the_experiment_that_its_line_names() {
    let reports = RUNS.map(reports).concat();
    let (mut count, mut unknown) = (0, Vec::new());
    for page in pages_of_the_sources() {
        for (at, line) in read(&page).lines().enumerate() {
            let is_named = |report: &&Value| line.contains(&text(&report["experiment"]));
            let named: Vec<&Value> = reports.iter().filter(is_named).collect();
            for printed in intervals(line) {
                count += 1;
                if !named.iter().any(|report| has(report, line, printed)) {
                    let ([median, low, high], number) = (printed, at + 1);
                    unknown.push(format!("{page}:{number}: {median} ({low} to {high})"));
                }
            }
        }
    }
    assert!(count > 60, "{count} intervals: the pages of the sources print more");
    assert!(unknown.is_empty(), "in no published report of the experiment that the line names: {unknown:#?}");
}

/// The paragraphs of a page, each on one line, with the number of their first line.
fn paragraphs(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (at, line) in page.lines().enumerate() {
        match found.last_mut() {
            Some((_, text)) if is_open => *text = format!("{text} {line}"),
            _ => found.push((at + 1, line.to_owned())),
        }
        is_open = !line.trim().is_empty();
    }
    found
}

/// The reports that a paragraph of a decision record links: those of the experiments that it names, or else all.
fn linked(paragraph: &str) -> Vec<Value> {
    let runs = RUNS.iter().chain(&["docs/report/epyc-zen1-before.json"]);
    let is_linked = |run: &&&str| paragraph.contains(&run.replace("docs/", "../"));
    let linked: Vec<Value> = runs.filter(is_linked).flat_map(|run| reports(run)).collect();
    let is_named = |report: &&Value| paragraph.contains(&format!("`{}`", text(&report["experiment"])));
    let named: Vec<Value> = linked.iter().filter(is_named).cloned().collect();
    if named.is_empty() { linked } else { named }
}

/// Seen: six decision records had figures "of the report's run" that it no longer had, since it was measured again. A
/// figure of a run without a JSON stands there without an interval.
#[test]
fn each_interval_of_a_decision_record_that_links_a_report_is_a_ratio_of_that_report() {
    let (mut count, mut unknown) = (0, Vec::new());
    for page in pages("docs/adr") {
        for (at, paragraph) in paragraphs(&read(&page)) {
            let reports = linked(&paragraph);
            let ratios: Vec<[f64; 3]> = reports
                .iter()
                .flat_map(ratios)
                .map(|ratio| numbers(ratio, ["median", "low", "high"]))
                .collect();
            for printed in intervals(&paragraph).into_iter().filter(|_| !reports.is_empty()) {
                count += 1;
                let is_it = |ratio: &[f64; 3]| {
                    printed.iter().zip(ratio).all(|(text, value)| is_rounded(text, *value))
                };
                if !ratios.iter().any(is_it) {
                    unknown.push(format!("{page}:{at}: {} ({} to {})", printed[0], printed[1], printed[2]));
                }
            }
        }
    }
    assert!(count >= 15, "{count} intervals: the decision records print more");
    assert!(unknown.is_empty(), "in no report that the paragraph links: {unknown:#?}");
}
