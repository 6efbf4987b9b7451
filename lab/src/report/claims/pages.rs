//! [brouer17-pages]: the cost of memory for a packet, page by page.

mod offset;

use super::judge::Measured;
use super::{Claim, Finding, Source, Verdict};
use crate::json::Report;
use crate::report::number;
use crate::report::pick::{self, Fixed};
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::PAGES,
    title: "Memory and networking: what a page costs a packet (Brouer, 2017)",
    claims: &[
        Claim {
            name: "one-page",
            experiment: "page-fast-path",
            says: "The allocator's fast path for one page can be had at half its cost.",
            published: "276 → 143 cycles",
            timed: true,
            judge: one_page,
        },
        Claim {
            name: "statistics",
            experiment: "page-fast-path",
            says: "A third of that is statistics: without them it is 97 cycles.",
            published: "143 / 97 = 1.474 times",
            timed: true,
            judge: statistics,
        },
        Claim {
            name: "orders",
            experiment: "page-order",
            says: "The cost grows well up to order 3, then steeply.",
            published: "a curve",
            timed: true,
            judge: orders,
        },
        Claim {
            name: "knee",
            experiment: "page-outstanding",
            says: "With more pages out than the list of a core holds, they cost more.",
            published: "knee at 128, moves of 32",
            timed: true,
            judge: knee,
        },
        Claim {
            name: "offset",
            experiment: "page-outstanding",
            says: "With more or less to do for each page (there: NUMA), the curve is shifted by an almost constant offset.",
            published: "an expectation",
            timed: true,
            judge: offset::judge,
        },
        Claim {
            name: "crossing",
            experiment: "page-cross-worker",
            says: "A page freed on another core costs several times the ring that carries it.",
            published: "210 / 31 = 6.8 times",
            timed: true,
            judge: crossing,
        },
        Claim {
            name: "delayed",
            experiment: "page-cross-worker",
            says: "To free it one page later, prefetched for writing, helps the core that frees.",
            published: "210 → 152 cycles",
            timed: true,
            judge: delayed,
        },
        Claim {
            name: "xdp",
            experiment: "xdp-verdicts",
            says: "Without memory work a core drops 17 million packets a second and sends back 10 million.",
            published: "17 / 10 = 1.7 times",
            timed: true,
            judge: verdicts,
        },
    ],
    slip: None,
};

const UNTOUCHED: Fixed<'static> = &[("touch", "false")];

fn one_page(report: &Report) -> Option<Finding> {
    let cycles = number::figure(pick::row(report, "netmem", "cycles_per_op", UNTOUCHED)?.median);
    let reason =
        "there is no before and after here, and an allocator in user space has none of the kernel's duties";
    Some(Finding::not_comparable(format!("{cycles} cycles"), reason))
}

fn statistics(report: &Report) -> Option<Finding> {
    let ratio = Measured::find(report, "netmem", "netmem/stats-off", UNTOUCHED)?;
    Some(ratio.finding(143.0 / 97.0, "a page with statistics costs", "one without"))
}

fn orders(report: &Report) -> Option<Finding> {
    let row = |metric, order: u32, of| {
        let order = order.to_string();
        Some(pick::row(report, "netmem", metric, &[("order", &order), of])?.median)
    };
    let costs: Vec<f64> = (0..=10).map_while(|order| row("ns_per_op", order, ("per", "block"))).collect();
    let step = |(at, pair): (usize, &[f64])| (at, pair[1] / pair[0]);
    let (at, times) = costs.windows(2).enumerate().map(step).max_by(|a, b| a.1.total_cmp(&b.1))?;
    // The visits to the node are counted. Runs before they were do not tell where the lists end.
    let of = ("of", "node visits per block");
    let visits: Vec<f64> = (0..=10).map_while(|order| row("count", order, of)).collect();
    let last = visits.iter().take_while(|visits| **visits == 0.0).count().checked_sub(1);
    let lists = match last {
        Some(last) => format!(
            "a worker's lists served every block up to order {last} here without a visit to the node, in Linux 4.11 order 0 alone"
        ),
        None => "a worker has lists of its own for several orders, where Linux 4.11 had one for order 0 alone (this run does not tell which orders they served)".to_owned(),
    };
    let reason = format!(
        "{lists}; the steepest measured step is {} times, from order {at} to {}. Past the lists, every block is split and joined again under the node's lock, and the cost does not grow with the order",
        number::figure(times),
        at + 1
    );
    Some(Finding::not_comparable(format!("step at {at} → {}", at + 1), &reason))
}

/// Compares the list of 128 pages with the tuned one, which holds 512. So caches and everything else that dearer
/// memory costs both lists is not counted.
fn knee(report: &Report) -> Option<Finding> {
    let at = |lists, metric, outstanding: &str| {
        let fixed = [("lists", lists), ("stats", "on"), ("outstanding", outstanding)];
        pick::row(report, "netmem", metric, &fixed)
    };
    let (fixed, tuned) = ("brouer-2017", "tuned");
    let (before, past) = (at(fixed, "count", "128")?, at(fixed, "count", "129")?);
    // Visits are counted, so they are exact.
    let stands_there = before.p90 == 0.0 && past.p10 > 0.0 && at(tuned, "count", "512")?.p90 == 0.0;
    let over_tuned = |outstanding| {
        let inside = [("order", "0"), ("stats", "on"), ("outstanding", outstanding)];
        Measured::find(report, "netmem", "netmem", &inside).or_else(|| {
            let of = |lists| at(lists, "cycles_per_op", outstanding);
            Measured::over_windows(report, of(fixed)?, of(tuned)?)
        })
    };
    let (held, past_it) = (over_tuned("128")?, over_tuned("512")?);
    let verdict = if stands_there { past_it.is_more() } else { Verdict::Fails };
    let first = if stands_there { "first asked for at 129 pages" } else { "not first asked for at 129" };
    let sentence = format!(
        "Here, with a list of 128 pages, the node is {first}. Beside a list that holds 512, a page costs {} times with 128 out and {} times with 512. With thousands out a page costs more with either list, most of it for other reasons than the visits to the node.",
        held.text(),
        past_it.text()
    );
    let measured = format!("{:.3} → {:.3}", held.median, past_it.median);
    Some(Finding { measured, verdict, sentence })
}

/// Why a page without a reference count is not the source's.
const UNCOUNTED: &str = "a single page here has no reference count, and its free touches neither the page nor its descriptor, where the source's put_page takes the descriptor's line from the other core";

fn crossing(report: &Report) -> Option<Finding> {
    let fixed = [("policy", "spin"), ("side", "both"), ("touch", "false")];
    let finding = match Measured::find(report, "netmem/shared", "limit", &fixed) {
        Some(ratio) => {
            let what = "a page with a reference count that crosses costs";
            ratio.finding(210.0 / 31.0, what, "the bare ring")
        }
        None => uncounted(Measured::find(report, "netmem", "limit", &fixed)?),
    };
    let alone = [("side", "B"), ("touch", "false")];
    Some(match Measured::find(report, "netmem/frame", "limit", &alone) {
        Some(frame) => finding.because(&format!(
            "A frame of a pool that is freed by itself on the other core costs that core {} times the bare ring: each goes onto the remote free queue by itself, into a line that its owner reads; a batch pays that once.",
            frame.text()
        )),
        None => finding,
    })
}

fn delayed(report: &Report) -> Option<Finding> {
    let fixed = [("policy", "never waits"), ("side", "B"), ("touch", "false")];
    let of_shared = Measured::find(report, "netmem/shared-delay-1", "netmem/shared", &fixed);
    if let Some(ratio) = of_shared {
        let what = "the core that frees a page with a reference count pays";
        return Some(ratio.finding(152.0 / 210.0, what, "what it pays at once"));
    }
    // Older runs had no such pages.
    Measured::find_by(report, "netmem/delay-1", "netmem", "limit", &fixed).map(uncounted)
}

fn uncounted(ratio: Measured) -> Finding {
    Finding::not_comparable(format!("{:.3}", ratio.median), UNCOUNTED)
}

fn verdicts(report: &Report) -> Option<Finding> {
    let ratio = Measured::find(report, "netmem/tx", "netmem/drop", &[])?;
    let finding = ratio.finding(1.7, "a packet sent back costs", "one dropped");
    Some(finding.because("The source's rates hold a card's work, these a wire inside the process, where a drop costs next to nothing."))
}
