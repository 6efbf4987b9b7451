//! [hansen14-page]: a smaller page descriptor, and a double-word compare-and-swap or a lock.

use super::judge::Measured;
use super::{Claim, Finding, Source, Verdict};
use crate::json::{Ratio, Report};
use crate::report::number;
use crate::report::pick::{self, Fixed};
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::PAGE,
    title: "A page descriptor of 56 bytes, and a double compare-and-swap against a lock (Hansen, Morton, 2014)",
    claims: &[
        Claim {
            experiment: "slab-descriptor",
            says: "Objects freed while warm show no difference at all: the word in the descriptor is not reached.",
            published: "exactly zero",
            judge: warm,
        },
        Claim {
            experiment: "slab-descriptor",
            says: "Cold, a lock with interrupts disabled is some 30 % slower than the double compare-and-swap.",
            published: "1.3 times",
            judge: |report| slower(report, "netmem/64-lock-interrupts", 1.3),
        },
        Claim {
            experiment: "slab-descriptor",
            says: "56 bytes lose up to 5 % below 256 bytes and win above 1 KiB.",
            published: "± 5 %",
            judge: by_size,
        },
        Claim {
            experiment: "slab-descriptor",
            says: "Smaller descriptors need fewer loads from the last-level cache.",
            published: "883,412 → 556,751 loads",
            judge: |report| simulated(report, "last-level loads", 556_751.0 / 883_412.0),
        },
        Claim {
            experiment: "slab-descriptor",
            says: "They cost some 15 % more branch misses.",
            published: "1.15 times",
            judge: |report| simulated(report, "branch misses", 1.15),
        },
        Claim {
            experiment: "slab-descriptor",
            says: "All of this is hard to demonstrate in practice.",
            published: "no figure",
            judge: in_practice,
        },
        Claim {
            experiment: "slab-descriptor",
            says: "56 bytes for each page save an eighth of the memory that 64 take.",
            published: "16 → 14 MiB for each GiB",
            judge: memory,
        },
    ],
    slip: None,
};

const BEFORE: &str = "netmem/64-cas128";
const AFTER: &str = "netmem/56-cas128";

/// Differences below this share count as none.
const NONE: f64 = 0.02;

fn warm(report: &Report) -> Option<Finding> {
    let warm = |ratio: &&Ratio| ratio.b == BEFORE && pick::has(&ratio.params, &[("use", "warm")]);
    let far = |ratio: &Ratio| (ratio.median.ln()).abs();
    let widest = report.ratios.iter().filter(warm).max_by(|a, b| far(a).total_cmp(&far(b)))?;
    let ratio = Measured::of(widest);
    let sentence = format!("Here the widest of the warm ratios is {}.", ratio.text());
    let verdict = if far(widest) <= NONE { Verdict::Holds } else { ratio.is_near_one(NONE) };
    Some(Finding { measured: format!("{:.3}", ratio.median), verdict, sentence })
}

const COLD_256: Fixed<'static> = &[("use", "cold+write"), ("bytes", "256"), ("work", "object")];

fn slower(report: &Report, variant: &str, published: f64) -> Option<Finding> {
    let ratio = Measured::find(report, variant, BEFORE, COLD_256)?;
    Some(ratio.finding(published, "256 bytes, cold and written, take", "the time"))
}

fn by_size(report: &Report) -> Option<Finding> {
    let cold = |ratio: &&Ratio| {
        let alone = !ratio.params.contains_key("threads") && !ratio.params.contains_key("noise");
        ratio.a == AFTER && ratio.b == BEFORE && alone && pick::has(&ratio.params, &[("use", "cold+write")])
    };
    let bytes = |ratio: &Ratio| ratio.params.get("bytes").and_then(serde_json::Value::as_u64);
    let of = |holds: fn(u64) -> bool| -> Vec<&Ratio> {
        report.ratios.iter().filter(cold).filter(|ratio| bytes(ratio).is_some_and(holds)).collect()
    };
    let (small, large) = (of(|bytes| bytes < 256), of(|bytes| bytes > 1024));
    let span = |ratios: &[&Ratio]| {
        let medians = ratios.iter().map(|ratio| ratio.median);
        Some((medians.clone().min_by(f64::total_cmp)?, medians.max_by(f64::total_cmp)?))
    };
    let ((least, most), (least_large, most_large)) = (span(&small)?, span(&large)?);
    let loses = small.iter().any(|ratio| ratio.low > 1.0);
    let wins = large.iter().any(|ratio| ratio.high < 1.0);
    let verdict = match (loses, wins) {
        (true, true) => Verdict::Smaller,
        (false, false) => Verdict::Fails,
        _ => Verdict::Undecided,
    };
    let sentence = format!(
        "Here 56 bytes take {least:.3} to {most:.3} times the time below 256 bytes and {least_large:.3} to {most_large:.3} times above 1 KiB, where the place of a memory makes differences too."
    );
    Some(Finding {
        measured: format!("{least:.3} to {most:.3}; {least_large:.3} to {most_large:.3}"),
        verdict,
        sentence,
    })
}

fn simulated(report: &Report, event: &str, published: f64) -> Option<Finding> {
    let of = |variant| pick::row(report, variant, "count", &[("event", event)]);
    let (after, before) = (of(AFTER)?, of(BEFORE)?);
    let ratio = Measured::over(after, before)?;
    let verdict =
        if ratio.is_near_one(NONE) == Verdict::Holds { Verdict::Fails } else { ratio.against(published) };
    let sentence = format!(
        "Here a simulated cache counts {} instead of {} of them, {:.3} times; the source: {published:.3}.",
        number::figure(after.median),
        number::figure(before.median),
        ratio.median
    );
    Some(Finding { measured: format!("{:.3}", ratio.median), verdict, sentence })
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
    let verdict = if (after / before - 0.875).abs() < 0.001 { Verdict::Holds } else { Verdict::Fails };
    Some(Finding {
        measured: format!("{} → {} MiB", mebibytes(before), mebibytes(after)), verdict, sentence
    })
}
