//! Tests of `netmem forward` without ports: the counters of the JSON object add up with all options.

mod netmem;

use netmem::{assert_adds_up, child_of, dropped, number, object, output, ports, stderr, stdout};
use std::process::Command;

#[test]
fn by_default_it_is_a_router_between_two_mem_ports_and_every_packet_is_accounted_for() {
    let run = object(&output("forward --seconds 0.2 --json"));
    assert_adds_up(&run);
    assert_eq!((run["mode"].as_str(), run["ports"][0]["name"].as_str()), (Some("ip"), Some("mem:0")));
    assert!(run["backing"].as_str().is_some_and(|backing| backing.contains("pages")), "{run}");
}

#[test]
fn a_number_of_packets_is_sent_exactly_and_none_is_lost_on_links_that_pause() {
    for mode in ["ip", "cross-connect"] {
        let run = object(&output(&format!("forward --packets 20001 --json --mode {mode}")));
        assert_adds_up(&run);
        assert_eq!(
            (number(&run, "generator.sent"), number(&run, "sink.received")),
            (20_001, 20_001),
            "{run}"
        );
        assert_eq!((dropped(&run), number(&run, "sink.lost")), (0, 0), "{run}");
        assert_eq!(run["mode"], mode);
        assert!(run["pps"].as_f64() > Some(0.0) && run["ns_per_packet"].as_f64() > Some(0.0), "{run}");
    }
}

#[test]
fn a_single_packet_is_forwarded() {
    let run = object(&output("forward --packets 1 --json"));
    assert_adds_up(&run);
    assert_eq!((number(&run, "sink.received"), ports(&run, "rx_bytes")), (1, 64));
    assert!(run["pps"].is_null() && run["ns_per_packet"].is_null(), "no window was filled: {run}");
}

#[test]
fn a_burst_into_a_tiny_pool_is_dropped_by_count_and_the_forwarder_goes_on() {
    let run = object(&output("forward --packets 10000 --pause off --frames 64 --json"));
    assert_adds_up(&run);
    assert_eq!(number(&run, "generator.sent"), 10_000);
    assert!(number(&run, "sink.received") >= 32, "what found a frame of the port's half arrives: {run}");
    assert_eq!(
        ports(&run, "rx_no_frame") + ports(&run, "rx_ring_full") + number(&run, "received"),
        10_000,
        "{run}"
    );
}

#[test]
fn links_that_do_not_pause_lose_packets_only_by_count() {
    let run =
        object(&output("forward --packets 300000 --pause off --frames 128 --ring 32 --flows 100 --json"));
    assert_adds_up(&run);
    assert!(number(&run, "sink.received") >= 32, "what the first ring took arrives: {run}");
}

#[test]
fn sizes_flows_and_rings_at_their_ends_add_up() {
    for arguments in [
        "--size 64 --flows 65534",
        "--size 1514 --flows 7",
        "--size 9018 --frame-size 16384",
        "--size 14524 --frame-size 16384 --path full --ready-packets 50",
        "--size 29116 --frame-size 32768 --flows 7 --ring 64",
        "--size 1514 --flows 65534 --mode cross-connect",
        "--ring 2 --frames 64",
        "--ring 16384 --frames 64",
    ] {
        let run = object(&output(&format!("forward --packets 3000 --json {arguments}")));
        assert_adds_up(&run);
        assert_eq!(number(&run, "sink.received"), 3_000, "{arguments}: {run}");
    }
}

#[test]
fn without_json_a_summary_says_where_every_packet_and_frame_is() {
    let out = output("forward --packets 5000");
    let text = stdout(&out);
    assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""), "no live line without a terminal");
    for part in [
        "sent         5,000",
        "received     5,000",
        "sink         5,000",
        "ns per packet",
        "balanced",
        "MiB on ",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours");
}

#[test]
fn every_mode_accounts_for_every_packet() {
    let run = object(&output("forward --mode reflect --packets 5000 --json"));
    assert_adds_up(&run);
    assert_eq!((number(&run, "sink.received"), number(&run["ports"][0], "tx")), (5_000, 5_000), "{run}");
    let run = object(&output("forward --mode drop --packets 5000 --json"));
    assert_adds_up(&run);
    assert_eq!((number(&run, "dropped.filter_drop"), number(&run, "sink.received")), (5_000, 0), "{run}");
    let run = object(&output("forward --mode pass --packets 5000 --local-queue 100 --json"));
    assert_adds_up(&run);
    let passed = number(&run, "passed");
    assert_eq!(passed + number(&run, "dropped.local_queue_full"), 5_000, "{run}");
    assert_eq!((number(&run, "local_queue.taken"), number(&run, "local_queue.kept")), (passed, 100), "{run}");
}

#[test]
fn a_local_queue_frees_packets_older_than_its_limit() {
    let run = object(&output(
        "forward --mode pass --packets 200000 --local-queue 2000 --local-queue-seconds 0.000001 --json",
    ));
    assert_adds_up(&run);
    // The last packets may be younger than the limit. Without the time limit 2000 would be kept.
    assert!(number(&run, "local_queue.kept") < 2_000, "{run}");
}

#[test]
fn a_mirror_keeps_clones_of_sent_packets_and_every_frame_returns_to_its_pool() {
    for options in ["", "--ready-packets 50", "--path full --rule accept"] {
        let run = object(&output(&format!("forward --packets 20000 --mirror 500 {options} --json")));
        assert_adds_up(&run);
        let (taken, missed) = (number(&run, "mirror.taken"), number(&run, "mirror.missed"));
        assert_eq!((taken + missed, number(&run, "mirror.kept")), (20_000, 500), "{options}: {run}");
        assert_eq!(number(&run, "sink.received"), 20_000, "{options}: {run}");
    }
}

#[test]
fn on_the_full_path_rules_decide_and_are_counted() {
    let rules = "--rule accept,sport=49152 --rule drop,dst=10.1.0.0/30 --rule pass,sport=49155-49156";
    let run = object(&output(&format!("forward --path full {rules} --flows 10 --packets 10000 --json")));
    assert_adds_up(&run);
    let counts = |i: usize| number(&run["filter"]["rules"][i], "packets");
    assert_eq!([counts(0), counts(1), counts(2)], [1_000, 2_000, 2_000], "{run}");
    assert_eq!((number(&run, "dropped.filter_drop"), number(&run, "sink.received")), (2_000, 6_000), "{run}");
    assert_eq!((number(&run, "filter.unmatched"), number(&run, "filter.protocols.udp")), (5_000, 10_000));
    assert_eq!(run["filter"]["rules"][1]["rule"], "drop,dst=10.1.0.0/30");
    assert_eq!(run["path"], "full");
}

#[test]
fn ready_heads_and_packets_of_any_size_lose_no_packet() {
    for path in ["fast", "full"] {
        for ready in [
            "--ready-packets 0",
            "--ready-packets 50",
            "--ready-packets 50 --free single",
            "--ready-heads 64/16/32",
            "--ready-heads 0",
            "--ready-heads 8/8/8 --ready-packets 1",
        ] {
            let run = object(&output(&format!("forward --path {path} {ready} --packets 20000 --json")));
            assert_adds_up(&run);
            assert_eq!(number(&run, "sink.received"), 20_000, "{path} {ready}: {run}");
            assert_eq!(run["ready_packets"].is_object(), ready.contains("packets"), "{path} {ready}: {run}");
        }
    }
}

#[test]
fn a_hardened_memory_loses_no_packet_on_any_path() {
    for parts in ["guard", "random", "clear", "canary", "all"] {
        for path in
            ["", "--path full --rule accept", "--path full --ready-packets 50", "--workers 2 --flows 5"]
        {
            let run = object(&output(&format!("forward --hardening {parts} {path} --packets 20000 --json")));
            assert_adds_up(&run);
            assert_eq!(number(&run, "sink.received"), 20_000, "{parts} {path}: {run}");
        }
    }
    let run = object(&output(
        "forward --hardening all --mode pass --local-queue 100 --local-queue-copybreak on --packets 20000 --json",
    ));
    assert_adds_up(&run);
    assert_eq!(number(&run, "local_queue.kept"), 100, "{run}");
}

#[test]
fn the_summary_shows_rules_ready_packets_and_the_local_queue() {
    let out = output("forward --path full --rule pass,proto=udp --ready-packets 50 --packets 3000");
    let text = stdout(&out);
    assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""), "{text}");
    for part in [
        "pass,proto=17  3,000 packets",
        "no rule  0 packets",
        "carried  udp 3,000",
        "ready packets",
        "passed  ",
    ] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
}

#[test]
fn several_workers_share_the_packets_and_each_accounts_for_its_own() {
    for options in [
        "--workers 2",
        "--workers 3 --mode cross-connect --flows 7",
        "--workers 2 --mode reflect --path full --rule accept --ready-packets 50",
        "--workers 5 --ring 2 --frames 64",
    ] {
        let run = object(&output(&format!("forward {options} --packets 20001 --json")));
        assert_adds_up(&run);
        // With more threads than cores the far end of a link may not be polled for a long time. Packets without room
        // are counted.
        let full = number(&run, "dropped.tx_full");
        assert_eq!(
            (number(&run, "sink.received") + full, number(&run, "sink.lost"), dropped(&run)),
            (20_001, full, full),
            "{options}: {run}"
        );
        let workers = run["workers"].as_array().expect("workers");
        let (each, pools) = (20_001 / workers.len() as u64, run["pools"].as_array().expect("pools").len());
        assert_eq!((pools, options.as_bytes()[10] - b'0'), (workers.len(), workers.len() as u8));
        for (i, worker) in workers.iter().enumerate() {
            let received = number(worker, "received");
            assert!(received == each || received == each + 1, "{options}: {worker}");
            let sent = number(worker, "transmitted") + number(worker, "dropped");
            assert_eq!(received, sent, "{options}: {worker}");
            let ports = run["ports"].as_array().expect("ports").iter();
            let its: u64 = ports.filter(|port| port["worker"] == i).map(|port| number(port, "rx")).sum();
            assert_eq!(received, its, "{options}: {run}");
        }
    }
}

#[test]
fn several_workers_pass_to_one_local_queue_and_one_mirror_sees_the_packets_of_all() {
    let run = object(&output("forward --workers 2 --mode pass --local-queue 100 --packets 20000 --json"));
    assert_adds_up(&run);
    let kept_at_most = number(&run, "local_queue.kept");
    assert!((100..=200).contains(&kept_at_most), "a hundred of each worker's: {run}");
    let run = object(&output("forward --workers 2 --mirror 500 --packets 20000 --json"));
    assert_adds_up(&run);
    let sent = number(&run, "transmitted");
    assert_eq!(number(&run, "mirror.taken") + number(&run, "mirror.missed"), sent, "{run}");
    assert_eq!(sent + number(&run, "dropped.tx_full"), 20_000, "{run}");
    assert_eq!(number(&run, "mirror.kept"), 1_000, "{run}");
}

#[test]
fn rules_are_counted_over_all_workers() {
    let rules = "--path full --rule drop,sport=49152 --rule drop,sport=49162 --flows 10";
    let run = object(&output(&format!("forward --workers 2 {rules} --packets 10000 --json")));
    assert_adds_up(&run);
    // A flow of each generator.
    let counts = [0, 1].map(|rule| number(&run["filter"]["rules"][rule], "packets"));
    assert_eq!(counts, [500, 500], "{run}");
    assert_eq!(
        (number(&run, "filter.unmatched"), number(&run, "dropped.filter_drop")),
        (9_000, 1_000),
        "{run}"
    );
}

#[test]
fn the_summary_shows_each_of_several_workers() {
    let text = stdout(&output("forward --workers 2 --packets 3000"));
    for part in ["2 workers", "\nworkers\n  0  ", "\n  1  ", "received 1,500, transmitted 1,500", "rx1  "] {
        assert!(text.contains(part), "{part} in:\n{text}");
    }
}

#[test]
fn workers_that_sleep_lose_no_packet() {
    for options in
        ["", "--workers 2 --flows 5", "--path full --ready-packets 50", "--ring 2 --frames 64", "--mirror 50"]
    {
        let run = object(&output(&format!("forward --idle sleep {options} --packets 20001 --json")));
        assert_adds_up(&run);
        assert_eq!(number(&run, "sink.received"), 20_001, "{options}: {run}");
    }
}

/// Found in a review: exit code 2, by which a supervisor does not start the program again, and no limit was named.
#[test]
fn descriptors_that_are_lacking_now_end_the_run_with_one_line_and_exit_code_3() {
    for descriptors in [4, 5, 6] {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={descriptors}")).arg(env!("CARGO_BIN_EXE_netmem"));
        let out =
            child_of(command.args(["forward", "--seconds", "0.1"])).output().expect("prlimit(1) starts");
        let line = stderr(&out);
        assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(3), ""), "{descriptors}: {line}");
        assert!(line.starts_with("error: sandbox: ") && line.contains("`ulimit -n`"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

/// The memory of a run begins at a multiple of 2 GiB, and a table of 8 GiB maps chunks to pools. Seen: exit code 2 for the table.
#[test]
fn memory_for_which_there_is_no_address_space_now_ends_the_run_with_one_line_and_exit_code_3() {
    for (gib, what) in [(1_u64, "error: no "), (8, "error: the first pool takes 8 GiB of addresses ")] {
        let mut command = Command::new("prlimit");
        command.arg(format!("--as={}", gib << 30)).arg(env!("CARGO_BIN_EXE_netmem"));
        let out =
            child_of(command.args(["forward", "--seconds", "0.1"])).output().expect("prlimit(1) starts");
        let line = stderr(&out);
        assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(3), ""), "{line}");
        assert!(line.starts_with(what) && line.contains("ulimit -v"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}
