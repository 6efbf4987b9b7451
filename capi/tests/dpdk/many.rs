//! A program of DPDK with more mempools than an answer of telemetry has room for.

use crate::dpdk;
use crate::faults::built;
use crate::telemetry::{Telemetry, number, parts};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// The names of the mempools in the answers to a command, each of which begins where the one before ended.
fn named(telemetry: &mut Telemetry, command: &str) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let json = match names.len() {
            0 => telemetry.ask(command),
            before => telemetry.ask(&format!("{command},{before}")),
        };
        let parts = parts(&json);
        let keys: BTreeSet<&str> = json.split(":{").filter_map(|text| text.rsplit('"').nth(1)).collect();
        // That of the command and that of the last number are among them.
        assert!(!parts.is_empty() && keys.len() == parts.len() + 2, "{json}");
        let name = |part: &&str| part.split('"').nth(3).unwrap_or_default().to_owned();
        names.extend(parts.iter().map(name));
        if !json.contains("left_out") {
            return names;
        }
        assert_eq!(number(&json, "left_out") as usize, 300 - names.len(), "{json}");
    }
}

/// Seen: of 200 mempools 91 were in the answer, and no number of others. Two of them had the same key.
#[test]
fn what_an_answer_of_telemetry_has_no_room_for_is_counted_and_can_be_asked_for() {
    let Some(dpdk) = dpdk("dpdk-test") else { return };
    let (mut program, folder) = dpdk.program(built("tests/dpdk/many.c"));
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = program.spawn().expect("the program");
    let mut said = BufReader::new(running.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert!(said.any(|line| line == "made"));
    let mut telemetry = Telemetry::of(&folder);
    for command in ["/netmem/mempools", "/netmem/holders"] {
        let names = named(&mut telemetry, command);
        assert_eq!((names.len(), names.iter().collect::<BTreeSet<_>>().len()), (300, 300), "{names:?}");
    }
    let refused = telemetry.ask("/netmem/mempools,many");
    assert!(parts(&refused).is_empty(), "{refused}");
    drop(running.stdin.take());
    assert!(running.wait().expect("its end").success());
    let _ = fs::remove_dir_all(folder);
}
