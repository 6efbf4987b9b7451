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
        let reached = ours.over(fastest, bench.setting("seed"))?;
        Some(Target { what: format!("{what} of {}'s time", fastest.label.variant), at_most, reached })
    }

    /// Compares the median of `ours` with the fastest tenth of the rival's windows.
    pub(in crate::experiments) fn over_p10(
        what: &str,
        at_most: f64,
        ours: &Series,
        rival: &Series,
    ) -> Option<Target> {
        let ratio = ours.at(0.5)? / rival.at(0.1)?;
        let reached = Interval { median: ratio, low: ratio, high: ratio, count: 1, setups: 1 };
        Some(Target { what: format!("{what} of {}'s p10", rival.label.variant), at_most, reached })
    }

    fn text(&self) -> String {
        let Self { what, at_most, reached: Interval { median, low, high, .. } } = self;
        let verdict = if median <= at_most { "reached" } else { "missed" };
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
        Series { rounds, per_op: vec![ticks / 2.0, ticks, ticks], ..Series::new(label) }
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
        let text = Target::over_p10("crossing", 0.7, &ours, &rival).unwrap().text();
        assert!(text.contains("p10") && text.ends_with("missed"), "{text}");
    }
}
