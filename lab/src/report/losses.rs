//! netmem's losses: every ratio to a rival whose whole interval lies on the rival's side.

use serde::Serialize;

use super::html::Html;
use super::number;
use super::{causes, pick, targets};
use crate::json::{Ratio, Report};
use crate::method::placement::PARAMETER as PLACEMENT;
use crate::table;

/// All losses of one variant to one rival in one experiment, worst first.
#[derive(Debug)]
pub(super) struct Losses<'r> {
    report: &'r Report,
    /// Number of ratios of the same pair, lost or not.
    of: usize,
    lost: Vec<&'r Ratio>,
}

/// The same, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    experiment: String,
    a: String,
    b: String,
    metric: String,
    /// Number of settings in which the whole interval lies on the rival's side.
    lost: usize,
    of: usize,
    /// Multiple of the rival's cost, in the worst setting.
    worst: f64,
    /// The causes, each once, the worst first.
    causes: Vec<&'static str>,
}

/// Returns the multiple of the rival's cost, whichever of the two is the numerator.
fn cost(ratio: &Ratio) -> (f64, f64, f64) {
    let inverse = pick::more_is_better(&ratio.metric) != pick::is_rival(&ratio.a);
    let Ratio { median, low, high, .. } = *ratio;
    if inverse { (1.0 / median, 1.0 / high, 1.0 / low) } else { (median, low, high) }
}

/// Returns true for a ratio that counts as a comparison of netmem, under any setting, with a rival. A ratio with the
/// parameter `placement` does not count: another ratio covers its rounds too.
fn is_counted(ratio: &Ratio) -> bool {
    !ratio.params.contains_key(PLACEMENT) && is_between_rivals(ratio)
}

fn is_between_rivals(ratio: &Ratio) -> bool {
    (pick::is_netmem(&ratio.a) && pick::is_rival(&ratio.b))
        || (pick::is_rival(&ratio.a) && pick::is_netmem(&ratio.b))
}

/// Returns true for a lost race. An imprecise ratio counts, because its interval shows its side of 1; one of too few
/// set-ups does not.
fn is_lost(ratio: &Ratio) -> bool {
    is_counted(ratio) && cost(ratio).1 > 1.0 && !ratio.too_few
}

/// Returns every loss, in the order of the reports.
pub(super) fn find(reports: &[Report]) -> Vec<Losses<'_>> {
    let mut found: Vec<Losses<'_>> = Vec::new();
    for report in reports {
        for ratio in report.ratios.iter().filter(|ratio| is_lost(ratio)) {
            let same =
                |other: &Ratio| (&other.a, &other.b, &other.metric) == (&ratio.a, &ratio.b, &ratio.metric);
            match found.iter_mut().find(|losses| std::ptr::eq(losses.report, report) && same(losses.lost[0]))
            {
                Some(losses) => losses.lost.push(ratio),
                None => {
                    let of = report.ratios.iter().filter(|other| is_counted(other) && same(other)).count();
                    found.push(Losses { report, of, lost: vec![ratio] });
                }
            }
        }
    }
    for losses in &mut found {
        losses.lost.sort_by(|a, b| cost(b).0.total_cmp(&cost(a).0));
    }
    found
}

/// Returns true if any report compares netmem with a rival.
pub(super) fn were_there_rivals(reports: &[Report]) -> bool {
    reports.iter().flat_map(|report| &report.ratios).any(is_counted)
}

/// Writes the section's content.
pub(super) fn write(html: &mut Html, reports: &[Report]) {
    targets::write_missed(html, reports);
    let dear = causes::dear(reports);
    if !dear.is_empty() {
        html.leaf("p", &[], "What costs much more than the limit, the same work without memory management:");
        html.element("ul", &[], |html| dear.iter().for_each(|one| html.leaf("li", &[], one)));
        html.line();
    }
    let found = find(reports);
    if found.is_empty() {
        let text = if were_there_rivals(reports) {
            "Nowhere: no ratio to a rival has its whole 95 % interval on the rival's side."
        } else {
            "These runs had no rivals: build with --features rivals and run them again."
        };
        return html.leaf("p", &[], text);
    }
    html.leaf("p", &[], "Every comparison with a rival in which the whole 95 % interval of the ratio lies on the rival's side. By chance, so does that of one in forty that are equal. Open a line for its causes and settings.");
    found.iter().for_each(|losses| losses.write(html));
}

impl<'r> Losses<'r> {
    pub(super) fn outcome(&self) -> Outcome {
        // It exists: a pair is made with its first loss.
        let worst = self.lost[0];
        Outcome {
            experiment: self.report.experiment.clone(),
            a: worst.a.clone(),
            b: worst.b.clone(),
            metric: worst.metric.clone(),
            lost: self.lost.len(),
            of: self.of,
            worst: cost(worst).0,
            causes: self.causes().into_iter().map(|(why, _)| why).collect(),
        }
    }

    /// Returns the causes, each once, the worst first, with the settings that are lost for that cause.
    fn causes(&self) -> Vec<(&'static str, Vec<&'r Ratio>)> {
        let mut causes: Vec<(&'static str, Vec<&'r Ratio>)> = Vec::new();
        for ratio in &self.lost {
            let why = causes::of(&self.report.experiment, ratio);
            match causes.iter_mut().find(|(other, _)| *other == why) {
                Some((_, of)) => of.push(ratio),
                None => causes.push((why, vec![ratio])),
            }
        }
        causes
    }

    fn write(&self, html: &mut Html) {
        let Some(worst) = self.lost.first() else { return };
        html.element("details", &[("class", "loss")], |html| {
            html.element("summary", &[], |html| {
                html.leaf("b", &[], &self.report.experiment);
                html.text(&format!(
                    ": {} over {}, {} of {} settings; at worst {:.2} times the cost",
                    worst.a,
                    worst.b,
                    self.lost.len(),
                    self.of,
                    cost(worst).0
                ));
            });
            for (why, of) in self.causes() {
                html.leaf("p", &[("class", "cause")], why);
                html.element("ul", &[], |html| {
                    for ratio in of {
                        let (median, low, high) = cost(ratio);
                        let measured = number::with_interval(median, low, high);
                        html.leaf(
                            "li",
                            &[],
                            &format!("{measured} times the cost: {}", table::listed(&ratio.params)),
                        );
                    }
                });
            }
        });
        html.line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::sample;

    fn ratio(a: &str, b: &str, metric: &str, low: f64, high: f64) -> Ratio {
        let median = f64::midpoint(low, high);
        Ratio {
            a: a.into(),
            b: b.into(),
            metric: metric.into(),
            low,
            median,
            high,
            ..sample().ratios.remove(0)
        }
    }

    fn shown(ratios: Vec<Ratio>) -> String {
        let mut html = Html::default();
        write(&mut html, &[Report { ratios, ..sample() }]);
        html.into_markup()
    }

    #[test]
    fn a_ratio_on_the_rivals_side_is_listed_whatever_stands_above_the_line() {
        for lost in [
            ratio("netmem", "dpdk", "ns_per_op", 1.9, 2.1),
            ratio("dpdk", "netmem", "ns_per_op", 0.4, 0.6),
            ratio("netmem/bulk", "kernel", "pps", 0.4, 0.6),
            ratio("kernel", "netmem", "pps", 1.9, 2.1),
        ] {
            assert!(is_lost(&lost), "{lost:?}");
            let page = shown(vec![lost]);
            assert!(page.contains("1 of 1 settings") && page.contains("times the cost"), "{page}");
        }
    }

    #[test]
    fn gains_ties_bounds_and_settings_of_netmem_are_no_losses() {
        for kept in [
            ratio("netmem", "dpdk", "ns_per_op", 0.4, 0.6),
            ratio("netmem", "dpdk", "ns_per_op", 0.9, 1.2),
            ratio("netmem", "limit", "ns_per_op", 1.9, 2.1),
            ratio("netmem", "netmem/loop", "ns_per_op", 1.9, 2.1),
            ratio("dpdk", "glibc", "ns_per_op", 1.9, 2.1),
        ] {
            assert!(!is_lost(&kept), "{kept:?}");
        }
        let page = shown(vec![ratio("netmem", "dpdk", "ns_per_op", 0.4, 0.6)]);
        assert!(page.contains("Nowhere: no ratio"), "{page}");
        assert!(shown(vec![]).contains("had no rivals"));
    }

    /// Seen: a run that its budget ended after two set-ups listed losses.
    #[test]
    fn a_ratio_of_too_few_set_ups_is_no_loss_and_an_imprecise_one_is() {
        let imprecise = Ratio { undecided: true, ..ratio("netmem", "dpdk", "ns_per_op", 1.5, 2.5) };
        assert!(is_lost(&imprecise));
        assert!(!is_lost(&Ratio { too_few: true, ..imprecise }));
    }

    /// Found in a review: "3 of 3 settings" for one comparison across cores, which was reported over all rounds and for
    /// two placements of the cores.
    #[test]
    fn a_comparison_that_is_also_reported_by_placement_counts_once() {
        let of_all = ratio("netmem", "dpdk", "ns_per_op", 1.9, 2.1);
        let at = |place: &str, low, high| {
            let mut at = ratio("netmem", "dpdk", "ns_per_op", low, high);
            at.params.insert(PLACEMENT.to_owned(), place.into());
            at
        };
        let page = shown(vec![of_all, at("near", 2.9, 3.1), at("far", 1.4, 1.6)]);
        assert!(page.contains("1 of 1 settings; at worst 2.00 times"), "{page}");
        let tie = ratio("netmem", "dpdk", "ns_per_op", 0.9, 2.1);
        let page = shown(vec![tie, at("near", 2.9, 3.1), at("far", 0.4, 0.6)]);
        assert!(page.contains("Nowhere: no ratio"), "{page}");
    }
}
