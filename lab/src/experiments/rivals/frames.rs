//! Frames allocated and freed on the core that owns their pool, compared with a mempool's objects.

use std::hint::black_box;

use netmem::limits::BATCH_MAX;
use netmem::pool::{Batch, Frame, Pool};
use netmem::sync::Worker;

use super::target::Target;
use super::{CACHE, FRAME, FRAMES, LINE, STAMP, Scene, check_dpdk, check_netmem, label};
use crate::bench::{Bench, SetUpError};
use crate::method::round::Series;

/// Bursts of one pool. A whole burst is allocated before its first frame is freed.
pub(super) struct Trip {
    pub(super) pool: Pool,
    burst: usize,
    /// Batches for a burst.
    hands: Vec<Batch>,
    pub(super) refused: u64,
}

impl Trip {
    pub(super) fn new(pool: Pool, burst: usize) -> Self {
        let hands = (0..burst.div_ceil(BATCH_MAX)).map(|_| Batch::new()).collect();
        Self { pool, burst, hands, refused: 0 }
    }

    pub(super) fn run(&mut self, w: &mut Worker, touch: bool, ops: u32) {
        let (pool, burst) = (&self.pool, self.burst);
        self.refused += match (burst, touch) {
            (1, true) => one::<true>(pool, w, ops),
            (1, false) => one::<false>(pool, w, ops),
            (2..=BATCH_MAX, true) => batches::<true>(pool, w, burst, ops),
            (2..=BATCH_MAX, false) => batches::<false>(pool, w, burst, ops),
            (_, true) => self.bursts::<true>(w, ops),
            (_, false) => self.bursts::<false>(w, ops),
        };
    }

    /// For a burst that is larger than one batch.
    #[inline(never)]
    fn bursts<const TOUCH: bool>(&mut self, w: &mut Worker, ops: u32) -> u64 {
        let mut refused = 0;
        for _ in 0..ops as usize / self.burst {
            let mut left = self.burst;
            for hand in &mut self.hands {
                let wanted = left.min(BATCH_MAX);
                left -= wanted;
                refused += wanted - self.pool.alloc_burst(w, hand, wanted);
                if TOUCH {
                    write_lines(hand);
                }
            }
            for hand in black_box(&mut self.hands) {
                hand.free(w);
            }
        }
        refused as u64
    }

    /// Runs one more burst, and writes a number of its own into each frame. Returns how many frames do not hold theirs
    /// when all are written.
    fn corrupted(&mut self, w: &mut Worker) -> u64 {
        let mut frames: Vec<Frame> = (0..self.burst).map_while(|_| self.pool.alloc(w)).collect();
        for (frame, number) in frames.iter_mut().zip(0_u64..) {
            write_line(frame);
            frame.data_mut()[..8].copy_from_slice(&number.to_le_bytes());
        }
        let whole = |(frame, number): &(Frame, u64)| frame.data()[..8] == number.to_le_bytes();
        let whole = frames.into_iter().zip(0_u64..).filter(whole).map(|(frame, _)| frame.free(w)).count();
        (self.burst - whole) as u64
    }
}

/// Allocates and frees one frame at a time. Returns how many allocations failed.
#[inline(never)]
fn one<const TOUCH: bool>(pool: &Pool, w: &mut Worker, ops: u32) -> u64 {
    let mut refused = 0;
    for _ in 0..ops {
        match pool.alloc(w) {
            Some(mut frame) => {
                if TOUCH {
                    write_line(&mut frame);
                }
                // A mempool gives an address, so the address of the data is computed here too.
                black_box(frame.headroom());
                pool.free(w, frame);
            }
            None => refused += 1,
        }
    }
    refused
}

/// Allocates and frees one batch at a time. Returns how many allocations failed.
#[inline(never)]
fn batches<const TOUCH: bool>(pool: &Pool, w: &mut Worker, burst: usize, ops: u32) -> u64 {
    let (mut refused, mut hand) = (0, Batch::new());
    for _ in 0..ops as usize / burst {
        refused += burst - pool.alloc_burst(w, &mut hand, burst);
        if TOUCH {
            write_lines(&mut hand);
        }
        black_box(&mut hand).free(w);
    }
    refused as u64
}

/// Makes the first line of each frame its data, and writes it.
#[inline(always)]
fn write_lines(hand: &mut Batch) {
    hand.put_each(LINE, |_, line| line.fill(STAMP));
}

/// Makes the first line the frame's data, and writes it.
#[inline(always)]
fn write_line(frame: &mut Frame) {
    if let Ok(line) = frame.put(LINE) {
        line.fill(STAMP);
    }
}

/// Measures one burst, written or not.
pub(super) fn group(
    scene: &Scene<'_>,
    bench: &mut Bench<'_>,
    burst: usize,
    touch: bool,
) -> Result<Option<Target>, SetUpError> {
    let named = |variant| label(variant, "frame", burst, "same", FRAME, touch);
    let mut ours = Trip::new(scene.pool()?, burst);
    let mut theirs = match scene.dpdk {
        Some(dpdk) => Some(dpdk.frames(FRAMES, FRAME, CACHE).map_err(SetUpError::at("mempool"))?),
        None => None,
    };
    let mut refused = 0;
    let run = |ops| ours.run(&mut scene.worker.borrow_mut(), touch, ops);
    let mut variants = vec![scene.op_loop(named("netmem"), burst, run)];
    if let Some(frames) = &mut theirs {
        let run = |ops| refused += frames.run(burst, touch, ops);
        variants.push(scene.op_loop(named("dpdk"), burst, run));
    }
    let series = scene.measure(bench, &mut variants);
    drop(variants);
    let what = format!("frames by {burst}{}", if touch { ", written" } else { "" });
    let corrupted = ours.corrupted(&mut scene.worker.borrow_mut());
    check_netmem(bench, &what, ours.refused, corrupted, &ours.pool);
    if let Some(frames) = &theirs {
        check_dpdk(bench, &what, refused, frames.out());
    }
    Ok(target(bench, &what, burst, touch, &series))
}

fn target(bench: &Bench<'_>, what: &str, burst: usize, touch: bool, series: &[Series]) -> Option<Target> {
    let at_most = match (burst, touch) {
        (1, false) => 0.45,
        (32, false) => 0.75,
        (32, true) => 1.15,
        _ => return None,
    };
    let (ours, rivals) = series.split_first()?;
    Target::over_fastest(bench, what, at_most, ours, &rivals.iter().collect::<Vec<_>>())
}
