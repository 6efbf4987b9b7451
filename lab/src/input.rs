//! Reads JSON files of earlier runs.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::error::LabError;
use crate::json::{Ratio, Report, SCHEMA};

/// The contents that `--json FILE` writes: one object for one experiment, an array for several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Several(Vec<Report>),
    One(Box<Report>),
}

/// The only field that is read from a report of another version.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

/// Reads the reports of one file, in order.
///
/// # Errors
/// [`LabError::Input`] if the file cannot be read, was not written by `netmem lab run --json`, or has another
/// schema.
pub fn read(path: &Path) -> Result<Vec<Report>, LabError> {
    let refused = |cause: String| LabError::Input { path: path.to_owned(), cause };
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    parse(&text).map_err(refused)
}

fn parse(text: &str) -> Result<Vec<Report>, String> {
    let reports = match serde_json::from_str(text) {
        Ok(Content::Several(reports)) => reports,
        Ok(Content::One(report)) => vec![*report],
        Err(_) => return Err(why_not(text)),
    };
    match reports.iter().find(|report| report.schema != SCHEMA) {
        Some(report) => Err(other_schema(report.schema)),
        None if reports.is_empty() => Err("it holds no report".to_owned()),
        None => match reports.iter().find_map(impossible) {
            Some(why) => Err(why),
            None => Ok(reports),
        },
    }
}

/// Returns what is wrong with a ratio that no run can have measured.
fn impossible(report: &Report) -> Option<String> {
    let is_possible = |Ratio { median, low, high, .. }: &Ratio| *median >= 0.0 && *low >= 0.0 && low <= high;
    let Ratio { a, b, median, low, high, .. } = report.ratios.iter().find(|ratio| !is_possible(ratio))?;
    Some(format!("{}: no ratio can be {median} ({low} to {high}), as {a} / {b} is", report.experiment))
}

/// Returns the reason why a text is not a report of this program.
fn why_not(text: &str) -> String {
    match (serde_json::from_str::<serde_json::Value>(text), serde_json::from_str::<Version>(text)) {
        (Err(error), _) => format!("it is not JSON ({error})"),
        (_, Ok(Version { schema })) if schema != SCHEMA => other_schema(schema),
        _ => "it is JSON, but not a report of the lab".to_owned(),
    }
}

fn other_schema(schema: u32) -> String {
    format!("it is of schema {schema}, and this program reads {SCHEMA}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::sample;

    #[test]
    fn one_report_and_an_array_of_them_are_both_read() {
        let one = serde_json::to_string(&sample()).unwrap();
        assert_eq!(parse(&one), Ok(vec![sample()]));
        assert_eq!(parse(&format!("[{one}, {one}]")), Ok(vec![sample(), sample()]));
    }

    #[test]
    fn input_that_is_not_a_report_is_refused_with_the_reason() {
        let other = serde_json::to_string(&Report { schema: 2, ..sample() }).unwrap();
        for (text, cause) in [
            ("", "it is not JSON (EOF"),
            ("{\"rows\": ", "it is not JSON (EOF"),
            ("[1, 2]", "it is JSON, but not a report of the lab"),
            ("{\"schema\": 1}", "it is JSON, but not a report of the lab"),
            ("{\"schema\": 7}", "it is of schema 7, and this program reads 1"),
            (&other, "it is of schema 2, and this program reads 1"),
            ("[]", "it holds no report"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with(cause), "{text}: {said}");
        }
    }

    /// Seen: such ratios counted as agreeing.
    #[test]
    fn a_ratio_that_no_run_can_have_is_refused() {
        for (median, low, high) in [(1.0, 1.2, 0.8), (-1.0, 0.9, 1.1), (1.0, -0.1, 1.1)] {
            let mut report = sample();
            (report.ratios[0].median, report.ratios[0].low, report.ratios[0].high) = (median, low, high);
            let said = parse(&serde_json::to_string(&report).unwrap()).unwrap_err();
            assert!(
                said.starts_with("page-fast-path: no ratio can be ") && said.ends_with("netmem / limit is"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_the_remedy() {
        let line = read(Path::new("/nosuch/all.json")).unwrap_err().to_string();
        let remedy = "name a file that netmem lab run --json wrote";
        assert!(line.starts_with("cannot read /nosuch/all.json: ") && line.ends_with(remedy), "{line}");
    }
}
