//! The share of the forwarder's instructions that the slab's slow paths take, under callgrind. This program runs
//! itself there with both sides of a variant on one thread, and only the forwarder's rounds are counted.

use std::collections::BTreeMap;
use std::path::Path;

use netmem::limits::{BATCH_MAX, CHUNK_SIZE};
use netmem::page::{Memory, MemoryConfig};

use super::super::router::{Fate, PacketSetup, Router, Setup};
use super::super::valgrind::{self, Counted};
use super::variants::{Kind, Neighbours, VARIANTS};
use crate::bench::{Bench, SetUpError};
use crate::json::{Published, params};
use crate::method::round::Label;
use crate::metric::Metric;

/// Variants that are counted.
const COUNTED: [&str; 6] =
    ["netmem/base", "netmem/patched", "netmem/bulk", "netmem/tuned", "netmem/nomerge", "netmem/sheaf-bulk"];
/// Bursts through the forwarder.
const BURSTS: u64 = 400;
/// Slots of each ring.
const RING: usize = 1_024;
/// The functions of the slab that are fast paths. All others are slow paths.
const FAST: [&str; 3] = ["grow::alloc", "grow::free", "grow::free_bulk"];

/// The counts of callgrind for the forwarder's rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    instructions: f64,
    slow: f64,
    /// Calls of slow functions from elsewhere.
    calls: f64,
}

/// A variant on one thread, for callgrind to watch.
pub(super) fn body(bench: &mut Bench<'_>, variant: &Kind) -> Result<(), SetUpError> {
    let memory = Memory::new(&MemoryConfig { bytes: 24 * RING * CHUNK_SIZE, ..MemoryConfig::default() });
    let memory = memory.map_err(SetUpError::at("memory"))?;
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
    let neighbours = Neighbours::new(&memory, &mut worker)?;
    let packets = variant.heads().map(|heads| PacketSetup { heads, rules: None, pairs: None, list: None });
    let setup = Setup { free: variant.free, packets, ..Setup::frames(RING, Fate::Routed) };
    let (mut router, mut far) = Router::new(&memory, &mut worker, &setup)?;
    for _ in 0..BURSTS {
        far.turn();
        router.poll(&mut worker);
    }
    router.settle(far, &mut worker, variant.name, bench);
    neighbours.settle(&mut worker, bench);
    bench.note(format!("{}: {BURSTS} bursts of {BATCH_MAX}, not timed", variant.name));
    Ok(())
}

/// Reports the shares. A variant that could not be counted gets a note.
pub(super) fn run(bench: &mut Bench<'_>) {
    let program = match valgrind::program() {
        Ok(program) => program,
        Err(why) => return bench.note(format!("no rows of the slow paths' share: {why}")),
    };
    for (place, variant) in VARIANTS.iter().enumerate().filter(|(_, kind)| COUNTED.contains(&kind.name)) {
        match watch(bench, &program, place) {
            Ok(seen) => rows(bench, variant, seen),
            Err(why) => bench.note(format!("no share of the slow paths of {}: {why}", variant.name)),
        }
    }
    bench.note(
        "slow paths: the slab's functions except those that take from and give to a worker's active slab or sheaf; \
         the source counted those of SLUB",
    );
}

fn rows(bench: &mut Bench<'_>, variant: &Kind, seen: Seen) {
    let published = match variant.name {
        "netmem/base" => Some(3.73),
        // 0.22 + 0.18 + 0.14 + 0.14 + 0.08: the patched kernel, which was not tuned.
        "netmem/patched" => Some(0.76),
        _ => None,
    };
    let published = published.map(|value| {
        let of = "Linux 4.1.0-mmotm, not tuned, IPv4 forwarding, SLUB's slow-path functions, perf".to_owned();
        Published { value, unit: "percent".to_owned(), of }
    });
    let packets = (BURSTS * BATCH_MAX as u64) as f64;
    let label = |what: &str| {
        let mut params =
            params([("work", "forward".into()), ("by", "callgrind".into()), ("what", what.into())]);
        params.extend(variant.settings());
        Label { variant: variant.name.to_owned(), params }
    };
    bench.figure(
        label("slow paths' instructions"),
        Metric::Percent,
        100.0 * seen.slow / seen.instructions,
        published,
    );
    bench.figure(label("slow paths' calls, per packet"), Metric::Count, seen.calls / packets, None);
    bench.figure(label("instructions, per packet"), Metric::Count, seen.instructions / packets, None);
}

/// Runs a variant under callgrind.
fn watch(bench: &Bench<'_>, program: &Path, variant: usize) -> Result<Seen, String> {
    let counted = Counted {
        tool: "callgrind",
        options: &[
            "--compress-strings=no",
            "--compress-pos=no",
            "--collect-atstart=no",
            "--toggle-collect=*router::Router::poll*",
        ],
        experiment: "forward-bulk-free",
        set: &[("body", variant as u64 + 1)],
    };
    seen(&counted.run(program, bench.cores.first().copied(), bench.stop())?)
}

/// Returns the counts of a file in callgrind's format: for all functions and for the slow ones.
fn seen(text: &str) -> Result<Seen, String> {
    let (mut function, mut called) = (String::new(), String::new());
    let (mut own, mut calls): (BTreeMap<bool, f64>, f64) = (BTreeMap::new(), 0.0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name.to_owned();
        } else if let Some(name) = line.strip_prefix("cfn=") {
            called = name.to_owned();
        } else if let Some(count) = line.strip_prefix("calls=") {
            // The next line is the cost of the call. It is also counted as the called function's own cost, so it is skipped.
            lines.next();
            if is_slow(&called) && !is_slow(&function) {
                calls += count.split(' ').next().and_then(|count| count.parse::<f64>().ok()).unwrap_or(0.0);
            }
        } else if let Some((_, cost)) = line.split_once(' ')
            && line.starts_with(|digit: char| digit.is_ascii_digit())
        {
            *own.entry(is_slow(&function)).or_default() += cost.trim().parse::<f64>().unwrap_or(0.0);
        }
    }
    let [slow, rest] = [true, false].map(|slow| own.get(&slow).copied().unwrap_or(0.0));
    if rest <= 0.0 {
        return Err("callgrind saw none of the forwarder's rounds".to_owned());
    }
    Ok(Seen { instructions: slow + rest, slow, calls })
}

fn is_slow(function: &str) -> bool {
    function.contains("netmem::slab::") && !FAST.iter().any(|fast| function.ends_with(fast))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_costs_are_summed_and_those_of_calls_are_not() {
        let file = "events: Ir\nfn=netmem::forward::poll\n1 100\n2 20\ncfn=netmem::slab::grow::find\ncalls=3 7\n2 900\n\n\
                    fn=netmem::slab::grow::find\n7 60\ncfn=netmem::slab::slabs::Slabs::push\ncalls=3 9\n8 20\n\
                    fn=netmem::slab::grow::alloc\n5 20\nsummary: 200\n";
        assert_eq!(seen(file), Ok(Seen { instructions: 200.0, slow: 60.0, calls: 3.0 }));
        assert!(seen("events: Ir\n").is_err());
    }
}
