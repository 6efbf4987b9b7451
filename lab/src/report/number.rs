//! Figures for people: as many digits as they are good for.

use crate::table::thousands;

/// Three digits that count, and thousands apart: `0.0784`, `12.1`, `2,043,575`.
pub(super) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    let size = value.abs();
    if size >= 999.5 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", thousands(size.round() as u64));
    }
    if size < 1e-6 {
        return "0".to_owned();
    }
    let digits_before = size.log10().floor() as i32;
    format!("{value:.*}", usize::try_from(2 - digits_before).unwrap_or(0))
}

/// A ratio with its interval: `0.273 (0.271 to 0.280)`.
pub(super) fn with_interval(median: f64, low: f64, high: f64) -> String {
    format!("{median:.3} ({low:.3} to {high:.3})")
}

/// What a metric is measured in, for a figure or an axis; an unknown metric is its own name.
pub(super) fn unit(metric: &str) -> &str {
    match metric {
        "ns_per_op" => "ns per operation",
        "cycles_per_op" => "cycles per operation",
        "ns_per_packet" => "ns per packet",
        "pps" => "packets per second",
        "latency_ns" => "ns",
        "percent" => "%",
        "count" => "",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        let figures = [0.0, 0.07841, 0.5, 12.069, 143.0, 999.7, -1_234.0, 2_043_575.4, f64::NAN];
        let texts = ["0", "0.0784", "0.500", "12.1", "143", "1,000", "-1,234", "2,043,575", "unknown"];
        assert_eq!(figures.map(figure), texts);
    }
}
