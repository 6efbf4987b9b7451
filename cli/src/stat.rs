//! `netmem stat`: looks at a running `netmem forward`.

use crate::args::StatArgs;
use crate::control::{Record, client, default_path};
use crate::failure::Failure;
use crate::{output, stop};
use netmem_lab::table::thousands;
use serde::Serializer;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// What is shown when nobody asks for something particular.
const USUAL: [&str; 6] = ["forward", "workers", "ports", "pools", "holders", "drops"];
/// How often the wait looks whether it is over.
const TICK: Duration = Duration::from_millis(50);

/// Shows what was asked for, once or again and again until Ctrl-C.
///
/// # Errors
/// [`Failure::Input`] when nobody answers or there is no such thing.
pub fn run(args: &StatArgs) -> Result<(), Failure> {
    let path = args.control.clone().unwrap_or_else(default_path);
    let stop = stop::on_signal()?;
    let mut before: Option<(Instant, Sections)> = None;
    loop {
        let now = Instant::now();
        let sections = ask(&path, args)?;
        let text = match (&before, args.json) {
            (_, true) => json_line(&sections)?,
            (None, _) => text(&sections, None),
            (Some((then, old)), _) => text(&sections, Some((old, now.duration_since(*then)))),
        };
        output::print(&text)?;
        let Some(interval) = args.interval.map(Duration::from_secs_f64) else { return Ok(()) };
        before = Some((now, sections));
        while now.elapsed() < interval {
            if stop.load(Relaxed) {
                return Ok(());
            }
            thread::sleep(TICK.min(interval));
        }
    }
}

/// Each section's name and records.
type Sections = Vec<(String, Vec<Record>)>;

fn ask(path: &Path, args: &StatArgs) -> Result<Sections, Failure> {
    let names: Vec<&str> = match args.what.as_deref() {
        None => USUAL.to_vec(),
        // With who took the frames that are out, where that is known.
        Some("pools") => vec!["pools", "holders"],
        Some(what) => vec![what],
    };
    let one = |name: &&str| {
        let records = client::ask(path, &json!({"get": "stat", "of": name})).map_err(Failure::Input)?;
        Ok(((*name).to_owned(), records))
    };
    let mut sections: Sections = names.iter().map(one).collect::<Result<_, Failure>>()?;
    if args.what.is_none() {
        // One worker's counts are those of all.
        sections.retain(|(name, records)| name != "workers" || records.len() > 1);
    }
    Ok(sections)
}

fn json_line(sections: &Sections) -> Result<String, Failure> {
    let mut line = Vec::new();
    let by_name = sections.iter().map(|(name, records)| (name, records));
    serde_json::Serializer::new(&mut line).collect_map(by_name).map_err(Failure::run)?;
    Ok(String::from_utf8_lossy(&line).into_owned() + "\n")
}

/// A block for each record: its name, then a line for each value, and what it grew by in a second.
fn text(sections: &Sections, before: Option<(&Sections, Duration)>) -> String {
    let mut text = String::new();
    for (name, records) in sections {
        for record in records {
            let old = before.and_then(|(old, time)| Some((find(old, name, record)?, time)));
            block(&mut text, name, record, old);
        }
    }
    text
}

/// The record of the same name and place in the same section, as it was before.
fn find<'a>(old: &'a Sections, section: &str, record: &Record) -> Option<&'a Record> {
    let (_, records) = old.iter().find(|(name, _)| name == section)?;
    records.iter().find(|known| ["name", "place"].iter().all(|key| known.text(key) == record.text(key)))
}

fn block(text: &mut String, section: &str, record: &Record, before: Option<(&Record, Duration)>) {
    // Writing into a String cannot fail.
    let _ = writeln!(text, "{section} {}", record.text("name"));
    let values = record.0.iter().filter(|(name, _)| name != "name");
    let width = values.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in values {
        let shown = shown(value);
        let rate = before.and_then(|(old, time)| rate(old.get(name)?, value, time));
        let _ = match rate {
            Some(rate) => writeln!(text, "  {name:<width$}  {shown:>16}  {rate:>16}/s"),
            None => writeln!(text, "  {name:<width$}  {shown:>16}"),
        };
    }
}

fn shown(value: &Value) -> String {
    match (value.as_u64(), value.as_str()) {
        (Some(number), _) => thousands(number),
        (_, Some(text)) => text.to_owned(),
        _ => value.to_string(),
    }
}

/// What a counter grew by in a second; None for what did not grow.
fn rate(old: &Value, new: &Value, time: Duration) -> Option<String> {
    let grown = new.as_u64()?.checked_sub(old.as_u64()?).filter(|&grown| grown > 0)?;
    Some(thousands((grown as f64 / time.as_secs_f64()) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(rx: u64) -> Sections {
        let record = Record::default().with("name", "mem:0").with("kind", "mem").with_all([("rx", rx)]);
        vec![("ports".into(), vec![record])]
    }

    #[test]
    fn a_block_has_a_line_for_each_value_and_what_it_grew_by() {
        let (before, now) = (sections(1_000), sections(5_000));
        assert_eq!(text(&before, None), "ports mem:0\n  kind               mem\n  rx               1,000\n");
        let grown = text(&now, Some((&before, Duration::from_secs(2))));
        assert!(grown.ends_with("  rx               5,000             2,000/s\n"), "{grown}");
        assert_eq!(
            json_line(&now).unwrap(),
            "{\"ports\":[{\"name\":\"mem:0\",\"kind\":\"mem\",\"rx\":5000}]}\n"
        );
    }
}
