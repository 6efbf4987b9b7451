//! netmem's targets: a maximum share of a rival's time, for each kind of work.

mod declared;

use std::borrow::Cow;

use serde::Serialize;

use super::html::Html;
use super::pick::{self, Fixed};
use super::{machine, number};
use crate::json::{Ratio, Report};
use crate::method::ratio::Judgement;
use declared::TARGETS;

/// The comparison of a target.
#[derive(Debug, Clone, Copy)]
enum Against {
    /// This variant and its modes, of which the hardest counts.
    One(&'static str),
    /// The fastest of these in the run.
    FastestOf(&'static [&'static str]),
    /// The fastest tenth of this variant's windows: netmem's median divided by its p10.
    TenthOf(&'static str),
}

/// One target.
#[derive(Debug)]
struct Target {
    work: &'static str,
    rival: &'static str,
    /// The maximum ratio of a cost, or the minimum ratio of a rate, which must be exceeded.
    must: f64,
    aim: f64,
    ours: &'static [&'static str],
    against: Against,
    fixed: Fixed<'static>,
    /// The arguments of the command that measures it.
    made_by: &'static str,
    /// The cause if it is missed, as far as it is known. Only reported then.
    cause: &'static str,
}

/// The state of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Aim,
    Must,
    Undecided,
    Missed,
}

impl Target {
    /// Returns the hardest of the matching ratios, and its experiment.
    fn reached<'r>(&self, reports: &'r [Report]) -> Option<(&'r Report, Cow<'r, Ratio>)> {
        let against = |variant: &str| match self.against {
            Against::One(name) => {
                variant.strip_prefix(name).is_some_and(|mode| mode.is_empty() || mode.starts_with('/'))
            }
            Against::FastestOf(names) => names.contains(&variant),
            Against::TenthOf(_) => false,
        };
        let fits = |ratio: &Ratio| {
            self.ours.contains(&ratio.a.as_str()) && against(&ratio.b) && pick::has(&ratio.params, self.fixed)
        };
        let of = |report: &'r Report| -> Vec<(&'r Report, Cow<'r, Ratio>)> {
            let ratios = report.ratios.iter().filter(|ratio| fits(ratio)).map(Cow::Borrowed);
            ratios.chain(self.over_tenth(report).map(Cow::Owned)).map(|ratio| (report, ratio)).collect()
        };
        let cost =
            |ratio: &Ratio| if pick::more_is_better(&ratio.metric) { -ratio.median } else { ratio.median };
        // A void run, or a ratio of too few set-ups, counts only if there is no other. Of two equally hard ratios, the
        // first given is reported.
        let all: Vec<_> = reports.iter().flat_map(of).collect();
        let any_stands = all.iter().any(|(report, ratio)| stands(report, ratio));
        let counting = all.into_iter().filter(|(report, ratio)| stands(report, ratio) || !any_stands);
        counting.rev().max_by(|a, b| cost(&a.1).total_cmp(&cost(&b.1)))
    }

    /// Divides netmem's windows by the rival's p10. The spread of netmem's windows replaces an interval.
    fn over_tenth(&self, report: &Report) -> Option<Ratio> {
        let Against::TenthOf(rival) = self.against else { return None };
        let of = |variant| pick::row(report, variant, "ns_per_op", self.fixed);
        let (ours, rival) = (of(self.ours.first()?)?, of(rival)?);
        let [median, low, high] = [ours.median, ours.p10, ours.p90].map(|ours| ours / rival.p10);
        // Rows do not tell their set-ups; the ratio of the same variants does.
        let inside = pick::ratio(report, &ours.variant, &rival.variant, self.fixed);
        let too_few = inside.is_some_and(|ratio| ratio.too_few);
        [median, low, high].iter().all(|x| x.is_finite()).then(|| Ratio {
            a: ours.variant.clone(),
            b: rival.variant.clone(),
            params: ours.params.clone(),
            metric: ours.metric.clone(),
            median,
            low,
            high,
            undecided: too_few,
            too_few,
        })
    }

    fn outcome(&self, reports: &[Report]) -> Outcome {
        let reached = self.reached(reports);
        let ratio = reached.as_ref().map(|(_, ratio)| ratio);
        let standing = reached.as_ref().map(|(report, ratio)| self.standing_of(report, ratio));
        let missed = standing == Some(Standing::Missed) && !self.cause.is_empty();
        let of = |&Ratio { median, low, high, .. }: &Ratio| Within { median, low, high };
        let better = |ratio: &Ratio| if pick::more_is_better(&ratio.metric) { "more" } else { "less" };
        Outcome {
            work: self.work,
            rival: self.rival,
            over: ratio.map(|ratio| ratio.b.clone()),
            must: self.must,
            aim: self.aim,
            better: ratio.map(|ratio| better(ratio)),
            metric: ratio.map(|ratio| ratio.metric.clone()),
            ratio: ratio.map(|ratio| of(ratio)),
            experiment: reached.as_ref().map(|(report, _)| report.experiment.clone()),
            standing: standing.map_or("not-measured", Standing::name),
            cause: missed.then_some(self.cause),
            made_by: self.made_by,
        }
    }

    /// Returns the ratio with its interval. That of a fastest tenth has the spread of its windows, and is called so.
    fn within(&self, ratio: &Ratio) -> String {
        let Ratio { median, low, high, .. } = *ratio;
        match self.against {
            Against::TenthOf(_) => format!("{median:.3} (windows: {low:.3} to {high:.3})"),
            _ => number::with_interval(median, low, high),
        }
    }

    /// Returns a bound with its sign.
    fn bound(&self, bound: f64, ratio: &Ratio) -> String {
        format!("{} {bound}", if pick::more_is_better(&ratio.metric) { ">" } else { "≤" })
    }

    /// Returns the state, unless nothing is concluded from the ratio.
    fn standing_of(&self, report: &Report, ratio: &Ratio) -> Standing {
        if stands(report, ratio) { self.standing(ratio) } else { Standing::Undecided }
    }

    /// Compares the interval with the required bound and the desired one.
    fn standing(&self, ratio: &Ratio) -> Standing {
        let more = pick::more_is_better(&ratio.metric);
        let ends = if more { (ratio.high, ratio.low) } else { (ratio.low, ratio.high) };
        let judge = |bound: f64| Judgement::of(ends, |end| if more { end > bound } else { end <= bound });
        match (judge(self.must), judge(self.aim)) {
            (Judgement::Reached, Judgement::Reached) => Standing::Aim,
            (Judgement::Reached, _) => Standing::Must,
            (Judgement::Undecided, _) => Standing::Undecided,
            (Judgement::Missed, _) => Standing::Missed,
        }
    }
}

/// Returns true if the run is not void, and the ratio has enough set-ups.
fn stands(report: &Report, ratio: &Ratio) -> bool {
    machine::does_not_stand(report).is_none() && !ratio.too_few
}

impl Standing {
    /// Returns the name for programs.
    fn name(self) -> &'static str {
        match self {
            Self::Aim => "aim",
            Self::Must => "must",
            Self::Undecided => "undecided",
            Self::Missed => "missed",
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Aim => ("aim reached", "good"),
            Self::Must => ("reached", "good"),
            Self::Undecided => ("undecided", "open"),
            Self::Missed => ("missed", "bad"),
        }
    }
}

/// One target, for programs.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    work: &'static str,
    rival: &'static str,
    /// The variant that counts, out of those that the rival's name stands for.
    over: Option<String>,
    must: f64,
    aim: f64,
    /// The required side of a bound: `less` for a cost, `more` for a rate.
    better: Option<&'static str>,
    metric: Option<String>,
    ratio: Option<Within>,
    experiment: Option<String>,
    /// `aim`, `must`, `undecided`, `missed` or `not-measured`.
    standing: &'static str,
    /// The cause if it is missed, as far as it is known.
    cause: Option<&'static str>,
    /// The arguments of `netmem lab run` that measure it.
    made_by: &'static str,
}

/// A ratio with its interval. For the fastest tenth of a rival, with the spread of its windows.
#[derive(Debug, Serialize)]
struct Within {
    median: f64,
    low: f64,
    high: f64,
}

/// Returns the state of each target.
pub(super) fn outcomes(reports: &[Report]) -> Vec<Outcome> {
    TARGETS.iter().map(|target| target.outcome(reports)).collect()
}

/// Returns the number of targets that are certainly missed, for the page's head.
pub(super) fn missed(reports: &[Report]) -> usize {
    let missed = |target: &&Target| {
        target
            .reached(reports)
            .is_some_and(|(report, ratio)| target.standing_of(report, &ratio) == Standing::Missed)
    };
    TARGETS.iter().filter(missed).count()
}

/// Writes the missed targets, a sentence each, for the section of losses.
pub(super) fn write_missed(html: &mut Html, reports: &[Report]) {
    if missed(reports) == 0 {
        return;
    }
    html.leaf("p", &[], "Targets that are missed:");
    html.element("ul", &[], |html| {
        for target in TARGETS {
            let Some((report, ratio)) = target.reached(reports) else { continue };
            if target.standing_of(report, &ratio) == Standing::Missed {
                let here = target.within(&ratio);
                html.leaf(
                    "li",
                    &[],
                    &format!(
                        "{}, over {}: {here}, must {}. {}",
                        target.work,
                        target.rival,
                        target.bound(target.must, &ratio),
                        target.cause
                    ),
                );
            }
        }
    });
    html.line();
}

/// Writes the table of all targets.
pub(super) fn write(html: &mut Html, reports: &[Report]) {
    html.element("table", &[("class", "cards")], |html| {
        html.own("<thead><tr><th>work</th><th>compared with</th><th>must</th><th>aim</th><th>here, with its 95 % interval or the spread of its windows</th><th></th></tr></thead>");
        html.element("tbody", &[], |html| TARGETS.iter().for_each(|target| line(html, target, reports)));
    });
}

fn line(html: &mut Html, target: &Target, reports: &[Report]) {
    let reached = target.reached(reports);
    let bound = |x: f64| match &reached {
        Some((_, ratio)) => target.bound(x, ratio),
        None => x.to_string(),
    };
    let standing = reached.as_ref().map(|(report, ratio)| target.standing_of(report, ratio));
    let (words, class) = standing.map_or(("not measured", "open"), Standing::words);
    html.element("tr", &[], |html| {
        html.leaf("td", &[("class", "head")], target.work);
        let rival = match &reached {
            Some((_, ratio)) if matches!(target.against, Against::FastestOf(_)) => {
                format!("{}: {}", target.rival, ratio.b)
            }
            _ => target.rival.to_owned(),
        };
        html.leaf("td", &[("data-label", "compared with")], &rival);
        html.leaf("td", &[("data-label", "must"), ("class", "bound")], &bound(target.must));
        html.leaf("td", &[("data-label", "aim"), ("class", "bound")], &bound(target.aim));
        html.element("td", &[("data-label", "here")], |html| match &reached {
            Some((report, ratio)) => {
                html.text(&format!("{} ", target.within(ratio)));
                let link = format!("#{}", report.experiment);
                html.leaf("a", &[("href", &link)], &report.experiment);
            }
            None => html.leaf("code", &[], &format!("netmem lab run {}", target.made_by)),
        });
        html.element("td", &[], |html| html.leaf("span", &[("class", &format!("mark {class}"))], words));
    });
    html.line();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Row, params, tests::sample};

    fn ratio(b: &str, low: f64, median: f64, high: f64) -> Ratio {
        let params = params([
            ("work", "frame".into()),
            ("burst", 1.into()),
            ("touch", false.into()),
            ("cores", "same".into()),
        ]);
        Ratio { b: b.into(), low, median, high, params, ..sample().ratios.remove(0) }
    }

    fn of(ratios: Vec<Ratio>) -> Vec<Report> {
        vec![Report { ratios, ..sample() }]
    }

    #[test]
    fn the_hardest_mode_of_a_rival_counts() {
        let reports = of(vec![ratio("dpdk/aliased", 0.1, 0.1, 0.1), ratio("dpdk", 0.5, 0.51, 0.52)]);
        let (_, hardest) = TARGETS[0].reached(&reports).unwrap();
        assert_eq!(hardest.b, "dpdk");
        assert_eq!(TARGETS[0].standing(&hardest), Standing::Missed);
        assert_eq!(missed(&reports), 1);
    }

    #[test]
    fn a_target_is_reached_with_its_whole_interval_or_not_at_all() {
        for (low, median, high, standing) in [
            (0.1, 0.15, 0.18, Standing::Aim),
            (0.3, 0.35, 0.44, Standing::Must),
            (0.1, 0.15, 0.21, Standing::Must),
            (0.4, 0.44, 0.50, Standing::Undecided),
            (0.46, 0.5, 0.6, Standing::Missed),
        ] {
            assert_eq!(TARGETS[0].standing(&ratio("dpdk", low, median, high)), standing);
        }
    }

    /// Seen: a run that its budget ended after two set-ups missed targets.
    #[test]
    fn a_ratio_of_too_few_set_ups_is_undecided_and_counts_only_alone() {
        let few = Ratio { undecided: true, too_few: true, ..ratio("dpdk", 0.5, 0.51, 0.52) };
        let alone = of(vec![few.clone()]);
        assert_eq!(TARGETS[0].outcome(&alone).standing, "undecided");
        assert_eq!(missed(&alone), 0);
        let beside = of(vec![few, ratio("dpdk", 0.3, 0.31, 0.32)]);
        assert_eq!(TARGETS[0].outcome(&beside).standing, "must");
    }

    #[test]
    fn the_fastest_tenth_of_a_rival_is_harder_than_its_median() {
        let target = TARGETS.iter().find(|target| matches!(target.against, Against::TenthOf(_))).unwrap();
        let params = params([("work", "packet".into()), ("burst", 32.into()), ("cores", "cross".into())]);
        let row = |variant: &str, p10| Row {
            variant: variant.into(),
            p10,
            p90: p10 + 2.0,
            params: params.clone(),
            ..sample().rows.remove(0)
        };
        let reports = [Report { rows: vec![row("netmem", 5.0), row("dpdk", 4.0)], ..sample() }];
        let (_, ratio) = target.reached(&reports).unwrap();
        assert_eq!((ratio.median, target.standing(&ratio)), (5.5 / 4.0, Standing::Missed));
        assert_eq!(target.within(&ratio), "1.375 (windows: 1.250 to 1.750)");
    }

    #[test]
    fn a_missed_target_is_reported_with_its_bound() {
        let mut html = Html::default();
        write_missed(&mut html, &of(vec![ratio("dpdk", 0.5, 0.51, 0.52)]));
        assert!(html.into_markup().contains("0.510 (0.500 to 0.520), must ≤ 0.45."));
    }

    #[test]
    fn a_target_that_was_not_measured_shows_the_command_that_measures_it() {
        let mut html = Html::default();
        write(&mut html, &[]);
        let markup = html.into_markup();
        assert_eq!(markup.matches("not measured").count(), TARGETS.len());
        assert!(markup.contains("netmem lab run rivals"), "{markup}");
    }
}
