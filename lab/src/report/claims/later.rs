//! What became of the texts: figures that were published later, each under the text that has it.

use super::judge::Measured;
use super::{Claim, Finding, Source};
use crate::json::{Params, Report};
use crate::report::{number, pick};
use crate::sources;

pub(super) const FREELIST: Source = Source {
    text: &sources::FREELIST,
    title: "What became of bulk free: detached freelists in Linux (Brouer, 2015)",
    claims: &[Claim {
        name: "detached-freelists",
        experiment: "slab-bulk",
        says: "Objects freed as detached freelists, one change of a slab's word for all of its objects, cost far less than one by one.",
        published: "74 → 20 cycles an object in bulks of 64",
        timed: true,
        judge: detached,
    }],
    slip: None,
};

pub(super) const CPUMAP: Source = Source {
    text: &sources::CPUMAP,
    title: "What became of the hand-off: cpumap (Brouer, 2019)",
    claims: &[Claim {
        name: "cpumap",
        experiment: "handoff",
        says: "Another core that does the heavy part triples the rate.",
        published: "718,135 → 2,311,585 packets/s",
        timed: true,
        judge: cpumap,
    }],
    slip: None,
};

pub(super) const ARRAYS: Source = Source {
    text: &sources::ARRAYS,
    title: "What became of bulk calls for pages: arrays of pages (Gorman's patches, measured by Brouer, 2021)",
    claims: &[Claim {
        name: "bulk-pages",
        experiment: "page-bulk",
        says: "A page of a bulk by array costs about half of one alone. The slides of 2017 have no results of bulk calls.",
        published: "199 → 110 cycles",
        timed: true,
        judge: bulk,
    }],
    slip: None,
};

pub(super) const POOL: Source = Source {
    text: &sources::POOL,
    title: "What became of recycling: the page_pool (measured by Brouer, 2025)",
    claims: &[Claim {
        name: "recycling",
        experiment: "pool-recycle",
        says: "A pool for each device that keeps pages mapped costs far less than the allocator.",
        published: "19, 54, 238 cycles: cache, ring, allocator",
        timed: true,
        judge: recycled,
    }],
    slip: None,
};

fn detached(report: &Report) -> Option<Finding> {
    let fixed = [("burst", "64"), ("order", "in turn"), ("touch", "false")];
    let ratio = Measured::find(report, "netmem/detached", "netmem/loop", &fixed)?;
    let finding = ratio.finding(20.0 / 74.0, "an object of a bulk of 64 costs", "one freed alone");
    let lost = report.ratios.iter().filter(|ratio| {
        let of_all = pick::has(&ratio.params, &[("order", "in turn"), ("touch", "false")]);
        (ratio.a.as_str(), ratio.b.as_str()) == ("netmem/detached", "netmem/loop")
            && of_all
            && ratio.low > 1.0
    });
    let burst = |params: &Params| params.get("burst").map(pick::text).unwrap_or_default();
    let bursts: Vec<String> = lost.clone().map(|ratio| burst(&ratio.params)).collect();
    Some(match lost.max_by(|a, b| a.low.total_cmp(&b.low)) {
        Some(worst) => finding.because(&format!(
            "In bulks of {} it costs more, at worst {} times: a bulk that fits the active slab is freed by the loop without any change of a word.",
            bursts.join(", "),
            Measured::of(worst).text()
        )),
        None => finding,
    })
}

fn cpumap(report: &Report) -> Option<Finding> {
    let ratio = Measured::find(report, "netmem/handed", "netmem/one", &[("load", "heavy")])?;
    let reason = "the slower side there is a UDP sink that shares its core with the receiving interrupt and allocates for each packet; here nothing is allocated for one";
    Some(Finding::not_comparable(format!("{:.3}", ratio.median), reason))
}

fn bulk(report: &Report) -> Option<Finding> {
    let of =
        |burst, touch| Measured::find(report, "netmem", "netmem/loop", &[("burst", burst), ("touch", touch)]);
    let finding = of("128", "false")?.finding(
        110.0 / 199.0,
        "a page of a bulk of 128 costs",
        "one of 128 by a call for each",
    );
    Some(match (of("16", "true"), of("128", "true")) {
        (Some(few), Some(many)) => finding.because(&format!(
            "With 64 bytes of each written, little of that is left: {} times the loop in bulks of 16, {} in bulks of 128.",
            few.text(),
            many.text()
        )),
        _ => finding,
    })
}

fn recycled(report: &Report) -> Option<Finding> {
    let fixed = [("held", "0"), ("map_ns", "0")];
    let of = |variant| Some(pick::row(report, variant, "cycles_per_op", &fixed)?.median);
    let ratio = Measured::find(report, "netmem", "netmem/page", &fixed)?;
    let measured = [of("netmem")?, of("netmem/ring")?, of("netmem/page")?].map(number::figure).join(", ");
    let finding = ratio.finding(19.0 / 238.0, "a page from the pool costs", "one from the page stage alone");
    let why = "The page stage has lists for each worker, as the pool has; what a driver saves beyond that is the mapping, which costs nothing in these rows. What drivers do without a pool is driver/queue and driver/unkept; netmem/head and netmem/never, which older runs have in their place, send every frame through the pool's cold half too (the pool is watched), which no driver does.";
    Some(Finding { measured: format!("{measured} cycles"), ..finding.because(why) })
}
