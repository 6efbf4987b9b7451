//! Cases that a run cannot decide: the noise is larger than the effect.

use super::html::Html;
use crate::json::{Ratio, Report};

/// Half the width of an interval around 1 up to which a ratio shows that there is no difference.
const EQUAL: f64 = 0.01;

/// The uncertainty of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Uncertainty {
    /// It has fewer set-ups or rounds than an interval needs, so its interval is too narrow.
    TooFew,
    /// Its interval stayed wider than the method allows, and contains 1.
    Undecided,
    /// Its interval stayed wider than the method allows, on one side of 1: there is a difference of uncertain size.
    Imprecise,
    /// Its interval contains 1, and values on either side of it.
    SpansOne,
    /// Its interval contains 1 and hardly anything else: there is certainly no difference.
    Equal,
}

impl Uncertainty {
    /// Returns the uncertainty of `ratio`, the worse one first.
    pub(super) fn of(ratio: &Ratio) -> Option<Uncertainty> {
        let Ratio { low, high, undecided, .. } = *ratio;
        match low <= 1.0 && high >= 1.0 {
            _ if ratio.too_few => Some(Self::TooFew),
            true if undecided => Some(Self::Undecided),
            false if undecided => Some(Self::Imprecise),
            true if low >= 1.0 - EQUAL && high <= 1.0 + EQUAL => Some(Self::Equal),
            true => Some(Self::SpansOne),
            false => None,
        }
    }

    /// Returns true if noise is larger than the effect.
    fn is_noise(self) -> bool {
        matches!(self, Self::TooFew | Self::Undecided | Self::SpansOne)
    }

    /// Returns the text of its mark.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::TooFew => "too few set-ups",
            Self::Undecided => "undecided",
            Self::Imprecise => "imprecise",
            Self::SpansOne => "cannot tell",
            Self::Equal => "equal",
        }
    }
}

fn count(report: &Report, uncertainty: Uncertainty) -> usize {
    report.ratios.iter().filter(|ratio| Uncertainty::of(ratio) == Some(uncertainty)).count()
}

/// Writes the warning of one experiment, or nothing if every ratio is decided.
pub(super) fn warn(html: &mut Html, report: &Report) {
    let (undecided, ties) = (count(report, Uncertainty::Undecided), count(report, Uncertainty::SpansOne));
    let (imprecise, few) = (count(report, Uncertainty::Imprecise), count(report, Uncertainty::TooFew));
    if undecided + ties + imprecise + few == 0 {
        return;
    }
    let (all, noise) = (report.ratios.len(), undecided + ties + few);
    let mut parts = Vec::new();
    if few > 0 {
        parts.push(format!(
            "{few} of {all} ratios have fewer set-ups or rounds than an interval needs: nothing is concluded from them"
        ));
    }
    if ties > 0 {
        parts.push(format!(
            "{ties} of {all} ratios have an interval that holds 1: no difference can be told from noise"
        ));
    }
    if undecided > 0 {
        parts.push(format!(
            "{undecided} of {all} ratios stayed undecided: their interval holds 1 and is wider than the method allows"
        ));
    }
    if imprecise > 0 {
        parts.push(format!(
            "{imprecise} of {all} ratios are imprecise: they lie on one side of 1, and their interval is wider than the method allows"
        ));
    }
    let begins = match noise {
        0 => String::new(),
        noise if 2 * noise > all => "Noise is larger than the effect. ".to_owned(),
        noise => format!("{noise} of {all} ratios cannot be told from noise. "),
    };
    html.element("p", &[("class", "warning")], |html| {
        html.leaf("b", &[], &begins);
        html.text(&format!("{}. They are marked.", parts.join("; ")));
    });
}

/// Writes the page's own warning: the experiments, and the number of ratios.
pub(super) fn write(html: &mut Html, reports: &[Report]) {
    let uncertain: Vec<&Report> = reports
        .iter()
        .filter(|report| report.ratios.iter().filter_map(Uncertainty::of).any(Uncertainty::is_noise))
        .collect();
    if uncertain.is_empty() {
        return html.leaf("p", &[], "Nowhere: of no ratio the interval includes 1.");
    }
    html.leaf("p", &[], "Noise is larger than the effect where the interval of a ratio holds 1: there may be no difference, or it stayed undecided after the last round.");
    html.element("ul", &[], |html| {
        for report in uncertain {
            html.element("li", &[], |html| {
                html.leaf("a", &[("href", &format!("#{}", report.experiment))], &report.experiment);
                let (ties, undecided) = (count(report, Uncertainty::SpansOne), count(report, Uncertainty::Undecided));
                let (all, undecided) = (report.ratios.len(), undecided + count(report, Uncertainty::TooFew));
                html.text(&format!(": of {all} ratios {ties} have an interval that includes 1 (no difference shown), {undecided} are undecided"));
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::sample;

    fn uncertainty(low: f64, high: f64, undecided: bool) -> Option<Uncertainty> {
        Uncertainty::of(&Ratio { low, high, undecided, ..sample().ratios.remove(0) })
    }

    #[test]
    fn a_ratio_is_uncertain_if_it_is_undecided_or_its_interval_contains_one() {
        assert_eq!(uncertainty(1.1, 1.2, false), None);
        assert_eq!(uncertainty(0.9, 1.2, false), Some(Uncertainty::SpansOne));
        assert_eq!(uncertainty(0.995, 1.005, false), Some(Uncertainty::Equal));
        assert_eq!(uncertainty(0.6, 2.2, true), Some(Uncertainty::Undecided));
    }

    /// Seen: 0.696 (0.662 to 0.732) was undecided, although its sign is certain.
    #[test]
    fn a_ratio_whose_sign_is_decided_is_imprecise_at_most() {
        assert_eq!(uncertainty(0.662, 0.732, true), Some(Uncertainty::Imprecise));
        let mut report = sample();
        (report.ratios[0].low, report.ratios[0].high, report.ratios[0].undecided) = (0.662, 0.732, true);
        let (mut html, mut page) = (Html::default(), Html::default());
        warn(&mut html, &report);
        let said = html.into_markup();
        assert!(said.contains("1 of 1 ratios are imprecise") && !said.contains("Noise is"), "{said}");
        write(&mut page, &[report]);
        assert!(page.into_markup().contains("Nowhere: "));
    }

    /// Seen: "Noise is larger than the effect" was above an experiment with 2 such ratios of 196.
    #[test]
    fn a_few_ratios_that_cannot_be_told_from_noise_are_not_said_of_all() {
        let mut report = sample();
        for low in [1.1, 1.2, 0.9] {
            let one = Ratio { low, high: 1.3, ..sample().ratios.remove(0) };
            report.ratios.push(one);
        }
        report.ratios.remove(0);
        let mut html = Html::default();
        warn(&mut html, &report);
        let said = html.into_markup();
        assert!(
            said.contains("1 of 3 ratios cannot be told from noise.") && !said.contains("Noise is"),
            "{said}"
        );
    }

    #[test]
    fn noise_larger_than_the_effect_is_a_warning() {
        let mut report = sample();
        report.ratios[0].low = 0.9;
        let mut html = Html::default();
        warn(&mut html, &report);
        assert!(html.into_markup().contains("1 of 1 ratios have an interval that holds 1"));
    }

    #[test]
    fn a_ratio_of_too_few_set_ups_shows_nothing_wherever_its_interval_lies() {
        let mut report = sample();
        (report.ratios[0].undecided, report.ratios[0].too_few) = (true, true);
        assert_eq!(Uncertainty::of(&report.ratios[0]), Some(Uncertainty::TooFew));
        let (mut html, mut page) = (Html::default(), Html::default());
        warn(&mut html, &report);
        assert!(html.into_markup().contains("1 of 1 ratios have fewer set-ups"));
        write(&mut page, &[report]);
        assert!(page.into_markup().contains("1 are undecided"));
    }

    #[test]
    fn a_tie_that_is_known_well_is_no_noise() {
        let mut report = sample();
        (report.ratios[0].low, report.ratios[0].high) = (0.998, 1.002);
        let mut html = Html::default();
        warn(&mut html, &report);
        assert_eq!(html.into_markup(), "");
    }
}
