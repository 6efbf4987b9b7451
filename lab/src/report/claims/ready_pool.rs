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
            says: "On CURRENT, 50 ready pairs speed up fast forwarding. By netmem's reading its allocation takes a lock.",
            published: "276 → 355 kpps",
            timed: true,
            judge: |report| pairs(report, "fast-lock", 355.0 / 276.0),
        },
        Claim {
            name: "pairs-fast-free",
            experiment: "cluster-pool",
            says: "On STABLE they help fast forwarding a little. By netmem's reading its allocation takes no lock; by a footnote it has proprietary optimizations.",
            published: "365 → 383 kpps",
            timed: true,
            judge: |report| pairs(report, "fast-free", 383.0 / 365.0),
        },
        Claim {
            name: "pairs-full-lock",
            experiment: "cluster-pool",
            says: "On CURRENT they help on the full path too.",
            published: "195 → 227 kpps",
            timed: true,
            judge: |report| pairs(report, "full-lock", 227.0 / 195.0),
        },
        Claim {
            name: "pairs-full-free",
            experiment: "cluster-pool",
            says: "On STABLE, on the full path, they hardly show. By a footnote that path has the old ipfw there, which is significantly slower.",
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

/// Judged by the text's 50 pairs, where completions are checked in each round. How many packets the driver's clean-up
/// returned the text does not tell.
fn pairs(report: &Report, path: &str, published: f64) -> Option<Finding> {
    of_fifty(report, path, |ratio, what| ratio.finding(published, what, "the packets of none"))
}

/// Judges a claim that pairs hardly show.
fn hardly(report: &Report, path: &str, published: f64) -> Option<Finding> {
    of_fifty(report, path, |ratio, what| ratio.finding_of_none(0.05, published, what, "the packets of none"))
}

/// Judges by the text's number of pairs, and tells what more pairs do for a forwarder that completes more at once.
fn of_fifty(report: &Report, path: &str, judged: impl Fn(&Measured, &str) -> Finding) -> Option<Finding> {
    let fifty = format!("netmem/{path}-50-by-round");
    let ratio = Measured::find(report, &fifty, &format!("netmem/{path}-0-by-round"), &[])?;
    let what = format!("50 pairs, which serve {} of all packets, forward", served(report, &fifty));
    let finding = judged(&ratio, &what);
    let finding = if path.ends_with("lock") { finding.because(LAYERS) } else { finding };
    let (all, none) = (format!("netmem/{path}-256"), format!("netmem/{path}-0"));
    Some(match Measured::find(report, &all, &none, &[]) {
        Some(more) => finding.because(&format!(
            "If 256 packets are completed at once, as the product does, 256 pairs serve {} of them and forward {} times the packets.",
            served(report, &all),
            more.text()
        )),
        None => finding,
    })
}

/// What differs beside the lock.
const LAYERS: &str = "That CURRENT locked and STABLE did not is netmem's reading. Under a lock there is neither a cache of frames nor an array of heads here; netmem/fast-each-lock and netmem/fast-each-free differ in a lock alone.";

fn own_form(report: &Report) -> Option<Finding> {
    let list = "netmem/fast-lock-50-list-by-round";
    let ratio = |a, b| Measured::find(report, a, b, &[]);
    let none = ratio(list, "netmem/fast-lock-0-by-round")?;
    let what = format!("one list of 50 pairs, which serve {} of all packets, forwards", served(report, list));
    let finding = none.finding(355.0 / 276.0, &what, "the packets of none");
    Some(match ratio("netmem/fast-lock-50-list", "netmem/fast-lock-50") {
        Some(by_worker) => finding.because(&format!(
            "It forwards {} times the packets of a list for each worker, without a lock, if 256 packets are completed at once.",
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
