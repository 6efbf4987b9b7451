//! `page-cross-worker`: pages are allocated on core A, go through a ring one at a time, and are freed on core B.
//! Compared with the ring alone, with a line for each number, with frames that are freed to their pool, and with pages
//! that have a reference count, as the source's. Controls
//! answer the source's own question, "cross CPU issue, or outstanding pages issue?": one worker with as many pages
//! out, and two workers that run in parallel.

mod alone;
mod findings;
mod items;
pub(super) mod pair;
mod passing;

use std::cell::RefCell;

use netmem::limits::{CACHE_LINE, CHUNK_SIZE, PAGE_SIZE};
use netmem::page::{DescriptorSize, Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};
use netmem::ring::ring;
use serde_json::Value;

use super::Experiment;
use super::pages::{SOURCE, check_pages, cycles, label, note_memory};
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::json::Published;
use crate::method::clock::Tsc;
use crate::method::poll::{PollSampler, Shape};
use crate::method::round::{Label, Series, Variant};
use crate::method::window::Windows;
use crate::metric::Metric;
use crate::settings::Key;
use items::{Delayed, Frames, Lines, Numbers, Pages, Shared};
use passing::{Account, BURST, Giving, Policy, Side, Sink, Source, Taking};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "page-cross-worker",
    source: SOURCE,
    question: "What does a page cost that is freed on another core: the crossing, or the pages outstanding?",
    seconds: 60,
    keys: KEYS,
    run,
};

const KEYS: &[Key] = &[Key {
    name: "slots",
    what: "slots of the ring, so pages under way at most (rounded up to a power of two)",
    min: 2_048,
    max: 16_384,
    full: 4_096,
    quick: 4_096,
}];

/// Bytes of memory for each slot of a ring: four passings of pages, one pool, the controls, and spare lists.
const BYTES_PER_PLACE: usize = 8 * PAGE_SIZE;

/// Items in a window of one side.
const WINDOW: u64 = 4 * BURST as u64;

/// Items in a window of the pair, and the maximum number between its sides. This is too few for one side to run a
/// whole window on items that the other, stopped side had sent before.
const PAIR_WINDOW: u64 = 8 * BURST as u64;
const PAIR_UNDER_WAY: usize = 512;

/// The factor by which there are more rounds than elsewhere, with fewer windows by the same factor.
const ROUNDS_MORE: usize = 6;

/// The question about a passing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// The sending core's own cost: only windows in which the ring was never full.
    CpuA,
    /// The receiving core's own cost: only windows in which the ring was never empty.
    CpuB,
    /// The pace of both with this policy on both sides, including waiting.
    Pair(Policy),
}

const ASKED: [Asked; 4] = [Asked::CpuA, Asked::CpuB, Asked::Pair(Policy::Spin), Asked::Pair(Policy::BackOff)];

/// Both sides of a passing.
struct Passing<'a> {
    variant: &'static str,
    own: Vec<(&'static str, Value)>,
    sides: RefCell<(Box<dyn Side + 'a>, Box<dyn Side + 'a>)>,
}

const RING: usize = 0;
const PAGE: usize = 1;
const DELAYED: usize = 2;
const TOUCHED: usize = 3;
const FRAME: usize = 5;
const LINE: usize = 6;
const SHARED: usize = 7;
const SHARED_DELAYED: usize = 8;

impl<'a> Passing<'a> {
    fn new<S: Source + 'a, D: Sink<Item = S::Item> + 'a>(
        variant: &'static str,
        own: &[(&'static str, Value)],
        slots: usize,
        (source, sink): (S, D),
    ) -> Self {
        let (sender, receiver) = ring(slots as u32);
        let account = Account::default();
        let a: Box<dyn Side + 'a> = Box::new(Giving { source, ring: sender, spare: 0, account });
        let b: Box<dyn Side + 'a> = Box::new(Taking { sink, ring: receiver, account });
        Self { variant, own: own.to_vec(), sides: RefCell::new((a, b)) }
    }

    /// Ends both sides and checks that every sent item arrived, in order and unchanged.
    fn settle(self, bench: &mut Bench<'_>) {
        let (a, b) = self.sides.into_inner();
        let (sent, got) = (a.settle(), b.settle());
        let own: Vec<String> = self.own.iter().map(|(name, value)| format!("{name} {value}")).collect();
        bench.check(
            &format!("{} ({}): all arrived, in order and whole", self.variant, own.join(", ")),
            sent.passed == got.passed && sent.wrong + got.wrong == 0,
            format!(
                "{} sent, {} arrived, {} refused, {} wrong",
                sent.passed, got.passed, sent.wrong, got.wrong
            ),
        );
    }
}

/// One passing with one question.
struct Asking<'p, 'a> {
    label: Label,
    passing: &'p Passing<'a>,
    asked: Asked,
    under_way: usize,
    sampler: PollSampler<'p, Tsc>,
    peer_core: usize,
}

impl<'p, 'a> Asking<'p, 'a> {
    fn boxed(
        passing: &'p Passing<'a>,
        asked: Asked,
        clock: &'p Tsc,
        (slots, peer_core): (usize, usize),
    ) -> Box<dyn Variant + 'p> {
        let (side, policy) = match asked {
            Asked::CpuA => ("A", "never waits"),
            Asked::CpuB => ("B", "never waits"),
            Asked::Pair(Policy::BackOff) => ("both", "back-off"),
            Asked::Pair(_) => ("both", "spin"),
        };
        let waits = matches!(asked, Asked::Pair(_));
        let (packets, under_way) = if waits { (PAIR_WINDOW, PAIR_UNDER_WAY) } else { (WINDOW, slots) };
        let mut own = vec![
            ("cores", "cross".into()),
            ("side", side.into()),
            ("policy", policy.into()),
            ("under_way", under_way.into()),
        ];
        own.extend(passing.own.iter().cloned());
        let label = label(passing.variant, &own);
        let sampler = PollSampler::new(clock, Shape { burst: BURST, packets, waits });
        Box::new(Self { label, passing, asked, under_way, sampler, peer_core })
    }
}

impl Variant for Asking<'_, '_> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        let sides = &mut *self.passing.sides.borrow_mut();
        let (a, b) = (&mut *sides.0, &mut *sides.1);
        a.keep_under_way(self.under_way);
        let (measured, peer, own, others) = match self.asked {
            Asked::CpuA => (a, b, Policy::GiveUp, Policy::Spin),
            Asked::CpuB => (b, a, Policy::GiveUp, Policy::Spin),
            Asked::Pair(policy) => (b, a, policy, policy),
        };
        let mut turn = || _ = peer.pass(others);
        self.sampler.round(windows, Some(self.peer_core), &mut || measured.pass(own), &mut turn)
    }
}

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let Some(&peer_core) = bench.cores.get(1) else {
        bench.check("two cores", false, "pages need one to leave and another to arrive at".to_owned());
        return Ok(());
    };
    let clock = bench.clock;
    let slots = (bench.setting("slots") as usize).next_power_of_two();
    let config = MemoryConfig { bytes: slots * BYTES_PER_PLACE, workers: 16, ..MemoryConfig::default() };
    // A line for each descriptor, as the source's `struct page`: no release takes a neighbour's line.
    let counted = MemoryConfig { descriptor: DescriptorSize::Bytes64, ..config.clone() };
    let [memory, pooled, counted] = [&config, &config, &counted].map(Memory::new);
    let memory = memory.map_err(SetUpError::at("memory"))?;
    let counted = counted.map_err(SetUpError::at("the memory of shared pages"))?;
    let pooled = pooled.map_err(SetUpError::at("the pool's memory"))?;
    let (frames, pool) = frames(&pooled, slots)?;
    let mut passings = pages(&memory, slots)?;
    passings.push(frames);
    passings.push(lines(slots));
    passings.extend(shared(&counted, slots)?);
    // Many rounds of few windows, because the rounds differ by the regime that each happens to be in.
    let Effort { rounds, windows } = bench.effort();
    let effort = Effort { rounds: ROUNDS_MORE * rounds, windows: windows.div_ceil(ROUNDS_MORE) };
    let asking = |passing| ASKED.map(|asked| Asking::boxed(passing, asked, &clock, (slots, peer_core)));
    let mut variants: Vec<Box<dyn Variant + '_>> = passings.iter().flat_map(asking).collect();
    let crossed = bench.measure_with(&mut variants, &comparisons(), Cores::Cross, effort);
    drop(variants);
    for (place, series) in crossed.iter().enumerate() {
        bench.row(series, Metric::NsPerOp, None);
        bench.row(series, Metric::CyclesPerOp, published(place / ASKED.len(), ASKED[place % ASKED.len()]));
    }
    passings.into_iter().for_each(|passing| passing.settle(bench));
    super::check_all_freed(bench, "netmem/frame", &pool);
    let on_one = alone::measure(bench, &clock, &memory, slots, peer_core)?;
    check_pages(bench, "netmem", &memory, on_one.refused);
    check_pages(bench, "netmem/shared", &counted, 0);
    note_memory(bench, &memory);
    findings::notes(bench, &crossed, &on_one, slots);
    Ok(())
}

/// Makes the bare ring and the passings of pages, in the order of [`RING`], [`PAGE`], [`DELAYED`], [`TOUCHED`] and
/// the rest.
fn pages(memory: &Memory, slots: usize) -> Result<Vec<Passing<'_>>, SetUpError> {
    let worker = || memory.worker().map_err(SetUpError::at("worker"));
    let untouched = || Ok::<_, SetUpError>(Pages::<false> { memory, worker: worker()? });
    let touched = || Ok::<_, SetUpError>(Pages::<true> { memory, worker: worker()? });
    let own = |free: &'static str, touch: bool| [("free", free.into()), ("touch", touch.into())];
    let at_once = |touch| own("at once", touch);
    let delayed = |touch| own("delayed by one, prefetched for write", touch);
    Ok(vec![
        Passing::new("limit", &[("work", "ring".into()), ("bytes", 4.into())], slots, (Numbers, Numbers)),
        Passing::new("netmem", &at_once(false), slots, (untouched()?, untouched()?)),
        Passing::new(
            "netmem/delay-1",
            &delayed(false),
            slots,
            (untouched()?, Delayed { pages: untouched()?, held: None }),
        ),
        Passing::new("netmem", &at_once(true), slots, (touched()?, touched()?)),
        Passing::new(
            "netmem/delay-1",
            &delayed(true),
            slots,
            (touched()?, Delayed { pages: touched()?, held: None }),
        ),
    ])
}

/// Makes the passing of frames, which are freed to the sender's pool. Also returns that pool.
fn frames(memory: &Memory, slots: usize) -> Result<(Passing<'_>, Pool), SetUpError> {
    let worker = || memory.worker().map_err(SetUpError::at("worker"));
    let mut owner = worker()?;
    // Twice the slots: the owner's own cache and the remote free queue keep frames too.
    let config = PoolConfig { name: "crossing".to_owned(), frames: 2 * slots, ..PoolConfig::default() };
    let pool = Pool::new(memory, &mut owner, &config).map_err(SetUpError::at("pool"))?;
    let [here, there] = [owner, worker()?].map(|worker| Frames { pool: pool.clone(), worker });
    let own = [("work", "frame".into()), ("bytes", CHUNK_SIZE.into())];
    Ok((Passing::new("netmem/frame", &own, slots, (here, there)), pool))
}

/// Makes the limit of pages whose first line is written and read.
fn lines<'a>(slots: usize) -> Passing<'a> {
    // More than items may be under way.
    let lines = Lines::new(2 * slots);
    let own = [("work", "line".into()), ("bytes", CACHE_LINE.into()), ("touch", true.into())];
    Passing::new("limit", &own, slots, (lines.clone(), lines))
}

/// Makes the passings of pages with a reference count, in the order of [`SHARED`] and [`SHARED_DELAYED`].
fn shared(memory: &Memory, slots: usize) -> Result<[Passing<'_>; 2], SetUpError> {
    let own = |free: &'static str| [("work", "shared page".into()), ("free", free.into())];
    let (at_once, delayed) = (own("at once"), own("delayed by one, descriptor prefetched for write"));
    let ends = (Shared::<false>::new(memory)?, Shared::<false>::new(memory)?);
    let delaying = (Shared::<false>::new(memory)?, Shared::<true>::new(memory)?);
    Ok([
        Passing::new("netmem/shared", &at_once, slots, ends),
        Passing::new("netmem/shared-delay-1", &delayed, slots, delaying),
    ])
}

/// Returns each question about each passing, compared with the same question about the bare ring; those about touched
/// pages, compared with a line alone; and those about delayed pages, compared with pages that are freed at once.
fn comparisons() -> Vec<Comparison> {
    let over_ring = (PAGE..LINE).chain([SHARED, SHARED_DELAYED]).map(|passing| (passing, RING));
    over_ring
        .chain([
            (TOUCHED, LINE),
            (DELAYED, PAGE),
            (DELAYED + TOUCHED - PAGE, TOUCHED),
            (SHARED_DELAYED, SHARED),
        ])
        .flat_map(|(a, b)| (0..ASKED.len()).map(move |asked| [a, b].map(|one| one * ASKED.len() + asked)))
        .map(|[a, b]| Comparison { a, b, metric: Metric::NsPerOp })
        .collect()
}

fn published(passing: usize, asked: Asked) -> Option<Published> {
    let figure = |value, of| Some(cycles(value, &format!("Linux of early 2017, release not told, {of}")));
    match (passing, asked) {
        (RING, Asked::CpuA | Asked::CpuB) => figure(31.0, "ptr_ring alone, on each core"),
        (SHARED, Asked::CpuA | Asked::CpuB) => {
            figure(210.0, "order-0 alloc_pages on one core, put_page on the other, through a ptr_ring")
        }
        (SHARED_DELAYED, Asked::CpuB) => {
            figure(152.0, "the same, delayed by one page and prefetchw before put_page")
        }
        _ => None,
    }
}

/// Returns the series of one question about a passing.
fn of(crossed: &[Series], passing: usize, asked: usize) -> &Series {
    &crossed[passing * ASKED.len() + asked]
}
