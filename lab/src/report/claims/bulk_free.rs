//! [brouer15-bulk]: bulk free at transmit completion, and a pool of ready heads.

use super::judge::Measured;
use super::{Claim, Finding, Source, Verdict};
use crate::json::Report;
use crate::report::{number, pick};
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::BULK,
    title: "Bulk free at transmit completion and a pool of ready heads (Brouer, Duyck, 2015)",
    claims: &[
        Claim {
            experiment: "slab-bulk",
            says: "Objects freed as detached freelists, one change of a slab's word for all of its objects, cost far less than one by one.",
            published: "74 → 20 cycles an object in bulks of 64",
            judge: detached,
        },
        Claim {
            experiment: "forward-bulk-free",
            says: "Freeing in bulk at transmit completion forwards more packets.",
            published: "2,043,575 → 2,090,522 packets/s",
            judge: |report| forwarded(report, "netmem/bulk", 2_090_522.0),
        },
        Claim {
            experiment: "forward-bulk-free",
            says: "With longer partial lists on top it gains more (cpu_partial 256, min_partial 9).",
            published: "2,124,217 packets/s",
            judge: |report| forwarded(report, "netmem/tuned", 2_124_217.0),
        },
        Claim {
            experiment: "forward-bulk-free",
            says: "Caches that are not merged gain as much as the tuned ones.",
            published: "2,121,824 packets/s",
            judge: |report| forwarded(report, "netmem/nomerge", 2_121_824.0),
        },
        Claim {
            experiment: "forward-bulk-free",
            says: "The share of the slab's slow paths in the work of forwarding nearly vanishes.",
            published: "3.73 → 0.76 %",
            judge: slow_paths,
        },
        Claim {
            experiment: "forward-bulk-free",
            says: "It costs no extra latency, since completions come in batches anyway.",
            published: "no figure",
            judge: latency,
        },
        Claim {
            experiment: "forward-bulk-free",
            says: "The reply: an array of ready heads that both sides use, refilled in bulk, is worth having.",
            published: "no figure",
            judge: ready,
        },
    ],
    slip: None,
};

/// Packets per second before the change, by the source.
const BEFORE: f64 = 2_043_575.0;

/// How much later a packet may be done before latency counts as paid for.
const LATENCY_SLACK: f64 = 1.05;

fn detached(report: &Report) -> Option<Finding> {
    let fixed = [("burst", "64"), ("order", "in turn"), ("touch", "false")];
    let ratio = Measured::find(report, "netmem/detached", "netmem/loop", &fixed)?;
    Some(ratio.finding(20.0 / 74.0, "an object of a bulk of 64 costs", "one freed alone"))
}

fn forwarded(report: &Report, variant: &str, published: f64) -> Option<Finding> {
    let ratio = Measured::find(report, variant, "netmem/base", &[])?;
    Some(ratio.finding(published / BEFORE, "it forwards", "the packets of one free for each object"))
}

fn slow_paths(report: &Report) -> Option<Finding> {
    let share = |variant| Some(pick::row(report, variant, "percent", &[("by", "callgrind")])?.median);
    let (base, tuned) = (share("netmem/base")?, share("netmem/tuned")?);
    let ratio = Measured { median: tuned / base, low: tuned / base, high: tuned / base };
    let sentence = format!(
        "Here {} % of all instructions become {} %: {:.3} of them are left; the source: {:.3}.",
        number::figure(base),
        number::figure(tuned),
        ratio.median,
        0.76 / 3.73
    );
    let measured = format!("{} → {} %", number::figure(base), number::figure(tuned));
    Some(Finding { measured, verdict: ratio.against(0.76 / 3.73), sentence })
}

fn latency(report: &Report) -> Option<Finding> {
    let half = |variant| Some(pick::row(report, variant, "latency_ns", &[("quantile", "p50")])?.median);
    let (base, bulk) = (half("netmem/base")?, half("netmem/bulk")?);
    let verdict = if bulk <= base * LATENCY_SLACK { Verdict::Holds } else { Verdict::Fails };
    let (base, bulk) = (number::figure(base), number::figure(bulk));
    let sentence =
        format!("Here half of the packets are done within {bulk} ns instead of {base} ns of their receipt.");
    Some(Finding { measured: format!("{base} → {bulk} ns"), verdict, sentence })
}

fn ready(report: &Report) -> Option<Finding> {
    let ratio = Measured::find(report, "netmem/ready-16", "netmem/base", &[])?;
    let verdict = match (ratio.low > 1.0, ratio.high < 1.0) {
        (true, _) => Verdict::Holds,
        (_, true) => Verdict::Fails,
        _ => Verdict::Undecided,
    };
    let sentence = format!(
        "Here ready heads, refilled by 16, forward {} times the packets of heads allocated and freed one by one.",
        ratio.text()
    );
    Some(Finding { measured: format!("{:.3}", ratio.median), verdict, sentence })
}
