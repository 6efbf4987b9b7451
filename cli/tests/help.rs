//! Tests of the help texts: they fit on one screen, have groups, and are correct.

mod netmem;

use netmem::{output, stderr, stdout};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The help of a command, with how wide its widest line is.
#[track_caller]
fn help(words: &str) -> (String, usize) {
    let out = output(words);
    assert_eq!(out.status.code(), Some(0), "netmem {words}");
    let text = stdout(&out);
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    (text, widest)
}

#[test]
fn the_short_help_of_every_command_fits_a_screen() {
    for command in [
        "",
        "forward",
        "gen",
        "sink",
        "grant",
        "doctor",
        "stat",
        "top",
        "set",
        "reload",
        "record",
        "completions",
        "lab",
        "lab run",
        "lab report",
        "lab compare",
    ] {
        if command.starts_with("lab") && !cfg!(feature = "lab") {
            continue;
        }
        let (text, widest) = help(&format!("{command} -h"));
        assert!(text.lines().count() <= 50, "{} lines: {text}", text.lines().count());
        assert!(widest <= 100, "{widest} columns: {text}");
    }
}

#[test]
fn the_options_of_forward_stand_under_headings() {
    let headings = [
        "Ports:",
        "Routing:",
        "Workers and steering:",
        "Packet path:",
        "Generator (without --port):",
        "Run and control:",
    ];
    let (text, _) = help("forward --help");
    let at: Vec<_> = headings.iter().map(|heading| text.find(&format!("\n{heading}\n"))).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{at:?}");
    // Only -h itself has no group.
    let rest =
        text.split("\nOptions:\n").nth(1).and_then(|rest| rest.split(":\n").next()).unwrap_or_default();
    assert_eq!(rest.matches("--").count(), 1, "{rest}");
}

/// The commands of a page's blocks for the shell, each on a line: what begins with `netmem`, up to a comment or the next command.
fn commands(page: &str) -> Vec<String> {
    let blocks = page.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let text = blocks.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let text = text
        .replace("\"$(command -v netmem)\"", "netmem")
        .replace("$((rate * 10))", "10")
        .replace("\"$rate\"", "1");
    let lines = text.lines().map(|line| line.split(" #").next().unwrap_or_default());
    let parts = lines.flat_map(|line| {
        line.split([';', '|', '&', '>']).map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    });
    let parts = parts.map(|part| part.trim_start_matches("sudo ").to_owned());
    parts.filter_map(|part| part.strip_prefix("netmem ").map(str::to_owned)).collect()
}

#[test]
fn every_command_that_a_page_shows_is_one_of_the_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["docs", "docs/guide"].map(|folder| fs::read_dir(root.join(folder)).expect("pages"));
    let files = folders.into_iter().flatten().map(|entry| entry.expect("a file").path());
    let pages =
        files.chain([root.join("README.md")]).filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut looked_at = 0;
    for page in pages {
        for command in commands(&fs::read_to_string(&page).expect("a page")) {
            if command.starts_with("lab") && !cfg!(feature = "lab") {
                continue;
            }
            // Help is printed only if all arguments before it are valid.
            let out = output(&format!("{command} --help"));
            assert_eq!(out.status.code(), Some(0), "{}: netmem {command}: {}", page.display(), stderr(&out));
            looked_at += 1;
        }
    }
    assert!(looked_at >= 28, "{looked_at} commands");
}

/// Seen: the search for the largest rate without loss printed 1,000 packets a second although every trial had failed.
#[test]
fn the_search_of_the_guide_prints_no_rate_if_every_trial_failed() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/measuring.md")).unwrap();
    let (_, rest) = page.split_once("## The largest rate without loss").unwrap();
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    let said = |netmem: &str| {
        let stand_in = format!("sleep() {{ :; }}\nnetmem() {{ {netmem} }}\ncd \"$(mktemp -d)\"\n{script}");
        let out = Command::new("sh").args(["-c", &(stand_in + "rm -r \"$PWD\"")]).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(said("return 1;"), "no rate without a loss\n");
    let good = r#"echo '"missed_no_room":0,"missed_behind":0,"missed_port_down":0';"#;
    assert!(said(good).ends_with(" packets a second without a loss\n"));
}

/// Seen: examples and lists behind the options were broken at 110 columns and once more at the terminal's end.
#[test]
fn text_after_the_options_is_not_wrapped_a_second_time() {
    for command in ["forward", "gen", "sink"] {
        let (text, _) = help(&format!("{command} --help"));
        let (_, behind) = text.split_once("\nExamples:\n").expect("examples");
        let wide: Vec<_> = behind.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }
}

/// Seen: `--flow-limit` had the texts of `--pause`.
#[test]
fn the_flow_limit_is_explained() {
    let (text, _) = help("forward --help");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("flow-limit=on|off: the last eighth of an inbox"), "{text}");
    assert!(!text.contains("--flow-limit") && !text.contains("--inbox"), "{text}");
}

/// Seen: the keys were those of an earlier version.
#[test]
fn the_help_names_the_counters_of_steering_as_the_object_has_them() {
    let (text, _) = help("forward --help");
    let (_, listed) = text.split_once("tx_queue, workers [{").expect("steer");
    let (listed, _) = listed.split_once(", and every other").expect("the first keys");
    let run = output("forward --workers 2 --steer hash --packets 1000 --json");
    let run: serde_json::Value = serde_json::from_str(&stdout(&run)).expect("an object");
    for key in listed.split(", ") {
        assert!(run["steer"]["workers"][0].get(key).is_some(), "{key}: {run}");
    }
}

/// Seen: a failure for which the exit code is 1 was in no list.
#[test]
fn the_help_of_gen_names_packets_that_a_peer_had_not_read() {
    let said = help("gen --help").0.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("its memif peer had not read packets when the run ended"), "{said}");
}

/// Seen: each interface was said to need a queue for each worker, also that of a packet or tap port.
#[test]
fn the_help_of_workers_says_which_ports_need_queues() {
    let (text, _) = help("forward --help");
    let (_, option) = text.split_once("\n      --workers <N>\n").expect("--workers");
    let (option, _) = option.split_once("\n      --").expect("the next option");
    let said = option.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("Of an xdp port, worker number I binds queue I, "), "{option}");
    assert!(said.contains("The interfaces of packet and tap ports need no further queues"), "{option}");
    assert!(said.contains("A memif server and a pcap port are for one worker."), "{option}");
}

#[test]
fn stat_lists_every_name_that_it_accepts() {
    let (text, _) = help("stat --help");
    for what in
        ["forward", "workers", "ports", "pools", "drops", "holders", "pages", "icmp", "steer", "netlink"]
    {
        assert!(text.contains(what), "{what}: {text}");
    }
}
