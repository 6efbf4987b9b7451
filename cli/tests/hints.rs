//! Tests of hints: suffixes are read, a mistyped name gets the nearest one, and a refusal has a remedy.

mod netmem;

use netmem::{number, object, output, stderr, stdout};

/// The one line with which the command is refused as bad input.
#[track_caller]
fn refusal(words: &str) -> String {
    let out = output(words);
    let said = stderr(&out);
    assert_eq!((out.status.code(), stdout(&out).as_str(), said.lines().count()), (Some(2), "", 1), "{said}");
    said.trim_end().strip_prefix("error: ").expect("an error").to_owned()
}

/// Seen: `--packets 10k` and `--rate 1M` were refused, as pktgen and iperf3 do not.
#[test]
fn numbers_with_k_and_m_count_thousands_and_powers_of_two_1024() {
    let run = object(&output("forward --packets 10k --ring 1k --frames 8k --frame-size 4k --json"));
    assert_eq!(number(&run, "sink.received"), 10_000, "{run}");
    assert_eq!(number(&run["ports"][1], "filled"), 1_024, "its ring, once: {run}");
    let file = std::env::temp_dir().join(format!("netmem-hints-{}.pcap", std::process::id()));
    let sent = output(&format!("gen --port pcap:out={} --count 1k --rate 1M --json", file.display()));
    std::fs::remove_file(&file).expect("the file");
    assert_eq!(number(&object(&sent), "sent"), 1_000);
    assert!(refusal("forward --packets 10kk").contains("give a whole number from 1 to 1000000000000"));
}

/// Seen: "--core 99: Invalid argument (os error 22)".
#[test]
fn a_missing_core_is_refused_with_the_existing_ones() {
    let said = refusal("gen --port pcap:out=/dev/null --count 1 --core 1000");
    assert!(
        said.contains("--core 1000: ") && said.contains("give one that this program may run on: "),
        "{said}"
    );
    assert!(said.ends_with(|last: char| last.is_ascii_digit()), "{said}");
}

/// Seen: "--config /nope.toml: No such file or directory (os error 2)", "control socket /nope/x.sock: cannot make it".
#[test]
fn a_missing_file_or_folder_is_reported_with_its_remedy() {
    assert_eq!(
        refusal("forward --config /nonexistent.toml"),
        "--config /nonexistent.toml: there is no such file: check the path"
    );
    assert_eq!(
        refusal("forward --control /nonexistent/x.sock"),
        "control socket /nonexistent/x.sock: there is no folder /nonexistent: make it first, or give another path"
    );
    let long = format!("/tmp/{}", "x".repeat(103));
    assert_eq!(
        refusal(&format!("forward --control {long}")),
        format!("control socket {long}: the path is too long: give at most 107 bytes")
    );
}

/// Seen: with a file that a full disk had left empty, the service forwarded packets of the built-in generator, and ended
/// after ten seconds with success.
#[test]
fn a_configuration_without_a_port_is_refused_unless_the_generator_is_asked_for() {
    let file = std::env::temp_dir().join(format!("netmem-hints-empty-{}.toml", std::process::id()));
    let path = file.display();
    for text in ["", "# port = [\"packet:eth0\", \"packet:eth1\"]\n\n", "port = []\nworkers = 1\n"] {
        std::fs::write(&file, text).expect("a file");
        for command in ["forward --config", "forward --check --config", "doctor --config"] {
            let said = refusal(&format!("{command} {path}"));
            assert!(
                said.starts_with(&format!("--config {path}: there is no port in the file: add port = [")),
                "{said}"
            );
        }
    }
    let run = object(&output(&format!("forward --config {path} --packets 10 --json")));
    assert_eq!(number(&run, "sink.received"), 10, "{run}");
    std::fs::remove_file(&file).expect("the file");
}

/// Seen: "1025 rules: give at most 1024", without the key and its line.
#[test]
fn too_many_rules_are_refused_with_their_place() {
    let file = std::env::temp_dir().join(format!("netmem-hints-{}.toml", std::process::id()));
    let path = file.display();
    let text = format!("path = \"full\"\nrule = [{}]\n", "\"drop,in=0\",".repeat(1025));
    std::fs::write(&file, text).expect("a file");
    let line = format!("{path}:2: --rule list of 1025 rules: give at most 1024");
    assert_eq!(refusal(&format!("forward --config {path}")), line);
    std::fs::remove_file(&file).expect("the file");
}

#[test]
fn an_interface_that_no_port_has_is_refused_with_those_of_the_ports() {
    let ports = "forward --port xdp:nosuch0 --port xdp:nosuch1";
    assert_eq!(
        refusal(&format!("{ports} --route default,nosuch2,02:00:00:00:00:02")),
        "--route: no --port has the interface nosuch2: the ports have nosuch0, nosuch1; or give a port's \
         number, from 0"
    );
    // Both words are valid. The next error is that there is no such interface.
    let said = refusal(&format!(
        "{ports} --route default,nosuch1,02:00:00:00:00:02 --address 10.0.2.254/24,nosuch0"
    ));
    assert_eq!(said, "interface nosuch0 does not exist: `ip link` lists those of this network namespace");
}

/// Seen: "give a whole number from 64 to 29116" for a mistyped mix, without a word of mixes.
#[test]
fn a_mistyped_mix_of_sizes_is_refused_with_the_forms_of_lists_and_imix() {
    let said = refusal("gen --port pcap:out=/dev/null --size imixx");
    assert!(
        said.contains("give a whole number from 64 to 29116, several with commas between, or imix"),
        "{said}"
    );
}

#[test]
#[cfg(feature = "lab")]
fn a_mistyped_experiment_gets_the_nearest_name_and_another_word_gets_all_names() {
    assert_eq!(
        refusal("lab run page-fast-pth"),
        "unknown experiment \"page-fast-pth\": did you mean page-fast-path? (netmem lab list shows all)"
    );
    assert!(refusal("lab run colours").contains("valid are self-check, page-fast-path"));
}

/// The same program without the lab reports that with any arguments.
#[test]
#[cfg(not(feature = "lab"))]
fn a_program_without_the_lab_says_so() {
    for words in ["lab", "lab list", "lab run all --quick", "lab --help"] {
        assert!(refusal(words).starts_with("this netmem was built without the lab: "), "{words}");
    }
}

#[test]
fn a_mistyped_mode_gets_the_nearest_name() {
    assert!(refusal("forward --mode crossconnect").contains("tip: a similar value exists: 'cross-connect'"));
}
