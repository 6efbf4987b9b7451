//! Runs the program under test, and reads its output.

// Each test file uses its part of this.
#![allow(dead_code)]

#[path = "../../../tests/testbed/child.rs"]
mod child;
#[path = "../../../tests/testbed/listens.rs"]
mod listens;
mod run;
mod running;
mod stalls;

#[allow(unused_imports)]
pub use listens::listens;
#[allow(unused_imports)]
pub use run::{Run, without_settings};
#[allow(unused_imports)]
pub use running::wait_while_it_runs;
use serde_json::Value;
#[allow(unused_imports)]
pub use stalls::is_stall;
use stalls::without_stalls;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

/// How long a test waits for what must happen. It guards against hangs, nothing else.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until it is `done`. Otherwise fails with `what`.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Prints, past the test runner's capture, that a test is skipped, and why. Fails if no test may be skipped.
pub fn skip(test: &str, reason: &str) {
    assert!(env::var("NETMEM_NO_SKIP").as_deref() != Ok("1"), "{test} must not be skipped: {reason}");
    io::Write::write_all(&mut io::stderr(), format!("SKIPPED {test}: {reason}\n").as_bytes())
        .expect("standard error");
}

/// The program with these words behind its name (split at spaces). It does not outlive the thread that starts it.
pub fn netmem(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netmem"));
    child_of(command.args(words.split_whitespace()));
    command
}

/// The command as one that does not outlive the thread that starts it, with nothing to read.
pub fn child_of(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null());
    child::tie(command);
    command
}

/// Runs it to its end.
pub fn output(words: &str) -> Output {
    netmem(words).output().expect("netmem starts")
}

/// Starts it, with both outputs kept.
pub fn start(words: &str) -> Child {
    netmem(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("netmem starts")
}

/// Waits for a process to end by itself.
#[track_caller]
pub fn ended(what: &str, mut child: Child) -> Output {
    wait_until(&format!("{what} does not end"), || child.try_wait().expect("wait").is_some());
    child.wait_with_output().expect("its output")
}

/// What went to standard output.
pub fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// What went to standard error, without the lines about a worker that was given no core for a while and then went on.
pub fn stderr(out: &Output) -> String {
    without_stalls(&String::from_utf8_lossy(&out.stderr))
}

/// The one object of `netmem forward --json`, from a run that succeeded without a word on standard error.
pub fn object(out: &Output) -> Value {
    assert_eq!((stderr(out).as_str(), out.status.code()), ("", Some(0)), "{}", stdout(out));
    let text = stdout(out);
    assert_eq!(text.lines().count(), 1, "{text}");
    let value: Value = serde_json::from_str(&text).expect("one JSON object and nothing else");
    assert!(value.is_object(), "{text}");
    value
}

/// The number at a path like `sink.received`.
pub fn number(value: &Value, path: &str) -> u64 {
    let at = path.split('.').fold(value, |value, name| &value[name]);
    at.as_u64().unwrap_or_else(|| panic!("no number {path} in {value}"))
}

/// The sum of a counter over the ports.
pub fn ports(value: &Value, counter: &str) -> u64 {
    value["ports"].as_array().expect("ports").iter().map(|port| number(port, counter)).sum()
}

/// The sum of the drops by reason.
pub fn dropped(value: &Value) -> u64 {
    let reasons = value["dropped"].as_object().expect("dropped");
    reasons.values().map(|frames| frames.as_u64().expect("a number of frames")).sum()
}

/// Asserts what must hold at the end of every run with the built-in generator.
pub fn assert_adds_up(value: &Value) {
    let (received, transmitted) = (number(value, "received"), number(value, "transmitted"));
    let rx_drops: u64 =
        ["rx_no_frame", "rx_ring_full", "rx_dropped"].iter().map(|cause| ports(value, cause)).sum();
    assert_eq!(number(value, "generator.sent"), received + rx_drops, "{value}");
    let passed = number(value, "passed");
    assert_eq!(received, transmitted + dropped(value) + number(value, "held") + passed, "{value}");
    if !value["local_queue"].is_null() {
        let (taken, freed) = (number(value, "local_queue.taken"), number(value, "local_queue.freed"));
        assert_eq!((passed, taken), (taken, freed + number(value, "local_queue.kept")), "{value}");
    }
    assert_eq!(transmitted, ports(value, "completed"), "{value}");
    assert_eq!(transmitted, number(value, "sink.received"), "{value}");
    assert_eq!((number(value, "sink.corrupt"), number(value, "sink.duplicates")), (0, 0), "{value}");
    assert_eq!((received, transmitted), (ports(value, "rx"), ports(value, "tx")), "{value}");
    let pools = value["pools"].as_array().expect("pools");
    assert!(!pools.is_empty(), "{value}");
    for pool in pools {
        let places = ["free", "cached", "ready", "owned", "posted", "queued", "returning"];
        let sum: u64 = places.iter().map(|place| number(pool, place)).sum();
        assert_eq!((sum, pool["balanced"].as_bool()), (number(pool, "total"), Some(true)), "{pool}");
        assert_eq!(number(pool, "owned") + number(pool, "posted"), 0, "the ports are closed: {pool}");
    }
}
