//! `self-check`: the lab measures known effects. A loop that spins a known part longer is found with that
//! difference, and the same loop twice is a tie. Pauses that are put into windows are dropped and change nothing. A
//! packet that is taken off the wire fails the final check of all experiments with packets.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use netmem::page::{Memory, MemoryConfig};

use super::Experiment;
use super::router::{Fate, Router, Setup};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::{Check, params};
use crate::method::clock::Tsc;
use crate::method::round::{Label, Variant};
use crate::method::window::{OpLoop, Windows, sample};
use crate::metric::Metric;
use crate::sources;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "self-check",
    source: sources::PAGES.key,
    question: "Does the lab find what is known: a difference of 10 %, a tie, planted pauses, a lost packet?",
    seconds: 5,
    keys: &[],
    run,
};

const BASE: usize = 0;
const TWIN: usize = 1;
const LONGER: usize = 2;
const PAUSED: usize = 3;

/// Multiplications in one operation, each of which waits for the one before.
const LINKS: u32 = 1_000;
/// Multiplications in one operation of the longer loop.
const LONGER_LINKS: u32 = 1_100;

/// Maximum distance of an interval from the known effect: one turn of the loop around the chain, and the reading of the
/// clock.
const TOLERANCE: f64 = 0.005;

/// The variant that loses a packet.
const LOSER: &str = "limit";

/// A window of the paused variant: about 40 µs.
const PAUSED_OPS: u32 = 32;
/// One window in this number gets a pause.
const PAUSED_EVERY: usize = 5;
/// Minimum length of the pause: many times a window.
const PAUSE: Duration = Duration::from_micros(500);

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let clock = bench.clock;
    let chain = |name, links| -> Box<dyn Variant + '_> {
        Box::new(OpLoop::new(label(name, links), &clock, Box::new(move |ops| chains(links, ops))))
    };
    let mut variants: Vec<Box<dyn Variant + '_>> = vec![
        chain("limit", LINKS),
        chain("limit/twin", LINKS),
        chain("limit/longer", LONGER_LINKS),
        Box::new(Interrupted { label: label("limit/paused", LINKS), clock: &clock, ops: PAUSED_OPS }),
    ];
    let over_base = |a| Comparison { a, b: BASE, metric: Metric::CyclesPerOp };
    let series = bench.measure(&mut variants, &[TWIN, LONGER, PAUSED].map(over_base), Cores::Same);
    drop(variants);
    for one in &series {
        bench.row(one, Metric::CyclesPerOp, None);
    }
    let longer = f64::from(LONGER_LINKS) / f64::from(LINKS);
    for (name, what, known) in [
        ("limit/twin", "the same loop twice ties", 1.0),
        ("limit/longer", "a loop of 10 % more is found with its size", longer),
        ("limit/paused", "planted pauses move nothing", 1.0),
    ] {
        check_known(bench, name, what, known);
    }
    let planted = series[PAUSED].rounds.len() * (bench.effort().windows / PAUSED_EVERY);
    check_dropped(bench, series[PAUSED].paused, planted as u64);
    let lost = bench.aside(lose_a_packet)?;
    check_lost(bench, &lost);
    bench.note(
        "an operation is a chain of dependent multiplications, so its time is known except for the processor's \
         frequency, which is the same for both sides of a ratio",
    );
    Ok(())
}

/// Runs `ops` chains of `links` multiplications.
#[inline(never)]
fn chains(links: u32, ops: u32) {
    let mut product = 3_u64;
    for _ in 0..ops {
        for _ in 0..links {
            product = black_box(product).wrapping_mul(5);
        }
    }
    black_box(product);
}

/// The base loop, interrupted by sleeps inside its windows.
struct Interrupted<'a> {
    label: Label,
    clock: &'a Tsc,
    /// Chains in a window.
    ops: u32,
}

impl Variant for Interrupted<'_> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        chains(LINKS, self.ops);
        let mut taken = Vec::with_capacity(windows);
        for window in 0..windows {
            let pause = window % PAUSED_EVERY == PAUSED_EVERY - 1;
            taken.extend(sample(self.clock, 1, self.ops, &mut |ops| {
                chains(LINKS, ops / 2);
                if pause {
                    thread::sleep(PAUSE);
                }
                chains(LINKS, ops / 2);
            }));
        }
        Windows::without_pauses(&taken, 0.0)
    }
}

/// Checks that the interval of `name` over the base contains the known effect, within the tolerance, and does not contain 1
/// if there is a difference. An interval of too few set-ups is too narrow to be judged, and an undecided one is too wide:
/// nearly every effect would be in it.
fn check_known(bench: &mut Bench<'_>, name: &str, what: &str, known: f64) {
    let Some(ratio) = bench.reported_ratio(name, "limit") else { return };
    if ratio.too_few {
        return bench.note(format!("not checked, since {name} has too few set-ups or rounds: {what}"));
    }
    if ratio.undecided {
        return bench.note(format!("not checked, since the interval of {name} is too wide: {what}"));
    }
    let (low, high) = (known * (1.0 - TOLERANCE), known * (1.0 + TOLERANCE));
    let is_found = known <= 1.0 || ratio.low > 1.0;
    let ok = ratio.low <= high && low <= ratio.high && is_found;
    let detail = format!("{} ({} to {}), known: {known}", ratio.median, ratio.low, ratio.high);
    bench.judge(what, ok, detail);
}

/// Checks that every such pause cost its window. The machine's own pauses are counted in addition.
fn check_dropped(bench: &mut Bench<'_>, dropped: u64, planted: u64) {
    let detail = format!("{dropped} windows dropped, {planted} pauses planted");
    bench.judge("planted pauses are counted", dropped >= planted, detail);
}

/// Forwards some packets as other experiments do, takes one off the wire, and closes the path.
fn lose_a_packet(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let memory = Memory::new(&MemoryConfig::default()).map_err(SetUpError::at("memory"))?;
    let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
    let (mut router, mut far) = Router::new(&memory, &mut worker, &Setup::frames(256, Fate::Routed))?;
    for _ in 0..10 {
        far.turn();
        router.poll(&mut worker);
    }
    // The last one: the packets behind another would be compared with those that should stand in their place.
    far.lose_last();
    router.settle(far, &mut worker, LOSER, bench);
    Ok(())
}

/// Checks that of these checks only the one that counts packets failed.
fn check_lost(bench: &mut Bench<'_>, checks: &[Check]) {
    let failed: Vec<&str> =
        checks.iter().filter(|check| !check.ok).map(|check| check.name.as_str()).collect();
    let wanted = format!("{LOSER}: every packet accounted for");
    let detail = format!("failed: {}; to fail: {wanted}", failed.join(", "));
    bench.check("a packet that is lost fails a check", failed == [wanted.as_str()], detail);
}

fn label(variant: &str, links: u32) -> Label {
    let params = params([
        ("work", "multiply".into()),
        ("burst", 1.into()),
        ("cores", "same".into()),
        ("bytes", 0.into()),
        ("touch", false.into()),
        ("links", links.into()),
    ]);
    Label { variant: variant.to_owned(), params }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{ratio, report_of};
    use crate::json::Ratio;
    use crate::method::clock::Clock;

    #[test]
    fn a_lost_packet_fails_the_check_of_the_scene_and_no_check_of_the_run() {
        let mut checks = Vec::new();
        let report = report_of(false, |bench| {
            checks = bench.aside(lose_a_packet).unwrap();
            check_lost(bench, &checks);
        });
        assert!(checks.iter().any(|check| !check.ok), "{checks:?}");
        assert!(report.ok() && report.checks.len() == 1, "{:?}", report.checks);
        let unnoticed = report_of(false, |bench| check_lost(bench, &[]));
        assert!(!unnoticed.ok());
    }

    /// Found in a review: any failed check was enough, also if no sum missed the packet.
    #[test]
    fn a_lost_packet_must_fail_the_check_that_counts_packets_and_no_other() {
        let mut checks = Vec::new();
        report_of(false, |bench| checks = bench.aside(lose_a_packet).unwrap());
        let ok = |change: &dyn Fn(&mut Check)| {
            let mut changed = checks.clone();
            changed.iter_mut().for_each(change);
            report_of(false, |bench| check_lost(bench, &changed)).ok()
        };
        assert!(ok(&|_| ()));
        assert!(!ok(&|check| check.ok = !check.ok), "another failed instead");
        assert!(!ok(&|check| check.ok = false), "another failed too");
    }

    /// Seen: intervals of one set-up, which are too narrow, failed the check.
    #[test]
    fn an_interval_that_misses_what_is_known_fails_its_check_unless_it_has_too_few_set_ups() {
        for (low, high, too_few, ok) in [
            (0.99, 1.001, false, true),
            (1.004, 1.01, false, true),
            (1.006, 1.01, false, false),
            (0.9, 0.99, false, false),
            (0.9, 0.99, true, true),
        ] {
            let report = report_of(false, |bench| {
                bench.report_ratio(ratio("limit/twin", "limit", (low, high), too_few));
                check_known(bench, "limit/twin", "ties", 1.0);
            });
            assert_eq!((report.ok(), report.checks.is_empty()), (ok, too_few), "{low} to {high}");
        }
    }

    /// Seen: an interval from 0.9 to 1.4 passed as a tie and as a difference of 10 %.
    #[test]
    fn a_wide_interval_is_not_checked_and_one_that_contains_1_does_not_find_a_difference() {
        for (known, (low, high), undecided, ok) in [
            (1.0, (0.9, 1.4), true, None),
            (1.1, (0.9, 1.4), true, None),
            (1.1, (0.995, 1.1), false, Some(false)),
            (1.1, (1.01, 1.1), false, Some(true)),
        ] {
            let report = report_of(false, |bench| {
                bench.report_ratio(Ratio { undecided, ..ratio("limit/longer", "limit", (low, high), false) });
                check_known(bench, "limit/longer", "is found", known);
            });
            let noted = report.notes.iter().any(|note| note.starts_with("not checked"));
            let seen = (report.checks.first().map(|check| check.ok), noted);
            assert_eq!(seen, (ok, ok.is_none()), "{known} in {low} to {high}");
        }
    }

    #[test]
    fn a_planted_pause_that_is_not_dropped_fails_its_check() {
        assert!(report_of(false, |bench| check_dropped(bench, 9, 9)).ok());
        assert!(!report_of(false, |bench| check_dropped(bench, 8, 9)).ok());
    }

    #[test]
    fn every_fifth_window_has_a_pause_planted_and_loses_it() {
        let clock = Tsc::new();
        // Few chains: also without optimization a window is much shorter than a pause.
        let windows = Interrupted { label: label("limit/paused", LINKS), clock: &clock, ops: 2 }.round(20);
        assert_eq!(windows.per_op.len() as u64 + windows.paused, 20);
        assert!(windows.gaps.longest as f64 >= PAUSE.as_nanos() as f64 * clock.ticks_per_ns() / 2.0);
    }
}
