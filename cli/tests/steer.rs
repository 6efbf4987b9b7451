//! Tests of workers that share the packets that they receive: every packet leaves once, in the order of its flow, or is
//! counted where it was dropped.

mod netmem;

use netmem::{
    assert_adds_up, netmem, number, object, output, start, stderr, stdout, wait_until, wait_while_it_runs,
    without_settings,
};
use serde_json::Value;
use std::env;
use std::os::unix::net::UnixStream;

/// What lies between the workers is empty at the end, and their counters agree.
fn assert_shared(run: &Value) {
    assert_adds_up(run);
    let workers = run["workers"].as_array().expect("workers");
    let sum = |name: &str| workers.iter().map(|worker| number(worker, name)).sum::<u64>();
    let between: u64 =
        ["inbox_full", "flow_limit", "inbox_gone"].map(|cause| number(&run["dropped"], cause)).iter().sum();
    assert_eq!(sum("handed"), sum("taken") + between, "{run}");
    for worker in workers {
        let count = |name: &str| number(worker, name);
        let gone =
            count("transmitted") + count("dropped") + count("held") + count("passed") + count("handed");
        assert_eq!(count("received") + count("taken"), gone, "{run}");
    }
    for counts in run["steer"]["workers"].as_array().expect("steer.workers") {
        assert_eq!((number(counts, "waiting"), number(counts, "lost")), (0, 0), "{run}");
    }
}

#[test]
fn every_policy_brings_every_packet_through_in_the_order_of_its_flow() {
    for policy in ["none", "map=rx0:1,rx1:2,0", "hash", "hash=1,2", "flow", "flow=0,2"] {
        for queue in ["rx-worker", "fwd-worker"] {
            let options = format!("--workers 3 --steer {policy},tx-queue={queue} --flows 7");
            let run = object(&output(&format!("forward {options} --packets 30001 --json")));
            assert_shared(&run);
            let sink = |name: &str| number(&run["sink"], name);
            assert_eq!((sink("received"), sink("lost")), (30_001, 0), "{options}: {run}");
            // By the second worker's queue a flow that moves may overtake itself in the devices.
            if (policy, queue) != ("flow", "fwd-worker") && (policy, queue) != ("flow=0,2", "fwd-worker") {
                assert_eq!(sink("reordered"), 0, "{options}: {run}");
            }
            assert_eq!(
                (run["steer"]["policy"].as_str().map(|p| p.split('=').next()), &run["steer"]["tx_queue"]),
                (Some(policy.split('=').next()), &Value::from(queue))
            );
        }
    }
}

#[test]
fn a_round_robin_loses_nothing_and_its_reordering_is_counted() {
    for queue in ["rx-worker", "fwd-worker"] {
        let options = format!("--workers 2 --steer round-robin,tx-queue={queue} --flows 7");
        let run = object(&output(&format!("forward {options} --packets 100001 --json")));
        assert_shared(&run);
        assert_eq!(number(&run, "sink.received"), 100_001, "{run}");
    }
}

#[test]
fn one_worker_receives_and_others_forward() {
    let options = "--workers 3 --generators 1 --flows 100 --steer hash=1,2";
    for queue in ["rx-worker", "fwd-worker"] {
        let run = object(&output(&format!("forward {options},tx-queue={queue} --packets 20000 --json")));
        assert_shared(&run);
        assert_eq!((number(&run, "sink.received"), number(&run, "sink.reordered")), (20_000, 0), "{run}");
        let of = |worker: usize, name: &str| number(&run["workers"][worker], name);
        assert_eq!([0, 1, 2].map(|worker| of(worker, "received")), [20_000, 0, 0], "{run}");
        let transmitted = [0, 1, 2].map(|worker| of(worker, "transmitted"));
        match queue {
            "rx-worker" => assert_eq!(transmitted, [20_000, 0, 0], "{run}"),
            // The packets that the others do not take any more at their end belong to worker 0.
            _ => assert!(transmitted[1] > 0 && transmitted[2] > 0, "{run}"),
        }
    }
}

/// Runs with these options, and again until packets are dropped by one of these causes: whether a worker comes too late
/// depends on the cores that it is given. Each run adds up. Returns the last one.
fn run_until_dropped(options: &str, causes: &[&str]) -> Value {
    let mut run = Value::Null;
    wait_until(&format!("nothing is dropped by {causes:?} with {options}"), || {
        run = object(&output(&format!("forward {options} --packets 300000 --json")));
        assert_shared(&run);
        causes.iter().any(|cause| number(&run["dropped"], cause) > 0)
    });
    run
}

#[test]
fn a_worker_that_gets_more_than_its_inbox_holds_drops_by_cause_and_everything_adds_up() {
    let causes = ["inbox_full", "flow_limit"];
    let options = "--workers 4 --steer hash=0,inbox=64 --flows 100 --pause off --frames 512 --ring 128";
    let run = run_until_dropped(options, &causes);
    assert_eq!(number(&run, "sink.reordered"), 0, "{run}");
    run_until_dropped("--workers 2 --steer map=rx1:0,inbox=64 --flows 1 --pause off", &causes);
}

#[test]
fn steered_packets_take_every_path_that_others_take() {
    for options in [
        "--path full --rule drop,sport=49153",
        "--mode cross-connect --ready-heads 8/8/8",
        "--mode reflect --free single",
        "--mode drop",
        "--mode pass --local-queue 100",
        "--mirror 50 --path full",
        "--idle sleep",
        "--ring 2 --frames 64",
    ] {
        for queue in ["rx-worker", "fwd-worker"] {
            let words = format!("--workers 3 --steer hash,tx-queue={queue} --flows 11 {options}");
            let run = object(&output(&format!("forward {words} --packets 6000 --json")));
            assert_shared(&run);
            assert_eq!(number(&run, "sink.reordered"), 0, "{words}: {run}");
        }
    }
}

#[test]
fn lists_that_wait_and_small_tables_of_flows_lose_and_reorder_nothing() {
    for options in [
        "hash,batch=32,linger=50",
        "hash,batch=64,linger=1M --idle sleep",
        "flow,batch=64,linger=100,flow-table=1",
        "map=rx0:1,rx1:0,flow-limit=off",
    ] {
        let words = format!("forward --workers 2 --steer {options} --flows 7 --packets 6000 --json");
        let run = object(&output(&words));
        assert_shared(&run);
        let sink = |name: &str| number(&run["sink"], name);
        assert_eq!((sink("received"), sink("lost"), sink("reordered")), (6000, 0, 0), "{words}: {run}");
    }
}

#[test]
fn the_key_of_the_hash_decides_which_worker_gets_a_flow_and_is_secret_by_default() {
    let kept = |options: &str| {
        let words = format!("forward --workers 2 --steer hash{options} --flows 100 --packets 2000 --json");
        let run = object(&output(&words));
        [0, 1].map(|worker| number(&run["steer"]["workers"][worker], "kept"))
    };
    assert_eq!(kept(",hash-key=rss"), kept(",hash-key=rss"));
    assert_ne!(kept(",hash-key=rss"), kept(",hash-key=symmetric"));
    // 100 flows fall to two workers in the same numbers now and then, and not each time.
    assert!((0..9).any(|_| kept("") != kept(",hash-key=rss")));
}

#[test]
fn without_a_flow_limit_only_a_full_inbox_drops() {
    let options = "--workers 2 --steer map=rx1:0,inbox=64,flow-limit=off --flows 1 --pause off";
    let run = run_until_dropped(options, &["inbox_full"]);
    assert_eq!(number(&run, "dropped.flow_limit"), 0, "{run}");
}

#[test]
fn the_policy_changes_under_traffic_and_no_flow_is_reordered() {
    let path = env::temp_dir().join(format!("netmem-steer-{}", std::process::id()));
    let words = "forward --seconds 600 --workers 3 --steer hash --flows 20 --json --control";
    let mut child = start(&format!("{words} {}", path.display()));
    wait_while_it_runs(&mut child, "it listens", || UnixStream::connect(&path).is_ok());
    let ask = |words: &str| output(&format!("{words} --control {}", path.display()));
    let policies = ["map=rx0:1,rx1:2,rx2:0", "flow", "none", "hash=2", "hash", "flow=1,2"];
    for i in 0..60 {
        let out = ask(&format!("set steer.policy {}", policies[i % policies.len()]));
        assert_eq!((stderr(&out).as_str(), out.status.code()), ("", Some(0)));
    }
    let out = ask("set steer.map rx0:1,rx1:0,2");
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(stdout(&ask("set")).contains("rx0:1,rx1:0,2"));
    let refused = ask("set steer.map rx0:3");
    assert!(stderr(&refused).contains("there is no worker 3"), "{}", stderr(&refused));
    assert_eq!(refused.status.code(), Some(2));
    let shown: Value = serde_json::from_str(&stdout(&ask("stat steer --json"))).expect("JSON");
    let workers = shown["steer"].as_array().expect("steer");
    assert!(workers.len() == 3 && workers.iter().all(|worker| number(worker, "adopted") > 0), "{shown}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it can be signalled");
    let mut out = child.wait_with_output().expect("it ends");
    out.stderr = without_settings(&stderr(&out)).into_bytes();
    let run = object(&out);
    assert_shared(&run);
    assert_eq!((number(&run, "sink.reordered"), number(&run, "sink.lost")), (0, 0), "{run}");
    assert_eq!(run["steer"]["policy"], "map=rx0:1,rx1:0,2");
}

#[test]
fn impossible_settings_of_several_workers_are_refused_with_the_remedy() {
    for (words, line) in [
        (
            "--workers 2 --steer hash,batch=65",
            "invalid value 'hash,batch=65' for '--steer <POLICY[,KEY=VALUE]>': batch=65: give a whole number from 1 to 64 (see netmem forward --help)",
        ),
        ("--steer hash", "--steer needs --workers 2 or more: one worker has no other to share with"),
        ("--workers 2 --steer hash=2", "--steer: there is no worker 2: there are 2, from 0 to 1"),
        ("--workers 2 --generators 3", "--generators 3 with --workers 2: give at most 2"),
        (
            "--workers 3 --flows 30000",
            "--flows 30000 of 3 generators are more than 65534: give fewer, or fewer --generators",
        ),
    ] {
        let out = netmem(&format!("forward {words}")).output().expect("netmem starts");
        assert_eq!((stderr(&out), out.status.code()), (format!("error: {line}\n"), Some(2)), "{words}");
    }
    let out = output("forward --workers 2 --steer maps=1");
    assert!(
        stderr(&out).contains("write none, map=rx0:1,rx1:2,3, round-robin, hash or flow"),
        "{}",
        stderr(&out)
    );
    for (old, new) in [
        ("--tx-queue first", "--steer POLICY,tx-queue=rx-worker"),
        ("--inbox 64", "--steer POLICY,inbox=64"),
        ("--list 8", "--steer POLICY,batch=8"),
        ("--linger 50", "--steer POLICY,linger=50"),
        ("--flow-limit off", "--steer POLICY,flow-limit=off"),
        ("--flow-table 1", "--steer POLICY,flow-table=1"),
        ("--hash-key rss", "--steer POLICY,hash-key=rss"),
    ] {
        let out = output(&format!("forward --workers 2 {old}"));
        let said = stderr(&out);
        assert_eq!((out.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.contains(&format!("this is a key of --steer: write {new}")), "{said}");
    }
}
