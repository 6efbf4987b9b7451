//! The target of a row.

use crate::bench::Bench;
use crate::method::ratio::Interval;
use crate::method::round::Series;

/// The maximum share of a rival's time, and the measured one.
#[derive(Debug, Clone)]
pub(in crate::experiments) struct Target {
    what: String,
    at_most: f64,
    reached: Interval,
}

impl Target {
    /// Compares `ours` with the fastest of `rivals`. Returns nothing if there is none, or no round with both.
    pub(in crate::experiments) fn over_fastest(
        bench: &Bench<'_>,
        what: &str,
        at_most: f64,
        ours: &Series,
        rivals: &[&Series],
    ) -> Option<Target> {
        let time = |one: &&&Series| one.at(0.5).unwrap_or(f64::INFINITY);
        let fastest = rivals.iter().min_by(|a, b| time(a).total_cmp(&time(b)))?;
        let reached = bench.over(ours, fastest)?;
        Some(Target { what: format!("{what} of {}'s time", fastest.label.variant), at_most, reached })
    }

    /// Compares `ours` with the fastest tenth of the rival's windows. The tenth and the ninetieth percentile of our
    /// windows replace an interval.
    pub(in crate::experiments) fn over_p10(
        bench: &Bench<'_>,
        what: &str,
        at_most: f64,
        ours: &Series,
        rival: &Series,
    ) -> Option<Target> {
        let fastest = rival.at(0.1)?;
        let at = |quantile| ours.at(quantile).map(|ticks| ticks / fastest);
        // Its rounds and set-ups are those in which both have windows that count.
        let in_rounds = bench.over(ours, rival)?;
        let reached = Interval { median: at(0.5)?, low: at(0.1)?, high: at(0.9)?, ..in_rounds };
        Some(Target { what: format!("{what} of {}'s p10", rival.label.variant), at_most, reached })
    }

    fn text(&self) -> String {
        let Self { what, at_most, reached } = self;
        let (Interval { median, low, high, .. }, verdict) = (reached, reached.at_most(*at_most).word());
        format!("to reach, {what}: at most {at_most}; here {median:.2} ({low:.2} to {high:.2}): {verdict}")
    }
}

/// Notes for each target whether it is reached.
pub(in crate::experiments) fn note(bench: &mut Bench<'_>, targets: &[Target]) {
    targets.iter().for_each(|target| bench.note(target.text()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;
    use crate::json::Params;
    use crate::method::round::Label;

    fn series(variant: &str, ticks: f64) -> Series {
        let label = Label { variant: variant.to_owned(), params: Params::new() };
        let rounds = vec![Some(ticks); 9];
        let per_op = vec![ticks / 2.0, ticks, ticks];
        // Each round has a set-up of its own.
        Series { rounds, setups: (1..9).collect(), per_op, ..Series::new(label) }
    }

    #[test]
    fn the_faster_mode_of_a_rival_is_what_counts() {
        let [ours, slow, fast] =
            [("netmem", 4.0), ("dpdk/aliased", 14.0), ("dpdk", 6.0)].map(|(v, t)| series(v, t));
        report_of(false, |bench| {
            let of =
                |at_most| Target::over_fastest(bench, "one", at_most, &ours, &[&slow, &fast]).unwrap().text();
            assert!(of(0.5).contains("of dpdk's time") && of(0.5).ends_with("missed"), "{}", of(0.5));
            assert!(of(0.7).ends_with("0.67 (0.67 to 0.67): reached"), "{}", of(0.7));
            assert!(Target::over_fastest(bench, "one", 0.5, &ours, &[]).is_none());
        });
    }

    #[test]
    fn a_fast_tenth_is_harder_to_reach_than_the_median() {
        let (ours, rival) = (series("netmem", 4.0), series("dpdk", 6.0));
        report_of(false, |bench| {
            let of = |at_most| Target::over_p10(bench, "crossing", at_most, &ours, &rival).unwrap().text();
            assert!(of(0.6).contains("p10") && of(0.6).ends_with("missed"), "{}", of(0.6));
            assert!(of(0.7).ends_with("undecided"), "{}", of(0.7));
            assert!(of(1.2).ends_with("reached"), "{}", of(1.2));
        });
    }

    /// Seen: a target was noted as reached by the median alone, while the page called it undecided.
    #[test]
    fn a_bound_inside_the_interval_is_undecided_and_so_is_anything_of_too_few_rounds() {
        let rounds = |ticks: [f64; 9]| Series { rounds: ticks.map(Some).to_vec(), ..series("netmem", 4.0) };
        let rival = Series { rounds: vec![Some(10.0); 9], ..series("dpdk", 10.0) };
        report_of(false, |bench| {
            let of = |ours: &Series, at_most| {
                Target::over_fastest(bench, "one", at_most, ours, &[&rival]).unwrap().text()
            };
            let wide = rounds([3.0, 3.0, 3.0, 4.0, 4.0, 4.0, 6.0, 6.0, 6.0]);
            assert!(of(&wide, 0.45).ends_with("undecided"), "{}", of(&wide, 0.45));
            let few = Series { rounds: vec![Some(4.0); 4], setups: vec![1, 2, 3], ..wide };
            assert!(of(&few, 0.45).ends_with("undecided"), "{}", of(&few, 0.45));
        });
    }
}
