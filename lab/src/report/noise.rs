//! Where a run cannot tell: noise larger than the effect.

use super::html::Html;
use super::pick;
use crate::json::{Ratio, Report};

/// What a ratio cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Its interval stayed wider than the method allows.
    Undecided,
    /// Its interval holds 1.
    SpansOne,
}

impl Doubt {
    /// What is doubtful about `ratio`, the worse first.
    pub(super) fn about(ratio: &Ratio) -> Option<Doubt> {
        match ratio {
            _ if ratio.undecided => Some(Self::Undecided),
            _ if pick::spans_one(ratio) => Some(Self::SpansOne),
            _ => None,
        }
    }

    /// The words of its mark.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Undecided => "undecided",
            Self::SpansOne => "no difference seen",
        }
    }
}

fn count(report: &Report, doubt: Doubt) -> usize {
    report.ratios.iter().filter(|ratio| Doubt::about(ratio) == Some(doubt)).count()
}

/// The warning of one experiment; nothing where all is decided.
pub(super) fn warn(html: &mut Html, report: &Report) {
    let (undecided, ties) = (count(report, Doubt::Undecided), count(report, Doubt::SpansOne));
    if undecided + ties == 0 {
        return;
    }
    let all = report.ratios.len();
    let mut parts = Vec::new();
    if ties > 0 {
        parts.push(format!(
            "{ties} of {all} ratios have an interval that holds 1: no difference can be told from noise"
        ));
    }
    if undecided > 0 {
        parts.push(format!(
            "{undecided} of {all} ratios stayed undecided: their interval is wider than the method allows"
        ));
    }
    html.element("p", &[("class", "warning")], |html| {
        html.leaf("b", &[], "Noise is larger than the effect. ");
        html.text(&format!("{}. They are marked.", parts.join("; ")));
    });
}

/// The page's own warning: where, and how much of it.
pub(super) fn write(html: &mut Html, reports: &[Report]) {
    let doubtful: Vec<&Report> = reports
        .iter()
        .filter(|report| report.ratios.iter().any(|ratio| Doubt::about(ratio).is_some()))
        .collect();
    if doubtful.is_empty() {
        return html.leaf(
            "p",
            &[],
            "Nowhere: every ratio is decided, and none has an interval that holds 1.",
        );
    }
    html.leaf("p", &[], "Noise is larger than the effect where the interval of a ratio holds 1, or stayed wider than the method allows after its last round.");
    html.element("ul", &[], |html| {
        for report in doubtful {
            html.element("li", &[], |html| {
                html.leaf("a", &[("href", &format!("#{}", report.experiment))], &report.experiment);
                let (ties, undecided) = (count(report, Doubt::SpansOne), count(report, Doubt::Undecided));
                let all = report.ratios.len();
                html.text(&format!(": {ties} without a difference, {undecided} undecided, of {all} ratios"));
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::sample;

    fn doubt(low: f64, high: f64, undecided: bool) -> Option<Doubt> {
        Doubt::about(&Ratio { low, high, undecided, ..sample().ratios.remove(0) })
    }

    #[test]
    fn a_ratio_is_doubted_if_it_is_undecided_or_holds_one() {
        assert_eq!(doubt(1.1, 1.2, false), None);
        assert_eq!(doubt(0.9, 1.2, false), Some(Doubt::SpansOne));
        assert_eq!(doubt(1.1, 2.2, true), Some(Doubt::Undecided));
    }

    #[test]
    fn noise_larger_than_the_effect_is_a_warning() {
        let mut report = sample();
        report.ratios[0].low = 0.9;
        let mut html = Html::default();
        warn(&mut html, &report);
        assert!(html.into_markup().contains("1 of 1 ratios have an interval that holds 1"));
    }
}
