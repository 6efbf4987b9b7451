//! The answers of the figures: the target, the source's question, its remedy.

use super::alone::{ALONE, Alone, BESIDE, NONE_OUT};
use super::{DELAYED, FRAME, PAGE, PAIR_UNDER_WAY, RING, SHARED, TOUCHED, of};
use crate::bench::Bench;
use crate::method::clock::Clock;
use crate::method::ratio::Interval;
use crate::method::round::Series;

/// Positions of the questions, as in [`super::ASKED`].
const CPU_A: usize = 0;
const CPU_B: usize = 1;
const SPIN: usize = 2;
const BACK_OFF: usize = 3;

/// Pages that are neither written nor read.
const UNTOUCHED: &str = "untouched";

/// The maximum cost of a page passed one at a time, as a multiple of a number's cost.
const TARGET: f64 = 2.0;

/// Adds the notes.
pub(super) fn notes(bench: &mut Bench<'_>, crossed: &[Series], on_one: &Alone, slots: usize) {
    bench.note(format!(
        "side A or B: the cost on that core, in windows in which it never waited, while the other side spins and up \
         to {slots} items are in between; side both: the pace of the pair, waiting included, with the same policy \
         on both sides (spin: polls again at once; back-off: first about a microsecond of pause instructions) and \
         up to {PAIR_UNDER_WAY} items in between"
    ));
    for (asked, policy) in [(SPIN, "spin"), (BACK_OFF, "back-off")] {
        let page = of(crossed, PAGE, asked);
        if let Some(ratio) = bench.over(page, of(crossed, RING, asked)) {
            bench.note(target(policy, ratio));
        }
    }
    let ticks = bench.clock.ticks_per_ns();
    let crossed_ns = |passing, asked| Spread::of(of(crossed, passing, asked), ticks);
    let one_ns = |place: usize| Spread::of(&on_one.series[place], ticks);
    let both = |passing| Some(crossed_ns(passing, CPU_A)?.plus(crossed_ns(passing, CPU_B)?));
    let crossing = both(PAGE).zip(both(RING)).map(|(page, ring)| page.minus(ring));
    let controls = one_ns(NONE_OUT).zip(one_ns(ALONE)).zip(one_ns(BESIDE));
    let remedy = |passing| crossed_ns(passing, CPU_B).zip(crossed_ns(passing + DELAYED - PAGE, CPU_B));
    let notes = [
        crossing.zip(controls).map(|(ns, ((none, alone), beside))| answer(ns, none, alone, beside)),
        remedy(PAGE).map(|(at_once, delayed)| delay(UNTOUCHED, at_once, delayed)),
        remedy(TOUCHED)
            .map(|(at_once, delayed)| delay("first line written by A and read by B", at_once, delayed)),
        remedy(SHARED)
            .map(|(at_once, delayed)| delay("with a reference count, as in the source", at_once, delayed)),
        frame(crossed),
    ];
    notes.into_iter().flatten().for_each(|note| bench.note(note));
}

/// A time with the tenth and the ninetieth percentile of its windows. A comparison of two times is based on both
/// ends.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(series: &Series, ticks_per_ns: f64) -> Option<Self> {
        let at = |q| series.at(q).map(|ticks| ticks / ticks_per_ns);
        Some(Self { low: at(0.1)?, median: at(0.5)?, high: at(0.9)? })
    }

    fn plus(self, other: Self) -> Self {
        let Self { low, median, high } = other;
        Self { low: self.low + low, median: self.median + median, high: self.high + high }
    }

    fn minus(self, other: Self) -> Self {
        let Self { low, median, high } = other;
        Self { low: self.low - high, median: self.median - median, high: self.high - low }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ({:.1} to {:.1})", self.median, self.low, self.high)
    }
}

fn target(policy: &str, ratio: Interval) -> String {
    let (Interval { median, low, high, .. }, reached) = (ratio, ratio.at_most(TARGET).word());
    format!(
        "{policy} on both sides: a page costs {median:.2} ({low:.2} to {high:.2}) times the bare ring (the source: \
         210 / 31 = 6.8, of pages with a reference count, which these have not: netmem/shared); the target of \
         {TARGET} is {reached}"
    )
}

/// Returns the answer. `crossing` is the cost of a page on both cores in addition to the ring. One worker pays
/// `none` with no page outstanding, `alone` with many, and `beside` with many while another core does the same.
fn answer(crossing: Spread, none: Spread, alone: Spread, beside: Spread) -> String {
    let extra = crossing.minus(none);
    let explains = |ns: Spread| ns.minus(none).low >= 0.5 * extra.high;
    let cannot = |ns: Spread| ns.minus(none).high < 0.5 * extra.low;
    let verdict = match () {
        () if extra.high <= 0.0 => "crossing costs nothing beyond the ring",
        () if extra.low <= 0.0 => "the spans overlap, so that this run cannot tell",
        () if explains(alone) => "it is the outstanding pages",
        () if cannot(alone) && explains(beside) => {
            "it is two cores at one node (there: \"hot lock: zone->lock\"), though no page crosses"
        }
        () if cannot(alone) && cannot(beside) => "it is the crossing itself",
        () => "the spans overlap, so that this run cannot tell",
    };
    format!(
        "the source asks: cross CPU, or outstanding pages? Beyond the ring both cores pay {crossing} ns for a \
         page (there (210 - 31) * 2 = 358 cycles); one worker pays {none} with none outstanding (there 145 \
         cycles), {alone} with many, and {beside} with many while another core does the same, each with the tenth and \
         the ninetieth percentile of its windows: {verdict}"
    )
}

fn delay(touch: &str, at_once: Spread, delayed: Spread) -> String {
    let verdict = match () {
        () if delayed.high < at_once.low => "it helps, as in the source",
        () if delayed.low >= at_once.high && touch == UNTOUCHED => {
            "it cannot help as in the source: freeing a single page touches neither its memory nor its descriptor, \
             where put_page takes the descriptor's line from the other core"
        }
        () if delayed.low >= at_once.high => "it does not help here",
        () => "the spans overlap, so that this run cannot tell",
    };
    format!(
        "delay by one and prefetch for write, {touch}: core B pays {delayed} ns instead of {at_once} (the \
         source: 152 cycles instead of 210): {verdict}"
    )
}

/// Returns the loss if a frame of a pool, and not a page, is freed by itself on the other core.
fn frame(crossed: &[Series]) -> Option<String> {
    let [frame, page] = [FRAME, PAGE].map(|passing| of(crossed, passing, CPU_B));
    let times = frame.at(0.5)? / page.at(0.5)?;
    Some(format!(
        "netmem/frame: a frame that is freed by itself on the other core costs that core {times:.1} times (by the medians) \
         what a page costs: each goes onto the remote free queue by itself, a line that its owner reads; a batch pays that once"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(ns: f64) -> Spread {
        Spread { low: ns, median: ns, high: ns }
    }

    fn answered(crossing: f64, none: f64, alone: f64, beside: f64) -> String {
        answer(exact(crossing), exact(none), exact(alone), exact(beside))
    }

    #[test]
    fn the_target_is_two_bare_rings_for_the_whole_interval() {
        let finding = |low, high| {
            let median = f64::midpoint(low, high);
            target("spin", Interval { median, low, high, count: 9, setups: 9, too_few: false })
        };
        assert!(finding(1.0, 2.0).ends_with("is reached"));
        assert!(finding(2.01, 2.2).ends_with("is missed"));
        assert!(finding(1.5, 2.2).ends_with("is undecided"));
    }

    #[test]
    fn the_answer_follows_the_figures() {
        assert!(answered(40.0, 5.0, 8.0, 9.0).ends_with("it is the crossing itself"));
        assert!(answered(40.0, 5.0, 8.0, 30.0).ends_with("though no page crosses"));
        assert!(answered(40.0, 5.0, 35.0, 36.0).ends_with("it is the outstanding pages"));
        assert!(answered(4.0, 5.0, 5.0, 5.0).ends_with("nothing beyond the ring"));
        let wide = Spread { low: 4.3, median: 15.7, high: 29.4 };
        assert!(answer(wide, exact(5.0), exact(8.0), exact(9.0)).ends_with("cannot tell"));
    }

    #[test]
    fn a_remedy_that_does_not_help_is_not_praised() {
        assert!(delay(UNTOUCHED, exact(10.0), exact(8.0)).ends_with("as in the source"));
        assert!(delay(UNTOUCHED, exact(10.0), exact(10.0)).ends_with("from the other core"));
        assert!(delay("written", exact(10.0), exact(12.0)).ends_with("does not help here"));
        let wide = Spread { low: 4.0, median: 8.0, high: 30.0 };
        assert!(delay("written", exact(10.0), wide).ends_with("cannot tell"));
    }
}
