//! Whether what statistics cost a page is the same everywhere on the curve of outstanding pages.

use super::super::{Finding, Verdict};
use crate::json::{Ratio, Report};
use crate::report::pick;

/// The shares of the median offset between which an almost constant one stays.
const HALF: f64 = 0.5;
const TWICE: f64 = 2.0;

/// The list that the source measured.
const LISTS: (&str, &str) = ("lists", "brouer-2017");

/// What statistics add at one point of the curve, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Offset {
    low: f64,
    median: f64,
    high: f64,
}

/// Judges the offsets of all points. Each is taken inside rounds, and each counts with its whole interval.
pub(super) fn judge(report: &Report) -> Option<Finding> {
    let is_of = |ratio: &&Ratio| {
        (&*ratio.a, &*ratio.b) == ("netmem", "netmem/stats-off") && pick::has(&ratio.params, &[LISTS])
    };
    let ratios: Vec<&Ratio> = report.ratios.iter().filter(is_of).collect();
    let offsets: Vec<Offset> = ratios.iter().filter_map(|ratio| offset(report, ratio)).collect();
    let mut medians: Vec<f64> = offsets.iter().map(|offset| offset.median).collect();
    medians.sort_unstable_by(f64::total_cmp);
    let middle = *medians.get(medians.len() / 2)?;
    let verdict = match () {
        () if ratios.iter().any(|ratio| ratio.too_few) => Verdict::CannotTell,
        () => verdict(&offsets, middle),
    };
    let [least, middle, most] = [medians[0], middle, medians[medians.len() - 1]].map(|ns| format!("{ns:.2}"));
    let sentence = format!(
        "Here statistics are what is done more: they add {least} to {most} ns to a page, {middle} in the middle of {} points. It holds if the interval of every point lies between half of that and twice that.",
        offsets.len()
    );
    Some(Finding { measured: format!("{least} to {most} ns"), verdict, sentence })
}

/// Returns the offset of a ratio with and without statistics: the share of the time that a page takes with them.
fn offset(report: &Report, ratio: &Ratio) -> Option<Offset> {
    let outstanding = pick::text(ratio.params.get("outstanding")?);
    let fixed = [LISTS, ("stats", "on"), ("outstanding", &*outstanding)];
    let ns = pick::row(report, "netmem", "ns_per_op", &fixed)?.median;
    let of = |times: f64| ns * (1.0 - 1.0 / times);
    Some(Offset { low: of(ratio.low), median: of(ratio.median), high: of(ratio.high) })
}

fn verdict(offsets: &[Offset], middle: f64) -> Verdict {
    let (least, most) = (HALF * middle, TWICE * middle);
    let is_inside = |offset: &Offset| offset.low >= least && offset.high <= most;
    let is_outside = |offset: &Offset| offset.high < least || offset.low > most;
    match () {
        () if offsets.iter().any(is_outside) => Verdict::Fails,
        () if offsets.iter().all(is_inside) => Verdict::Holds,
        () => Verdict::CannotTell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Row, params, tests::sample};

    /// A report whose pages cost 10 ns with statistics, with the offset's interval at each point, in nanoseconds.
    fn report_of(offsets: &[(f64, f64)]) -> Report {
        let (row, ratio) = (sample().rows.remove(0), sample().ratios.remove(0));
        let mut report = Report { rows: vec![], ratios: vec![], ..sample() };
        for (at, &(low, high)) in offsets.iter().enumerate() {
            let own = [("lists", "brouer-2017".into()), ("outstanding", at.into()), ("stats", "on".into())];
            report.rows.push(Row { params: params(own), median: 10.0, ..row.clone() });
            let times = |ns: f64| 10.0 / (10.0 - ns);
            report.ratios.push(Ratio {
                b: "netmem/stats-off".into(),
                params: params([("lists", "brouer-2017".into()), ("outstanding", at.into())]),
                low: times(low),
                median: times(f64::midpoint(low, high)),
                high: times(high),
                ..ratio.clone()
            });
        }
        report
    }

    /// Seen: offsets of -1.7 to 1.0 ns counted as almost constant, as they differ by less than a tenth of 40 ns.
    #[test]
    fn an_offset_is_constant_only_beside_its_own_size() {
        let verdict = |offsets: &[(f64, f64)]| judge(&report_of(offsets)).unwrap().verdict;
        assert_eq!(verdict(&[(0.6, 0.7), (0.7, 0.8), (0.8, 1.2)]), Verdict::Holds);
        assert_eq!(verdict(&[(0.6, 0.7), (0.7, 0.8), (-1.7, -1.0)]), Verdict::Fails);
        assert_eq!(verdict(&[(0.6, 0.7), (0.7, 0.8), (1.6, 2.0)]), Verdict::Fails);
        assert_eq!(verdict(&[(0.6, 0.7), (0.7, 0.8), (0.1, 2.0)]), Verdict::CannotTell);
    }

    #[test]
    fn too_few_set_ups_decide_nothing_and_a_run_without_ratios_has_no_answer() {
        let mut report = report_of(&[(0.6, 0.7), (0.7, 0.8)]);
        report.ratios[0].too_few = true;
        assert_eq!(judge(&report).unwrap().verdict, Verdict::CannotTell);
        assert_eq!(judge(&Report { ratios: vec![], ..report }), None);
    }
}
