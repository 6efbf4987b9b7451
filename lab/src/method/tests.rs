//! The lab's own test: known effects are found. A scripted machine replaces the real one. The other parts are those
//! that experiments are measured with.

use std::sync::atomic::AtomicBool;

use super::clock::{Clock, tests::Synthetic};
use super::pauses::Gaps;
use super::random::Random;
use super::ratio::Interval;
use super::round::{Label, Plan, Series, Variant, interleave};
use super::window::OpLoop;
use crate::json::Params;

const SETUPS: usize = 7;
const PLAN: Plan = Plan { rounds: 3, windows: 48, seed: 1, peer: None };

/// Ticks of a planted pause: 400 µs.
const PAUSE: u64 = 800_000;

/// The cost of one operation of a variant, and its disturbances.
#[derive(Clone, Copy)]
struct Known {
    ticks: f64,
    /// Maximum number of extra ticks for the location of its memory, different in each set-up.
    layout: f64,
    /// One call in this many is interrupted by a pause, or none if 0.
    paused_every: u64,
}

const PLAIN: Known = Known { ticks: 100.0, layout: 0.0, paused_every: 0 };

/// A machine that is up to twice as slow from round to round, on which an operation varies by up to a tenth.
fn variant<'a>(clock: &'a Synthetic, known: Known, seed: u64) -> Box<dyn Variant + 'a> {
    let mut random = Random::new(seed);
    let layout = known.layout * random.below(1_000) as f64 / 1_000.0;
    let mut calls = 0;
    let body = move |ops: u32| {
        calls += 1;
        let slow = 1.0 + (clock.ticks() / 80_000_000 % 5) as f64 / 5.0;
        let noise = 1.0 + random.below(100) as f64 / 1_000.0;
        clock.advance((f64::from(ops) * (known.ticks + layout) * noise * slow) as u64);
        if known.paused_every > 0 && calls % known.paused_every == 0 {
            clock.advance(PAUSE);
        }
    };
    Box::new(OpLoop::new(Label { variant: "netmem".into(), params: Params::new() }, clock, Box::new(body)))
}

/// Returns the series of `a` and `b` over all set-ups of one run, and the time lost to pauses.
fn run(a: Known, b: Known, seed: u64) -> ([Series; 2], Gaps) {
    let (clock, mut gaps) = (Synthetic::default(), Gaps::default());
    let mut all: Option<Vec<Series>> = None;
    for setup in 0..SETUPS as u64 {
        let seed = seed + 2 * setup;
        let mut variants = [variant(&clock, a, seed), variant(&clock, b, seed + 1)];
        let plan = Plan { seed, ..PLAN };
        let last = interleave(&mut variants, &plan, &AtomicBool::new(false), &mut gaps, &mut |_| {});
        all = Some(match all {
            Some(all) => all.into_iter().zip(last).map(|(all, last)| all.followed_by(last)).collect(),
            None => last,
        });
    }
    (all.unwrap().try_into().unwrap(), gaps)
}

fn ratio(a: Known, b: Known, seed: u64) -> Interval {
    let ([a, b], _) = run(a, b, seed);
    a.over(&b, 1).unwrap()
}

#[test]
fn a_variant_that_spins_a_known_number_of_ticks_more_is_found_with_that_size() {
    for (more, known) in [(3.0, 1.03), (10.0, 1.1), (100.0, 2.0)] {
        let interval = ratio(Known { ticks: PLAIN.ticks + more, ..PLAIN }, PLAIN, 1);
        assert!((interval.median / known - 1.0).abs() < 0.01, "{more} ticks more: {interval:?}");
        assert!(interval.decided(0.01) && interval.low > 1.01, "{more} ticks more: {interval:?}");
    }
}

#[test]
fn two_identical_variants_tie_in_nearly_every_run() {
    let ties = (0..20).filter(|run| {
        let interval = ratio(PLAIN, PLAIN, 100 * run);
        interval.low <= 1.0 && 1.0 <= interval.high && interval.decided(0.05)
    });
    assert!(ties.count() >= 18);
}

#[test]
fn two_identical_variants_tie_though_memory_lies_elsewhere_in_every_set_up() {
    let moved = Known { layout: 8.0, ..PLAIN };
    let ties = (0..20).filter(|run| {
        let interval = ratio(moved, moved, 100 * run);
        interval.low <= 1.0 && 1.0 <= interval.high && interval.decided(0.05)
    });
    assert!(ties.count() >= 17);
}

#[test]
fn planted_pauses_are_counted_and_move_no_median() {
    let paused = Known { paused_every: 4, ..PLAIN };
    let ([disturbed, quiet], gaps) = run(paused, PLAIN, 1);
    let windows = (SETUPS * PLAN.rounds * PLAN.windows) as u64;
    assert_eq!((disturbed.paused, quiet.paused), (windows / 4, 0));
    let interval = disturbed.over(&quiet, 1).unwrap();
    assert!(interval.low <= 1.0 && 1.0 <= interval.high && interval.decided(0.02), "{interval:?}");
    let each = gaps.lost as f64 / disturbed.paused as f64;
    assert!((each / PAUSE as f64 - 1.0).abs() < 0.05, "{each} ticks lost to each pause of {PAUSE}");
}
