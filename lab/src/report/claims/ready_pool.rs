//! [rizzo02-mbuf]: buffers kept as ready pairs of head and data.

use super::judge::Measured;
use super::{Claim, Finding, Source};
use crate::json::Report;
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::MBUF,
    title: "Ready pairs of buffer and cluster (Rizzo, 2002)",
    claims: &[
        Claim {
            name: "pairs-fast-lock",
            experiment: "cluster-pool",
            says: "Where allocation takes a lock (CURRENT), 50 ready pairs speed up fast forwarding.",
            published: "276 → 355 kpps",
            timed: true,
            judge: |report| pairs(report, "fast-lock", 355.0 / 276.0),
        },
        Claim {
            name: "pairs-fast-free",
            experiment: "cluster-pool",
            says: "Where it takes none (STABLE), they help fast forwarding a little.",
            published: "365 → 383 kpps",
            timed: true,
            judge: |report| pairs(report, "fast-free", 383.0 / 365.0),
        },
        Claim {
            name: "pairs-full-lock",
            experiment: "cluster-pool",
            says: "With a lock and the full path, they help too.",
            published: "195 → 227 kpps",
            timed: true,
            judge: |report| pairs(report, "full-lock", 227.0 / 195.0),
        },
        Claim {
            name: "pairs-full-free",
            experiment: "cluster-pool",
            says: "Without a lock, on the full path, they hardly show.",
            published: "142 → 146 kpps",
            timed: true,
            judge: |report| hardly(report, "full-free", 146.0 / 142.0),
        },
        Claim {
            name: "pairs-caller",
            experiment: "cluster-pool",
            says: "A caller that holds a lock already needs no further one: a lock of the pairs' own costs packets.",
            published: "a question, no figure",
            timed: true,
            judge: caller,
        },
    ],
    slip: Some("The source prints “195 pps” in one cell of its table; by the others it is 195 kpps."),
};

fn caller(report: &Report) -> Option<Finding> {
    let ratio = |a, b| Measured::find(report, a, b, &[]);
    let (list, locked) = ("netmem/fast-lock-50-list", "netmem/fast-lock-50-list-locked");
    let (own, by_worker) = (ratio(locked, list)?, ratio(list, "netmem/fast-lock-50")?);
    // The claim is a cost: the inverse is more than 1.
    let costs = Measured { low: 1.0 / own.high, high: 1.0 / own.low, ..own };
    let sentence = format!(
        "Here a lock for each pair forwards {} times the packets of one that the caller holds for a bulk, and that list {} times those of a list for each worker, without a lock; nobody else wants the locks.",
        own.text(),
        by_worker.text()
    );
    Some(Finding { measured: format!("{:.3}", own.median), verdict: costs.is_more(), sentence })
}

fn pairs(report: &Report, path: &str, published: f64) -> Option<Finding> {
    Some(ratio(report, path)?.finding(published, "50 pairs forward", "the packets of none"))
}

/// Judges a claim that pairs hardly show.
fn hardly(report: &Report, path: &str, published: f64) -> Option<Finding> {
    Some(ratio(report, path)?.finding_of_none(0.05, published, "50 pairs forward", "the packets of none"))
}

fn ratio(report: &Report, path: &str) -> Option<Measured> {
    let variant = |pairs| format!("netmem/{path}-{pairs}");
    Measured::find(report, &variant(50), &variant(0), &[])
}
