//! Tests of any text as a configuration or as a line of the control socket: here with corpora and random bytes, in
//! `fuzz/` with the inputs of a fuzzer.
//!
//! `NETMEM_STEPS` is the total number of random bytes.

#![allow(clippy::unwrap_used)]

#[path = "../../../tests/sequences/corpus.rs"]
#[allow(dead_code)]
mod corpus;
mod config;
mod control;

use corpus::{folder, random_of, replay};
use std::fs;

fn file(corpus: &str, name: &str) -> Vec<u8> {
    let path = folder(corpus).join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_corpus_of_configurations_holds() {
    replay("config", 20, config::run);
}

#[test]
fn configurations_of_the_corpus_are_read_and_others_are_not() {
    for name in ["documented", "all-kinds", "empty", "comments"] {
        assert_eq!(config::read(&file("config", name)), Ok(()), "{name}");
    }
    for name in
        ["unknown-key", "twice", "not-toml", "without-quotes", "do-not-fit", "a-list-where-none-is", "date"]
    {
        assert!(config::read(&file("config", name)).is_err(), "{name}");
    }
}

#[test]
fn random_configurations_are_read_or_refused_in_a_line() {
    random_of(40, 40_000, config::run);
}

#[test]
fn the_corpus_of_control_lines_holds() {
    replay("control", 20, control::run);
}

#[test]
fn control_lines_of_the_corpus_are_done_and_others_are_not() {
    for name in ["stat", "several", "page", "keys", "recorded", "set-number", "set-text", "set-switch"] {
        assert_eq!(control::done(&file("control", name)), 1, "{name}");
    }
    for name in [
        "nothing",
        "not-an-object",
        "deep",
        "unknown-field",
        "out-of-range",
        "reload",
        "no-utf8",
        "section-twice",
        "table-in-a-list",
    ] {
        assert_eq!(control::done(&file("control", name)), 0, "{name}");
    }
}

#[test]
fn random_control_lines_get_one_line_each() {
    random_of(40, 400_000, control::run);
}
