//! `netmem lab` and the texts of `--help`.

mod netmem;

use netmem::{output, stderr, stdout};
use serde_json::Value;

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
        ("lab run nosuch", "unknown experiment \"nosuch\": valid are page-fast-path"),
        ("lab run page-fast-path --set x", "write it as key=value"),
        ("lab run page-fast-path --set nosuch=1", "unknown key \"nosuch\": valid are rounds"),
        ("lab run page-fast-path --set rounds=0", "give a whole number from 1"),
        ("lab run page-fast-path --json /nosuch/file.json", "name a file that can be written"),
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
        "schema": 1, "experiment": "page-fast-path", "source": "004", "quick": true, "rows": [], "checks": [],
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
    assert_eq!((apart.status.code(), stderr(&apart).lines().count()), (Some(1), 1), "{}", stderr(&apart));
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
fn help_and_version_succeed_and_document_flags_and_exit_codes() {
    for words in ["", "--help", "lab", "forward --help", "forward -h", "lab run --help"] {
        let out = output(words);
        assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""), "netmem {words}");
    }
    let help = stdout(&output("forward --help"));
    for part in
        ["--port", "--route", "--seconds", "--packets", "--flows", "--size", "--mode", "--frames", "--ring"]
    {
        assert!(help.contains(part), "{part} in {help}");
    }
    for part in ["Exit codes:", "Examples:", "received = transmitted + dropped + held", "ns_per_packet"] {
        assert!(help.contains(part), "{part} in {help}");
    }
    assert_eq!(stdout(&output("--version")), format!("netmem {}\n", env!("CARGO_PKG_VERSION")));
}
