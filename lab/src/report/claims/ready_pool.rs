//! [rizzo02-mbuf]: buffers kept as ready pairs of head and data.

use super::judge::Measured;
use super::{Claim, Finding, Source};
use crate::json::Report;
use crate::report::{number, pick};
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::MBUF,
    title: "Ready pairs of buffer and cluster (Rizzo, 2002)",
    claims: &[
        Claim {
            name: "pairs-fast-lock",
            experiment: "cluster-pool",
            says: "Where allocation takes a lock (CURRENT), ready pairs for what a poll sends (50 there) speed up fast forwarding.",
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
            name: "pairs-own-form",
            experiment: "cluster-pool",
            says: "So do pairs in the source's own form: one list, under the lock that the driver holds already (CURRENT).",
            published: "276 → 355 kpps",
            timed: true,
            judge: own_form,
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

/// Judged by 256 pairs, as many as the lab's forwarder completes at once. The source's driver is polled and frees what
/// each poll sent, of which 50 pairs keep more. The text does not say how many packets a poll has.
fn pairs(report: &Report, path: &str, published: f64) -> Option<Finding> {
    of_all(report, path, |ratio, what| ratio.finding(published, what, "the packets of none"))
}

/// Judges a claim that pairs hardly show.
fn hardly(report: &Report, path: &str, published: f64) -> Option<Finding> {
    of_all(report, path, |ratio, what| ratio.finding_of_none(0.05, published, what, "the packets of none"))
}

/// Judges by the cell in which pairs serve most packets, and tells what the source's number of pairs does.
fn of_all(report: &Report, path: &str, judged: impl Fn(&Measured, &str) -> Finding) -> Option<Finding> {
    let variant = |pairs| format!("netmem/{path}-{pairs}");
    let ratio = Measured::find(report, &variant("256"), &variant("0"), &[])?;
    let served = |pairs| served(report, &variant(pairs));
    let fifty = Measured::find(report, &variant("50"), &variant("0"), &[]);
    let what = format!("256 pairs, which serve {} of all packets, forward", served("256"));
    let finding = judged(&ratio, &what);
    Some(match fifty {
        Some(fifty) => finding.because(&format!(
            "50 pairs, the source's number, serve {} of them here, where 256 packets are completed at once, and forward {} times the packets; the source's driver is polled and frees what each poll sent, so that 50 serve more of them there.",
            served("50"),
            fifty.text()
        )),
        None => finding,
    })
}

fn own_form(report: &Report) -> Option<Finding> {
    let (list, fifty) = ("netmem/fast-lock-256-list", "netmem/fast-lock-50-list");
    let ratio = |a, b| Measured::find(report, a, b, &[]);
    let none = ratio(list, "netmem/fast-lock-0")?;
    let what =
        format!("one list of 256 pairs, which serve {} of all packets, forwards", served(report, list));
    let finding = none.finding(355.0 / 276.0, &what, "the packets of none");
    Some(match (ratio(fifty, "netmem/fast-lock-0"), ratio(list, "netmem/fast-lock-256")) {
        (Some(fifty), Some(by_worker)) => finding.because(&format!(
            "With 50 pairs it is {} times; with 256 it forwards {} times the packets of a list for each worker, without a lock.",
            fifty.text(),
            by_worker.text()
        )),
        _ => finding,
    })
}

/// Returns the share of packets that a variant took as ready ones, as text.
fn served(report: &Report, variant: &str) -> String {
    let row = pick::row(report, variant, "percent", &[("of", "packets taken ready")]);
    row.map_or_else(|| "an unknown share".to_owned(), |row| format!("{} %", number::figure(row.median)))
}
