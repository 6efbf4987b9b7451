//! Quantiles of a sample.

/// Returns the quantile `q` (0 to 1) of `values`, linear between neighbours, or `None` for an empty sample.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    of_sorted(&sorted, q)
}

/// The quantile `q` of a sample that is already in rising order.
pub fn of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

/// The median.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(median(&values), Some(3.0));
        assert_eq!(quantile(&values, 0.0), Some(1.0));
        assert_eq!(quantile(&values, 1.0), Some(5.0));
        assert_eq!(quantile(&values, 0.125), Some(1.5));
    }

    #[test]
    fn an_even_sample_has_its_median_half_way() {
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
    }

    #[test]
    fn an_empty_sample_has_none() {
        assert_eq!(median(&[]), None);
    }
}
