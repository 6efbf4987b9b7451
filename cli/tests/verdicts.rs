//! Tests that the verdicts of a page are those that a separate script, `docs/report/verdicts.py`, finds in the JSON of
//! the runs. Needs python3. Without it each test prints that it was skipped.
#![cfg(feature = "lab")]

mod netmem;

use netmem::{output, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

fn published(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report").join(name)
}

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

/// A file of one test, gone at its end.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, content: &str) -> Self {
        let path = env::temp_dir().join(format!("netmem-verdicts-{}-{name}", std::process::id()));
        fs::write(&path, content).expect("a file in the temporary directory");
        Self(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the output of the script for runs and a page, or `None` without python3.
fn recomputed(runs: &[&Path], page: &Path) -> Option<Output> {
    let mut command = Command::new("python3");
    command.arg(published("verdicts.py")).args(runs).arg("--page").arg(page);
    match command.output() {
        Ok(out) => Some(out),
        Err(error) => {
            assert!(env::var("NETMEM_NO_SKIP").as_deref() != Ok("1"), "python3: {error}");
            eprintln!("SKIPPED: python3: {error}");
            None
        }
    }
}

/// A page of these runs by this program.
fn page_of(name: &str, runs: &[&Path]) -> Temporary {
    let page = Temporary::new(name, "");
    let from: Vec<String> = runs.iter().map(|path| path.display().to_string()).collect();
    let out = output(&format!("lab report --from {} --out {}", from.join(" "), page.0.display()));
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    page
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The published page was made from the runs of six machines.
#[test]
fn the_published_page_and_a_new_one_say_what_the_json_says() {
    let runs =
        ["xeon-167.json", "epyc.json", "epyc-zen4.json", "epyc-zen5.json", "epyc-zen1.json", "xeon-207.json"]
            .map(published);
    let runs = runs.each_ref().map(|run| &**run);
    let made = page_of("page.html", &runs);
    for page in [&published("report.html"), &made.0] {
        let Some(out) = recomputed(&runs, page) else { return };
        assert_eq!(out.status.code(), Some(0), "{}{}", stdout(&out), stderr(&out));
        assert!(stdout(&out).starts_with("equal: 43 claims, 27 targets, "), "{}", stdout(&out));
    }
}

#[test]
fn a_verdict_that_was_planted_is_found() {
    let json = published("epyc.json");
    let page = text(&page_of("one.html", &[&json]).0);
    let claim = page.find("id=\"claim-hand-off-equal-cores\"").expect("the claim");
    let (before, after) = page.split_at(claim);
    let planted = format!("{before}{}", after.replacen("bad\">does not hold<", "good\">holds<", 1));
    let planted = Temporary::new("planted.html", &planted);
    let Some(out) = recomputed(&[&json], &planted.0) else { return };
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    assert_eq!(stdout(&out), "claim hand-off-equal-cores: the page says 'holds', the JSON 'does not hold'\n");
}

#[test]
fn an_interval_that_was_planted_is_found() {
    let json = text(&published("epyc.json"));
    let mut runs: serde_json::Value = serde_json::from_str(&json).expect("an array");
    let run =
        runs.as_array_mut().expect("an array").iter_mut().find(|run| run["experiment"] == "xdp-verdicts");
    let ratios = run.expect("the run")["ratios"].as_array_mut().expect("ratios");
    let ratio = ratios.iter_mut().find(|ratio| ratio["a"] == "netmem/tx").expect("the ratio");
    // The median stays: it is the interval that decides.
    ratio["low"] = 0.9.into();
    let planted = Temporary::new("planted.json", &runs.to_string());
    let page = page_of("honest.html", &[&published("epyc.json")]);
    let Some(out) = recomputed(&[&planted.0], &page.0) else { return };
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    assert_eq!(stdout(&out), "claim xdp: the page says 'holds', the JSON 'cannot tell'\n");
    // A page that is made of it has the same verdict.
    let made = page_of("made.html", &[&planted.0]);
    let again = recomputed(&[&planted.0], &made.0).expect("python3 was there");
    assert_eq!(again.status.code(), Some(0), "{}", stdout(&again));
}

/// Seen: quick runs of seven set-ups, which an older lab did not mark, decided claims.
#[test]
fn ratios_of_seven_set_ups_decide_nothing_on_the_page_and_in_the_script() {
    let json = recorded("seven-set-ups.json");
    let page = page_of("seven.html", &[&json]);
    let said = text(&page.0);
    let xdp = said.split_once("id=\"claim-xdp\"").expect("the claim").1;
    assert!(xdp[..xdp.find("</li>").expect("its end")].contains("of fewer set-ups than an interval needs"));
    let Some(out) = recomputed(&[&json], &page.0) else { return };
    assert_eq!(out.status.code(), Some(0), "{}{}", stdout(&out), stderr(&out));
    // With nine, which a newer lab would have marked if they were too few, the page decides.
    let mut runs: serde_json::Value = serde_json::from_str(&text(&json)).expect("an array");
    runs.as_array_mut().expect("an array").iter_mut().for_each(|run| run["version"] = "0.1.0".into());
    let newer = Temporary::new("newer.json", &runs.to_string());
    let out = recomputed(&[&newer.0], &page.0).expect("python3 was there");
    let found = stdout(&out);
    assert!(
        found.contains("claim xdp: the page says 'cannot tell', the JSON 'holds in another regime'"),
        "{found}"
    );
}

#[test]
fn the_worst_verdict_of_two_machines_counts_on_the_page_and_in_the_script() {
    let json = published("xeon-167.json");
    let mut runs: serde_json::Value = serde_json::from_str(&text(&json)).expect("an array");
    for run in runs.as_array_mut().expect("an array") {
        run["machine"]["cpu"] = "another processor".into();
        run["pauses"] = serde_json::json!({"before_percent": 1.0, "during_percent": 60.0, "longest_us": 1e3});
    }
    let other = Temporary::new("other.json", &runs.to_string());
    let page = page_of("two.html", &[&json, &other.0]);
    let said = text(&page.0);
    assert!(said.contains("More than one machine.") && said.contains("The run does not stand: 60.0 %"));
    let Some(out) = recomputed(&[&json, &other.0], &page.0) else { return };
    assert_eq!(out.status.code(), Some(0), "{}{}", stdout(&out), stderr(&out));
}
