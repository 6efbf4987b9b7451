//! The points of a plot, from the rows of a report.

use super::figures::{Figure, Kind};
use super::{Budget, Look, Plot, Point, Series, looks};
use crate::json::{Params, Published, Report, Row};
use crate::report::number;
use crate::report::pick;
use crate::table;

/// Bytes of a packet on the wire in addition to its own, which end with its check sum: preamble, start, gap. 64
/// bytes have 67.2 ns at 10 Gbit/s, as in [brouer17-pages].
const WIRE: f64 = 20.0;

/// Line rates that are marked, in Gbit/s.
const RATES: [f64; 2] = [10.0, 100.0];

/// The look until all series are known.
const NO_LOOK: Look = Look { colour: 0, mark: 0 };

/// Maximum number of points in a plot of dots.
const DOTS_MAX: usize = 40;

/// Returns the plot, or None if the report has no row for it.
pub(super) fn plot(figure: &Figure, report: &Report) -> Option<Plot> {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| figure.shows(row)).collect();
    if rows.is_empty() || (figure.kind == Kind::Dots && rows.len() > DOTS_MAX) {
        return None;
    }
    let mut series: Vec<Series> = Vec::new();
    for row in &rows {
        let (name, at) = names(figure, row, &rows)?;
        let published =
            row.published.as_ref().and_then(|p| in_unit(p, figure.metric, report.machine.tsc_ghz));
        let point = Point { at, median: row.median, low: row.p10, high: row.p90, published };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name, points: vec![point], look: NO_LOOK }),
        }
    }
    looks::assign(&mut series, report);
    Some(Plot {
        title: figure.title.to_owned(),
        better: better(figure.metric),
        figures: axis(figure.metric, report.machine.tsc_ghz),
        across: figure.over.1.to_owned(),
        log: figure.log,
        series,
        budgets: budgets(figure, &rows, report.machine.tsc_ghz),
        key: "A mark is the median, its bar the 10th to the 90th percentile of the windows.",
    })
}

/// Returns the series of a row, and its position in the series.
fn names(figure: &Figure, row: &Row, rows: &[&Row]) -> Option<(String, String)> {
    match figure.kind {
        Kind::Curves => {
            let own = figure
                .by
                .iter()
                .filter_map(|name| Some(format!(" {name} {}", pick::text(row.params.get(*name)?))));
            let at = pick::text(row.params.get(figure.over.0)?);
            Some((format!("{}{}", row.variant, own.collect::<String>()), at))
        }
        Kind::Dots => {
            let same = rows.iter().filter(|other| other.variant == row.variant).map(|other| &other.params);
            Some((row.variant.clone(), distinguish(&row.variant, &row.params, same)))
        }
    }
}

/// Returns a name with the parameters that distinguish it from `same`, the ones of the same name. The other
/// parameters are in the table.
fn distinguish<'a>(name: &str, params: &Params, same: impl Iterator<Item = &'a Params>) -> String {
    table::named(name, params, &table::common(same))
}

/// Returns the name of the axis of figures.
fn axis(metric: &str, tsc_ghz: f64) -> String {
    match metric {
        "cycles_per_op" => format!("cycles per operation (of {tsc_ghz:.1} GHz)"),
        "count" => "count".to_owned(),
        _ => number::unit(metric).to_owned(),
    }
}

/// Returns a published figure in the unit of `metric`, if it can be converted.
fn in_unit(published: &Published, metric: &str, tsc_ghz: f64) -> Option<f64> {
    let figure = published.value;
    let per_second = if figure > 0.0 { Some(1e9 / figure) } else { None };
    match (published.unit.as_str(), metric) {
        ("cycles", "cycles_per_op") | ("ns", "ns_per_op" | "ns_per_packet" | "latency_ns") => Some(figure),
        ("pps", "pps") | ("percent", "percent") | ("bytes", "bytes") => Some(figure),
        ("cycles", "ns_per_op" | "ns_per_packet") if tsc_ghz > 0.0 => Some(figure / tsc_ghz),
        ("ns", "cycles_per_op") => Some(figure * tsc_ghz),
        ("pps", "ns_per_packet") => per_second,
        (unit, "count") if !["cycles", "ns", "pps", "percent", "bytes"].contains(&unit) => Some(figure),
        _ => None,
    }
}

/// Returns which direction is better.
fn better(metric: &str) -> &'static str {
    match metric {
        "count" => "",
        metric if pick::more_is_better(metric) => "more is better",
        _ => "less is better",
    }
}

/// Returns the time budget of a packet of the size that all rows have.
fn budgets(figure: &Figure, rows: &[&Row], tsc_ghz: f64) -> Vec<Budget> {
    let ticks_per_unit = match (figure.budgets, figure.metric) {
        (true, "ns_per_packet") => 1.0,
        (true, "cycles_per_op") => tsc_ghz,
        _ => return Vec::new(),
    };
    let shared = table::common(rows.iter().map(|row| &row.params));
    let Some(bytes) = shared.get("bytes").and_then(serde_json::Value::as_f64) else { return Vec::new() };
    let mark = |rate: f64| {
        let ns = (bytes + WIRE) * 8.0 / rate;
        let name = format!("{} ns: {bytes} bytes at {rate}G", number::figure(ns));
        Budget { at: ns * ticks_per_unit, name }
    };
    RATES.map(mark).into()
}

/// Returns every ratio of the report as a dot next to the line of 1, if there are few enough to be readable.
pub(super) fn ratios(report: &Report) -> Option<Plot> {
    if report.ratios.is_empty() || report.ratios.len() > DOTS_MAX {
        return None;
    }
    // For a cost less is better, and for a rate more: this is stated if both are in one plot.
    let mixed = report.ratios.iter().any(|ratio| ratio.metric != report.ratios[0].metric);
    let mut series: Vec<Series> = Vec::new();
    for ratio in &report.ratios {
        let name = format!("{} / {}", ratio.a, ratio.b);
        let same = report.ratios.iter().filter(|other| (&other.a, &other.b) == (&ratio.a, &ratio.b));
        let mut at = distinguish(&name, &ratio.params, same.map(|other| &other.params));
        if mixed {
            at += &format!(" ({})", number::short_unit(&ratio.metric));
        }
        let point = Point { at, median: ratio.median, low: ratio.low, high: ratio.high, published: None };
        match series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => series.push(Series { name, points: vec![point], look: NO_LOOK }),
        }
    }
    looks::assign(&mut series, report);
    Some(Plot {
        better: if mixed { "" } else { better(&report.ratios[0].metric) },
        title: "Ratios within the run".to_owned(),
        figures: match mixed {
            true => "ratio".to_owned(),
            false => format!("ratio of {}", number::short_unit(&report.ratios[0].metric)),
        },
        across: String::new(),
        log: true,
        series,
        budgets: vec![Budget { at: 1.0, name: "1: equal".to_owned() }],
        key: "A mark is the median over the rounds, its bar the 95 % interval; where the bar meets the line there is no difference to be seen.",
    })
}
