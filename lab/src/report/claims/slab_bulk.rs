//! [brouer17-pages]: what bulk calls of slabs give, of which its slides speak beside the pages.

use super::judge::Measured;
use super::{Claim, Finding, Source};
use crate::json::Report;
use crate::report::pick;
use crate::sources;

pub(super) const SOURCE: Source = Source {
    text: &sources::PAGES,
    title: "Bulk calls of slabs (Brouer, 2017)",
    claims: &[
        Claim {
            name: "bulk-speedup",
            experiment: "slab-bulk",
            says: "Bulk calls of SLUB gave a speedup of 60 %.",
            published: "1.6 times as fast",
            timed: true,
            judge: speedup,
        },
        Claim {
            name: "bulk-not-linear",
            experiment: "slab-bulk",
            says: "Bulk calls do not scale linearly: a bulk of ten is not ten times as fast.",
            published: "more than a tenth of the cost",
            timed: true,
            judge: not_linear,
        },
    ],
    slip: None,
};

/// The measured bulk that is nearest to the slide's ten. The slide names no bulk for its 60 %.
const NEAR_TEN: f64 = 8.0;

fn speedup(report: &Report) -> Option<Finding> {
    let over = |a, b, burst| {
        let fixed = [("burst", burst), ("order", "in turn"), ("touch", "false")];
        Measured::find(report, a, b, &fixed)
    };
    let eight = over("netmem/detached", "netmem/loop", "8")?;
    let finding = eight.finding(1.0 / 1.6, "an object of a bulk of 8 costs", "one by one");
    let others = (over("netmem/detached", "netmem/loop", "64"), over("netmem", "netmem/sheaf-loop", "8"));
    let (Some(large), Some(sheaf)) = others else { return Some(finding) };
    Some(finding.because(&format!(
        "The slide speaks of a bulk of ten, and names none for its 60 %. In bulks of 64, more than a slab holds, it is {} times; in bulks of 8 of the default layer, which is not SLUB's, {}.",
        large.text(),
        sheaf.text()
    )))
}

fn not_linear(report: &Report) -> Option<Finding> {
    let row = |variant, burst| {
        let fixed = [("burst", burst), ("order", "in turn"), ("touch", "false")];
        pick::row(report, variant, "cycles_per_op", &fixed)
    };
    let ratio = Measured::over_windows(report, row("netmem/detached", "8")?, row("netmem/loop", "1")?)?;
    let Measured { median, low, high, .. } = ratio;
    let linear = Measured { median: NEAR_TEN * median, low: NEAR_TEN * low, high: NEAR_TEN * high, ..ratio };
    let sentence = format!(
        "Here an object of a bulk of 8 costs {} times a single one, by the spread of the windows; linear scaling would be {:.3}.",
        ratio.text(),
        1.0 / NEAR_TEN
    );
    Some(Finding { measured: format!("{median:.3}"), verdict: linear.is_more(), sentence })
}
