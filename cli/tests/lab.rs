//! `netmem lab` and the texts of `--help`.
#![cfg(feature = "lab")]

mod netmem;

use netmem::{netmem, output, skip, stderr, stdout};
use serde_json::Value;
use std::os::unix::process::CommandExt;

#[test]
fn the_list_names_the_first_two_experiments_in_both_forms() {
    let text = stdout(&output("lab list"));
    let out = output("lab list --json");
    let list: Vec<Value> = serde_json::from_str(&stdout(&out)).expect("a JSON array");
    for name in ["page-fast-path", "forward-bulk-free"] {
        assert!(text.contains(name), "{text}");
        assert!(list.iter().any(|entry| entry["name"] == name), "{list:?}");
    }
    assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""));
}

#[test]
fn a_lab_call_that_is_wrong_gets_one_line_and_measures_nothing() {
    for (words, remedy) in [
        ("lab run nosuch", "unknown experiment \"nosuch\": valid are self-check, page-fast-path"),
        ("lab run page-fast-path --set x", "write it as key=value"),
        ("lab run page-fast-path --set nosuch=1", "unknown key \"nosuch\": valid are rounds"),
        ("lab run page-fast-path --set rounds=0", "give a whole number from 1"),
        ("lab run all nosuch", "unknown experiment \"nosuch\": valid are "),
        ("lab run all --set rounds=many", "give a whole number from 1 to 10000"),
        ("lab run all --set setups=0", "give a whole number from 1 to 1000"),
        ("lab run page-fast-path --json /nosuch/file.json", "name a file that can be written"),
        ("lab run all --json .", "name a file that can be written"),
        ("lab run all --resume", "--json"),
        ("lab run all --budget 0", "give a whole number from 1"),
        ("lab run all --resume --json Cargo.toml", "it is not JSON"),
        ("lab compare /nosuch/a.json /nosuch/b.json", "name a file that netmem lab run --json wrote"),
        ("lab compare Cargo.toml Cargo.toml", "it is not JSON"),
        ("lab compare a b --at-least 101", "give a whole number from 0 to 100"),
    ] {
        let out = output(words);
        let said = stderr(&out);
        assert_eq!(
            (out.status.code(), stdout(&out).as_str(), said.lines().count()),
            (Some(2), "", 1),
            "{said}"
        );
        assert!(said.starts_with("error: ") && said.contains(remedy), "netmem {words}: {said}");
    }
}

/// A run with one ratio of this interval, as `--json` writes it, in a file of this test alone.
fn run_with(low: f64, high: f64, name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("netmem-compare-{}-{name}.json", std::process::id()));
    let run = serde_json::json!({
        "schema": 1, "version": "0.1.0", "experiment": "page-fast-path", "source": "brouer17-pages", "quick": true, "rows": [], "checks": [],
        "machine": {"cpu": null, "cores": 2, "kernel": null, "virtual": null, "tsc_ghz": 2.0, "hugepages": null,
                    "governor": null},
        "ratios": [{"a": "netmem", "b": "limit", "params": {}, "metric": "ns_per_op",
                    "median": low, "low": low, "high": high}],
        "notes": [],
    });
    std::fs::write(&path, run.to_string()).expect("a file in the temporary directory");
    path
}

#[test]
fn two_runs_agree_where_their_intervals_overlap() {
    let runs = [run_with(1.0, 1.2, "a"), run_with(1.1, 1.3, "b"), run_with(1.25, 1.4, "c")];
    let [a, b, c] = runs.each_ref().map(|path| path.display().to_string());
    let alike = output(&format!("lab compare {a} {b}"));
    let apart = output(&format!("lab compare {a} {c}"));
    let lenient = output(&format!("lab compare {a} {c} --at-least 0 --json"));
    runs.iter().for_each(|path| std::fs::remove_file(path).expect("it was there"));
    assert_eq!((alike.status.code(), stderr(&alike).as_str()), (Some(0), ""));
    assert_eq!(stdout(&alike), "100.0 % agree: 1 of 1 ratios have intervals that overlap\n");
    let less = "error: 0 of 1 decided ratios agree, less than 95 %\n";
    assert_eq!((apart.status.code(), stderr(&apart).as_str()), (Some(1), less));
    assert!(
        stdout(&apart).starts_with("page-fast-path: netmem / limit ns_per_op: 1.000"),
        "{}",
        stdout(&apart)
    );
    assert_eq!(lenient.status.code(), Some(0));
    let value: Value = serde_json::from_str(&stdout(&lenient)).expect("one JSON object");
    assert_eq!((&value["agreeing"], value["disagreeing"].as_array().map(Vec::len)), (&0.into(), Some(1)));
}

#[test]
fn runs_of_two_machines_are_not_compared() {
    let runs = [run_with(1.0, 1.2, "here"), run_with(1.0, 1.2, "elsewhere")];
    let text = std::fs::read_to_string(&runs[1]).expect("the file");
    std::fs::write(&runs[1], text.replace("\"cores\":2", "\"cores\":64")).expect("the file");
    let [here, elsewhere] = runs.each_ref().map(|path| path.display().to_string());
    let out = output(&format!("lab compare {here} {elsewhere}"));
    let object = output(&format!("lab compare {here} {elsewhere} --json"));
    runs.iter().for_each(|path| std::fs::remove_file(path).expect("it was there"));
    let said = stderr(&out);
    assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("only the first run has it on this machine"), "{said}");
    assert!(said.contains("name two runs of the same experiments on one machine"), "{said}");
    // Seen: nothing decided, and no object.
    let value: Value = serde_json::from_str(&stdout(&object)).expect("one JSON object");
    assert_eq!((object.status.code(), &value["agreeing"]), (Some(2), &0.into()));
    assert_eq!(value["notes"].as_array().map(Vec::len), Some(2));
}

/// Seen: of several omissions only the first was named, and longer runs were advised where the machine had paused.
#[test]
fn void_runs_are_counted_and_a_quieter_machine_is_advised() {
    let file = run_with(1.0, 1.2, "void");
    let mut run: Value =
        serde_json::from_str(&std::fs::read_to_string(&file).expect("the file")).expect("JSON");
    run["pauses"] = serde_json::json!({"before_percent": 60.0, "during_percent": 60.0, "longest_us": 1e6});
    let mut other = run.clone();
    other["experiment"] = "page-order".into();
    std::fs::write(&file, Value::from(vec![run, other]).to_string()).expect("the file");
    let out = output(&format!("lab compare {0} {0}", file.display()));
    std::fs::remove_file(&file).expect("it was there");
    let said = stderr(&out);
    assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("and is void, and 1 more)") && said.ends_with("on a quieter machine\n"), "{said}");
}

#[test]
fn a_run_of_several_prints_the_remaining_time_and_a_run_of_one_does_not() {
    let smallest = "--quick --set rounds=1 --set rounds-max=1 --set setups=1 --set windows=8 --set watch=1";
    let several = output(&format!("lab run page-fast-path page-order {smallest}"));
    let said = stderr(&several);
    let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("error: ")).collect();
    assert_eq!(lines.len(), 2, "{said}");
    for (line, name) in lines.iter().zip(["page-fast-path", "page-order"]) {
        assert!(
            line.starts_with(&format!("{name}: set-up 1, at most 1; ")) && line.ends_with(" left"),
            "{line}"
        );
    }
    let alone = stderr(&output(&format!("lab run page-fast-path {smallest}")));
    assert!(alone.lines().all(|line| line.starts_with("error: ")), "{alone}");
}

/// Seen: "the run's time was spent", though nothing had been run, and no amount was named.
#[test]
fn a_budget_that_is_too_small_to_begin_is_refused_with_one_that_is_not() {
    let out = output("lab run slab-descriptor --quick --budget 1");
    let line = stderr(&out);
    assert_eq!((out.status.code(), stdout(&out).as_str(), line.lines().count()), (Some(1), "", 1), "{line}");
    let (_, named) = line.split_once("give --budget ").expect(&line);
    let named: f64 = named.split(' ').next().expect(&line).parse().expect(&line);
    let list: Vec<Value> = serde_json::from_str(&stdout(&output("lab list --json"))).expect("a JSON array");
    let whole =
        list.iter().find(|entry| entry["name"] == "slab-descriptor").and_then(|it| it["seconds"].as_f64());
    assert!((2.0..whole.expect("seconds")).contains(&named), "{line}");
}

/// Seen: exit code 0, and nothing on standard error.
#[test]
fn an_experiment_that_was_named_and_measures_nothing_fails() {
    let test = "an_experiment_that_was_named_and_measures_nothing_fails";
    let smallest = "--quick --set rounds=1 --set rounds-max=1 --set setups=1 --set windows=8 --set watch=1";
    let mut command = netmem(&format!("lab run endpoint {smallest}"));
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let out = match command.output() {
        Ok(out) => out,
        Err(error) => return skip(test, &format!("another user cannot start the program: {error}")),
    };
    if stdout(&out).contains("FAIL  two cores") {
        return skip(test, "it needs two cores");
    }
    assert_eq!(out.status.code(), Some(1), "{}", stdout(&out));
    let line = stderr(&out);
    assert!(line.starts_with("error: endpoint: nothing is measured: it needs root"), "{line}");
}

/// Runs an experiment with processes between its ports, as short as possible. Returns its report, and whether a note
/// explains why it measured nothing.
fn forwarded(name: &str) -> (Value, bool) {
    let file = std::env::temp_dir().join(format!("netmem-lab-{}-{name}.json", std::process::id()));
    let smallest = "--quick --set rounds=1 --set rounds-max=1 --set setups=1 --set windows=8 --set watch=1";
    let out = output(&format!("lab run {name} {smallest} --json {}", file.display()));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {}", stderr(&out)));
    std::fs::remove_file(&file).expect("it was there");
    let report: Value = serde_json::from_str(&text).expect("one JSON object");
    let nothing = stdout(&out).contains("nothing is measured: ") || stdout(&out).contains("FAIL  two cores");
    (report, nothing)
}

/// Asserts that no variant lost, duplicated or corrupted a packet, and that all frames returned to their pools. Times
/// are not asserted. If the machine was paused in all of the windows, a note says that there is no row.
fn assert_accounted_for(report: &Value, variants: &[&str]) {
    let rows = report["rows"].as_array().expect("rows");
    let notes = report["notes"].as_array().expect("notes");
    let checks = report["checks"].as_array().expect("checks");
    for variant in variants {
        let unmeasured = format!("no row for {variant}: no window of it counts");
        // It has several groups of rows, and the machine may have stood still in one of them.
        let has_row = rows.iter().any(|row| row["variant"] == *variant);
        assert!(has_row || notes.iter().any(|note| *note == unmeasured.as_str()), "{variant}: {report}");
        for what in ["every packet accounted for", "contents and order intact", "ledger balanced"] {
            let name = format!("{variant}: {what}");
            let of: Vec<_> = checks.iter().filter(|check| check["name"] == name.as_str()).collect();
            assert!(!of.is_empty() && of.iter().all(|check| check["ok"] == true), "{name}: {checks:?}");
        }
    }
}

#[test]
fn netmem_between_memif_peers_loses_no_packet_of_a_backlog() {
    let (report, nothing) = forwarded("forward-memif");
    if nothing {
        return skip(
            "netmem_between_memif_peers_loses_no_packet_of_a_backlog",
            "forwarding is not measured here",
        );
    }
    assert_accounted_for(&report, &["netmem"]);
}

#[test]
fn netmem_and_the_kernel_between_veths_lose_no_packet_of_a_backlog() {
    let (report, nothing) = forwarded("forward-xdp");
    if nothing {
        return skip(
            "netmem_and_the_kernel_between_veths_lose_no_packet_of_a_backlog",
            "forwarding is not measured here",
        );
    }
    assert_accounted_for(&report, &["netmem", "netmem/generic", "netmem/ip", "kernel"]);
}

#[test]
fn help_and_version_succeed_and_document_flags_and_exit_codes() {
    for words in ["", "--help", "lab", "forward --help", "forward -h", "lab run --help", "lab report --help"]
    {
        let out = output(words);
        assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""), "netmem {words}");
    }
    let help = stdout(&output("forward --help"));
    for part in
        ["--port", "--route", "--seconds", "--packets", "--flows", "--size", "--mode", "--frames", "--ring"]
    {
        assert!(help.contains(part), "{part} in {help}");
    }
    for part in
        ["Exit codes:", "Examples:", "= transmitted + dropped + held + passed + fragmented", "ns_per_packet"]
    {
        assert!(help.contains(part), "{part} in {help}");
    }
    assert_eq!(stdout(&output("--version")), format!("netmem {}\n", env!("CARGO_PKG_VERSION")));
}

/// A directory of one test, gone at its end.
struct Directory(std::path::PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("netmem-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("a file for the test");
        path.display().to_string()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("the directory");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().display().to_string()).collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A report as versions before pauses and caches wrote it.
const REPORT: &str = r#"{"schema": 1, "experiment": "page-bulk", "source": "brouer17-pages", "quick": true,
    "machine": {"cpu": "a processor", "cores": 2, "kernel": "6.1", "virtual": true, "tsc_ghz": 2.6, "hugepages": null,
        "governor": null},
    "rows": [], "ratios": [], "checks": [{"name": "pages conserved", "ok": true, "detail": "16 of 16"}], "notes": []}"#;

#[test]
fn a_page_is_made_of_a_directory_of_reports() {
    let directory = Directory::new("page");
    directory.file("a.json", REPORT);
    directory.file("b.json", &format!("[{}]", REPORT.replace("page-bulk", "page-order")));
    directory.file("b.txt", "no report");
    let (from, page) = (directory.0.display(), directory.0.join("page.html"));
    let out = output(&format!("lab report --from {from} --out {}", page.display()));
    assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""));
    assert!(stdout(&out).contains("page.html: 2 of "), "{}", stdout(&out));
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("pages conserved: 16 of 16") && page.contains("id=\"page-order\""));
    assert_eq!(directory.names(), ["a.json", "b.json", "b.txt", "page.html"]);
}

#[test]
fn the_content_of_the_page_is_one_json_object_and_no_page_is_written() {
    let directory = Directory::new("findings");
    let good = directory.file("good.json", REPORT);
    let out = output(&format!("lab report --from {} --json", directory.0.display()));
    assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""));
    let said: Value = serde_json::from_str(&stdout(&out)).expect("one JSON object");
    assert_eq!(said["experiments"][0]["experiment"], "page-bulk");
    let not_run = said["not_run"].as_array().expect("names");
    assert!(not_run.contains(&"page-order".into()) && !not_run.contains(&"page-bulk".into()), "{said}");
    assert!(said["claims"].as_array().is_some_and(|all| all.iter().all(|one| one["verdict"].is_string())));
    assert!(said["targets"].as_array().is_some_and(|all| all.iter().all(|one| one["must"].is_number())));
    assert_eq!(directory.names(), ["good.json"]);

    let foreign = directory.file("foreign.json", "{\"name\": \"left-pad\"}");
    for (rest, said) in [
        (format!("--from {foreign}"), "name a file that netmem lab run --json wrote"),
        ("--from /nosuch.json".to_owned(), "cannot read /nosuch.json"),
        (format!("--from {good} --out page.html"), "cannot be used with"),
    ] {
        let out = output(&format!("lab report --json {rest}"));
        let line = stderr(&out);
        let seen = (out.status.code(), stdout(&out), line.lines().count());
        assert_eq!(seen, (Some(2), String::new(), 1), "{rest}: {line}");
        assert!(line.starts_with("error: ") && line.contains(said), "{rest}: {line}");
    }
}

#[test]
fn a_turn_that_no_run_ordered_is_refused_in_one_line() {
    let out = output("lab turn");
    let line = stderr(&out);
    assert_eq!((out.status.code(), stdout(&out).as_str(), line.lines().count()), (Some(2), "", 1), "{line}");
    assert!(line.starts_with("error: standard input is no socket of netmem lab run"), "{line}");
}

#[test]
fn a_page_that_cannot_be_made_is_refused_in_one_line_and_leaves_nothing() {
    let directory = Directory::new("refused");
    let good = directory.file("good.json", REPORT);
    let foreign = directory.file("foreign.json", "{\"name\": \"left-pad\"}");
    let broken = directory.file("broken.json", "{\"schema\": 1,");
    let newer = directory.file("newer.json", &REPORT.replace("\"schema\": 1", "\"schema\": 2"));
    let empty = Directory::new("empty");
    let page = directory.0.join("page.html").display().to_string();
    for (from, out, said) in [
        (foreign.as_str(), page.as_str(), "name a file that netmem lab run --json wrote"),
        (&broken, &page, "it is not JSON"),
        (&newer, &page, "it is of schema 2"),
        ("/nosuch.json", &page, "cannot read /nosuch.json"),
        (&empty.0.display().to_string(), &page, "make one with netmem lab run all --json FILE"),
        (&good, "/nosuch/page.html", "name a file that can be written"),
        (&good, "/proc/page.html", "name a file that can be written"),
        (&good, &directory.0.display().to_string(), "name a file that can be written"),
        (&good, &good, "give --out another name"),
    ] {
        let call = format!("lab report --from {from} --out {out}");
        let out = output(&call);
        let line = stderr(&out);
        let seen = (out.status.code(), stdout(&out), line.lines().count());
        assert_eq!(seen, (Some(2), String::new(), 1), "{call}: {line}");
        assert!(line.starts_with("error: ") && line.contains(said), "{call}: {line}");
    }
    assert_eq!(directory.names(), ["broken.json", "foreign.json", "good.json", "newer.json"]);
    assert_eq!(std::fs::read_to_string(good).expect("the report"), REPORT);
}
