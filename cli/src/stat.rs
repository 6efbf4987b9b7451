//! `netmem stat`: shows the counters of a running `netmem forward`.

mod line;
mod text;
mod value;

use crate::args::StatArgs;
use crate::control::client::{self, Client};
use crate::control::{Record, path_of_run};
use crate::failure::Failure;
use crate::{output, stop};
use netmem::system::errno::descriptor_remedy_of;
use netmem::system::stream::connect_at_once;
use serde::Serializer;
use serde::ser::SerializeMap;
use serde_json::{Value, json};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use text::Look;

/// The sections that are shown by default.
const USUAL: [&str; 6] = ["forward", "workers", "ports", "pools", "holders", "drops"];
/// The counters of a port whose sum the library's `PortCounters::rx_drops` is: frames that reached the device and not the forwarder.
pub const LOST: [&str; 5] = ["rx_no_frame", "rx_ring_full", "rx_dropped", "rx_too_long", "udp_without_size"];
/// The sections that may have a million records. They are asked for page by page, so that the run never holds them all.
const TABLES: [&str; 2] = ["routes", "neighbours"];
/// Maximum number of records of a table: several times the routes of the Internet. An answer with more has no end.
const MOST: usize = 1 << 23;
/// The interval at which the wait checks whether it is over.
const TICK: Duration = Duration::from_millis(50);

/// Shows the requested sections, once or repeatedly until Ctrl-C or the end of the run.
///
/// # Errors
/// [`Failure::NotNow`] if no process answers, [`Failure::Input`] if there is no such section.
pub fn run(args: &StatArgs) -> Result<(), Failure> {
    let path = path_of_run(args.control.as_deref())?;
    let waiting = Arc::new(AtomicBool::new(true));
    stop::at_once_while(&waiting)?;
    let stop = stop::on_signal()?;
    let look = Look { coloured: output::is_coloured(), all: args.all };
    let (mut before, mut lines): (Option<(f64, Sections)>, usize) = (None, 0);
    loop {
        let now = Instant::now();
        waiting.store(true, Relaxed);
        if stop.load(Relaxed) {
            return Ok(());
        }
        let asked = ask(&path, &names(args), Duration::from_secs_f64(args.timeout));
        waiting.store(false, Relaxed);
        let (at, sections) = match asked {
            Err(_) if before.is_some() && has_ended(&path) => {
                eprintln!("the run at {} has ended", path.display());
                return Ok(());
            }
            answer => answer?,
        };
        // None if no time has passed, or if another run now has the socket.
        let passed = |then: f64| Duration::try_from_secs_f64(at - then).ok().filter(|time| !time.is_zero());
        let since = before.as_ref().and_then(|(then, old)| Some((old, passed(*then)?)));
        let text = shown(args, look, &sections, since, lines)?;
        lines += usize::from(before.is_some());
        output::print(&text)?;
        let Some(interval) = args.interval.map(Duration::from_secs_f64) else { return Ok(()) };
        before = Some((at, sections));
        while now.elapsed() < interval {
            if stop.load(Relaxed) {
                return Ok(());
            }
            thread::sleep(TICK.min(interval));
        }
    }
}

/// Returns the printed form of an answer, with the previous answer and the time between them. `lines` is the number
/// of lines so far.
fn shown(
    args: &StatArgs,
    look: Look,
    sections: &Sections,
    since: Option<(&Sections, Duration)>,
    lines: usize,
) -> Result<String, Failure> {
    if let Some(key) = &args.key {
        let section = sections.first().ok_or_else(|| Failure::input("the answer has no section"))?;
        let value = value::value(section, key).map_err(Failure::Input)?;
        return Ok(match value.as_str().filter(|_| !args.json) {
            Some(text) => format!("{text}\n"),
            None if args.json => format!("{}\n", json!({"time": unix_time(), "value": value})),
            None => format!("{value}\n"),
        });
    }
    if args.json {
        return json_line(sections, since);
    }
    if args.interval.is_some() && args.what.is_none() {
        let header = if lines.is_multiple_of(line::PAGE) { line::HEADER } else { "" };
        return Ok(match since {
            None => String::new(),
            Some((old, time)) => format!("{header}{}", line::line(old, sections, time)),
        });
    }
    let mut shown = sections.clone();
    if args.what.is_none() {
        // The counts of a single worker are those of the run.
        shown.retain(|(name, records)| name != "workers" || records.len() > 1);
    }
    let text = look.text(&shown, since);
    Ok(if since.is_some() { format!("\n{text}") } else { text })
}

/// Returns the seconds since 1970, to the millisecond.
fn unix_time() -> f64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    time.as_millis() as f64 / 1e3
}

/// Returns true if no process listens there any more, or will stop in a moment: a run may end in the middle of an
/// answer. A caller without descriptors cannot know, and asks again.
pub fn has_ended(path: &Path) -> bool {
    (0..20).any(|_| {
        let connected = connect_at_once(path);
        let is_end = |error: io::Error| {
            error.kind() != ErrorKind::WouldBlock && descriptor_remedy_of(&error).is_empty()
        };
        let gone = connected.is_err_and(is_end);
        if !gone {
            thread::sleep(TICK);
        }
        gone
    })
}

/// A section's name and records.
pub type Section = (String, Vec<Record>);
/// All requested sections.
pub type Sections = Vec<Section>;

/// Returns the names of the sections to show.
fn names(args: &StatArgs) -> Vec<&str> {
    match args.what.as_deref() {
        None => USUAL.to_vec(),
        // With the holders of the frames that are out, if they are known.
        Some("pools") => vec!["pools", "holders"],
        Some(what) => vec![what],
    }
}

/// Returns the records of these sections, all of one moment, and that moment in seconds of the run's clock. Waits for an
/// answer for at most this time.
///
/// # Errors
/// [`Failure::NotNow`] if no process answers, [`Failure::Input`] if there is no such section.
pub fn ask(path: &Path, names: &[&str], patience: Duration) -> Result<(f64, Sections), Failure> {
    if let [table] = names
        && TABLES.contains(table)
    {
        return ask_for_table(path, table, patience);
    }
    let records = client::ask(path, &json!({"get": "stat", "of": names}), patience)?;
    sections(path, records)
}

/// Returns all records of a table, and the time of its first page. The run reads the pages one after another, so they are
/// of different times.
fn ask_for_table(path: &Path, table: &str, patience: Duration) -> Result<(f64, Sections), Failure> {
    let client = Client::connect(path, patience)?;
    let (mut first, mut all, mut after) = (None, Vec::new(), String::new());
    loop {
        let request = json!({"get": "stat", "of": table, "after": after});
        let (at, page) = sections(path, client.ask(&request)?)?;
        let at = *first.get_or_insert(at);
        let records: Vec<Record> = page.into_iter().flat_map(|(_, records)| records).collect();
        let Some(last) = records.last() else { return Ok((at, vec![(table.to_owned(), all)])) };
        let name = last.text("name");
        if name.is_empty() || records.iter().any(|record| record.text("name") == after) || all.len() > MOST {
            let why = format!("control socket {}: an endless table of {table}", path.display());
            return Err(Failure::Input(why));
        }
        after = name.to_owned();
        all.extend(records);
    }
}

/// Divides the records of an answer into its sections.
fn sections(path: &Path, records: Vec<Record>) -> Result<(f64, Sections), Failure> {
    let unread = |why: &str| Failure::Input(format!("control socket {}: an answer {why}", path.display()));
    let (mut records, mut at, mut sections) = (records.into_iter(), None, Vec::new());
    while let Some(head) = records.next() {
        let number = head.get("records").and_then(Value::as_u64).ok_or_else(|| unread("without sections"))?;
        at = at.or(head.get("at").and_then(Value::as_f64));
        let of_section: Vec<_> =
            records.by_ref().take(usize::try_from(number).unwrap_or(usize::MAX)).collect();
        sections.push((head.text("section").to_owned(), of_section));
    }
    Ok((at.ok_or_else(|| unread("without a time"))?, sections))
}

/// Returns an object of the time and each section. If there was an answer before, each record has its rates.
fn json_line(sections: &Sections, since: Option<(&Sections, Duration)>) -> Result<String, Failure> {
    let mut line = Vec::new();
    let with_rates = |section: &str, record: &Record| match since {
        None => record.clone(),
        Some((old, time)) => record.clone().with("rates", rates(section, record, old, time)),
    };
    let mut written = || {
        let mut serializer = serde_json::Serializer::new(&mut line);
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("time", &unix_time())?;
        for (name, records) in sections {
            let records: Vec<_> = records.iter().map(|record| with_rates(name, record)).collect();
            object.serialize_entry(name, &records)?;
        }
        object.end()
    };
    written().map_err(|error: serde_json::Error| Failure::run(error))?;
    Ok(String::from_utf8_lossy(&line).into_owned() + "\n")
}

/// Returns the growth of each counter of a record in a second.
fn rates(section: &str, record: &Record, old: &Sections, time: Duration) -> Value {
    let old = text::find(old, section, record);
    let rate = |(name, value): &(String, Value)| {
        let before = old?.get(name)?.as_u64().filter(|_| !text::is_gauge(section, name))?;
        let grown = value.as_u64()?.checked_sub(before)?;
        Some((name.clone(), json!((grown as f64 / time.as_secs_f64() * 10.0).round() / 10.0)))
    };
    Value::Object(record.0.iter().filter_map(rate).collect())
}
