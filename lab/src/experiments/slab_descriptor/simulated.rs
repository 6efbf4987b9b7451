//! Instructions, branches and loads of one pair, by the cache simulator of valgrind: this program runs itself under
//! it, once with the pairs and once without, for each form.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use netmem::page::{Memory, MemoryConfig};

use super::form::{FORMS, Form, PATCHED, VANILLA};
use crate::bench::{Bench, SetUpError};
use crate::experiments::slab_working_set::working_set;
use crate::experiments::valgrind::{self, Counted};
use crate::json::{Published, params};
use crate::method::round::Label;
use crate::metric::Metric;

/// Bytes of the objects, as in the source's counts.
const BYTES: usize = 32;

/// Objects held: twice the first simulated cache.
const OBJECTS: usize = 16_384;

/// Pairs that the source counted over.
pub(super) const SOURCE_PAIRS: f64 = 16.8e6;

/// Caches and branches are simulated, the same on every machine. The first cache has the size of a second-level cache of the source's
/// time, so that what misses it is what the source counted: a load from the last level.
const OPTIONS: [&str; 5] =
    ["--cache-sim=yes", "--branch-sim=yes", "--I1=32768,8,64", "--D1=262144,8,64", "--LL=8388608,16,64"];

/// Events of one pair.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) instructions: f64,
    pub(super) branches: f64,
    pub(super) branch_misses: f64,
    pub(super) last_level_loads: f64,
}

/// What a simulated process counted in all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Totals([f64; 4]);

/// The loop of one form, for a simulator to watch.
pub(super) fn body(bench: &mut Bench<'_>, form: &Form) -> Result<(), SetUpError> {
    let pairs = (bench.setting("pairs") * 1_000) as u32;
    scene(bench, form, |run| run(pairs))?;
    bench.note(format!("{}: {} thousand pairs, not timed", form.variant(), bench.setting("pairs")));
    Ok(())
}

/// Holds the objects of one form, and hands `watch` what runs so many pairs on them.
pub(super) fn scene(
    bench: &mut Bench<'_>,
    form: &Form,
    watch: impl FnOnce(&mut dyn FnMut(u32)),
) -> Result<(), SetUpError> {
    let config = MemoryConfig { bytes: 16 << 20, descriptor: form.descriptor, ..MemoryConfig::default() };
    let memory = Memory::new(&config).map_err(SetUpError::at("memory"))?;
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
    let mut set = working_set(&memory, &form.config(), BYTES, true)?;
    set.hold(&mut worker, OBJECTS);
    watch(&mut |pairs| set.oldest(&mut worker, pairs));
    set.settle(&mut worker).check(bench);
    Ok(())
}

/// Simulates every form and reports the rows; what could not be counted is a note.
pub(super) fn run(bench: &mut Bench<'_>) -> Vec<(Form, Counts)> {
    let program = match valgrind::program() {
        Ok(program) => program,
        Err(why) => {
            bench.note(format!("no rows of instructions, branches and last-level loads: {why}"));
            return Vec::new();
        }
    };
    let mut counted: Vec<(Form, Counts)> = Vec::new();
    for (form, counts) in FORMS.into_iter().zip(all(bench, &program)) {
        match counts {
            Ok(counts) => {
                rows(bench, form, counts);
                counted.push((form, counts));
            }
            Err(why) => bench.note(format!("no simulated rows of {}: {why}", form.variant())),
        }
    }
    branch_row(bench, &counted);
    counted
}

/// The counts of every form, the forms shared out over the cores.
fn all(bench: &Bench<'_>, program: &Path) -> Vec<Result<Counts, String>> {
    let (pairs, cores, stop) = (bench.setting("pairs"), &bench.cores, bench.stop());
    let share = FORMS.len().div_ceil(cores.len().max(1));
    thread::scope(|scope| {
        let hand = |(turn, part): (usize, std::ops::Range<usize>)| {
            let core = cores.get(turn).copied();
            scope
                .spawn(move || part.map(|form| count((program, core, stop), form, pairs)).collect::<Vec<_>>())
        };
        let parts = (0..FORMS.len()).step_by(share).map(|from| from..(from + share).min(FORMS.len()));
        let threads: Vec<_> = parts.enumerate().map(hand).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// What is run, where, and until when.
type Place<'a> = (&'a Path, Option<usize>, &'a AtomicBool);

/// The counts of one form: with its pairs, less without them.
fn count(place: Place<'_>, form: usize, pairs: u64) -> Result<Counts, String> {
    let Totals(with) = simulate(place, form, pairs)?;
    let Totals(without) = simulate(place, form, 0)?;
    let each = |place: usize| (with[place] - without[place]).max(0.0) / (pairs.max(1) * 1_000) as f64;
    Ok(Counts { instructions: each(0), branches: each(1), branch_misses: each(2), last_level_loads: each(3) })
}

/// Runs the loop of one form under cachegrind.
fn simulate((program, core, stop): Place<'_>, form: usize, pairs: u64) -> Result<Totals, String> {
    let counted = Counted {
        tool: "cachegrind",
        options: &OPTIONS,
        experiment: "slab-descriptor",
        set: &[("body", form as u64 + 1), ("pairs", pairs)],
    };
    let text = counted.run(program, core, stop)?;
    totals(&text).ok_or_else(|| "cachegrind's counts cannot be read".to_owned())
}

/// The totals out of a file in cachegrind's format: a line of names, and a line of sums.
fn totals(text: &str) -> Option<Totals> {
    let after = |head: &str| text.lines().find_map(|line| line.strip_prefix(head));
    let (names, sums) = (after("events:")?, after("summary:")?);
    let sum = |wanted: &str| {
        let place = names.split_whitespace().position(|name| name == wanted)?;
        sums.split_whitespace().nth(place)?.parse::<f64>().ok()
    };
    Some(Totals([sum("Ir")?, sum("Bc")? + sum("Bi")?, sum("Bcm")? + sum("Bim")?, sum("D1mr")?]))
}

fn rows(bench: &mut Bench<'_>, form: Form, counts: Counts) {
    let Counts { instructions, branches, branch_misses, last_level_loads } = counts;
    let events = [
        ("instructions", instructions),
        ("branches", branches),
        ("branch misses", branch_misses),
        ("last-level loads", last_level_loads),
    ];
    for (event, each) in events {
        let published = published_loads(form).filter(|_| event == "last-level loads");
        bench.figure(label(form, event, "cachegrind"), Metric::Count, each * SOURCE_PAIRS, published);
    }
}

pub(super) fn label(form: Form, event: &str, by: &str) -> Label {
    let params = params([
        ("work", "object".into()),
        ("bytes", BYTES.into()),
        ("touch", true.into()),
        ("event", event.into()),
        ("pairs", SOURCE_PAIRS.into()),
        ("descriptor", form.descriptor_name().into()),
        ("word", form.word_name().into()),
        ("layer", "cpu_slab".into()),
        ("by", by.into()),
    ]);
    Label { variant: form.variant(), params }
}

pub(super) fn published_loads(form: Form) -> Option<Published> {
    let (value, what) = match form {
        VANILLA => (883_412.0, "before the change (566,546 of them missed)"),
        PATCHED => (556_751.0, "with 56 bytes (339,106 of them missed)"),
        _ => return None,
    };
    let of = format!(
        "Linux of January 2014, perf stat of 16.8 million kmalloc(32) and kfree, LLC-loads of a processor {what}; here what misses a simulated first level of 256 KiB"
    );
    Some(Published { value, unit: "loads".to_owned(), of })
}

/// How many more branches the source's change mispredicts.
fn branch_row(bench: &mut Bench<'_>, counted: &[(Form, Counts)]) {
    let misses = |form| counted.iter().find(|(of, _)| *of == form).map(|(_, counts)| counts.branch_misses);
    let (Some(after), Some(before)) = (misses(PATCHED), misses(VANILLA)) else { return };
    if before <= 0.0 {
        bench.note("the simulator saw no branch mispredicted before the change: no row of the difference");
        return;
    }
    let of = "Linux of January 2014, kmalloc(32): the change of the source over what was before".to_owned();
    let published = Published { value: 15.0, unit: "percent".to_owned(), of };
    let more = label(PATCHED, "branch misses, more than netmem/64-cas128", "cachegrind");
    bench.figure(more, Metric::Percent, 100.0 * (after / before - 1.0), Some(published));
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "desc: I1 cache: 32768 B, 64 B, 8-way associative\n\
        events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim\nfl=a.rs\nfn=f\n1 2 3\n\
        summary: 1000 1 2 300 40 5 60 7 8 90 10 11 12\n";

    #[test]
    fn totals_are_read_by_the_names_of_their_columns() {
        assert_eq!(totals(FILE), Some(Totals([1_000.0, 101.0, 22.0, 40.0])));
    }

    #[test]
    fn a_file_without_the_sums_is_refused() {
        for (head, other) in [("summary:", "sum:"), ("D1mr", "D1"), ("40", "forty")] {
            assert_eq!(totals(&FILE.replace(head, other)), None, "{head}");
        }
    }
}
