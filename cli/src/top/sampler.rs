//! A thread that asks the forwarder, once an interval.

use super::reading::Snapshot;
use crate::control::client::Client;
use crate::failure::Failure;
use crate::stat;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What is asked for.
const SECTIONS: [&str; 5] = ["ports", "workers", "pools", "holders", "drops"];

/// What came of asking.
#[derive(Debug)]
pub enum Sample {
    /// What was answered.
    Answer(Snapshot),
    /// Nobody listens there any more.
    Ended,
    Failed(Failure),
}

/// Asks again and again from an interval after it has `begun` on, until one answer is the last or nobody takes them.
///
/// # Errors
/// [`Failure::Run`] when there can be no thread.
pub fn start(path: &Path, interval: Duration, begun: Instant) -> Result<Receiver<Sample>, Failure> {
    let (to, samples) = channel();
    let path = path.to_owned();
    thread::Builder::new()
        .name("sampler".to_owned())
        .spawn(move || again(&path, interval, begun, &to))
        .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
    Ok(samples)
}

/// Asks once; moments are since it has `begun`.
///
/// # Errors
/// [`Failure::Input`] when nobody answers.
pub fn ask(path: &Path, begun: Instant) -> Result<Snapshot, Failure> {
    let client = Client::connect(path).map_err(Failure::Input)?;
    let mut sections = Vec::new();
    for name in SECTIONS {
        let at = begun.elapsed().as_secs_f64();
        sections.push((at, stat::section(&client, name)?));
    }
    Ok(Snapshot::new(&sections))
}

fn again(path: &Path, interval: Duration, begun: Instant, to: &Sender<Sample>) {
    let mut before = begun;
    loop {
        thread::sleep(interval.saturating_sub(before.elapsed()));
        before = Instant::now();
        let sample = match ask(path, begun) {
            Ok(snapshot) => Sample::Answer(snapshot),
            Err(_) if stat::has_ended(path) => Sample::Ended,
            Err(failure) => Sample::Failed(failure),
        };
        let is_last = !matches!(sample, Sample::Answer(..));
        if to.send(sample).is_err() || is_last {
            return;
        }
    }
}
