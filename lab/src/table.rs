//! A report for a terminal: measured and published figures next to each other, varying parameters first.

use crate::json::{Params, Pauses, Published, Ratio, Report, Row, shared};
use crate::sources::citation;

/// Returns the report as text, ending in a newline. If a table is wider than `columns`, each of its rows has lines
/// of its own.
pub fn text(report: &Report, columns: Option<usize>) -> String {
    let mut text = format!("{}  (source: {})\n", report.experiment, citation(&report.source));
    text += &format!("{}\n", machine(report));
    text.extend(report.pauses.map(|pauses| format!("{}\n", paused(&pauses))));
    let in_rows = undisputed(report.rows.iter().map(|row| (row.variant.clone(), &row.params)));
    if !in_rows.is_empty() {
        let of_all = common(report.rows.iter().map(|row| &row.params));
        let whose = if of_all.len() == in_rows.len() { "all rows" } else { "rows that have them" };
        text += &format!("{whose}: {}\n", listed(&in_rows));
    }
    text.push('\n');
    text += &aligned(
        columns,
        ["variant", "metric", "p10", "p50", "p90", "windows", "dropped", "published"],
        report.rows.iter().map(|row| row_cells(row, &in_rows)),
    );
    if !report.ratios.is_empty() {
        text.push('\n');
        let named = report.ratios.iter().map(|ratio| (format!("{} / {}", ratio.a, ratio.b), &ratio.params));
        let in_ratios = undisputed(named);
        text += &aligned(
            columns,
            ["ratio", "metric", "median", "95 % interval", ""],
            report.ratios.iter().map(|ratio| ratio_cells(ratio, &in_ratios)),
        );
    }
    text.push('\n');
    for check in report.checks.iter().filter(|check| !check.ok) {
        text += &format!("FAIL  {}: {}\n", check.name, check.detail);
    }
    match report.checks.iter().filter(|check| check.ok).count() {
        0 => {}
        held if held == report.checks.len() => text += &format!("ok    all {held} checks hold\n"),
        held => text += &format!("ok    {held} checks hold\n"),
    }
    if report.interrupted {
        text += "interrupted: the run was ended before its time\n";
    }
    for note in &report.notes {
        text += &format!("note  {note}\n");
    }
    text
}

fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    format!(
        "{}, {} cores, TSC {:.3} GHz{}, Linux {}",
        or_unknown(&machine.cpu),
        machine.cores,
        machine.tsc_ghz,
        if machine.is_virtual == Some(true) { ", virtual" } else { "" },
        or_unknown(&machine.kernel),
    )
}

fn paused(pauses: &Pauses) -> String {
    let during =
        pauses.during_percent.map(|percent| format!(", {percent:.0} % during it")).unwrap_or_default();
    let stands = match pauses.too_many() {
        Some(_) => ": too much to quote any time of this run",
        None => "",
    };
    format!(
        "pauses of the machine: {:.0} % of the time before the run{during}, the longest {:.1} ms{stands}",
        pauses.before_percent,
        pauses.longest_us / 1e3
    )
}

/// Returns the common parameters of all `params`.
pub(crate) fn common<'a>(mut params: impl Iterator<Item = &'a Params>) -> Params {
    let Some(first) = params.next() else { return Params::new() };
    params.fold(first.clone(), |common, one| shared(&common, one))
}

/// Returns the parameters that have the same value in all rows with these names. A row with another name may lack a
/// parameter.
fn undisputed<'a>(rows: impl Iterator<Item = (String, &'a Params)>) -> Params {
    let rows: Vec<_> = rows.collect();
    let is_so = |name: &String, value| {
        let has = |row: &&(String, &Params)| row.1.contains_key(name);
        let alike = rows.iter().all(|(_, params)| params.get(name).is_none_or(|its| its == value));
        let mut without = rows.iter().filter(|row| !has(row));
        alike && !without.any(|row| rows.iter().filter(has).any(|with| with.0 == row.0))
    };
    let every = rows.iter().flat_map(|(_, params)| params.iter());
    every
        .filter(|(name, value)| is_so(name, *value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns a name with the parameters that are not common to all.
pub(crate) fn named(name: &str, params: &Params, common: &Params) -> String {
    let own: Params = params
        .iter()
        .filter(|(n, _)| !common.contains_key(*n))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    if own.is_empty() { name.to_owned() } else { format!("{name} {}", listed(&own)) }
}

pub(crate) fn listed(params: &Params) -> String {
    let pairs = params.iter().map(|(name, value)| match value.as_str() {
        Some(text) => format!("{name}={text}"),
        None => format!("{name}={value}"),
    });
    pairs.collect::<Vec<_>>().join(" ")
}

fn row_cells(row: &Row, common: &Params) -> [String; 8] {
    let published = |p: &Published| format!("{} {}", figure(p.value), p.unit);
    [
        named(&row.variant, &row.params, common),
        row.metric.clone(),
        figure(row.p10),
        figure(row.median),
        figure(row.p90),
        row.windows.to_string(),
        row.windows_dropped.to_string(),
        row.published.as_ref().map_or_else(|| "-".to_owned(), published),
    ]
}

fn ratio_cells(ratio: &Ratio, common: &Params) -> [String; 5] {
    [
        named(&format!("{} / {}", ratio.a, ratio.b), &ratio.params, common),
        ratio.metric.clone(),
        format!("{:.3}", ratio.median),
        format!("{:.3} to {:.3}", ratio.low, ratio.high),
        match ratio.low <= 1.0 && ratio.high >= 1.0 {
            _ if ratio.too_few => "too few set-ups".to_owned(),
            _ if !ratio.undecided => String::new(),
            true => "undecided".to_owned(),
            false => "imprecise".to_owned(),
        },
    ]
}

/// Formats columns as wide as their widest cell, the first two left-aligned, figures right-aligned. If the result
/// is wider than `columns`, each row has a line with its first cell, and the other cells with their names below it.
fn aligned<const N: usize>(
    columns: Option<usize>,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let lines: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let mut widths = [0; N];
    for (column, cell) in lines.iter().flat_map(|line| (0..N).zip(line)) {
        widths[column] = widths[column].max(cell.chars().count());
    }
    let width = widths.iter().sum::<usize>() + 2 * (N - 1);
    if let Some(columns) = columns.filter(|columns| width > *columns) {
        return lines[1..].iter().map(|line| apart(&head, line, columns)).collect();
    }
    let mut text = String::new();
    for line in &lines {
        let padded = (0..N).map(|column| {
            let (cell, width) = (&line[column], widths[column]);
            if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text += padded.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// Returns a row as lines of at most `columns` characters: its first cell, and then the others that are not empty,
/// each after its name.
fn apart<const N: usize>(head: &[&str; N], line: &[String; N], columns: usize) -> String {
    let (mut text, mut taken) = (line[0].clone(), columns);
    for (name, cell) in head.iter().zip(line).skip(1).filter(|(_, cell)| !cell.is_empty()) {
        let cell = if name.is_empty() { cell.clone() } else { format!("{name} {cell}") };
        let length = 2 + cell.chars().count();
        if taken + length > columns {
            text += "\n  ";
            taken = 2;
        }
        text += &format!("  {cell}");
        taken += length;
    }
    text + "\n"
}

/// Returns a figure with as many digits as are significant, with thousands separators.
fn figure(value: f64) -> String {
    if value.abs() < 1_000.0 {
        return format!("{value:.*}", if value.abs() < 100.0 { 2 } else { 1 });
    }
    format!("{}{}", if value < 0.0 { "-" } else { "" }, thousands(value.abs().round() as u64))
}

/// Returns a whole number with thousands separators: `12,345,678`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{params, tests::sample};

    #[test]
    fn thousands_are_separated() {
        let numbers = [0, 999, 1_000, 123_456, 12_345_678, u64::MAX];
        let texts = ["0", "999", "1,000", "123,456", "12,345,678", "18,446,744,073,709,551,615"];
        assert_eq!(numbers.map(thousands), texts);
    }

    #[test]
    fn the_published_figure_stands_in_the_row_of_the_measured_one() {
        let text = text(&sample(), None);
        let row = text.lines().find(|line| line.starts_with("netmem ")).unwrap();
        assert!(row.contains("5.50") && row.ends_with("143.0 cycles"), "{row}");
    }

    #[test]
    fn the_time_lost_to_pauses_is_reported_once() {
        let text = text(&sample(), None);
        let line =
            "pauses of the machine: 2 % of the time before the run, 2 % during it, the longest 0.4 ms\n";
        assert!(text.contains(line), "{text}");
    }

    /// Seen: 83 % of the time was lost to pauses, and the figures looked valid.
    #[test]
    fn a_run_that_lost_half_of_its_time_to_pauses_is_not_to_be_quoted() {
        let with = |during_percent| {
            let mut report = sample();
            let pauses = report.pauses.unwrap();
            report.pauses = Some(Pauses { during_percent, ..pauses });
            text(&report, None).contains("too much to quote")
        };
        assert_eq!([None, Some(49.0), Some(50.0), Some(83.0)].map(with), [false, false, true, true]);
    }

    /// Seen: tables of 112 to 233 columns, which terminals of 80 and 140 folded.
    #[test]
    fn a_table_that_is_wider_than_the_terminal_has_lines_for_each_row() {
        let (wide, narrow) = (text(&sample(), Some(200)), text(&sample(), Some(60)));
        assert_eq!(wide, text(&sample(), None));
        let rows = narrow.lines().skip_while(|line| !line.starts_with("netmem"));
        let rows: Vec<_> = rows.take_while(|line| !line.starts_with("ok")).collect();
        assert!(rows.iter().all(|line| line.chars().count() <= 60), "{narrow}");
        assert!(narrow.contains("netmem\n    metric ns_per_op  p10 5.00  p50 5.50  p90 6.00"), "{narrow}");
        assert!(narrow.contains("netmem / limit  ns_per_op   2.000"), "what fits stays a table: {narrow}");
    }

    #[test]
    fn a_parameter_shared_by_all_rows_of_one_kind_is_printed_once() {
        let mut report = sample();
        let mut limit = report.rows[0].clone();
        (limit.variant, limit.params) = ("limit".into(), params([]));
        let second = report.rows[0].clone();
        report.rows.extend([second, limit]);
        let text = text(&report, None);
        assert!(text.contains("rows that have them: ") && text.matches("order=0").count() == 1, "{text}");
    }

    #[test]
    fn a_parameter_shared_by_all_rows_is_printed_once() {
        let mut report = sample();
        let mut second = report.rows[0].clone();
        second.params = params([("order", 0.into()), ("stats", "off".into())]);
        report.rows.push(second);
        let text = text(&report, None);
        assert_eq!(text.matches("order=0").count(), 1, "{text}");
        assert!(text.contains("netmem stats=on") && text.contains("netmem stats=off"), "{text}");
    }

    #[test]
    fn ratios_of_the_same_variants_are_told_apart() {
        let mut report = sample();
        let mut second = report.ratios[0].clone();
        second.params = params([("order", 1.into())]);
        report.ratios.push(second);
        let text = text(&report, None);
        assert!(
            text.contains("netmem / limit order=0 ") && text.contains("netmem / limit order=1 "),
            "{text}"
        );
    }

    #[test]
    fn an_undecided_ratio_and_a_failed_check_are_seen() {
        let mut report = sample();
        (report.ratios[0].undecided, report.ratios[0].low) = (true, 0.9);
        report.checks[0].ok = false;
        let text = text(&report, None);
        assert!(text.contains("undecided") && text.contains("FAIL  ledger balanced"), "{text}");
        report.ratios[0].too_few = true;
        assert!(super::text(&report, None).contains("too few set-ups"));
    }

    #[test]
    fn figures_have_a_separator_between_thousands() {
        assert_eq!(figure(2_043_575.4), "2,043,575");
        assert_eq!(figure(143.0), "143.0");
        assert_eq!(figure(0.5), "0.50");
        assert_eq!(figure(-1_234.0), "-1,234");
    }
}
