//! Tests of planted bugs, each in its own process and under each part of the hardening. The table in
//! `docs/guide/hardening.md` must state which part finds which bug.

mod bugs;

use bugs::{BUGS, Bug};
use netmem::page::Hardening;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Output};

/// The columns of the table.
const SETTINGS: [&str; 6] = ["off", "guard", "random", "clear", "canary", "all"];
/// The environment variable of a child: the number of its bug, and the setting.
const CHILD: &str = "NETMEM_PLANTED";
/// A child whose bug had no effect that it could see.
const PREVENTED: u8 = 3;
const PAGE: &str = "docs/guide/hardening.md";

/// What came of a bug, in the table's words.
fn outcome(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let report = said.lines().find_map(|line| line.strip_prefix("netmem: cache "));
    match (output.status.code(), output.status.signal(), report) {
        (Some(0), ..) => "no".into(),
        (Some(code), ..) if code == i32::from(PREVENTED) => "prevented".into(),
        (_, Some(signal), _) if signal == rustix::process::Signal::SEGV.as_raw() => "SIGSEGV".into(),
        (_, Some(signal), Some(_)) if signal == rustix::process::Signal::ABORT.as_raw() => "report".into(),
        _ => format!("{}: {said}", output.status),
    }
}

/// Plants a bug in another process.
fn plant(number: usize, setting: &str) -> Output {
    let this = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(this);
    child.env(CHILD, format!("{number} {setting}"));
    child.output().expect("this program can be started")
}

/// In the other process.
fn child(of: &str) -> ExitCode {
    let (number, setting) = of.split_once(' ').expect("a number and a setting");
    let bug: &Bug = &BUGS[number.parse::<usize>().expect("a number")];
    // No file for each of the processes that end by a signal.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    let hardening: Hardening = setting.parse().expect("a setting");
    if (bug.plant)(hardening) { ExitCode::SUCCESS } else { ExitCode::from(PREVENTED) }
}

/// The lines of the table on the page: a bug's name, and a cell for each setting.
fn table() -> Vec<Vec<String>> {
    let page = fs::read_to_string(PAGE).expect(PAGE);
    let rows = page.lines().skip_while(|line| !line.starts_with("| planted bug |")).skip(2);
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.take_while(|line| line.starts_with('|')).map(cells).collect()
}

/// Checks that every bug is found, or not found, as the page says.
fn main() -> ExitCode {
    if let Ok(of) = std::env::var(CHILD) {
        return child(&of);
    }
    let (table, mut wrong) = (table(), 0);
    for (number, bug) in BUGS.iter().enumerate() {
        let found = SETTINGS.map(|setting| outcome(&plant(number, setting)));
        let expected: Vec<String> = [&[bug.name.to_owned()], &found[..]].concat();
        if table.get(number) != Some(&expected) {
            wrong += 1;
            println!("seen: | {} |\nsaid: {:?}", expected.join(" | "), table.get(number));
        }
    }
    if table.len() != BUGS.len() {
        wrong += 1;
        println!("{PAGE} has {} bugs, and {} are planted", table.len(), BUGS.len());
    }
    println!("{} bugs planted under {} settings: {wrong} not as {PAGE} says", BUGS.len(), SETTINGS.len());
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
