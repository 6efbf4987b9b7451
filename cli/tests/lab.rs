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
