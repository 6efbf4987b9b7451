//! Figures for people, with as many digits as are significant.

use crate::table::thousands;

/// Returns three significant digits, with thousands separators: `0.0784`, `12.1`, `2,043,575`.
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

/// Returns a ratio with its interval: `0.273 (0.271 to 0.280)`.
pub(super) fn with_interval(median: f64, low: f64, high: f64) -> String {
    if low < high { format!("{median:.3} ({low:.3} to {high:.3})") } else { format!("{median:.3}") }
}

/// Returns a number for an axis: `500`, `20 k`, `4 M`.
pub(super) fn tick(value: f64) -> String {
    let shortened =
        [(1e9, " G"), (1e6, " M"), (1e4, " k")].into_iter().find(|(size, _)| value.abs() >= *size);
    let (value, unit) = match shortened {
        Some((_, " k")) => (value / 1e3, " k"),
        Some((size, unit)) => (value / size, unit),
        None => (value, ""),
    };
    let text = format!("{value:.3}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// Returns the short unit of a metric, for a table.
pub(super) fn short_unit(metric: &str) -> &str {
    match metric {
        "ns_per_op" => "ns/op",
        "cycles_per_op" => "cycles/op",
        "ns_per_packet" => "ns/packet",
        "pps" => "packets/s",
        other => unit(other),
    }
}

/// Returns the unit of a metric, for an axis. The unit of an unknown metric is its own name.
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

    #[test]
    fn ticks_are_short() {
        let ticks = [0.5, 128.0, 2_000.0, 20_000.0, 4e6, 1e9];
        assert_eq!(ticks.map(tick), ["0.5", "128", "2000", "20 k", "4 M", "1 G"]);
    }
}
