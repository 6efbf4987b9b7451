//! `netmem stat`: looks at a running `netmem forward`.

mod text;

use crate::args::StatArgs;
use crate::control::{Record, client, default_path};
use crate::failure::Failure;
use crate::{output, stop};
use serde::Serializer;
use serde_json::json;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use text::Look;

/// What is shown when nobody asks for something particular.
const USUAL: [&str; 6] = ["forward", "workers", "ports", "pools", "holders", "drops"];
/// How often the wait looks whether it is over.
const TICK: Duration = Duration::from_millis(50);

/// Shows what was asked for, once or again and again until Ctrl-C or the end of the run.
///
/// # Errors
/// [`Failure::Input`] when nobody answers or there is no such thing.
pub fn run(args: &StatArgs) -> Result<(), Failure> {
    let path = args.control.clone().unwrap_or_else(default_path);
    let waiting = Arc::new(AtomicBool::new(true));
    stop::at_once_while(&waiting)?;
    let stop = stop::on_signal()?;
    let look = Look { coloured: output::is_coloured(), brief: args.what.is_none() };
    let mut before: Option<(Instant, Sections)> = None;
    loop {
        let now = Instant::now();
        waiting.store(true, Relaxed);
        if stop.load(Relaxed) {
            return Ok(());
        }
        let asked = ask(&path, args);
        waiting.store(false, Relaxed);
        let sections = match asked {
            Err(_) if before.is_some() && has_ended(&path) => {
                eprintln!("the run at {} has ended", path.display());
                return Ok(());
            }
            answer => answer?,
        };
        let text = match (&before, args.json) {
            (_, true) => json_line(&sections)?,
            (None, _) => look.text(&sections, None),
            (Some((then, old)), _) => {
                format!("\n{}", look.text(&sections, Some((old, now.duration_since(*then)))))
            }
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

/// Whether nobody listens there any more, or will not in a moment: it ends in the middle of an answer, too.
fn has_ended(path: &Path) -> bool {
    (0..20).any(|_| {
        let gone = UnixStream::connect(path).is_err();
        if !gone {
            thread::sleep(TICK);
        }
        gone
    })
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
