//! The share of the forwarder's instructions that the slab's slow paths take, under callgrind. This program runs
//! itself there with both sides of a variant on one thread, and only the forwarder's rounds are counted.
//!
//! A slow path is one of two functions with all that they call: `grow::find`, where an allocation goes that finds no
//! object in the active slab, and `grow::keep`, where a free goes that does not belong to it. The cache counts the same
//! events as `alloc_slowpath` and `free_slowpath`. The fast paths, which take from and give to the active slab, are not
//! part of it, as they are not part of the source's sum: its `kmem_cache_alloc` and `kmem_cache_free`.

use std::path::Path;

use netmem::limits::{BATCH_MAX, CHUNK_SIZE};
use netmem::page::{Memory, MemoryConfig};

use super::super::router::{Fate, PacketSetup, Router, Setup};
use super::super::valgrind::{self, Counted};
use super::neighbours::Neighbours;
use super::variants::{self, Kind, VARIANTS};
use crate::bench::{Bench, SetUpError};
use crate::json::{Published, params};
use crate::method::round::Label;
use crate::metric::Metric;

/// Variants that are counted.
const COUNTED: [&str; 10] = [
    "netmem/base",
    "netmem/patched",
    "netmem/bulk",
    "netmem/tuned",
    "netmem/nomerge",
    "netmem/base-eighth",
    "netmem/base-alone",
    "netmem/base-256",
    "netmem/patched-256",
    "netmem/sheaf-bulk",
];
/// What the row of the share is called. Rows of older runs, "slow paths' instructions", also have fast paths in them.
const SHARE: &str = "instructions under slow paths";
/// Bursts through the forwarder.
const BURSTS: u64 = 400;
const PACKETS: f64 = (BURSTS * BATCH_MAX as u64) as f64;
/// Slots of each ring.
const RING: usize = 1_024;
/// The functions at which the slow paths begin. Neither is ever inlined.
const ENTRIES: [&str; 2] = ["netmem::slab::grow::find", "netmem::slab::grow::keep"];

/// The counts of callgrind for the forwarder's rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    instructions: f64,
    /// Those under the slow paths.
    slow: f64,
    /// Calls of slow paths.
    calls: f64,
}

/// A variant on one thread, for callgrind to watch.
pub(super) fn body(bench: &mut Bench<'_>, variant: &Kind) -> Result<(), SetUpError> {
    forward(bench, variant)?;
    bench.note(format!("{}: {BURSTS} bursts of {BATCH_MAX}, not timed", variant.name));
    Ok(())
}

/// Forwards all bursts in a memory of the variant's own. Returns how often its cache took the slow paths meanwhile, to
/// allocate and to free: of merged caches all count together.
fn forward(bench: &mut Bench<'_>, variant: &Kind) -> Result<[u64; 2], SetUpError> {
    let memory = Memory::new(&MemoryConfig { bytes: 24 * RING * CHUNK_SIZE, ..MemoryConfig::default() });
    let memory = memory.map_err(SetUpError::at("memory"))?;
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
    let neighbours = Neighbours::new(&memory, &mut worker, variant.density, &variants::merged())?;
    let packets = variant.heads().map(|heads| PacketSetup { heads, rules: None, pairs: None, list: None });
    let setup = Setup { free: variant.free, packets, ..Setup::frames(RING, Fate::Routed) };
    let (mut router, mut far) = Router::new(&memory, &mut worker, &setup)?;
    let before = router.slow_paths().unwrap_or_default();
    for _ in 0..BURSTS {
        far.turn();
        router.poll(&mut worker);
    }
    let after = router.slow_paths().unwrap_or_default();
    router.settle(far, &mut worker, variant.name, bench);
    neighbours.settle(&mut worker, bench);
    Ok([0, 1].map(|of| after[of] - before[of]))
}

/// Reports what the caches of the counted variants count.
fn counters(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    for variant in VARIANTS.iter().filter(|variant| COUNTED.contains(&variant.name)) {
        let counts = forward(bench, variant)?;
        for (what, count) in
            ["alloc_slowpath, per packet", "free_slowpath, per packet"].into_iter().zip(counts)
        {
            bench.figure(label(variant, "counters", what), Metric::Count, count as f64 / PACKETS, None);
        }
    }
    Ok(())
}

/// Reports the counters and the shares. A variant that callgrind could not count gets a note.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    counters(bench)?;
    shares(bench);
    Ok(())
}

fn shares(bench: &mut Bench<'_>) {
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
        "slow paths: an allocation that finds nothing in a worker's active slab or sheaf, and a free that does not \
         belong there, each with all that it calls, also the making of detached freelists; the source summed the \
         functions of SLUB's slow paths, without its kmem_cache_alloc and kmem_cache_free",
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
    bench.figure(
        label(variant, "callgrind", SHARE),
        Metric::Percent,
        100.0 * seen.slow / seen.instructions,
        published,
    );
    let mut each = |what, count| {
        bench.figure(label(variant, "callgrind", what), Metric::Count, count / PACKETS, None);
    };
    each("calls of slow paths, per packet", seen.calls);
    each("instructions, per packet", seen.instructions);
}

fn label(variant: &Kind, by: &str, what: &str) -> Label {
    let mut params = params([("work", "forward".into()), ("by", by.into()), ("what", what.into())]);
    params.extend(variant.settings());
    Label { variant: variant.name.to_owned(), params }
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

/// Returns the counts of a file in callgrind's format: of all functions, and of the slow paths with what they call.
fn seen(text: &str) -> Result<Seen, String> {
    let (mut function, mut called) = ("", "");
    let mut seen = Seen::default();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = name;
        } else if let Some(name) = line.strip_prefix("cfn=") {
            called = name;
        } else if let Some(count) = line.strip_prefix("calls=") {
            // The next line is the cost of the calls with all that they call. Other functions' own costs are counted
            // where these functions stand.
            let cost = lines.next().and_then(cost).unwrap_or(0.0);
            if ENTRIES.contains(&called) && !ENTRIES.contains(&function) {
                seen.slow += cost;
                seen.calls +=
                    count.split(' ').next().and_then(|count| count.parse::<f64>().ok()).unwrap_or(0.0);
            }
        } else if line.starts_with(|digit: char| digit.is_ascii_digit()) {
            seen.instructions += cost(line).unwrap_or(0.0);
        }
    }
    if seen.instructions <= seen.slow {
        return Err("callgrind saw none of the forwarder's rounds".to_owned());
    }
    Ok(seen)
}

/// Returns the cost in a line of a position and a cost.
fn cost(line: &str) -> Option<f64> {
    line.split_once(' ')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_path_counts_with_all_that_it_calls_and_the_fast_path_does_not() {
        let file = "events: Ir\nfn=netmem::forward::poll\n1 100\n2 20\ncfn=netmem::slab::grow::alloc\ncalls=9 7\n2 500\n\n\
                    fn=netmem::slab::grow::alloc\n5 20\ncfn=netmem::slab::cpu_slab::CpuSlab::pop_active\ncalls=9 3\n6 90\n\
                    cfn=netmem::slab::grow::find\ncalls=3 7\n7 80\n\nfn=netmem::slab::cpu_slab::CpuSlab::pop_active\n3 90\n\n\
                    fn=netmem::slab::grow::find\n7 60\ncfn=netmem::slab::slabs::Slabs::push\ncalls=3 9\n8 20\n\n\
                    fn=netmem::slab::slabs::Slabs::push\n9 20\n\nfn=netmem::packet::heads::grow::keep\n4 10\nsummary: 320\n";
        assert_eq!(seen(file), Ok(Seen { instructions: 320.0, slow: 80.0, calls: 3.0 }));
        assert!(seen("events: Ir\n").is_err());
    }
}
