//! Instructions, branches and loads of one pair, by the cache simulator of valgrind. This program runs itself under
//! valgrind, once with the pairs and once without, for each form.
//!
//! Objects are freed in a random order, so that descriptors are cold. For the two kernels of the source there are
//! also rows in the order of allocation, which the source does not exclude. Their random orders are three, by seeds of
//! their own; a row has the median of the three, and the least and the largest count.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;

use netmem::page::{Memory, MemoryConfig};

use super::form::{FORMS, Form, PATCHED, VANILLA};
use crate::bench::{Bench, SetUpError};
use crate::experiments::slab_working_set::working_set;
use crate::experiments::valgrind::{self, Counted};
use crate::json::{Published, params};
use crate::method::random::Random;
use crate::method::round::Label;
use crate::metric::Metric;

/// Bytes of the objects, as in the source's counts.
const BYTES: usize = 32;

/// Held objects: 8 MiB of them. Enough other descriptors are changed between two changes of a descriptor for it to
/// leave the first simulated cache: every free, and every slab that becomes active, changes a random one of some 2,048.
const OBJECTS: usize = 1 << 18;

/// Bytes of the memory that they come from.
const MEMORY: usize = 32 << 20;

/// Loads from the last level: they missed the cache before it.
pub(super) const LOADS: &str = "last-level loads";

/// Loads that the last level missed too.
pub(super) const MISSES: &str = "last-level misses";

/// The number of pairs in the source's counts.
pub(super) const SOURCE_PAIRS: f64 = 16.8e6;

/// Caches and branches are simulated, in the same way on every machine. The first cache has the size of a second-level
/// cache of the source's time, so that a miss of it is what the source counted: a load from the last level.
const OPTIONS: [&str; 5] =
    ["--cache-sim=yes", "--branch-sim=yes", "--I1=32768,8,64", "--D1=262144,8,64", "--LL=8388608,16,64"];

/// The order in which the objects are freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// A random order over the slabs.
    Random,
    /// The order of their allocation.
    InTurn,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::InTurn => "in turn",
        }
    }
}

/// Events of one pair.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) instructions: f64,
    pub(super) branches: f64,
    pub(super) branch_misses: f64,
    pub(super) last_level_loads: f64,
    pub(super) last_level_misses: f64,
}

/// The counts of a whole simulated process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Totals([f64; 5]);

/// Runs the loop of one form inside the simulator.
pub(super) fn body(bench: &mut Bench<'_>, form: &Form) -> Result<(), SetUpError> {
    let pairs = (bench.setting("pairs") * 1_000) as u32;
    let order = if bench.setting("turn") == 1 { Order::InTurn } else { Order::Random };
    scene(bench, form, order, |run| run(pairs))?;
    bench.note(format!("{}: {} thousand pairs, not timed", form.variant(), bench.setting("pairs")));
    Ok(())
}

/// Holds the objects of one form, and passes `watch` the function that runs a number of pairs on them.
pub(super) fn scene(
    bench: &mut Bench<'_>,
    form: &Form,
    order: Order,
    watch: impl FnOnce(&mut dyn FnMut(u32)),
) -> Result<(), SetUpError> {
    let config = MemoryConfig { bytes: MEMORY, descriptor: form.descriptor, ..MemoryConfig::default() };
    let memory = Memory::new(&config).map_err(SetUpError::at("memory"))?;
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
    let mut set = working_set(&memory, &form.config(), BYTES, true)?;
    set.hold(&mut worker, OBJECTS);
    if order == Order::Random {
        set.shuffle(&mut Random::new(bench.setting("seed")));
    }
    watch(&mut |pairs| set.oldest(&mut worker, pairs));
    set.settle(&mut worker).check(bench);
    Ok(())
}

/// Random orders of the source's two kernels. The order of allocation is one.
const SEEDS: u64 = 3;

/// A form, the order of its frees, and what is added to the seed of a random order.
type Job = (usize, Order, u64);

/// Returns the simulated jobs: every form in a random order, and the source's two also in further ones and in the order
/// of allocation.
fn jobs() -> Vec<Job> {
    let of_source = |form: usize| [VANILLA, PATCHED].contains(&FORMS[form]);
    let of = |form| {
        let seeds = if of_source(form) { SEEDS } else { 1 };
        let random = (0..seeds).map(move |seed| (form, Order::Random, seed));
        random.chain(of_source(form).then_some((form, Order::InTurn, 0)))
    };
    (0..FORMS.len()).flat_map(of).collect()
}

/// Simulates every form and reports the rows. A form that could not be counted gets a note. Returns the counts in
/// random order.
pub(super) fn run(bench: &mut Bench<'_>) -> Vec<(Form, Counts)> {
    let program = match valgrind::program() {
        Ok(program) => program,
        Err(why) => {
            bench.note(format!("no rows of instructions, branches and loads of the last level: {why}"));
            return Vec::new();
        }
    };
    let mut counted: Vec<(Form, Counts)> = Vec::new();
    let (jobs, all) = (jobs(), all(bench, &program));
    let done: Vec<(&Job, &Result<Counts, String>)> = jobs.iter().zip(&all).collect();
    // The jobs of one form and order stand together.
    for part in done.chunk_by(|(a, _), (b, _)| (a.0, a.1) == (b.0, b.1)) {
        let &(place, order, _) = part[0].0;
        let form = FORMS[place];
        match part.iter().map(|(_, counts)| (*counts).clone()).collect::<Result<Vec<Counts>, String>>() {
            Ok(counts) => {
                rows(bench, form, order, &counts);
                counted.extend((order == Order::Random).then_some((form, counts[0])));
            }
            Err(why) => {
                bench.note(format!("no simulated rows of {}, {}: {why}", form.variant(), order.name()))
            }
        }
    }
    counted
}

/// Returns the counts of every job. The jobs are distributed over the cores.
fn all(bench: &Bench<'_>, program: &Path) -> Vec<Result<Counts, String>> {
    let (pairs, cores, stop) = (bench.setting("pairs"), &bench.cores, bench.stop());
    let first = bench.setting("seed");
    let jobs = jobs();
    let share = jobs.len().div_ceil(cores.len().max(1));
    thread::scope(|scope| {
        let hand = |(turn, part): (usize, &[Job])| {
            let (core, part) = (cores.get(turn).copied(), part.to_vec());
            let one = move |(form, order, seed): Job| {
                count((program, core, stop), (form, order, first + seed), pairs)
            };
            scope.spawn(move || part.into_iter().map(one).collect::<Vec<_>>())
        };
        let threads: Vec<_> = jobs.chunks(share).enumerate().map(hand).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.flat_map(|part| part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// The program, the core, and the flag that stops it.
type FrameState<'a> = (&'a Path, Option<usize>, &'a AtomicBool);

/// Returns the counts of one job: those with its pairs minus those without.
fn count(place: FrameState<'_>, job: Job, pairs: u64) -> Result<Counts, String> {
    let Totals(with) = simulate(place, job, pairs)?;
    let Totals(without) = simulate(place, job, 0)?;
    let each = |place: usize| (with[place] - without[place]) / (pairs.max(1) * 1_000) as f64;
    Ok(Counts {
        instructions: each(0),
        branches: each(1),
        branch_misses: each(2),
        last_level_loads: each(3),
        last_level_misses: each(4),
    })
}

/// Runs the loop of one form under cachegrind.
fn simulate(
    (program, core, stop): FrameState<'_>,
    (form, order, seed): Job,
    pairs: u64,
) -> Result<Totals, String> {
    let turn = u64::from(order == Order::InTurn);
    let counted = Counted {
        tool: "cachegrind",
        options: &OPTIONS,
        experiment: "slab-descriptor",
        set: &[("body", form as u64 + 1), ("pairs", pairs), ("turn", turn), ("seed", seed)],
    };
    let text = counted.run(program, core, stop)?;
    totals(&text).ok_or_else(|| "cachegrind's counts cannot be read".to_owned())
}

/// Returns the totals of a file in cachegrind's format, which has a line of names and a line of sums.
fn totals(text: &str) -> Option<Totals> {
    let after = |head: &str| text.lines().find_map(|line| line.strip_prefix(head));
    let (names, sums) = (after("events:")?, after("summary:")?);
    let sum = |wanted: &str| {
        let place = names.split_whitespace().position(|name| name == wanted)?;
        sums.split_whitespace().nth(place)?.parse::<f64>().ok()
    };
    let (branches, misses) = (sum("Bc")? + sum("Bi")?, sum("Bcm")? + sum("Bim")?);
    Some(Totals([sum("Ir")?, branches, misses, sum("D1mr")?, sum("DLmr")?]))
}

/// The name of an event, and its count.
type Event = (&'static str, fn(&Counts) -> f64);

fn rows(bench: &mut Bench<'_>, form: Form, order: Order, counts: &[Counts]) {
    let events: [Event; 5] = [
        ("instructions", |counts| counts.instructions),
        ("branches", |counts| counts.branches),
        ("branch misses", |counts| counts.branch_misses),
        (LOADS, |counts| counts.last_level_loads),
        (MISSES, |counts| counts.last_level_misses),
    ];
    for (event, each) in events {
        let published = published(form, event).filter(|_| order == Order::Random);
        let label = label(form, event, "cachegrind", order);
        let all: Vec<f64> = counts.iter().map(|counts| each(counts) * SOURCE_PAIRS).collect();
        // Setting up and ending the sets cost more than the pairs: the difference tells nothing of them.
        if all.iter().any(|count| *count < 0.0) {
            bench.note(format!(
                "no simulated {event} of {}, {}: without the pairs the process had more of them",
                form.variant(),
                order.name()
            ));
            continue;
        }
        bench.figures(label, Metric::Count, all, published);
    }
}

pub(super) fn label(form: Form, event: &str, by: &str, order: Order) -> Label {
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
        ("order", order.name().into()),
    ]);
    Label { variant: form.variant(), params }
}

/// Returns the source's figures of an event, before its change and after it.
pub(super) fn published(form: Form, event: &str) -> Option<Published> {
    let (before, after, name) = match event {
        LOADS => (883_412.0, 556_751.0, "LLC-loads"),
        MISSES => (566_546.0, 339_106.0, "LLC-load-misses"),
        _ => return None,
    };
    let (value, what) = match form {
        VANILLA => (before, "before the change"),
        PATCHED => (after, "with 56 bytes"),
        _ => return None,
    };
    let of = format!(
        "Linux of January 2014, perf stat of 16.8 million kmalloc(32) and kfree, {name} of a processor {what}; a simulated load is what misses a first level of 256 KiB, a simulated miss what misses a last one of 8 MiB"
    );
    Some(Published { value, unit: event.trim_start_matches("last-level ").to_owned(), of })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "desc: I1 cache: 32768 B, 64 B, 8-way associative\n\
        events: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim\nfl=a.rs\nfn=f\n1 2 3\n\
        summary: 1000 1 2 300 40 5 60 7 8 90 10 11 12\n";

    #[test]
    fn totals_are_read_by_the_names_of_their_columns() {
        assert_eq!(totals(FILE), Some(Totals([1_000.0, 101.0, 22.0, 40.0, 5.0])));
    }

    #[test]
    fn a_file_without_the_sums_is_refused() {
        for (head, other) in [("summary:", "sum:"), ("D1mr", "D1"), ("DLmr", "DL"), ("40", "forty")] {
            assert_eq!(totals(&FILE.replace(head, other)), None, "{head}");
        }
    }

    #[test]
    fn every_form_is_simulated_in_random_order_and_the_sources_two_in_three_and_in_turn() {
        let jobs = jobs();
        let of = |form: Form, order: Order| {
            jobs.iter().filter(|job| (FORMS[job.0], job.1) == (form, order)).count()
        };
        assert_eq!(jobs.len(), 12 + 2 * 2 + 2);
        for form in FORMS {
            let expected = if [PATCHED, VANILLA].contains(&form) { (3, 1) } else { (1, 0) };
            assert_eq!((of(form, Order::Random), of(form, Order::InTurn)), expected);
        }
    }
}
