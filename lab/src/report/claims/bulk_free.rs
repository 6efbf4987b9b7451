//! [brouer15-bulk]: bulk free at transmit completion, and a pool of ready heads.

use super::judge::Measured;
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
            judge: |report| over_bulk(report, "netmem/tuned", TUNED),
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

fn bulk(report: &Report) -> Option<Finding> {
    let patched = patched(report);
    let ratio = Measured::find(report, patched, "netmem/base", &[])?;
    let finding = ratio.finding(BULK / BEFORE, "it forwards", "the packets of one free for each object");
    Some(finding.because(if patched == "netmem/bulk" {
        "Here heads are allocated in bulk too, and frames are freed in bulk beside the heads; the source freed heads alone, and its packets had a whole stack to pass."
    } else {
        "The source's packets had a whole stack to pass."
    }))
}

/// Returns the finding about a variant compared with bulk free, which the source calls patched.
fn over_bulk(report: &Report, variant: &str, published: f64) -> Option<Finding> {
    let ratio = Measured::find_or_over(report, variant, patched(report), "pps")?;
    Some(ratio.finding(published / BULK, "it forwards", "the packets of bulk free alone"))
}

fn nomerge(report: &Report) -> Option<Finding> {
    let row = pick::row(report, "netmem/nomerge", "pps", &[])?;
    let parameter = |name: &str| row.params.get(name).map(pick::text).unwrap_or_default();
    if parameter("cpu_partial") == "256" || parameter("heads").contains("tuned") {
        let reason = "in this run the caches that are not merged are tuned as well, the source's were not";
        return Some(Finding::not_comparable("–".to_owned(), reason));
    }
    over_bulk(report, "netmem/nomerge", NOMERGE)
}

fn slow_paths(report: &Report) -> Option<Finding> {
    let share = |variant| pick::row(report, variant, "percent", &[("by", "callgrind")]);
    let (base, bulk) = (share("netmem/base")?, share(patched(report))?);
    let finding = Measured::over(bulk, base)?.finding(
        0.76 / 3.73,
        "the share of instructions that callgrind counts in them becomes",
        "what it was",
    );
    let [base, bulk] = [base, bulk].map(|row| number::figure(row.median));
    let why = format!(
        "It begins at {base} %, where the source had 3.73 % of the time of a whole network stack, and every allocation by the layer that the source tuned is a call here."
    );
    Some(Finding { measured: format!("{base} → {bulk} %"), ..finding.because(&why) })
}

/// Additional latency up to this share counts as none.
const NONE: f64 = 0.02;

fn latency(report: &Report) -> Option<Finding> {
    let p50 = [("quantile", "p50")];
    let half = |variant| Some(pick::row(report, variant, "latency_ns", &p50)?.median);
    let patched = patched(report);
    let (base, bulk) = (number::figure(half("netmem/base")?), number::figure(half(patched)?));
    let ratio = Measured::find(report, patched, "netmem/base", &p50);
    let (verdict, interval) = match ratio {
        Some(ratio) => {
            let text =
                format!("{} times, over the set-ups of the run; up to 2 % more counts as none", ratio.text());
            (ratio.adds_nothing(NONE), text)
        }
        // Older runs kept the reading of the last set-up.
        None => (Verdict::CannotTell, "one reading each, which has no interval".to_owned()),
    };
    let sentence = format!(
        "Here half of the packets are done within {bulk} ns instead of {base} ns of their receipt; {interval}."
    );
    Some(Finding { measured: format!("{base} → {bulk} ns"), verdict, sentence })
}

/// Judged by what differs from the array of heads in nothing else: frames and heads are freed in bulk there too, heads
/// are taken one by one, and caches are not merged. In older runs, they are merged.
fn ready(report: &Report) -> Option<Finding> {
    let over = |ready, b| Measured::find_or_over(report, ready, b, "pps");
    let (ratio, of, eight) = match over("netmem/ready-16", "netmem/collected-nomerge") {
        Some(ratio) => (ratio, "", over("netmem/ready-8", "netmem/collected-nomerge")),
        None => {
            let ratio = over("netmem/ready-16", "netmem/collected")?;
            (ratio, ", whose caches are merged while theirs is not", None)
        }
    };
    let eight = eight.map_or_else(String::new, |ratio| format!("; refilled by 8, {} times", ratio.text()));
    let sentence = format!(
        "Here ready heads, refilled by 16, forward {} times the packets of heads and frames that are freed in bulk alone{of}{eight}.",
        ratio.text()
    );
    let finding = Finding { measured: format!("{:.3}", ratio.median), verdict: ratio.is_more(), sentence };
    let last = |variant| pick::row(report, variant, "latency_ns", &[("quantile", "p99")]);
    Some(match (last("netmem/ready-8"), last("netmem/base")) {
        (Some(eight), Some(base)) => {
            let readings = if eight.windows > 1 { "the medians of the set-ups" } else { "one reading each" };
            finding.because(&format!(
                "Refilled by 8, one packet of a hundred took longer than {} ns to its completion, {} with heads one by one; {readings}.",
                number::figure(eight.median),
                number::figure(base.median)
            ))
        }
        _ => finding,
    })
}
