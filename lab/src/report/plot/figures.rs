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

/// One plot, as it is declared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    /// The experiment it is of.
    pub(super) experiment: &'static str,
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    /// The metric of its rows.
    pub(super) metric: &'static str,
    /// The parameter along the axis below, and the axis's name.
    pub(super) over: (&'static str, &'static str),
    /// Parameters that tell series of one variant apart.
    pub(super) by: &'static [&'static str],
    /// Variants that are shown; all if empty.
    pub(super) variants: &'static [&'static str],
    /// What a row must have, and what it must not.
    pub(super) only: Fixed<'static>,
    pub(super) without: &'static [&'static str],
    /// Whether figures have a logarithmic axis.
    pub(super) log: bool,
    /// Whether the time for a packet is drawn.
    pub(super) budgets: bool,
}

impl Figure {
    /// True if the row belongs into this plot.
    pub(super) fn shows(&self, row: &Row) -> bool {
        row.metric == self.metric
            && (self.variants.is_empty() || self.variants.contains(&row.variant.as_str()))
            && pick::has(&row.params, self.only)
            && !self.without.iter().any(|name| row.params.contains_key(*name))
            && (self.kind == Kind::Dots || row.params.contains_key(self.over.0))
    }
}

/// A curve over `over`, of every variant, on logarithmic figures.
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

/// Dots of every variant, on logarithmic figures.
pub(super) const fn dots(experiment: &'static str, title: &'static str, metric: &'static str) -> Figure {
    Figure { kind: Kind::Dots, ..curves(experiment, title, metric, ("", "")) }
}

/// Dots of the cost of a packet, with the time there is for one.
pub(super) const fn packets(experiment: &'static str, title: &'static str) -> Figure {
    Figure { budgets: true, ..dots(experiment, title, "ns_per_packet") }
}

/// The plots of `report`: those declared, or dots of its metrics where none are.
pub(super) fn of(report: &Report) -> Vec<Figure> {
    let declared: Vec<Figure> =
        FIGURES.iter().filter(|figure| figure.experiment == report.experiment).copied().collect();
    if declared.is_empty() { FALLBACK.to_vec() } else { declared }
}

/// What an experiment without plots of its own gets.
const FALLBACK: &[Figure] = &[
    dots("", "Time per operation", "ns_per_op"),
    packets("", "Time per packet"),
    dots("", "Latency", "latency_ns"),
    dots("", "Counts", "count"),
];
