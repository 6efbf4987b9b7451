//! What the figures answer: the target, the source's question, its remedy.

use super::alone::{ALONE, Alone, BESIDE, NONE_OUT};
use super::{DELAYED, PAGE, PAIR_UNDER_WAY, RING, TOUCHED, of};
use crate::bench::Bench;
use crate::experiments::pages::median_ns;
use crate::method::round::Series;

/// Places of what is asked, as in [`super::ASKED`].
const CPU_A: usize = 0;
const CPU_B: usize = 1;
const SPIN: usize = 2;
const BACK_OFF: usize = 3;

/// Pages that nobody writes or reads.
const UNTOUCHED: &str = "untouched";

/// A page passed one at a time may cost this many times what a number costs.
const TARGET: f64 = 2.0;

/// Adds the notes.
pub(super) fn notes(bench: &mut Bench<'_>, crossed: &[Series], on_one: &Alone, slots: usize) {
    bench.note(format!(
        "side A or B: the cost on that core, in windows in which it never waited, while the other side spins and up \
         to {slots} items lie between; side both: the pace of the pair, waiting included, with the same policy on \
         both sides (spin: looks again at once; back-off: about a microsecond of pause instructions first) and up to \
         {PAIR_UNDER_WAY} items between"
    ));
    let seed = bench.setting("seed");
    for (asked, policy) in [(SPIN, "spin"), (BACK_OFF, "back-off")] {
        if let Some(ratio) = of(crossed, PAGE, asked).over(of(crossed, RING, asked), seed) {
            bench.note(target(policy, ratio.median));
        }
    }
    let crossed_ns = |passing, asked| median_ns(bench, of(crossed, passing, asked));
    let one_ns = |place: usize| median_ns(bench, &on_one.series[place]);
    let both = |passing| Some(crossed_ns(passing, CPU_A)? + crossed_ns(passing, CPU_B)?);
    let crossing = both(PAGE).zip(both(RING)).map(|(page, ring)| page - ring);
    let controls = one_ns(NONE_OUT).zip(one_ns(ALONE)).zip(one_ns(BESIDE));
    let remedy = |passing| crossed_ns(passing, CPU_B).zip(crossed_ns(passing + DELAYED - PAGE, CPU_B));
    let notes = [
        crossing.zip(controls).map(|(ns, ((none, alone), beside))| answer(ns, none, alone, beside)),
        remedy(PAGE).map(|(at_once, delayed)| delay(UNTOUCHED, at_once, delayed)),
        remedy(TOUCHED)
            .map(|(at_once, delayed)| delay("first line written by A and read by B", at_once, delayed)),
    ];
    notes.into_iter().flatten().for_each(|note| bench.note(note));
}

fn target(policy: &str, ratio: f64) -> String {
    let reached = if ratio <= TARGET { "reached" } else { "missed" };
    format!(
        "{policy} on both sides: a page costs {ratio:.2} times the bare ring (the source: 210 / 31 = 6.8); the \
         target of {TARGET} is {reached}"
    )
}

/// `crossing` is what both cores pay for a page beyond the ring. One worker pays `none` with no page outstanding,
/// `alone` with many, and `beside` with many while another core does the same.
fn answer(crossing: f64, none: f64, alone: f64, beside: f64) -> String {
    let extra = crossing - none;
    let explains = |ns: f64| extra > 0.0 && ns - none >= 0.5 * extra;
    let verdict = if extra <= 0.0 {
        "crossing costs nothing beyond the ring"
    } else if explains(alone) {
        "it is the outstanding pages"
    } else if explains(beside) {
        "it is two cores at one node (there: \"hot lock: zone->lock\"), though no page crosses"
    } else {
        "it is the crossing itself"
    };
    format!(
        "the source asks: cross CPU, or outstanding pages? Beyond the ring both cores pay {crossing:.1} ns for a \
         page (there (210 - 31) * 2 = 358 cycles); one worker pays {none:.1} with none outstanding (there 145 \
         cycles), {alone:.1} with many, and {beside:.1} with many while another core does the same: {verdict}"
    )
}

fn delay(touch: &str, at_once: f64, delayed: f64) -> String {
    let verdict = match delayed / at_once {
        share if share < 0.95 => "it helps, as in the source",
        _ if touch == UNTOUCHED => {
            "it does not help here: freeing a single page touches neither its memory nor its descriptor"
        }
        _ => "it does not help here",
    };
    format!(
        "delay by one and prefetch for write, {touch}: core B pays {delayed:.1} ns instead of {at_once:.1} (the \
         source: 152 cycles instead of 210): {verdict}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_two_bare_rings() {
        assert!(target("spin", 2.0).ends_with("reached"));
        assert!(target("spin", 2.01).ends_with("missed"));
    }

    #[test]
    fn the_answer_follows_the_figures() {
        assert!(answer(40.0, 5.0, 8.0, 9.0).ends_with("it is the crossing itself"));
        assert!(answer(40.0, 5.0, 8.0, 30.0).ends_with("though no page crosses"));
        assert!(answer(40.0, 5.0, 35.0, 36.0).ends_with("it is the outstanding pages"));
        assert!(answer(4.0, 5.0, 5.0, 5.0).ends_with("nothing beyond the ring"));
    }

    #[test]
    fn a_remedy_that_does_not_help_is_not_praised() {
        assert!(delay(UNTOUCHED, 10.0, 8.0).ends_with("as in the source"));
        assert!(delay(UNTOUCHED, 10.0, 10.0).ends_with("nor its descriptor"));
        assert!(delay("written", 10.0, 12.0).ends_with("does not help here"));
    }
}
