//! [brouer17-pages]: what memory costs a packet, page by page.

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
            experiment: "page-fast-path",
            says: "The allocator's fast path for one page can be had at half its cost.",
            published: "276 → 143 cycles",
            judge: one_page,
        },
        Claim {
            experiment: "page-fast-path",
            says: "A third of that is statistics: without them it is 97 cycles.",
            published: "143 / 97 = 1.474 times",
            judge: statistics,
        },
        Claim {
            experiment: "page-order",
            says: "The cost grows well up to order 3, then steeply.",
            published: "a curve",
            judge: steepest_step,
        },
        Claim {
            experiment: "page-outstanding",
            says: "With more pages out than the list of a core holds, they cost more.",
            published: "knee at 128, moves of 32",
            judge: knee,
        },
        Claim {
            experiment: "page-bulk",
            says: "Bulk calls should amortise it (no results in the source; Linux 5.13 by array).",
            published: "202 → 110 cycles",
            judge: bulk,
        },
        Claim {
            experiment: "page-cross-worker",
            says: "A page freed on another core costs several times the ring that carries it.",
            published: "210 / 31 = 6.8 times",
            judge: crossing,
        },
        Claim {
            experiment: "page-cross-worker",
            says: "To free it one page later, prefetched for writing, helps the core that frees.",
            published: "210 → 152 cycles",
            judge: delayed,
        },
        Claim {
            experiment: "pool-recycle",
            says: "A pool for each device that keeps pages mapped beats the allocator (page_pool of today).",
            published: "19, 54, 238 cycles: cache, ring, allocator",
            judge: recycled,
        },
        Claim {
            experiment: "xdp-verdicts",
            says: "Without memory work a core drops 17 million packets a second and sends back 10 million.",
            published: "17 / 10 = 1.7 times",
            judge: verdicts,
        },
    ],
    slip: None,
};

const UNTOUCHED: Fixed<'static> = &[("touch", "false")];

fn one_page(report: &Report) -> Option<Finding> {
    let cycles = pick::row(report, "netmem", "cycles_per_op", UNTOUCHED)?.median;
    let verdict = if cycles <= 143.0 { Verdict::Holds } else { Verdict::Fails };
    let text = number::figure(cycles);
    let sentence = format!(
        "Here, in user space and without the kernel's duties, a page costs {text} cycles to take and give back."
    );
    Some(Finding { measured: format!("{text} cycles"), verdict, sentence })
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
    let verdict = if at == 3 { Verdict::Holds } else { Verdict::Fails };
    let sentence = format!(
        "Here the steepest step is from order {at} to {}: {} times the cost.",
        at + 1,
        number::figure(times)
    );
    Some(Finding { measured: format!("step at {at} → {}", at + 1), verdict, sentence })
}

fn knee(report: &Report) -> Option<Finding> {
    let at = |metric, outstanding: &str| {
        let fixed = [("lists", "brouer-2017"), ("stats", "on"), ("outstanding", outstanding)];
        Some(pick::row(report, "netmem", metric, &fixed)?.median)
    };
    let (before, past) = (at("count", "128")?, at("count", "129")?);
    let (cheap, dear) = (at("cycles_per_op", "128")?, at("cycles_per_op", "8192")?);
    let verdict = if before == 0.0 && past > 0.0 && dear > cheap { Verdict::Holds } else { Verdict::Fails };
    let (cheap, dear) = (number::figure(cheap), number::figure(dear));
    let first = if before == 0.0 && past > 0.0 {
        "first asked for at 129 pages"
    } else {
        "not first asked for at 129"
    };
    let sentence = format!(
        "Here, with lists of that size, the node is {first}; a page costs {cheap} cycles with 128 out and {dear} with 8,192."
    );
    Some(Finding { measured: format!("{cheap} → {dear} cycles"), verdict, sentence })
}

fn bulk(report: &Report) -> Option<Finding> {
    let of = |burst| pick::row(report, "netmem", "cycles_per_op", &[("burst", burst), ("touch", "false")]);
    rows(of("128")?, of("1")?, 110.0 / 202.0, "a page of a bulk of 128 costs", "one taken alone by array")
}

fn crossing(report: &Report) -> Option<Finding> {
    let fixed = [("policy", "spin"), ("side", "both"), ("touch", "false")];
    let ratio = Measured::find(report, "netmem", "limit", &fixed)?;
    Some(ratio.finding(210.0 / 31.0, "a page that crosses costs", "the bare ring"))
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
    let of = |variant| {
        Some(pick::row(report, variant, "cycles_per_op", &[("held", "0"), ("map_ns", "0")])?.median)
    };
    let (cache, ring, allocator) = (of("netmem")?, of("netmem/ring")?, of("netmem/never")?);
    let verdict = if cache < ring && ring < allocator { Verdict::Holds } else { Verdict::Fails };
    let measured = [cache, ring, allocator].map(number::figure).join(", ");
    let sentence = format!(
        "Here {measured} cycles: freed by the owner, freed by another worker, and given back to the page stage each time."
    );
    Some(Finding { measured, verdict, sentence })
}

fn verdicts(report: &Report) -> Option<Finding> {
    let ratio = Measured::find(report, "netmem/tx", "netmem/drop", &[])?;
    let mut finding = ratio.finding(1.7, "a packet sent back costs", "one dropped");
    let told = finding.sentence.trim_end_matches('.');
    finding.sentence = format!("{told}, whose rates hold a card's work, these a wire inside the process.");
    Some(finding)
}
