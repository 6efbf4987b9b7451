//! Maps figures to positions on an axis.

/// An axis between two positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    /// The positions of `low` and `high`.
    from: f64,
    to: f64,
}

impl Scale {
    /// Makes an axis that contains all of `figures`, with ends at ticks. It is logarithmic if requested and all are
    /// above zero.
    pub(super) fn new(log: bool, figures: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for figure in figures.filter(|figure| figure.is_finite()) {
            (low, high) = (low.min(figure), high.max(figure));
        }
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let log = log && low > 0.0;
        if log {
            let (low, high) = (below(low), above(high));
            // At least one decade, so that the axis is readable.
            let high = if high / low < 5.0 { above(low * 5.0) } else { high };
            return Self { log, low, high, from, to };
        }
        let low = low.min(0.0);
        let step = step(low, high);
        let high = ((high / step).ceil() * step).max(low + step);
        Self { log, low: (low / step).floor() * step, high, from, to }
    }

    /// Returns true if equal steps are equal ratios.
    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// Returns the position of `figure`. A figure that is outside, or not a number, is at the nearer end.
    pub(super) fn place(&self, figure: f64) -> f64 {
        let share = if self.log {
            (figure.max(f64::MIN_POSITIVE).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (figure - self.low) / (self.high - self.low)
        };
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self.from + share * (self.to - self.from)
    }

    /// Returns the ticks: at most `most`, and at least two.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        if !self.log {
            let step = step(self.low, self.high);
            let count = ((self.high - self.low) / step).round() as usize;
            let every = count.div_ceil(most.max(2)).max(1);
            return (0..=count).step_by(every).map(|i| self.low + i as f64 * step).collect();
        }
        // 1, 2, 5 of each decade, or 1 and 3, or 1 only, then every second decade and so on.
        let decades = || self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let inside = |tick: &f64| *tick >= self.low * 0.999 && *tick <= self.high * 1.001;
        let of = |steps: &'static [f64]| -> Vec<f64> {
            decades()
                .flat_map(|decade| steps.iter().map(move |s| s * 10_f64.powi(decade)))
                .filter(inside)
                .collect()
        };
        let several = [of(&[1.0, 2.0, 5.0]), of(&[1.0, 3.0])];
        if let Some(fine) = several.into_iter().find(|ticks| ticks.len() <= most) {
            return fine;
        }
        let coarse = of(&[1.0]);
        let every = coarse.len().div_ceil(most.max(2)).max(1);
        coarse.into_iter().step_by(every).collect()
    }
}

/// Returns the next of 1, 2, 5 times a power of ten at or below `figure`.
fn below(figure: f64) -> f64 {
    let decade = 10_f64.powf(figure.log10().floor());
    let steps = [5.0, 2.0, 1.0];
    steps.into_iter().map(|step| step * decade).find(|tick| *tick <= figure * 1.000_001).unwrap_or(decade)
}

/// Returns the next of 1, 2, 5 times a power of ten at or above `figure`.
fn above(figure: f64) -> f64 {
    let decade = 10_f64.powf(figure.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    steps
        .into_iter()
        .map(|step| step * decade)
        .find(|tick| *tick >= figure * 0.999_999)
        .unwrap_or(decade * 10.0)
}

/// Returns a step of 1, 2 or 5 times a power of ten that divides the range into four to ten.
fn step(low: f64, high: f64) -> f64 {
    let range = high - low;
    if range <= 0.0 || !range.is_finite() {
        return 1.0;
    }
    above(range / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(log: bool, figures: &[f64]) -> Scale {
        Scale::new(log, figures.iter().copied(), 0.0, 100.0)
    }

    #[test]
    fn every_figure_has_its_place_between_the_ends() {
        let log = scale(true, &[3.0, 40.0, 900.0]);
        assert_eq!((log.place(2.0), log.place(1_000.0)), (0.0, 100.0));
        assert!(log.place(3.0) > 0.0 && log.place(40.0) > log.place(3.0));
        let linear = scale(false, &[3.0, 9.0]);
        assert_eq!((linear.place(0.0), linear.place(10.0), linear.place(5.0)), (0.0, 100.0, 50.0));
    }

    #[test]
    fn ticks_are_round_few_and_inside() {
        assert_eq!(scale(true, &[2.0, 100.0]).ticks(8), [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(scale(true, &[2.0, 100.0]).ticks(5), [3.0, 10.0, 30.0, 100.0]);
        assert_eq!(scale(true, &[1.0, 1e6]).ticks(4), [1.0, 100.0, 10_000.0, 1e6]);
        assert_eq!(scale(false, &[0.0, 8.0]).ticks(9), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    }

    #[test]
    fn a_value_that_is_not_finite_is_drawn_inside_the_plot() {
        for figures in [&[][..], &[f64::NAN], &[f64::INFINITY, 0.0], &[-5.0, -5.0], &[1e300, 1e-300]] {
            for log in [false, true] {
                let scale = scale(log, figures);
                for figure in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e308] {
                    assert!((0.0..=100.0).contains(&scale.place(figure)), "{figures:?} {figure}");
                }
                let ticks = scale.ticks(6).len();
                assert!((1..=20).contains(&ticks), "{figures:?}: {ticks}");
            }
        }
    }
}
