//! Whether a frame costs more if more frames are in use: from 1 Ki to 1 Mi that are written, and to 4 Mi of which
//! only the pool's own data are touched. The next in an order without a pattern is freed, and one is allocated.

use std::cell::RefCell;
use std::hint::black_box;

use netmem::limits::{CHUNK_SIZE, PAGE_SIZE};
use netmem::page::{BackingPreference, Lent, Memory, MemoryConfig};
use netmem::pool::{Frame, Pool, PoolConfig};
use netmem::sync::Worker;

use super::CACHE;
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::experiments::check_all_freed;
use crate::experiments::pages::{LINE, median_ns};
use crate::json::params;
use crate::method::memory::memory_available;
use crate::method::random::Random;
use crate::method::round::{Label, Series, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;

/// Numbers of frames in use, and whether they are written.
const STEPS: [(bool, &[usize]); 2] =
    [(true, &[1 << 10, 1 << 14, 1 << 18, 1 << 20]), (false, &[1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22])];

/// Bytes of memory that are left for other processes.
const SPARE: usize = 1 << 30;

/// Maximum cost of a frame with the most frames in use, as a multiple of the cost with the fewest. The cost of the
/// caches is allowed in addition: the additional cost of a loop that reads or writes the same frames, but frees and
/// allocates always the same frame.
const AT_MOST: f64 = 2.0;

/// Maximum share of the memory for all bookkeeping, in percent.
const BOOKKEEPING_MOST: f64 = 2.0;

/// Measures both, as far as there is enough memory.
pub(super) fn measure(bench: &mut Bench<'_>, effort: Effort) -> Result<(), SetUpError> {
    for (touch, steps) in STEPS {
        let room = memory_available().map_or(usize::MAX, |bytes| bytes.saturating_sub(SPARE) / CHUNK_SIZE);
        let fitting: Vec<usize> = steps.iter().copied().filter(|frames| *frames <= room).collect();
        if fitting.len() < steps.len() {
            bench.note(format!(
                "no rows of more than {room} frames in use: the available memory has room for no more"
            ));
        }
        if fitting.len() > 1 && !bench.stopped() {
            group(bench, &fitting, touch, effort)?;
        }
    }
    bench.note(
        "/in-use: this number of frames is allocated, adjacent and in an order without a pattern. Each in turn is \
         freed, and one is allocated and written, or not. limit/in-use: the same frames are written, or two bytes \
         are read for each, and always the same frame is freed and allocated: the share of the caches. If frames \
         are not written, no byte of the memory itself is ever accessed, and the system does not back it with pages",
    );
    Ok(())
}

/// Frames in use, in an order without a pattern.
struct InUse {
    w: Worker,
    memory: Memory,
    pool: Pool,
    frames: Vec<Option<Frame>>,
    /// Two bytes for each frame, at the index of its number modulo a power of two.
    marks: Vec<u16>,
    refused: u64,
}

impl InUse {
    /// Takes all frames out of a pool with as many as the last of `steps`. The frames of each step are adjacent, and in
    /// random order within the step.
    fn new(bench: &Bench<'_>, steps: &[usize], touch: bool) -> Result<InUse, SetUpError> {
        let count = steps.last().copied().unwrap_or_default();
        let memory = memory(count, touch)?;
        let mut w = memory.worker().map_err(SetUpError::at("worker"))?;
        let config =
            PoolConfig { name: "in use".to_owned(), frames: count, cache: CACHE, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut w, &config).map_err(SetUpError::at("pool"))?;
        let mut frames: Vec<Option<Frame>> = (0..count).map(|_| pool.alloc(&mut w)).collect();
        let mut random = Random::new(bench.setting("seed"));
        let begins = [0].into_iter().chain(steps.iter().copied());
        begins.zip(steps).for_each(|(begin, end)| random.shuffle(&mut frames[begin..*end]));
        if touch {
            let all = frames.iter_mut().enumerate();
            all.for_each(|(place, frame)| frame.iter_mut().for_each(|frame| begin(frame, place)));
        }
        let refused = frames.iter().filter(|frame| frame.is_none()).count() as u64;
        let marks = vec![1; count.next_power_of_two()];
        Ok(InUse { w, memory, pool, frames, marks, refused })
    }

    /// Frees `ops` of the first `among` frames in turn, and allocates one for each.
    #[inline(never)]
    fn pass<const TOUCH: bool>(&mut self, at: &mut usize, among: usize, ops: u32) {
        let Self { w, pool, frames, refused, .. } = self;
        for _ in 0..ops {
            let place = &mut frames[*at];
            exchange(w, pool, place);
            match place {
                Some(frame) if TOUCH => begin(frame, *at),
                Some(_) => {}
                None => *refused += 1,
            }
            *at = next(*at, among);
        }
    }

    /// Does the same as [`InUse::pass`], but frees and allocates always the same frame, while the frames in turn are
    /// written, or their marks read. This is the share of the caches for the same number of frames, at the same pace.
    #[inline(never)]
    fn limit<const TOUCH: bool>(&mut self, at: &mut usize, among: usize, ops: u32) {
        let Self { w, pool, frames, marks, refused, .. } = self;
        let last = frames.len() - 1;
        let mut one = frames[last].take();
        for _ in 0..ops {
            exchange(w, pool, &mut one);
            if let Some(frame) = &mut frames[*at] {
                if TOUCH {
                    again(frame, *at);
                } else {
                    black_box(marks.get(frame.id().get() as usize & (marks.len() - 1)).copied());
                }
            }
            *at = next(*at, among);
        }
        match &mut one {
            Some(frame) if TOUCH => again(frame, last),
            Some(_) => {}
            None => *refused += 1,
        }
        frames[last] = one;
    }

    /// Returns how often the owner left its cache.
    fn visits(&self) -> u64 {
        let stats = self.pool.stats();
        stats.alloc.refill + stats.alloc.empty + stats.alloc.slow + stats.recycle.cache_full
    }

    /// Frees all frames. Returns how many do not hold what was written.
    fn settle(&mut self, touch: bool) -> usize {
        let Self { w, frames, .. } = self;
        let is_corrupted = |(place, frame): &(usize, &Frame)| touch && frame.data() != stamp(*place);
        let all = frames.iter().enumerate().filter_map(|(place, frame)| Some((place, frame.as_ref()?)));
        let corrupted = all.filter(is_corrupted).count();
        frames.drain(..).flatten().for_each(|frame| frame.free(w));
        corrupted
    }
}

/// Makes a memory for this number of frames: on large pages if they are written, else on lent bytes that the system
/// need not back with pages.
fn memory(frames: usize, touch: bool) -> Result<Memory, SetUpError> {
    let bytes = frames * CHUNK_SIZE;
    let config = MemoryConfig {
        bytes,
        workers: 1,
        backing: BackingPreference::Transparent,
        ..MemoryConfig::default()
    };
    if touch {
        return Memory::new(&config).map_err(SetUpError::at("memory"));
    }
    // The bytes need not begin with a page. If there is no room for them this fails. The allocation below would end the
    // process.
    let bytes = bytes + PAGE_SIZE;
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(SetUpError::at("room for untouched memory"))?;
    let lent = Lent::bytes(vec![0; bytes].into_boxed_slice(), drop).map_err(SetUpError::at("lend memory"))?;
    Memory::lent(lent, &config).map_err(SetUpError::at("lent memory"))
}

/// Frees the frame at this index, and allocates one for it.
#[inline(always)]
fn exchange(w: &mut Worker, pool: &Pool, place: &mut Option<Frame>) {
    place.take().into_iter().for_each(|frame| pool.free(w, frame));
    *place = pool.alloc(w);
}

/// Returns the index after `at`.
#[inline(always)]
fn next(at: usize, among: usize) -> usize {
    if at + 1 == among { 0 } else { at + 1 }
}

/// Returns the contents of the frame at this index.
fn stamp(place: usize) -> [u8; LINE] {
    let mut line = [0; LINE];
    line[..8].copy_from_slice(&place.to_le_bytes());
    line
}

/// Writes into an empty frame.
#[inline(always)]
fn begin(frame: &mut Frame, place: usize) {
    if let Ok(room) = frame.put(LINE) {
        room.copy_from_slice(&stamp(place));
    }
}

/// Writes into a frame that is not empty.
#[inline(always)]
fn again(frame: &mut Frame, place: usize) {
    // It cannot fail: no length is less than 0.
    let _ = frame.trim(0);
    begin(frame, place);
}

/// Measures these numbers of frames in the same rounds.
fn group(bench: &mut Bench<'_>, steps: &[usize], touch: bool, effort: Effort) -> Result<(), SetUpError> {
    let (clock, most) = (bench.clock, steps[steps.len() - 1]);
    let in_use = RefCell::new(InUse::new(bench, steps, touch)?);
    let before = in_use.borrow().visits();
    let of = |variant: &str, among: usize, turn: fn(&mut InUse, &mut usize, usize, u32)| {
        let (mut at, in_use) = (0, &in_use);
        let body = move |ops| turn(&mut in_use.borrow_mut(), &mut at, among, ops);
        Box::new(OpLoop::new(label(variant, among, touch), &clock, Box::new(body))) as Box<dyn Variant + '_>
    };
    let pass = if touch { InUse::pass::<true> } else { InUse::pass::<false> };
    let mut variants: Vec<_> = steps.iter().map(|among| of("netmem", *among, pass)).collect();
    let limit = if touch { InUse::limit::<true> } else { InUse::limit::<false> };
    variants.extend(steps.iter().map(|among| of("limit", *among, limit)));
    let over_fewest = |a| Comparison { a, b: 0, metric: Metric::NsPerOp };
    let comparisons: Vec<Comparison> = (1..steps.len()).map(over_fewest).collect();
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Same, effort);
    drop(variants);
    series.iter().for_each(|one| bench.row(one, Metric::NsPerOp, None));
    is_constant(bench, steps, &series);
    let mut in_use = in_use.into_inner();
    let (visits, refused) = (in_use.visits() - before, in_use.refused);
    let corrupted = in_use.settle(touch);
    let name = format!("frames in use, {}", if touch { "written" } else { "untouched" });
    bench.check(
        &format!("{name}: the owner never leaves its cache, each frame comes and keeps what was written"),
        visits == 0 && refused == 0 && corrupted == 0,
        format!("{visits} visits to the stock, {refused} refused, {corrupted} not as written"),
    );
    check_all_freed(bench, &name, &in_use.pool);
    bookkeeping(bench, &in_use, label("netmem", most, touch));
    Ok(())
}

/// Reports the share of the memory that descriptors of pages and the data of one pool's frames take.
fn bookkeeping(bench: &mut Bench<'_>, in_use: &InUse, label: Label) {
    let InUse { memory, pool, .. } = in_use;
    let share = |bytes: usize| 100.0 * bytes as f64 / memory.bytes() as f64;
    let [pages, frames] = [memory.descriptor_bytes(), pool.bookkeeping_bytes()].map(share);
    for (of, share) in [("descriptors of pages", pages), ("bookkeeping of frames", frames)] {
        let mut label = label.clone();
        label.params.insert("of".to_owned(), of.into());
        bench.figure(label, Metric::Percent, share, None);
    }
    bench.check(
        &format!(
            "bookkeeping of pages and frames is at most {BOOKKEEPING_MOST} %, {} MiB",
            memory.bytes() >> 20
        ),
        pages + frames <= BOOKKEEPING_MOST,
        format!("{pages:.2} % for pages, {frames:.2} % for frames"),
    );
}

/// Checks that a frame costs about the same with the most frames in use as with the fewest, apart from the share of the
/// caches.
fn is_constant(bench: &mut Bench<'_>, steps: &[usize], series: &[Series]) {
    let ns: Option<Vec<f64>> = series.iter().map(|one| median_ns(bench, one)).collect();
    let ([few, .., many], Some(ns)) = (steps, ns) else { return };
    let (ours, limits) = ns.split_at(steps.len());
    let ([fewest, .., most], [near, .., far]) = (ours, limits) else { return };
    let caches = (far - near).max(0.0);
    bench.judge(
        &format!("a frame costs at most {AT_MOST} times as much with {many} in use as with {few}, beside the caches"),
        *most <= AT_MOST * fewest + caches,
        format!("{most:.1} ns, {fewest:.1} ns with {few}; the same frames cost {caches:.1} ns more where another one goes back"),
    );
}

fn label(variant: &str, frames: usize, touch: bool) -> Label {
    let params = params([
        ("work", "frame".into()),
        ("burst", 1.into()),
        ("cores", "same".into()),
        ("bytes", CHUNK_SIZE.into()),
        ("touch", touch.into()),
        ("frames", frames.into()),
        ("memory", (frames * CHUNK_SIZE).into()),
    ]);
    Label { variant: format!("{variant}/in-use-{frames}"), params }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;

    #[test]
    fn frames_in_use_return_to_the_pool_and_keep_what_was_written() {
        for touch in [true, false] {
            let report = report_of(false, |bench| {
                let effort = Effort { rounds: 1, windows: 8 };
                group(bench, &[64, 4_096], touch, effort).unwrap();
            });
            let of_pool = |check: &&crate::json::Check| check.name.starts_with("frames in use");
            let checks: Vec<_> = report.checks.iter().filter(of_pool).collect();
            assert!(checks.len() == 2 && checks.iter().all(|check| check.ok), "{checks:?}");
            assert_eq!(report.rows.len(), 6);
        }
    }

    #[test]
    fn a_corrupted_frame_and_a_frame_that_does_not_exist_are_counted() {
        report_of(false, |bench| {
            let mut in_use = InUse::new(bench, &[1_024], true).unwrap();
            in_use.pass::<true>(&mut 0, 1_024, 3_000);
            assert_eq!(
                (in_use.refused, in_use.visits()),
                (0, InUse::new(bench, &[1_024], true).unwrap().visits())
            );
            in_use.frames[7].as_mut().unwrap().data_mut()[3] ^= 1;
            in_use.frames.push(in_use.pool.alloc(&mut in_use.w));
            in_use.pass::<true>(&mut 1_024, 1_025, 1);
            assert_eq!((in_use.refused, in_use.settle(true)), (1, 1));
        });
    }
}
