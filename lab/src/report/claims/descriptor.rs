//! [hansen14-page]: a smaller page descriptor, and a double-word compare-and-swap or a lock.

use super::judge::Measured;
use super::{Claim, Finding, Source};
use crate::json::{Ratio, Report};
use crate::report::number;
use crate::report::pick;
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::PAGE,
    title: "A page descriptor of 56 bytes, and a double compare-and-swap against a lock (Hansen, Morton, 2014)",
    claims: &[
        Claim {
            name: "warm",
            experiment: "slab-descriptor",
            says: "Objects freed while warm show no difference at all: the word in the descriptor is not reached.",
            published: "exactly zero",
            timed: true,
            judge: warm,
        },
        Claim {
            name: "lock",
            experiment: "slab-descriptor",
            says: "Cold, a lock with interrupts disabled hurts rates by about 30 % beside the double compare-and-swap.",
            published: "1 / 0.7 = 1.43 times the time",
            timed: true,
            judge: lock,
        },
        Claim {
            name: "by-size",
            experiment: "slab-descriptor",
            says: "56 bytes lose up to 5 % below 256 bytes and win above 1 KiB.",
            published: "± 5 %",
            timed: true,
            judge: by_size,
        },
        Claim {
            name: "loads",
            experiment: "slab-descriptor",
            says: "Smaller descriptors need fewer loads from the last-level cache.",
            published: "883,412 → 556,751 loads",
            timed: false,
            judge: |report| simulated(report, "last-level loads", 556_751.0 / 883_412.0),
        },
        Claim {
            name: "branch-misses",
            experiment: "slab-descriptor",
            says: "They cost some 15 % more branch misses.",
            published: "1.15 times",
            timed: false,
            judge: |report| simulated(report, "branch misses", 1.15),
        },
        Claim {
            name: "in-practice",
            experiment: "slab-descriptor",
            says: "All of this is hard to demonstrate in practice.",
            published: "no figure",
            timed: true,
            judge: in_practice,
        },
        Claim {
            name: "memory",
            experiment: "slab-descriptor",
            says: "56 bytes for each page save an eighth of the memory that 64 take.",
            published: "16 → 14 MiB for each GiB",
            timed: false,
            judge: memory,
        },
    ],
    slip: None,
};

const BEFORE: &str = "netmem/64-cas128";
const AFTER: &str = "netmem/56-cas128";
const LOCK: &str = "netmem/64-lock-interrupts";

/// Differences below this share count as none.
const NONE: f64 = 0.02;

fn warm(report: &Report) -> Option<Finding> {
    let is_warm = |ratio: &&Ratio| {
        let of_words = ratio.b == BEFORE && ["netmem/64-lock", LOCK].contains(&ratio.a.as_str());
        of_words && pick::has(&ratio.params, &[("use", "warm")])
    };
    let ratios: Vec<Measured> = report.ratios.iter().filter(is_warm).map(Measured::of).collect();
    let far = |ratio: &Measured| (ratio.low.ln().abs()).max(ratio.high.ln().abs());
    let widest = ratios.iter().max_by(|a, b| far(a).total_cmp(&far(b)))?;
    let verdict = ratios.iter().map(|ratio| ratio.is_near_one(NONE)).max()?;
    let sentence = format!(
        "Here a lock in the place of the double compare-and-swap takes {} times the time where the interval reaches furthest from 1, of {} ratios; within 2 % counts as none.",
        widest.text(),
        ratios.len()
    );
    Some(Finding { measured: format!("{:.3}", widest.median), verdict, sentence })
}

/// Cold and written, alone on the machine.
fn cold(report: &Report, a: &str, bytes: &str) -> Option<Measured> {
    let fixed = [("use", "cold+write"), ("bytes", bytes), ("work", "object")];
    let alone = |ratio: &&Ratio| {
        (ratio.a.as_str(), ratio.b.as_str()) == (a, BEFORE)
            && pick::has(&ratio.params, &fixed)
            && !ratio.params.contains_key("threads")
            && !ratio.params.contains_key("noise")
    };
    report.ratios.iter().find(alone).map(Measured::of)
}

fn lock(report: &Report) -> Option<Finding> {
    let finding =
        cold(report, LOCK, "256")?.finding(1.0 / 0.7, "256 bytes, cold and written, take", "the time");
    Some(finding.because(
        "The two lines that stand for disabled interrupts are the thread's own and written at every change, so that they stay in the first cache; the source's were cold.",
    ))
}

fn by_size(report: &Report) -> Option<Finding> {
    let (small, large) = (cold(report, AFTER, "32")?, cold(report, AFTER, "4096")?);
    // That it wins: its inverse is more than 1.
    let wins = Measured { low: 1.0 / large.high, high: 1.0 / large.low, ..large };
    let verdict = small.against(1.05).max(wins.is_more());
    let sentence = format!(
        "Here 56 bytes take {} times the time at 32 bytes (the source: 1.05) and {} times at 4096 (there: less than 1); the place of a memory makes differences too.",
        small.text(),
        large.text()
    );
    let measured = format!("{:.3}; {:.3}", small.median, large.median);
    Some(Finding { measured, verdict, sentence })
}

fn simulated(report: &Report, event: &str, published: f64) -> Option<Finding> {
    let of = |variant| pick::row(report, variant, "count", &[("event", event)]);
    let (after, before) = (of(AFTER)?, of(BEFORE)?);
    let what = format!(
        "a simulator counts {} instead of {} of them, behind a first cache of 256 KiB,",
        number::figure(after.median),
        number::figure(before.median)
    );
    Some(Measured::over(after, before)?.finding(published, &what, "as many"))
}

fn in_practice(report: &Report) -> Option<Finding> {
    let ratio = Measured::find(report, AFTER, BEFORE, &[("work", "forward")])?;
    let sentence = format!("Here forwarding takes {} times the time with 56 bytes.", ratio.text());
    Some(Finding { measured: format!("{:.3}", ratio.median), verdict: ratio.is_near_one(NONE), sentence })
}

fn memory(report: &Report) -> Option<Finding> {
    let of = |variant| Some(pick::row(report, variant, "bytes", &[("per", "GiB")])?.median);
    let mebibytes = |bytes: f64| number::figure(bytes / f64::from(1 << 20));
    let (after, before) = (of("netmem/56")?, of("netmem/64")?);
    let compact = of("netmem/compact").map_or_else(String::new, |bytes| {
        format!(", and the compact one of netmem's own {}", mebibytes(bytes))
    });
    let sentence = format!(
        "Here they take {} instead of {} MiB for each GiB{compact}.",
        mebibytes(after),
        mebibytes(before)
    );
    // Bytes are counted: there is no interval around them.
    let counted =
        Measured { median: after / before, low: after / before, high: after / before, undecided: false };
    let measured = format!("{} → {} MiB", mebibytes(before), mebibytes(after));
    Some(Finding { measured, verdict: counted.against(0.875), sentence })
}
