//! [brouer15-bulk]: bulk free at transmit completion, and a pool of ready heads.

use super::judge::{Measured, at_settings};
use super::{Claim, Finding, Source, Verdict};
use crate::json::Report;
use crate::report::{number, pick};
use crate::sources;

const FORWARDING: &str = "forward-bulk-free";

pub(super) const SOURCE: Source = Source {
    text: &sources::BULK,
    title: "Bulk free at transmit completion and a pool of ready heads (Brouer, Duyck, 2015)",
    claims: &[
        Claim {
            name: "bulk-free",
            experiment: FORWARDING,
            says: "Freeing in bulk at transmit completion forwards more packets.",
            published: "2,043,575 → 2,090,522 packets/s",
            timed: true,
            judge: bulk,
        },
        Claim {
            name: "tuned",
            experiment: FORWARDING,
            says: "With longer partial lists on top it gains more (cpu_partial 256, min_partial 9).",
            published: "2,090,522 → 2,124,217 packets/s",
            timed: true,
            judge: tuned,
        },
        Claim {
            name: "nomerge",
            experiment: FORWARDING,
            says: "Caches that are not merged gain as much without tuning.",
            published: "2,090,522 → 2,121,824 packets/s",
            timed: true,
            judge: nomerge,
        },
        Claim {
            name: "slow-paths",
            experiment: FORWARDING,
            says: "The share of the slab's slow paths in the work of forwarding nearly vanishes.",
            published: "3.73 → 0.76 %",
            timed: false,
            judge: slow_paths,
        },
        Claim {
            name: "latency",
            experiment: FORWARDING,
            says: "It costs no extra latency, since completions come in batches anyway.",
            published: "no figure",
            timed: true,
            judge: latency,
        },
        Claim {
            name: "ready-heads",
            experiment: FORWARDING,
            says: "The reply: an array of ready heads that both sides use, refilled in bulk, might work better than bulk free.",
            published: "no figure",
            timed: true,
            judge: ready,
        },
    ],
    slip: None,
};

/// Packets per second of the source: before its change, with it, and with further changes.
const BEFORE: f64 = 2_043_575.0;
const BULK: f64 = 2_090_522.0;
const TUNED: f64 = 2_124_217.0;
const NOMERGE: f64 = 2_121_824.0;

/// Returns the variant that frees only heads in bulk, as the source's change did. Older runs lack it. For them it
/// returns the variant that also takes heads in bulk and frees frames in bulk.
fn patched(report: &Report) -> &'static str {
    let is_there = pick::row(report, "netmem/patched", "pps", &[]).is_some();
    if is_there { "netmem/patched" } else { "netmem/bulk" }
}

/// Pairs of variants that differ in bulk free alone, where other caches hold less of the slabs, and with heads as large
/// as the source's. The source tells neither.
const SHARED: [(&str, &str); 3] = [
    ("netmem/patched-eighth", "netmem/base-eighth"),
    ("netmem/patched-alone", "netmem/base-alone"),
    ("netmem/patched-256", "netmem/base-256"),
];

/// Returns the ratios of these pairs, or `None` if the run lacks one of them.
fn each(report: &Report, pairs: &[(&str, &str)]) -> Option<Vec<Measured>> {
    pairs.iter().map(|(a, b)| Measured::find(report, a, b, &[])).collect()
}

/// Judges a ratio with those of the other `pairs`. Older runs have it alone.
fn over_settings(report: &Report, of: Measured, pairs: &[(&str, &str)], published: f64, b: &str) -> Finding {
    let Some(others) = each(report, pairs) else {
        return of.finding(published, "it forwards", b).because(
            "Other caches hold every second object of the merged slabs here; the source does not tell their share, on which the gain depends, and this run has no other.",
        );
    };
    let texts: Vec<String> = others.iter().map(|one| one.text()).collect();
    let all: Vec<Measured> = std::iter::once(of).chain(others).collect();
    let finding = Measured::of_settings(&all).unwrap_or(of).finding(published, "it forwards", b);
    finding.because(&format!(
        "The range is over what the source does not tell: with heads of 64 bytes, where other caches hold every second object of the merged slabs, it is {}; else {}.",
        of.text(),
        pairs.iter().zip(texts).map(|((a, b), text)| format!("{text} ({a} over {b})")).collect::<Vec<_>>().join(", ")
    ))
}

fn bulk(report: &Report) -> Option<Finding> {
    let patched = patched(report);
    let ratio = Measured::find(report, patched, "netmem/base", &[])?;
    let finding =
        over_settings(report, ratio, &SHARED, BULK / BEFORE, "the packets of one free for each object");
    Some(finding.because(if patched == "netmem/bulk" {
        "Here heads are allocated in bulk too, and frames are freed in bulk beside the heads; the source freed heads alone, and its packets had a whole stack to pass."
    } else {
        "The source's packets had a whole stack to pass."
    }))
}

/// Returns the finding about a variant compared with bulk free, which the source calls patched.
fn over_bulk(report: &Report, variant: &str, pairs: &[(&str, &str)], published: f64) -> Option<Finding> {
    let ratio = Measured::find_or_over(report, variant, patched(report), "pps")?;
    Some(over_settings(report, ratio, pairs, published / BULK, "the packets of bulk free alone"))
}

fn tuned(report: &Report) -> Option<Finding> {
    over_bulk(report, "netmem/tuned", &[("netmem/tuned-256", "netmem/patched-256")], TUNED)
}

fn nomerge(report: &Report) -> Option<Finding> {
    let row = pick::row(report, "netmem/nomerge", "pps", &[])?;
    let parameter = |name: &str| row.params.get(name).map(pick::text).unwrap_or_default();
    if parameter("cpu_partial") == "256" || parameter("heads").contains("tuned") {
        let reason = "in this run the caches that are not merged are tuned as well, the source's were not";
        return Some(Finding::not_comparable("–".to_owned(), reason));
    }
    let pairs = [
        ("netmem/nomerge", "netmem/patched-eighth"),
        ("netmem/nomerge", "netmem/patched-alone"),
        ("netmem/nomerge-256", "netmem/patched-256"),
    ];
    over_bulk(report, "netmem/nomerge", &pairs, NOMERGE)
}

fn slow_paths(report: &Report) -> Option<Finding> {
    // Older runs have other rows, which also count fast paths.
    let under = [("by", "callgrind"), ("what", "instructions under slow paths")];
    let share = |variant| pick::row(report, variant, "percent", &under);
    let (base, bulk) = (share("netmem/base")?, share("netmem/patched")?);
    let finding = Measured::over(bulk, base)?.finding(
        0.76 / 3.73,
        "the share of instructions that callgrind counts in them becomes",
        "what it was",
    );
    let counts = |variant| {
        let of =
            |what| Some(pick::row(report, variant, "count", &[("by", "counters"), ("what", what)])?.median);
        Some(of("alloc_slowpath, per packet")? + of("free_slowpath, per packet")?)
    };
    let counted = match (counts("netmem/base"), counts("netmem/patched")) {
        (Some(base), Some(bulk)) => format!(
            " By the cache's own counters, {} of them a packet become {}.",
            number::figure(base),
            number::figure(bulk)
        ),
        _ => String::new(),
    };
    let [base, bulk] = [base, bulk].map(|row| number::figure(row.median));
    let why = format!(
        "It begins at {base} %, where the source had 3.73 % of the time of a whole network stack.{counted}"
    );
    Some(Finding { measured: format!("{base} → {bulk} %"), ..finding.because(&why) })
}

/// The rates of the packets, as a share of what one free for each object forwards.
const LOADS: [&str; 2] = ["a quarter", "half"];

/// Judged where packets come at a fixed rate. Where the generator is always ahead, as in older runs, latency is the time of a
/// packet times the packets under way, and rises only if fewer are forwarded.
fn latency(report: &Report) -> Option<Finding> {
    let over = |quantile, load| {
        let at = [("quantile", quantile), ("load", load)];
        Measured::find(report, "netmem/patched", "netmem/base", &at)
    };
    let all = |quantile| LOADS.into_iter().map(|load| over(quantile, load)).collect::<Option<Vec<_>>>();
    let (Some(halves), Some(lasts)) = (all("p50"), all("p99")) else { return latency_at_full_load(report) };
    let longer: Vec<Verdict> = halves.iter().map(|ratio| ratio.is_more_by(MARGIN)).collect();
    let verdict = match () {
        () if longer.contains(&Verdict::Holds) => Verdict::Fails,
        () if longer.iter().all(|verdict| *verdict == Verdict::Fails) => Verdict::Holds,
        () => Verdict::CannotTell,
    };
    let texts = |ratios: &[Measured]| {
        let each = ratios.iter().zip(LOADS).map(|(ratio, load)| format!("{} at {load}", ratio.text()));
        each.collect::<Vec<_>>().join(", ")
    };
    let sentence = format!(
        "Here half of the packets take so many times what they take with one free for each object, from when they are due to when they come out, at a fixed rate, as a share of what that one forwards at most: {}; up to 2 % more counts as none. The time within which 99 of 100 come out, which depends on the machine's pauses too: {}.",
        texts(&halves),
        texts(&lasts)
    );
    Some(Finding { measured: Measured::of_settings(&halves)?.text(), verdict, sentence })
}

fn latency_at_full_load(report: &Report) -> Option<Finding> {
    let p50 = [("quantile", "p50")];
    let half = |variant| Some(number::figure(pick::row(report, variant, "latency_ns", &p50)?.median));
    let (base, bulk) = (half("netmem/base")?, half(patched(report))?);
    let reason = "the generator is always ahead here, so that the time from receipt to completion is the rate in other units; this run has no fixed rate, below what one free for each object forwards";
    Some(Finding::not_comparable(format!("{base} → {bulk} ns"), reason))
}

/// Arrays of the reply: their heads, how many are taken when one is empty, and the variant. The reply names 8 and 16 and
/// no size; half of a full array is freed.
const ARRAYS: [(u32, u32, &str); 6] = [
    (64, 8, "netmem/ready-8"),
    (64, 16, "netmem/ready-16"),
    (128, 8, "netmem/ready-128-8"),
    (128, 16, "netmem/ready-128-16"),
    (256, 8, "netmem/ready-256-8"),
    (256, 16, "netmem/ready-256-16"),
];

/// Up to this much more counts as no difference.
const MARGIN: f64 = 0.02;

/// Judged by what differs from the array of heads in nothing else: frames and heads are freed in bulk there too, heads
/// are taken one by one, and caches are not merged. Older runs have one size only, by which the reply cannot be judged.
fn ready(report: &Report) -> Option<Finding> {
    let over = |(size, refill, variant): (u32, u32, &str)| {
        let ratio = Measured::find(report, variant, "netmem/collected-nomerge", &[])?;
        Some((format!("{} with {size} heads, refilled by {refill}", ratio.text()), ratio))
    };
    let each: Vec<(String, Measured)> = ARRAYS.into_iter().map(over).collect::<Option<_>>()?;
    let verdicts: Vec<Verdict> = each.iter().map(|(_, ratio)| ratio.is_more_by(MARGIN)).collect();
    let verdict = at_settings(&verdicts);
    let texts: Vec<&str> = each.iter().map(|(text, _)| text.as_str()).collect();
    let ratios: Vec<Measured> = each.iter().map(|(_, ratio)| *ratio).collect();
    let size = if verdict == Verdict::OtherRegime {
        ": the size, which the source does not give, decides"
    } else {
        ""
    };
    let sentence = format!(
        "Here ready heads forward so many times the packets of heads and frames that are freed in bulk alone: {}; up to 2 % more counts as none{size}.",
        texts.join(", ")
    );
    let finding = Finding { measured: Measured::of_settings(&ratios)?.text(), verdict, sentence };
    let last = |variant| pick::row(report, variant, "latency_ns", &[("quantile", "p99")]);
    Some(match (last("netmem/ready-8"), last("netmem/base")) {
        (Some(eight), Some(base)) => finding.because(&format!(
            "With 64 heads, refilled by 8, one packet of a hundred took longer than {} ns to its completion, {} with heads one by one; the medians of the set-ups.",
            number::figure(eight.median),
            number::figure(base.median)
        )),
        _ => finding,
    })
}
