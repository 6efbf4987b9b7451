//! The plots of an experiment.

use super::declared::FIGURES;
use crate::json::{Report, Row};
use crate::report::pick::{self, Fixed};

/// The kind of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Figures over a parameter.
    Curves,
    /// One line for each variant.
    Dots,
}

/// The declaration of one plot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    /// Its experiment.
    pub(super) experiment: &'static str,
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    /// The metric of its rows.
    pub(super) metric: &'static str,
    /// The parameter of the horizontal axis, and the axis's name.
    pub(super) over: (&'static str, &'static str),
    /// Parameters that distinguish series of one variant.
    pub(super) by: &'static [&'static str],
    /// The variants to show, or all if empty.
    pub(super) variants: &'static [&'static str],
    /// Parameters that a row must have, and parameters that it must not have.
    pub(super) only: Fixed<'static>,
    pub(super) without: &'static [&'static str],
    /// True if figures have a logarithmic axis.
    pub(super) log: bool,
    /// True if the time budget of a packet is drawn.
    pub(super) budgets: bool,
}

impl Figure {
    /// Returns true if the row belongs to this plot.
    pub(super) fn shows(&self, row: &Row) -> bool {
        row.metric == self.metric
            && (self.variants.is_empty() || self.variants.contains(&row.variant.as_str()))
            && pick::has(&row.params, self.only)
            && !self.without.iter().any(|name| row.params.contains_key(*name))
            && (self.kind == Kind::Dots || row.params.contains_key(self.over.0))
    }
}

/// Returns a curve over `over`, of every variant, on logarithmic figures.
pub(super) const fn curves(
    experiment: &'static str,
    title: &'static str,
    metric: &'static str,
    over: (&'static str, &'static str),
) -> Figure {
    Figure {
        experiment,
        title,
        kind: Kind::Curves,
        metric,
        over,
        by: &[],
        variants: &[],
        only: &[],
        without: &[],
        log: true,
        budgets: false,
    }
}

/// Returns dots of every variant, on logarithmic figures.
pub(super) const fn dots(experiment: &'static str, title: &'static str, metric: &'static str) -> Figure {
    Figure { kind: Kind::Dots, ..curves(experiment, title, metric, ("", "")) }
}

/// Returns dots of the cost of a packet, with the time budget of a packet.
pub(super) const fn packets(experiment: &'static str, title: &'static str) -> Figure {
    Figure { budgets: true, ..dots(experiment, title, "ns_per_packet") }
}

/// Returns the plots of `report`: the declared ones, or dots of its metrics if none are declared.
pub(super) fn of(report: &Report) -> Vec<Figure> {
    let declared: Vec<Figure> =
        FIGURES.iter().filter(|figure| figure.experiment == report.experiment).copied().collect();
    if declared.is_empty() { FALLBACK.to_vec() } else { declared }
}

/// The plots of an experiment without declared plots.
const FALLBACK: &[Figure] = &[
    dots("", "Time per operation", "ns_per_op"),
    packets("", "Time per packet"),
    dots("", "Latency", "latency_ns"),
    dots("", "Counts", "count"),
];
