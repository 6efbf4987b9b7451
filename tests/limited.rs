//! Tests that a test which does not end is ended and named: `.ci/limited`, by which cargo runs tests.

#![allow(clippy::unwrap_used)]

use std::env;
use std::process::{Command, Output};
use std::thread;

/// This program, run as cargo runs it: only this test, with a limit, in which the test hangs if it is to.
fn run(test: &str, limit: &str, hang: &str) -> Output {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/limited"))
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads=1"])
        .env("NETMEM_TEST_LIMIT", limit)
        .env("NETMEM_HANG", hang)
        .output()
        .unwrap()
}

/// The part of the test that runs in the program which it started itself.
fn is_started_to(what: &str) -> bool {
    env::var("NETMEM_HANG").is_ok_and(|hang| hang == what)
}

#[test]
fn a_test_that_does_not_end_is_ended_and_named() {
    const NAME: &str = "a_test_that_does_not_end_is_ended_and_named";
    while is_started_to("hang") {
        thread::park();
    }
    // A program that stands still from its start until the limit has named no test yet.
    for limit in ["3", "30", "120"] {
        let ended = run(NAME, limit, "hang");
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(124), "{said}");
        if said.contains(NAME) && said.contains(&format!("NETMEM_TEST_LIMIT={limit}")) {
            return;
        }
    }
    panic!("the test is not named");
}

#[test]
fn the_output_and_the_exit_code_of_tests_are_passed_on() {
    const NAME: &str = "the_output_and_the_exit_code_of_tests_are_passed_on";
    if is_started_to("pass") {
        return;
    }
    assert!(!is_started_to("fail"), "as it was told");
    let (passed, failed) = (run(NAME, "600", "pass"), run(NAME, "600", "fail"));
    let said = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!((passed.status.code(), failed.status.code()), (Some(0), Some(101)));
    assert!(said(&passed).contains(&format!("test {NAME} ... ok\n")), "{}", said(&passed));
    assert!(said(&failed).contains("as it was told"), "{}", said(&failed));
}

#[test]
fn a_program_without_tests_runs_unchanged() {
    let limited = concat!(env!("CARGO_MANIFEST_DIR"), "/.ci/limited");
    let said = Command::new(limited).args(["echo", "--list"]).env("NETMEM_TEST_LIMIT", "1").output().unwrap();
    assert_eq!((said.status.code(), &*said.stdout), (Some(0), &b"--list\n"[..]));
}
