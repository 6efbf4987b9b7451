//! The control socket of a forwarding run: looked at and tuned by the program itself, and by clients that mean no good.

mod netmem;

use netmem::{Run, assert_adds_up, netmem, object, output, start, stderr, stdout, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

#[test]
fn the_hardening_is_shown_with_the_pages() {
    let run = Run::start_with("hardening", "--hardening guard,canary --path full --rule accept");
    // They lie behind slabs of heads, of which there are none before the first packet.
    wait_until("there are no guards", || {
        let pages = &run.json("stat pages --json")["pages"][0];
        assert_eq!(pages["hardening"], "guard,canary", "{pages}");
        assert_eq!(pages["guards_refused"], 0, "{pages}");
        pages["guards"].as_u64() > Some(0)
    });
}

#[test]
fn a_run_is_inspected_and_a_signal_ends_it_and_removes_its_socket() {
    let run = Run::start("look");
    assert_eq!(fs::metadata(&run.path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = stdout(&run.ask("stat --all"));
    for part in ["forward\n", "ports mem:0\n", "ports mem:1\n", "pools rx\n", "drops forward\n", "alloc_fast"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let pool = &run.json("stat pools --json")["pools"][0];
    assert!(pool["name"] == "rx" && pool["total"].as_u64() > Some(0), "{pool}");
    assert!(run.json("stat pages --json")["pages"][0]["total"].as_u64() > Some(0));
    let mut watching = netmem(&format!("stat forward --interval 0.1 --control {}", run.path.display()));
    let mut watching = watching.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let grown = lines.take(10_000).any(|line| line.unwrap().ends_with("/s"));
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(grown, "what grew is shown by the second");
    run.end();
}

#[test]
fn a_client_that_watches_a_run_learns_that_it_has_ended() {
    let run = Run::start("ends");
    let mut watching = start(&format!("stat forward --interval 0.05 --control {}", run.path.display()));
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "forward");
    let path = run.path.clone();
    run.end();
    lines.for_each(drop);
    let out = watching.wait_with_output().unwrap();
    assert_eq!(stderr(&out), format!("the run at {} has ended\n", path.display()));
    assert_eq!(out.status.code(), Some(0));
}

#[test]
fn router_keys_exist_only_in_router_mode() {
    let run = Run::start_with("no-router", "--mode cross-connect");
    for (words, said) in [
        ("set icmp.rate 5", "error: no key \"icmp.rate\": there are forward.idle, page.statistics, "),
        ("stat icmp", "error: nothing called \"icmp\": there are pools, ports, "),
    ] {
        let out = run.ask(words);
        assert!(stderr(&out).starts_with(said) && stderr(&out).lines().count() == 1, "{}", stderr(&out));
        assert_eq!(out.status.code(), Some(2));
    }
    run.end();
}

/// The keys of a forwarder with one pool.
const KEYS: &[&str] = &[
    "forward.idle",
    "icmp.rate",
    "icmp.burst",
    "icmp.source_rate",
    "icmp.source_burst",
    "page.statistics",
    "page.lists.high",
    "page.lists.batch",
    "page.lists.tuned",
    "page.watermarks.min",
    "page.watermarks.low",
    "page.watermarks.high",
    "pool.rx.frames",
    "pool.rx.cache",
    "pool.rx.trace",
    "pool.rx.refill",
    "pool.rx.node",
];

/// Each key that is turned, and its new value.
const TURNED: &[(&str, &str)] = &[
    ("icmp.rate", "0"),
    ("icmp.burst", "1"),
    ("icmp.source_rate", "0"),
    ("icmp.source_burst", "7"),
    ("pool.rx.cache", "128"),
    ("pool.rx.refill", "64"),
    ("page.statistics", "off"),
    ("pool.rx.node", "0"),
    ("pool.rx.node", "any"),
    ("page.lists.high", "0"),
    ("page.lists.batch", "31"),
    ("page.lists.high", "62"),
    ("page.lists.tuned", "128"),
    ("page.lists.tuned", "0"),
    ("page.lists.batch", "31"),
    ("page.watermarks.min", "70"),
    ("page.watermarks.low", "80"),
];

/// Requests that fail, and the answers to them.
const REFUSED: &[(&str, &str)] = &[
    ("set pool.rx.cache -1", "give 0 to 65536"),
    ("set page.lists.high 99999999", "page.lists.high: 99999999 is out of range; give 0 to "),
    ("set pool.rx.node 1", "pool.rx.node: there is no node 1; give any or 0 ("),
    ("set pool.rx.node none", "\"none\" is neither a whole number nor any; give any or 0 ("),
    ("set icmp.rate 1000001", "icmp.rate: out of range; give 0 (none at all) to 1000000 ("),
    ("set icmp.source_burst 0", "icmp.source_burst: out of range; give 1 to 1000000 ("),
    ("set icmp.burst 0", "icmp.burst: out of range; give 1 to 1000000 ("),
    ("set page.lists.tuned 99999999", "page.lists.tuned: 99999999 is out of range; give 0 to "),
    ("set page.lists.batch 0", "page.lists.batch: 0 is out of range; give 1 to 128 ("),
    ("set page.watermarks.min 99999999", "page.watermarks.min: watermarks 99999999, "),
    ("set pool.rx.cash 1", "error: no key \"pool.rx.cash\": did you mean pool.rx.cache?\n"),
    ("set pool.rx.frames 0", "pool.rx.frames: "),
    ("set pool.rx.cache many", "\"many\" is not a whole number; give 0 to 65536"),
    ("set page.statistics maybe", "is neither on nor off; give on or off"),
    ("set pool.rx.cash", "error: no key \"pool.rx.cash\": did you mean pool.rx.cache?\n"),
    ("stat pool", "nothing called \"pool\": there are pools, ports, drops, forward, workers, holders, pages"),
];

#[test]
fn keys_are_listed_and_changed_and_wrong_values_are_refused_with_right_ones() {
    let run = Run::start("keys");
    let keys = run.json("set --json");
    let names: Vec<_> = keys.as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap()).collect();
    assert_eq!(names, KEYS);
    let value = |key: &str| {
        let keys = run.json("set --json");
        let key = keys.as_array().unwrap().iter().find(|entry| entry["key"] == key).unwrap();
        key["value"].as_str().unwrap().to_owned()
    };
    for (key, new) in TURNED {
        let out = run.ask(&format!("set {key} {new}"));
        assert_eq!((stdout(&out).as_str(), stderr(&out).as_str(), out.status.code()), ("", "", Some(0)));
        assert_eq!(value(key), *new);
    }
    assert_eq!((value("page.watermarks.high"), value("page.lists.batch")), ("80".into(), "31".into()));
    for (words, said) in REFUSED {
        let out = run.ask(words);
        assert!(
            stderr(&out).contains(said) && stderr(&out).lines().count() == 1,
            "{words}: {}",
            stderr(&out)
        );
        assert_eq!((stdout(&out).as_str(), out.status.code()), ("", Some(2)), "{words}");
    }
    assert_eq!(value("pool.rx.cache"), "128");
    run.end();
}

#[test]
fn a_pool_that_traces_shows_which_calls_hold_its_frames() {
    let run = Run::start("trace");
    assert_eq!(run.json("stat holders --json")["holders"], serde_json::json!([]), "tracing is off");
    assert_eq!(run.ask("set pool.rx.trace on").status.code(), Some(0));
    wait_until("no frame in a ring is named by the place that took it", || {
        let holders = run.json("stat holders --json");
        let holders = holders["holders"].as_array().unwrap();
        assert!(holders.iter().all(|holder| holder["oldest_ms"].as_u64() < Some(600_000)), "{holders:?}");
        holders
            .iter()
            .any(|holder| holder["name"].as_str().unwrap().contains(".rs:") && holder["state"] == "posted")
    });
    let text = stdout(&run.ask("stat pools"));
    assert!(text.contains("\nholders ") && text.contains("oldest_ms"), "{text}");
    assert_eq!(run.ask("set pool.rx.trace off").status.code(), Some(0));
    assert_eq!(run.json("stat pools --json")["holders"], serde_json::json!([]), "tracing is off again");
    run.end();
}

#[test]
fn the_cache_of_heads_is_shown_by_slubs_names_and_changed_under_traffic() {
    let run = Run::start_with("slabs", "--ready-heads 64/16/32");
    let text = stdout(&run.ask("stat slabs --json"));
    assert_eq!(text.matches("\"name\"").count(), 1, "{text}");
    let cache = |run: &Run| run.json("stat slabs --json")["slabs"][0].clone();
    assert_eq!(cache(&run)["name"], "heads");
    assert!(cache(&run)["objs_per_slab"].as_u64() > Some(0), "{}", cache(&run));
    for (tunable, value) in [("order", 3), ("min_partial", 0), ("sheaf_capacity", 1), ("sheaf_capacity", 60)]
    {
        let out = run.ask(&format!("set slab.heads.{tunable} {value}"));
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)), "{tunable}");
        assert_eq!(cache(&run)[tunable], value);
    }
    assert_eq!(stderr(&run.ask("set ready.heads.defer_max 0")), "");
    for (words, remedy) in [
        ("slab.heads.order 11", "give 0 to 10"),
        ("slab.heads.sheaf_capacity 0", "give 1 to 65536"),
        ("ready.heads.defer_max 65537", "give 0 to 65536"),
    ] {
        let out = run.ask(&format!("set {words}"));
        assert!(stderr(&out).contains(remedy) && out.status.code() == Some(2), "{words}: {}", stderr(&out));
    }
    assert_eq!(cache(&run)["order"], 3);
    run.end();
}

#[test]
fn a_thousand_changes_under_traffic_lose_no_frame() {
    let run = Run::start("thousand");
    let received = || stdout(&run.ask("stat ports mem:0.rx")).trim_end().parse::<u64>().expect("a number");
    wait_until("nothing is received before the changes", || received() > 0);
    let stream = UnixStream::connect(&run.path).unwrap();
    let mut lines = BufReader::new(&stream).lines();
    for turn in 0..1_000 {
        let round = turn / 7;
        let (key, value) = match turn % 7 {
            0 => ("pool.rx.cache", ["0", "64", "512", "1024"][round % 4]),
            1 => ("pool.rx.frames", ["4096", "3000", "3500", "4000"][round % 4]),
            2 => ("pool.rx.cache", ["512", "32", "700", "2"][round % 4]),
            3 => ("pool.rx.trace", ["on", "off"][round % 2]),
            4 => ("page.lists.high", ["0", "252", "63", "9"][round % 4]),
            5 => ("page.watermarks.min", ["0", "500", "64", "1000"][round % 4]),
            _ => ("pool.rx.refill", ["1", "2"][round % 2]),
        };
        let request = format!("{{\"set\":{{\"key\":\"{key}\",\"value\":\"{value}\"}}}}\n");
        (&stream).write_all(request.as_bytes()).unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), "{\"ok\":[]}", "{request}");
    }
    drop(lines);
    drop(stream);
    let during = received();
    wait_until("nothing is received after the changes", || received() > during);
    run.end();
}

#[test]
fn hostile_clients_are_survived() {
    let run = Run::start("bad");
    let said = |bytes: &[u8]| {
        let stream = UnixStream::connect(&run.path).unwrap();
        (&stream).write_all(bytes).unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        line
    };
    for garbage in [&b"\n"[..], b"\xff\xfe\n", b"{\"get\":{}}\n", b"{\"set\":{\"key\":1,\"value\":1}}\n"] {
        assert!(said(garbage).starts_with("{\"error\":"), "{garbage:?}");
    }
    // One client that leaves before its answer, one that sends half a line and leaves, and eight that stay silent.
    UnixStream::connect(&run.path).unwrap().write_all(b"{\"get\":\"keys\"}\n").unwrap();
    UnixStream::connect(&run.path).unwrap().write_all(b"{\"get\":").unwrap();
    let silent: Vec<_> = (0..8).map(|_| UnixStream::connect(&run.path).unwrap()).collect();
    drop(silent);
    run.end();
}

#[test]
fn a_second_run_at_the_same_path_is_refused_and_a_stale_socket_is_replaced() {
    let run = Run::start("twice");
    let at = run.path.display().to_string();
    let out = output(&format!("forward --seconds 1 --control {at}"));
    assert_eq!((stdout(&out).as_str(), out.status.code()), ("", Some(3)), "it may end");
    assert!(stderr(&out).contains("another program listens there") && stderr(&out).lines().count() == 1);
    run.end();
    drop(UnixListener::bind(&at).unwrap());
    assert!(Path::new(&at).exists());
    let out = output(&format!("forward --packets 1000 --json --control {at}"));
    assert_adds_up(&object(&out));
    assert!(!Path::new(&at).exists());
    let out = output(&format!("stat --control {at}"));
    assert_eq!(out.status.code(), Some(3));
    assert!(stderr(&out).contains("check that netmem forward --control"), "{}", stderr(&out));
}

#[test]
fn rules_ready_pools_and_the_local_queue_are_changed_under_traffic_and_the_counts_add_up() {
    let options = "--path full --flows 10 --rule pass,sport=49152 --ready-packets 50 --local-queue 100 --local-queue-bytes 20480";
    let run = Run::start_with("turn", options);
    let keys = run.json("set --json");
    let limit = keys.as_array().unwrap().iter().find(|key| key["key"] == "local_queue.milliseconds").unwrap();
    assert_eq!((&limit["value"], &limit["range"]), (&"none".into(), &"0 to 604800000, or none".into()));
    let since = Instant::now();
    // Ten frames of 2 KiB, although a hundred packets may stay.
    while run.json("stat local_queue --json")["local_queue"][0]["kept_bytes"] != 20_480 {
        assert!(since.elapsed() < Duration::from_secs(60), "the limit was never reached");
    }
    assert_eq!(run.json("stat local_queue --json")["local_queue"][0]["kept"], 10);
    for words in [
        "local_queue.bytes 4096",
        "local_queue.bytes none",
        "ready.packets.max 7",
        "ready.packets.max 0",
        "ready.packets.max 300",
        "ready.heads.size 16",
        "local_queue.packets 3",
        "local_queue.milliseconds none",
        "local_queue.milliseconds 1",
        "rules drop,sport=49153",
    ] {
        let out = run.ask(&format!("set {words}"));
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)), "{words}");
    }
    let rules = |run: &Run| run.json("stat rules --json")["rules"].clone();
    let since = Instant::now();
    while rules(&run)[0]["packets"] == 0 {
        assert!(since.elapsed() < Duration::from_secs(60), "the new rule never matched");
    }
    assert_eq!(rules(&run)[0]["rule"], "drop,sport=49153");
    assert_eq!(run.json("stat ready --json")["ready"][1]["max"], 300);
    assert!(run.json("stat local_queue --json")["local_queue"][0]["taken"].as_u64() > Some(0));
    for (words, remedy) in [
        ("rules reject", "begin with accept, drop or pass"),
        (
            "local_queue.bytes 1099511627777",
            "1099511627777 is more than a TiB; give 0 to 1099511627776, or none",
        ),
        ("local_queue.milliseconds 604800001", "604800001 is more than a week; give 0 to 604800000, or none"),
        (
            "local_queue.milliseconds soon",
            "\"soon\" is neither a whole number nor none; give 0 to 604800000, or none",
        ),
        ("ready.packets.max 9999999", "give 0 to 65536"),
        // Of 4196 frames, one is left for reception.
        ("local_queue.packets 4196", "give 0 to 4195"),
        ("ready.heads.size 5000", "1 to 4096"),
    ] {
        let out = run.ask(&format!("set {words}"));
        assert!(stderr(&out).contains(remedy) && out.status.code() == Some(2), "{words}: {}", stderr(&out));
    }
    let report = run.end();
    assert!(
        report["passed"].as_u64() > Some(0) && report["dropped"]["filter_drop"].as_u64() > Some(0),
        "{report}"
    );
}

#[test]
fn workers_are_shown_together_and_separately_and_one_key_changes_all_of_them() {
    let run =
        Run::start_with("workers", "--workers 2 --path full --rule accept,proto=udp --ready-packets 50");
    let stat = |what: &str| run.json(&format!("stat {what} --json"))[what].as_array().unwrap().clone();
    let names = |what: &str| -> Vec<String> {
        stat(what).iter().map(|record| record["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("workers"), ["0", "1"]);
    assert_eq!(
        (names("pools"), names("forward")),
        (vec!["rx0".into(), "rx1".into()], vec!["forward".into()])
    );
    assert_eq!(names("ports"), ["mem:0", "mem:1", "mem:2", "mem:3"]);
    assert_eq!(names("ready"), ["heads", "packets0", "packets1"]);
    assert!(stdout(&run.ask("stat")).contains("workers 1\n"));
    for (key, value) in [("pool.rx0.cache", "32"), ("pool.rx1.cache", "64"), ("ready.packets.max", "7")] {
        let out = run.ask(&format!("set {key} {value}"));
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
    }
    assert!(stat("ready")[1..].iter().all(|pairs| pairs["max"] == 7));
    assert!(stat("workers").iter().all(|worker| worker["sleeps"] == 0));
    let out = run.ask("set forward.idle sleep");
    assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
    assert!(stdout(&run.ask("set")).contains("forward.idle"));
    let refused = run.ask("set forward.idle doze");
    assert!(stderr(&refused).contains("neither spin nor sleep"), "{}", stderr(&refused));
    let out = run.ask("set rules accept");
    assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
    assert_eq!(stat("rules")[0]["rule"], "accept");
    // Seen: a rule for a port that does not exist was accepted here.
    let refused = run.ask("set rules accept,in=2");
    assert!(stderr(&refused).contains("2 ports are numbered from 0 to 1"), "{}", stderr(&refused));
    assert_eq!(stat("rules")[0]["rule"], "accept");
    run.end();
}

/// Seen: "cache 9999999: give 0 to 65536; give 0 to 65536". Also a key alone was refused, so that no long value could
/// be read.
#[test]
fn a_key_alone_is_read_and_a_value_out_of_range_is_refused_with_the_range_once() {
    let rules = "drop,proto=udp,sport=49152-50000,dport=1000-2000";
    let run = Run::start_with("alone", &format!("--path full --rule {rules}"));
    let read = |words: &str| {
        let out = run.ask(words);
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)), "{words}");
        stdout(&out)
    };
    assert_eq!(read("set pool.rx.cache 1k"), "");
    assert_eq!(read("set pool.rx.cache"), "pool.rx.cache = 1000\n");
    assert!(read("set rules").contains("sport=49152-50000"), "{}", read("set rules"));
    let record: Value = serde_json::from_str(&read("set pool.rx.cache --json")).expect("JSON");
    assert_eq!((&record["key"], &record["value"]), (&"pool.rx.cache".into(), &"1000".into()));
    let refused = stderr(&run.ask("set pool.rx.cache 9999999"));
    assert_eq!(refused.matches("0 to 65536").count(), 1, "{refused}");
    run.end();
}

#[test]
fn a_reload_is_answered_with_its_result() {
    let file = env::temp_dir().join(format!("netmem-reload-{}.toml", std::process::id()));
    let write = |text: &str| fs::write(&file, text).expect("the configuration");
    write("idle = \"spin\"\n");
    let run = Run::start_with("reload", &format!("--flows 1 --config {}", file.display()));
    let idle = || stdout(&run.ask("set forward.idle"));
    assert_eq!(idle(), "forward.idle = spin\n");
    write("idle = \"sleep\"\n");
    let out = run.ask("reload");
    assert_eq!((stdout(&out).as_str(), out.status.code()), ("configuration reloaded\n", Some(0)));
    assert_eq!(idle(), "forward.idle = sleep\n");
    for (text, why) in
        [("workers = 2\n", " cannot change while packets pass"), ("idle = \"never\"\n", "idle")]
    {
        write(text);
        let out = run.ask("reload");
        let said = stderr(&out);
        assert!(said.contains("the configuration stays as it was: ") && said.contains(why), "{said}");
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1));
    }
    assert_eq!(idle(), "forward.idle = sleep\n");
    // The messages about each reload are on standard error, where `end` allows none.
    drop(run);
    fs::remove_file(&file).expect("the configuration");
    let without = Run::start("no-config");
    let out = without.ask("reload");
    assert!(stderr(&out).contains("without --config") && out.status.code() == Some(2), "{}", stderr(&out));
    without.end();
}

/// Seen: a reload of an unchanged file reverted what `netmem set` had changed, and nothing logged either.
#[test]
fn a_reload_leaves_what_was_set_unless_the_file_changes_it_and_then_names_it() {
    let file = env::temp_dir().join(format!("netmem-overridden-{}.toml", std::process::id()));
    let write = |rate: u32, port: u16| {
        let rules = format!("path = \"full\"\nrule = [\"drop,proto=udp,dport={port}\"]\n");
        let team = "workers = 2\ngenerators = 1\nsteer = \"hash\"\n";
        fs::write(&file, format!("{team}icmp-rate = {rate}\n{rules}")).expect("the configuration");
    };
    write(1000, 7);
    let mut run = Run::start_with("overridden", &format!("--config {}", file.display()));
    let set = |key: &str, value: &str| {
        let out = run.ask(&format!("set {key} {value}"));
        assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""), "{key}");
    };
    let reloaded = || {
        let out = run.ask("reload");
        assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(0), ""));
        stdout(&out).trim_start_matches("configuration reloaded").trim().to_owned()
    };
    let kept = |rate: u32, port: u16| {
        let keys = ["forward.idle", "icmp.rate", "rules", "steer.policy"];
        let of = |key: &str| stdout(&run.ask(&format!("set {key}")));
        let [idle, its_rate, rules, policy] = keys.map(of);
        assert_eq!((idle.as_str(), its_rate), ("forward.idle = sleep\n", format!("icmp.rate = {rate}\n")));
        assert!(rules.contains(&format!("dport={port}")) && policy.contains("hash=1"), "{rules}{policy}");
    };
    set("forward.idle", "sleep");
    set("icmp.rate", "7");
    set("rules", "drop,proto=udp,dport=9");
    set("steer.policy", "hash=1");
    assert_eq!(reloaded(), "");
    kept(7, 9);
    write(500, 7);
    assert_eq!(reloaded(), "; overridden, after netmem set: icmp.rate");
    kept(500, 9);
    write(500, 8);
    assert_eq!(reloaded(), "; overridden, after netmem set: rules");
    kept(500, 8);
    write(400, 6);
    assert_eq!(reloaded(), "", "nothing was set since then");
    kept(400, 6);
    fs::remove_file(&file).expect("the configuration");
    let lines = run.lines_at_its_end();
    for line in [
        "netmem: set forward.idle to \"sleep\", was \"spin\"",
        "netmem: set icmp.rate to \"7\", was \"1000\"",
        "netmem: configuration reloaded; overridden, after netmem set: icmp.rate",
    ] {
        assert!(lines.lines().any(|its| its == line), "{line} in {lines}");
    }
}

/// Seen: "error error: …".
#[test]
fn lines_begin_with_time_and_level_on_request() {
    let out = output(
        "forward --log-time --port pcap:in=/nonexistent --port pcap:out=/dev/null --mode cross-connect",
    );
    let line = stderr(&out);
    let mut words = line.split(' ');
    let time = words.next().expect("a time");
    let form: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(form, "0000-00-00T00:00:00.000Z", "{line}");
    assert_eq!((words.next(), words.next()), (Some("error"), Some("open")), "{line}");
    assert_eq!((line.lines().count(), out.status.code()), (1, Some(2)), "{line}");
}
