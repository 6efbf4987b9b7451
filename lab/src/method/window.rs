//! Windows of a loop of operations on one core, and the rule that drops windows with a pause.

use std::hint::black_box;

use super::clock::Clock;
use super::pauses::Gaps;
use super::quantile::{median, quantile};
use super::round::{Label, Variant};

/// If a window is longer per operation than this many times the round's lower quartile, it contains a pause.
pub const WINDOW_FACTOR: f64 = 4.0;

/// If a single step of a window is longer than this many times the lower quartile of a step, the window contains a
/// pause.
pub const STEP_FACTOR: f64 = 16.0;

/// Minimum duration of a window of operations. With doubling it lasts up to twice as long. So it stays within 10 µs
/// to 1 ms, which is short compared with the gaps of a paused machine and long compared with one reading of the
/// clock. One bulk may last longer, and is a window then.
const WINDOW_NS: f64 = 25_000.0;

/// Minimum operations in a window.
const OPS_MIN: u32 = 64;

/// Maximum operations in a window, so that a window of operations without cost still ends.
const OPS_MAX: u32 = 1 << 20;

/// Windows run before the first that counts: they load the variant's own lines into the cache.
const WARM_UP: usize = 2;

/// One stretch of time between two readings of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its length.
    pub ticks: u64,
    /// Operations, or packets, done in it.
    pub ops: u64,
    /// Readings of the clock inside it, the last one included.
    pub steps: u64,
    /// The longest time between two neighbouring readings.
    pub longest_step: u64,
}

/// One variant's windows of one round.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Windows {
    /// Ticks per operation of every window that counts, without the cost of an empty loop.
    pub per_op: Vec<f64>,
    /// Windows dropped because a pause fell into them.
    pub paused: u64,
    /// Windows dropped because the generator did not keep a full burst waiting.
    pub starved: u64,
    /// The time of all these windows, and the part of it that pauses took.
    pub gaps: Gaps,
}

impl Windows {
    /// Drops the windows that contain a pause, and subtracts `empty` ticks per operation from the others.
    ///
    /// A pause is detected in two ways. The whole window took more than [`WINDOW_FACTOR`] times the lower quartile
    /// of this round's windows. Or two neighbouring readings of the clock inside it differ by more than
    /// [`STEP_FACTOR`] times the lower quartile of a step. The quartile is computed in every round, so that a
    /// machine that changes its frequency does not turn every window into a pause. The time of such a window beyond
    /// the work of an ordinary one counts as lost.
    pub fn without_pauses(windows: &[Window], empty: f64) -> Self {
        let per_op = |w: &Window| w.ticks as f64 / w.ops.max(1) as f64;
        let per_step = |w: &Window| w.ticks as f64 / w.steps.max(1) as f64;
        let quartile = |of: &dyn Fn(&Window) -> f64| {
            quantile(&windows.iter().map(of).collect::<Vec<_>>(), 0.25).unwrap_or(f64::INFINITY)
        };
        let (window_max, step_max) = (WINDOW_FACTOR * quartile(&per_op), STEP_FACTOR * quartile(&per_step));
        let paused = |w: &Window| per_op(w) > window_max || w.longest_step as f64 > step_max;
        let clean: Vec<f64> = windows.iter().filter(|w| !paused(w)).map(per_op).collect();
        let typical = median(&clean).unwrap_or(0.0);
        let mut gaps = Gaps::default();
        for window in windows {
            let work = (typical * window.ops as f64) as u64;
            gaps.spend(window.ticks, if paused(window) { window.ticks.saturating_sub(work) } else { 0 });
        }
        let paused = (windows.len() - clean.len()) as u64;
        Self { per_op: clean.into_iter().map(|each| each - empty).collect(), paused, starved: 0, gaps }
    }
}

/// Measures `count` windows of `ops` operations each.
pub fn sample<C: Clock>(clock: &C, count: usize, ops: u32, body: &mut dyn FnMut(u32)) -> Vec<Window> {
    let mut windows = Vec::with_capacity(count);
    for _ in 0..count {
        let start = clock.ticks();
        body(ops);
        let ticks = clock.ticks().wrapping_sub(start);
        windows.push(Window { ticks, ops: u64::from(ops), steps: 1, longest_step: ticks });
    }
    windows
}

/// A variant that is a loop of operations on the core of the caller.
pub struct OpLoop<'a, C: Clock> {
    label: Label,
    clock: &'a C,
    bulk: u32,
    ops: u32,
    warm_up: usize,
    body: Box<dyn FnMut(u32) + 'a>,
}

impl<'a, C: Clock> OpLoop<'a, C> {
    /// Takes `body`, which runs the given number of operations, and determines the number in a window.
    pub fn new(label: Label, clock: &'a C, body: Box<dyn FnMut(u32) + 'a>) -> Self {
        Self::of(1, label, clock, body)
    }

    /// The same for operations in bulks of `bulk`. A window is a multiple of a bulk, and one turn of an empty loop
    /// is subtracted for each.
    pub fn of(bulk: u32, label: Label, clock: &'a C, mut body: Box<dyn FnMut(u32) + 'a>) -> Self {
        let bulk = bulk.max(1);
        let ops = window_ops(clock, bulk, &mut *body);
        Self { label, clock, bulk, ops, warm_up: WARM_UP, body }
    }

    /// The same with a given number of `ops` in a window and of `warm_up` windows before the first that counts.
    /// This is for operations that cost less after more of them have run, so that all variants of a group must run
    /// equally many.
    pub fn fixed(
        (ops, warm_up): (u32, usize),
        label: Label,
        clock: &'a C,
        body: Box<dyn FnMut(u32) + 'a>,
    ) -> Self {
        Self { label, clock, bulk: 1, ops, warm_up, body }
    }
}

impl<C: Clock> Variant for OpLoop<'_, C> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        let bulk = self.bulk;
        let empty = sample(self.clock, windows / 4, self.ops, &mut |ops| empty_loop(ops / bulk));
        sample(self.clock, self.warm_up, self.ops, &mut *self.body);
        let taken = sample(self.clock, windows, self.ops, &mut *self.body);
        Windows::without_pauses(&taken, empty_cost(&empty))
    }
}

/// Doubles the operations, in whole bulks, until the shortest of three windows lasts long enough.
fn window_ops<C: Clock>(clock: &C, bulk: u32, body: &mut dyn FnMut(u32)) -> u32 {
    let wanted = (WINDOW_NS * clock.ticks_per_ns()) as u64;
    let mut ops = OPS_MIN.next_multiple_of(bulk);
    while ops < OPS_MAX && sample(clock, 3, ops, body).iter().any(|window| window.ticks < wanted) {
        ops *= 2;
    }
    ops
}

/// The loop around the operations, without the operations.
fn empty_loop(ops: u32) {
    for _ in 0..ops {
        black_box(());
    }
}

/// Returns the ticks per operation of an empty loop, or 0 if the clock did not advance.
pub fn empty_cost(empty: &[Window]) -> f64 {
    quantile(&Windows::without_pauses(empty, 0.0).per_op, 0.5).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Params;
    use crate::method::clock::tests::Synthetic;
    use std::cell::Cell;

    fn label() -> Label {
        Label { variant: "netmem".into(), params: Params::new() }
    }

    /// Ten ticks an operation, and in every `every`-th window a pause of 400 µs.
    fn paused_now_and_then(clock: &Synthetic, every: u32) -> Box<dyn FnMut(u32) + '_> {
        let mut calls = 0;
        Box::new(move |ops| {
            calls += 1;
            clock.advance(u64::from(ops) * 10 + if calls % every == 0 { 800_000 } else { 0 });
        })
    }

    #[test]
    fn a_planted_pause_does_not_move_the_median() {
        let clock = Synthetic::default();
        let windows = OpLoop::new(label(), &clock, paused_now_and_then(&clock, 3)).round(60);
        assert_eq!(median(&windows.per_op), Some(10.0));
        assert_eq!((windows.per_op.len(), windows.paused), (40, 20));
        assert_eq!((windows.gaps.lost, windows.gaps.longest), (20 * 800_000, 800_000));
    }

    #[test]
    fn no_window_is_dropped_where_there_is_no_pause() {
        let clock = Synthetic::default();
        let windows = OpLoop::new(label(), &clock, paused_now_and_then(&clock, u32::MAX)).round(60);
        assert_eq!((windows.per_op.len(), windows.paused, windows.starved), (60, 0, 0));
    }

    #[test]
    fn a_window_lasts_at_least_its_target_and_at_most_twice_as_much() {
        let clock = Synthetic::default();
        let mut body = |ops: u32| clock.advance(u64::from(ops) * 10);
        let ticks = u64::from(window_ops(&clock, 1, &mut body)) * 10;
        assert!((50_000..100_000).contains(&ticks), "{ticks} ticks at two a nanosecond");
    }

    #[test]
    fn a_window_is_whole_bulks() {
        let clock = Synthetic::default();
        for bulk in [1, 3, 63, 64, 250, 8_192] {
            let mut ops_seen = Vec::new();
            let mut body = |ops: u32| {
                ops_seen.push(ops);
                clock.advance(u64::from(ops) * 10);
            };
            let ops = window_ops(&clock, bulk, &mut body);
            assert!(ops_seen.iter().all(|seen| seen.is_multiple_of(bulk)), "{bulk}: {ops_seen:?}");
            assert!(ops >= 5_000, "{bulk}: {ops}");
        }
    }

    #[test]
    fn a_window_of_a_given_size_has_that_size_and_the_given_warm_up() {
        let (clock, ran) = (Synthetic::default(), Cell::new(0));
        let body = |ops: u32| {
            ran.set(ran.get() + ops);
            clock.advance(u64::from(ops) * if ran.get() <= 3 * 70 { 500 } else { 10 });
        };
        let windows = OpLoop::fixed((70, 3), label(), &clock, Box::new(body)).round(8);
        assert_eq!((windows.per_op, ran.get()), (vec![10.0; 8], 11 * 70));
    }

    #[test]
    fn an_operation_that_costs_nothing_still_ends() {
        assert_eq!(window_ops(&Synthetic::default(), 1, &mut |_| {}), OPS_MAX);
    }

    #[test]
    fn the_empty_loop_is_taken_off() {
        let window = Window { ticks: 1_000, ops: 100, steps: 1, longest_step: 1_000 };
        assert_eq!(Windows::without_pauses(&[window; 8], 1.5).per_op, [8.5; 8]);
    }

    #[test]
    fn one_long_step_spoils_a_window_whose_length_looks_ordinary() {
        let clean = Window { ticks: 1_600, ops: 512, steps: 16, longest_step: 120 };
        let gap = Window { ticks: 3_300, longest_step: 1_800, ..clean };
        let windows = Windows::without_pauses(&[clean, clean, clean, gap, clean, clean, clean], 0.0);
        assert_eq!((windows.per_op.len(), windows.paused), (6, 1));
    }
}
