//! [brouer17-pages]: the cost of memory for a packet, page by page.

use super::judge::Measured;
use super::{Claim, Finding, Source, Verdict};
use crate::json::{Report, Row};
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
            judge: steepest_step,
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
            name: "bulk-pages",
            experiment: "page-bulk",
            says: "Bulk calls should amortise it (no results in the source; Linux 5.13 by array).",
            published: "202 → 110 cycles",
            timed: true,
            judge: bulk,
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
            name: "recycling",
            experiment: "pool-recycle",
            says: "A pool for each device that keeps pages mapped beats the allocator (page_pool of today).",
            published: "19, 54, 238 cycles: cache, ring, allocator",
            timed: true,
            judge: recycled,
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

fn steepest_step(report: &Report) -> Option<Finding> {
    let cost = |order: u32| {
        let order = order.to_string();
        Some(pick::row(report, "netmem", "ns_per_op", &[("order", &order), ("per", "block")])?.median)
    };
    let costs: Vec<f64> = (0..=10).map_while(cost).collect();
    let step = |(at, pair): (usize, &[f64])| (at, pair[1] / pair[0]);
    let (at, times) = costs.windows(2).enumerate().map(step).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let reason = format!(
        "a worker has lists of its own for orders 0 to {at} in this memory, Linux 4.11 had them for order 0 alone, so that the steepest step, {} times from order {at} to {}, stands where the lists end by construction; beyond, every block is split and joined again under the node's lock, and the cost does not grow with the order",
        number::figure(times),
        at + 1
    );
    Some(Finding::not_comparable(format!("step at {at} → {}", at + 1), &reason))
}

fn knee(report: &Report) -> Option<Finding> {
    let at = |metric, outstanding: &str| {
        let fixed = [("lists", "brouer-2017"), ("stats", "on"), ("outstanding", outstanding)];
        pick::row(report, "netmem", metric, &fixed)
    };
    let (before, past) = (at("count", "128")?, at("count", "129")?);
    let (cheap, dear) = (at("cycles_per_op", "128")?, at("cycles_per_op", "8192")?);
    let ratio = Measured::over(dear, cheap)?;
    // Visits are counted, so they are exact.
    let stands_there = before.p90 == 0.0 && past.p10 > 0.0;
    let verdict = if stands_there { ratio.is_more() } else { Verdict::Fails };
    let (cheap, dear) = (number::figure(cheap.median), number::figure(dear.median));
    let first = if stands_there { "first asked for at 129 pages" } else { "not first asked for at 129" };
    let sentence = format!(
        "Here, with lists of that size, the node is {first}; a page costs {cheap} cycles with 128 out and {dear} with 8,192, {} times.",
        ratio.text()
    );
    Some(Finding { measured: format!("{cheap} → {dear} cycles"), verdict, sentence })
}

fn bulk(report: &Report) -> Option<Finding> {
    let of = |burst| pick::row(report, "netmem", "cycles_per_op", &[("burst", burst), ("touch", "false")]);
    let finding = rows(
        of("128")?,
        of("1")?,
        110.0 / 202.0,
        "a page of a bulk of 128 costs",
        "one taken alone by array",
    )?;
    let written = |burst| {
        let fixed = [("burst", burst), ("touch", "true")];
        Measured::find(report, "netmem", "netmem/loop", &fixed).map(Measured::text)
    };
    Some(match (written("16"), written("128")) {
        (Some(few), Some(many)) => finding.because(&format!(
            "With 64 bytes of each written, little of that is left: {few} times the loop in bulks of 16, {many} in bulks of 128."
        )),
        _ => finding,
    })
}

fn crossing(report: &Report) -> Option<Finding> {
    let fixed = [("policy", "spin"), ("side", "both"), ("touch", "false")];
    let ratio = Measured::find(report, "netmem", "limit", &fixed)?;
    let finding = ratio.finding(210.0 / 31.0, "a page that crosses costs", "the bare ring");
    let alone = [("side", "B"), ("touch", "false")];
    Some(match Measured::find(report, "netmem/frame", "limit", &alone) {
        Some(frame) => finding.because(&format!(
            "A frame of a pool that is freed by itself on the other core costs that core {} times the bare ring: each goes onto the way home alone, a line that its owner reads; a batch pays that once.",
            frame.text()
        )),
        None => finding,
    })
}

fn delayed(report: &Report) -> Option<Finding> {
    let of = |variant| pick::row(report, variant, "cycles_per_op", &[("side", "B"), ("touch", "false")]);
    rows(
        of("netmem/delay-1")?,
        of("netmem")?,
        152.0 / 210.0,
        "the core that frees pays",
        "what it pays at once",
    )
}

fn rows(a: &Row, b: &Row, published: f64, what: &str, of: &str) -> Option<Finding> {
    Some(Measured::over(a, b)?.finding(published, what, of))
}

fn recycled(report: &Report) -> Option<Finding> {
    let fixed = [("held", "0"), ("map_ns", "0")];
    let of = |variant| Some(pick::row(report, variant, "cycles_per_op", &fixed)?.median);
    let ratio = Measured::find(report, "netmem", "netmem/page", &fixed)?;
    let measured = [of("netmem")?, of("netmem/ring")?, of("netmem/page")?].map(number::figure).join(", ");
    let finding = ratio.finding(19.0 / 238.0, "a page from the pool costs", "one from the page stage alone");
    let why = "The page stage has lists for each worker, as the pool has; what a driver saves beyond that is the mapping, which costs nothing in these rows. What drivers do without a pool is driver/queue and driver/unkept; netmem/head and netmem/never, which older runs have in their place, pay for the pool's watched path too, which is no driver's price.";
    Some(Finding { measured: format!("{measured} cycles"), ..finding.because(why) })
}

fn verdicts(report: &Report) -> Option<Finding> {
    let ratio = Measured::find(report, "netmem/tx", "netmem/drop", &[])?;
    let finding = ratio.finding(1.7, "a packet sent back costs", "one dropped");
    Some(finding.because("The source's rates hold a card's work, these a wire inside the process, where a drop costs next to nothing."))
}
