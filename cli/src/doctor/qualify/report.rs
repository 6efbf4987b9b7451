//! The results of a qualification, as a section of docs/hardware.md. COLD.

use super::bench::Bench;
use super::cable::Closed;
use super::direction::{Direction, IN_FLIGHT, LAPS};
use super::trial::{Load, Outcome};
use netmem_doctor::Host;
use std::fmt::Write;
use std::process::Command;

/// Returns the page. Its heading has both drivers and the kernel.
pub fn page(bench: &Bench, outcomes: &[Outcome], seconds: f64) -> String {
    let host = &bench.host;
    let [one, other] = bench.interfaces.each_ref().map(|name| driver(host, name));
    let drivers = if one == other { one } else { format!("{one} and {other}") };
    let mut page = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(page, "## {drivers}, Linux {}\n", host.kernel.release);
    let _ = writeln!(page, "| | |\n|---|---|");
    let _ = writeln!(page, "| netmem | {} |", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(page, "| machine | {}, {} cores, {} |", processor(), cores(), std::env::consts::ARCH);
    for (name, place) in bench.interfaces.iter().zip(["first", "second"]) {
        let _ = writeln!(page, "| {place} interface | {} |", interface(host, name));
    }
    let _ = writeln!(page, "| time | {seconds} s |\n");
    let _ = writeln!(
        page,
        "| mode | load | outcome | forwarded | Mpps, p10 / p50 / p90 | lost, of those sent | corrupted or duplicated | noted |"
    );
    let _ = writeln!(page, "|---|---|---|---|---|---|---|---|");
    outcomes.iter().for_each(|outcome| page.push_str(&row(outcome)));
    page.push('\n');
    let failures: Vec<_> = outcomes.iter().flat_map(lines).collect();
    if failures.is_empty() {
        page.push_str("Nothing failed.\n");
    }
    for line in failures {
        let _ = writeln!(page, "- {line}");
    }
    let _ = writeln!(
        page,
        "\nOne core generates, forwards and checks the packets of both directions; each packet crosses the cable {LAPS} times. A rate is the sum of \
         both directions, measured in windows of two milliseconds; windows in which the machine stood still are left out, and one in which packets \
         were in flight and none came counts as 0. At most {IN_FLIGHT} packets of each direction are in flight, and another is sent only when one is \
         done (a closed loop), so a rate also falls with the latency of the path and is not the most that an interface carries. While a link is down \
         or a port is closed, the packets that are on their way may be lost, and windows without a packet do not count: that is no failure."
    );
    page
}

/// Returns the failed checks, with mode and load.
pub fn lines(outcome: &Outcome) -> Vec<String> {
    let named = |why| format!("{}, {}: {why}", outcome.mode.name(), outcome.load.name());
    outcome.failures.iter().map(named).collect()
}

fn row(outcome: &Outcome) -> String {
    let (mode, load) = (outcome.mode.name(), outcome.load.name());
    let said = match (&outcome.lacks, outcome.failures.is_empty()) {
        (Some(_), _) => "not offered",
        (None, true) => "holds",
        (None, false) => "FAILED",
    };
    let Some(Closed { directions, rates, away, .. }) = &outcome.closed else {
        let why = outcome.lacks.as_deref().unwrap_or_default().replace('|', "/");
        return format!("| {mode} | {load} | {said} | | | | | {why} |\n");
    };
    let sum = |of: fn(&Direction) -> u64| directions.iter().map(of).sum::<u64>();
    let (laps, made, whole) =
        (sum(|direction| direction.laps), sum(|direction| direction.made), sum(Direction::whole));
    let wrong = sum(Direction::corrupt) + sum(Direction::duplicates);
    let mut noted = Vec::new();
    if outcome.load == Load::Jumbo {
        noted.push(format!("MTU {}", outcome.mode.jumbo_mtu()));
    }
    if *away > 0 {
        noted.push(format!("{away} frames not given back by the driver"));
    }
    match sum(|direction| direction.foreign) {
        0 => {}
        1 => noted.push("1 frame of another sender".into()),
        foreign => noted.push(format!("{foreign} frames of other senders")),
    }
    let rates = quantiles(rates);
    format!(
        "| {mode} | {load} | {said} | {laps} | {rates} | {} of {made} | {wrong} | {} |\n",
        made - whole,
        noted.join(", ")
    )
}

/// Returns the 10th, 50th and 90th percentile, in million packets a second.
fn quantiles(rates: &[u64]) -> String {
    let mut rates = rates.to_vec();
    rates.sort_unstable();
    let Some(last) = rates.len().checked_sub(1) else { return "no window without a gap".into() };
    let at = |tenths: usize| rates[last * tenths / 10] as f64 / 1e6;
    format!("{:.3} / {:.3} / {:.3}", at(1), at(5), at(9))
}

/// Returns the driver of the interface.
fn driver(host: &Host, name: &str) -> String {
    let found = host.interfaces.get(name);
    let of = |interface: &netmem_doctor::Interface| interface.driver.clone().or(interface.kind.clone());
    found.and_then(of).unwrap_or_else(|| "unknown driver".into())
}

/// Returns driver, its version, the card's firmware and model, speed, queues and rings. Omits addresses and the
/// host's name.
fn interface(host: &Host, name: &str) -> String {
    let mut parts = vec![driver(host, name)];
    let (about, link) = (said("ethtool", &["-i", name]), said("ethtool", &[name]));
    for (key, words) in [("version", "version"), ("firmware-version", "firmware")] {
        parts.extend(value(&about, key).map(|value| format!("{words} {value}")));
    }
    let card = value(&about, "bus-info").map(|bus| said("lspci", &["-s", &bus]));
    parts.extend(
        card.and_then(|line| Some(line.split_once(' ')?.1.trim().to_owned())).filter(|line| !line.is_empty()),
    );
    parts.extend(value(&link, "Speed").filter(|speed| !speed.starts_with("Unknown")));
    if let Some(found) = host.interfaces.get(name) {
        parts.extend(found.queues.map(|queues| format!("{} of {} queues", queues.now, queues.most)));
        parts.extend(found.rings.map(|rings| format!("rings of {} and {}", rings.rx, rings.tx)));
    }
    parts.join(", ").replace('|', "/")
}

/// Returns the output of a program, or nothing if the program is missing.
fn said(program: &str, words: &[&str]) -> String {
    let out = Command::new(program).args(words).output();
    out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default()
}

/// Returns the value of a line `KEY: VALUE`.
fn value(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'))?.trim();
    (!line.is_empty() && line != "N/A").then(|| line.to_owned())
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let models = ["model name", "Model", "cpu model"];
    let found = models.iter().find_map(|key| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    found.unwrap_or_else(|| "unknown processor".into())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
