//! Cases that a run cannot decide: the noise is larger than the effect.

use super::html::Html;
use super::machine;
use crate::json::{Ratio, Report};
use crate::method::ratio::SETUPS_MIN;

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

    /// Returns the text of its mark.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::TooFew => "too few set-ups",
            Self::Undecided => "undecided",
            Self::Imprecise => "undecided in size",
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
            "{few} of {all} ratios have fewer than {SETUPS_MIN} set-ups, or a number that the report does not tell: their interval is not one of 95 %, and nothing is concluded from them"
        ));
    }
    if ties > 0 {
        parts.push(format!(
            "{ties} of {all} ratios have an interval that holds 1: no difference can be told from noise"
        ));
    }
    if undecided > 0 {
        parts.push(format!(
            "{undecided} of {all} ratios are undecided: their interval holds 1 and is wider than the method allows"
        ));
    }
    if imprecise > 0 {
        parts.push(format!(
            "{imprecise} of {all} ratios are undecided in their size alone: their interval lies on one side of 1, and is wider than the method allows"
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

/// Writes the page's own warning: the experiments, and the numbers of ratios.
pub(super) fn write(html: &mut Html, reports: &[Report]) {
    let is_uncertain = |report: &&Report| {
        report.ratios.iter().filter_map(Uncertainty::of).any(|one| one != Uncertainty::Equal)
    };
    let uncertain: Vec<&Report> = reports.iter().filter(is_uncertain).collect();
    if uncertain.is_empty() {
        return html.leaf(
            "p",
            &[],
            "Nowhere: no interval of a ratio includes 1 or is wider than the method allows.",
        );
    }
    html.leaf("p", &[], &format!("An interval that includes 1 shows no difference. A ratio is undecided if its interval stayed wider than the method allows, wherever it lies. Of a ratio of fewer than {SETUPS_MIN} set-ups, or of a number that its report does not tell, nothing is concluded."));
    html.element("ul", &[], |html| {
        for report in uncertain {
            html.element("li", &[], |html| {
                html.leaf("a", &[("href", &format!("#{}", report.experiment))], &report.experiment);
                html.text(&format!(" on {}: {}", machine::name(report), counts(report)));
            });
        }
    });
}

/// Returns how many of the ratios are uncertain, by the reason.
fn counts(report: &Report) -> String {
    let count = |uncertainty| count(report, uncertainty);
    let undecided = count(Uncertainty::Undecided) + count(Uncertainty::Imprecise);
    let parts = [
        (count(Uncertainty::TooFew), "of too few set-ups"),
        (undecided, "undecided"),
        (count(Uncertainty::SpansOne), "with an interval that includes 1"),
    ];
    let parts =
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}"));
    format!("of {} ratios {}", report.ratios.len(), parts.collect::<Vec<_>>().join(", "))
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
        assert!(
            said.contains("1 of 1 ratios are undecided in their size alone") && !said.contains("Noise is"),
            "{said}"
        );
        write(&mut page, &[report]);
        // Seen: the list omitted such ratios, and said "0 are undecided" of a run with 27.
        assert!(page.into_markup().contains(": of 1 ratios 1 undecided<"));
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
        assert!(html.into_markup().contains("1 of 1 ratios have fewer than 9 set-ups"));
        write(&mut page, &[report]);
        assert!(page.into_markup().contains(": of 1 ratios 1 of too few set-ups<"));
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
