//! Finds rows and ratios by their names and parameters.

use serde_json::Value;

use crate::json::{Params, Ratio, Report, Row};

/// Parameters that a row must have, as text: `("burst", "64")`.
pub(super) type Fixed<'a> = &'a [(&'a str, &'a str)];

/// Returns a parameter as text for a reader.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns true if `params` have every one of `fixed`.
pub(super) fn has(params: &Params, fixed: Fixed<'_>) -> bool {
    fixed.iter().all(|(name, wanted)| params.get(*name).is_some_and(|value| text(value) == *wanted))
}

/// Returns the first row of this variant and metric.
pub(super) fn row<'r>(report: &'r Report, variant: &str, metric: &str, fixed: Fixed<'_>) -> Option<&'r Row> {
    report.rows.iter().find(|row| row.variant == variant && row.metric == metric && has(&row.params, fixed))
}

/// Returns the first ratio of these variants.
pub(super) fn ratio<'r>(report: &'r Report, a: &str, b: &str, fixed: Fixed<'_>) -> Option<&'r Ratio> {
    report.ratios.iter().find(|ratio| ratio.a == a && ratio.b == b && has(&ratio.params, fixed))
}

/// Returns true for a variant that is neither netmem nor the limit.
pub(super) fn is_rival(variant: &str) -> bool {
    let is_bound = variant == "limit" || variant.starts_with("limit/");
    !is_bound && !is_netmem(variant)
}

/// Returns true for netmem under any setting.
pub(super) fn is_netmem(variant: &str) -> bool {
    variant == "netmem" || variant.starts_with("netmem/")
}

/// Returns true if more of this metric is better.
pub(super) fn more_is_better(metric: &str) -> bool {
    metric == "pps"
}
