//! Tests that each published figure is in the row of its own settings. The figures of the sources are written here a
//! second time, and compared with the rows of the program.
#![cfg(feature = "lab")]

#[path = "../netmem/mod.rs"]
mod netmem;
mod figures;

use figures::Figure;
use netmem::{PATIENCE, output, skip, stderr};
use serde_json::{Value, json};
use std::thread;
use std::time::Instant;

/// Runs as short as possible. Times are not checked.
const SMALLEST: &str =
    "--quick --set rounds=1 --set rounds-max=1 --set setups=1 --set windows=8 --set watch=1";

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the error in the published figure of a row, or `None` if it is the figure of these settings.
fn wrong(row: &Value, figures: &[Figure]) -> Option<String> {
    let published = &row["published"];
    let described = format!("{}: {} beside {}", text(&row["variant"]), published, row["params"]);
    let same = |figure: &&Figure| {
        row["variant"] == figure.variant
            && published["value"] == json!(figure.value)
            && published["unit"] == figure.unit
    };
    let of: Vec<&Figure> = figures.iter().filter(same).collect();
    if of.is_empty() {
        return Some(format!("no source has this figure: {described}"));
    }
    let label = text(&published["of"]);
    let fits = |figure: &&Figure| {
        let set = |(name, value): &(&str, String)| text(&row["params"][*name]) == *value;
        figure.settings.iter().all(set)
            && figure.says.iter().all(|words| label.contains(words))
            && figure.never.iter().all(|words| !label.contains(words))
    };
    (!of.iter().any(fits)).then(|| format!("another setting or another label than the source's: {described}"))
}

/// Runs `experiment`. Returns its report.
fn report_of(experiment: &str) -> Value {
    let file =
        std::env::temp_dir().join(format!("netmem-published-{}-{experiment}.json", std::process::id()));
    let out = output(&format!("lab run {experiment} {SMALLEST} --json {}", file.display()));
    let report = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {}", stderr(&out)));
    std::fs::remove_file(&file).expect("it was there");
    serde_json::from_str(&report).expect("one JSON object")
}

/// Returns why a report may lack rows: the machine was paused in all of their windows, there is only one core, or valgrind
/// is missing.
fn excuses(report: &Value) -> Vec<String> {
    let notes = report["notes"].as_array().expect("notes").iter().map(text);
    let one_core = report["checks"].to_string().contains("\"two cores\"");
    let said = notes.filter(|note| note.starts_with("no row") || note.starts_with("no share"));
    said.chain(one_core.then(|| "there is only one core".to_owned())).collect()
}

/// Runs `experiment`, again while the machine was paused in all windows of a row. Returns the errors in its rows.
fn faults(experiment: &str) -> Vec<String> {
    let figures: Vec<Figure> =
        figures::all().into_iter().filter(|figure| figure.experiment == experiment).collect();
    let (begun, mut lacking) = (Instant::now(), figures.iter().collect::<Vec<&Figure>>());
    loop {
        let report = report_of(experiment);
        let all = report["rows"].as_array().expect("rows").iter();
        let rows: Vec<&Value> = all.filter(|row| !row["published"].is_null()).collect();
        let has_row = |figure: &&Figure| {
            rows.iter().any(|row| {
                row["variant"] == figure.variant && row["published"]["value"] == json!(figure.value)
            })
        };
        // A row that an earlier run had need not be in this one.
        lacking.retain(|figure| !has_row(figure));
        let missing: Vec<String> = lacking
            .iter()
            .map(|figure| format!("no row has {} {} of {}", figure.value, figure.unit, figure.variant))
            .collect();
        let excuses = excuses(&report);
        let was_paused = excuses.iter().any(|excuse| excuse.starts_with("no row for "));
        if !missing.is_empty() && was_paused && begun.elapsed() < PATIENCE {
            continue;
        }
        let mut faults: Vec<String> = rows.iter().filter_map(|row| wrong(row, &figures)).collect();
        if excuses.is_empty() {
            faults.extend(missing);
        } else if !missing.is_empty() {
            let test = thread::current().name().unwrap_or("a test").to_owned();
            skip(&test, &format!("{experiment}: {missing:?}: {excuses:?}"));
        }
        return faults;
    }
}

#[test]
fn pages_stand_beside_the_figures_of_their_settings() {
    for experiment in ["page-fast-path", "page-bulk", "page-cross-worker", "pool-recycle"] {
        assert_eq!(faults(experiment), Vec::<String>::new(), "{experiment}");
    }
}

#[test]
fn forwarding_stands_beside_the_figures_of_its_settings() {
    for experiment in ["xdp-verdicts", "cluster-pool", "forward-bulk-free", "handoff"] {
        assert_eq!(faults(experiment), Vec::<String>::new(), "{experiment}");
    }
}

#[test]
fn objects_stand_beside_the_figures_of_their_settings() {
    assert_eq!(faults("slab-bulk"), Vec::<String>::new());
}

#[test]
fn a_figure_of_another_setting_is_noticed() {
    let row = |merge: bool, cpu_partial: u64, of: &str| {
        json!({"variant": "netmem/nomerge",
            "params": {"layer": "cpu_slab", "form": "collected", "free": "single", "cpu_partial": cpu_partial,
                "min_partial": 5, "merge": merge, "mode": "ip"},
            "published": {"value": 2_121_824.0, "unit": "pps", "of": of}})
    };
    let label = "Linux 4.1.0-mmotm, i7-4790K, slab_nomerge, without tuning";
    assert_eq!(wrong(&row(false, 13, label), &figures::all()), None);
    assert!(wrong(&row(true, 13, label), &figures::all()).is_some(), "caches that are merged");
    assert!(wrong(&row(false, 256, label), &figures::all()).is_some(), "caches that are tuned");
    let tuned = "Linux 4.1.0-mmotm, i7-4790K, bulk free, tuned, slab_nomerge";
    assert!(wrong(&row(false, 13, tuned), &figures::all()).is_some(), "a label that says so");
    let mut moved = row(false, 13, label);
    moved["published"]["value"] = json!(2_124_217.0);
    assert!(wrong(&moved, &figures::all()).is_some(), "another row's figure");
}
