//! A thread that asks the forwarder, once an interval.

use super::reading::Snapshot;
use crate::control::client::ANSWER_TIMEOUT;
use crate::failure::Failure;
use crate::stat;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The requested sections.
const SECTIONS: [&str; 5] = ["ports", "workers", "pools", "holders", "drops"];

/// The result of a request.
#[derive(Debug)]
pub enum Sample {
    /// The answer.
    Answer(Snapshot),
    /// No process listens there any more.
    Ended,
    Failed(Failure),
}

/// Asks repeatedly, first after one interval, until the last answer or until the receiver is gone.
///
/// # Errors
/// [`Failure::Run`] if a thread cannot be started.
pub fn start(path: &Path, interval: Duration) -> Result<Receiver<Sample>, Failure> {
    let (to, samples) = channel();
    let path = path.to_owned();
    thread::Builder::new()
        .name("sampler".to_owned())
        .spawn(move || again(&path, interval, &to))
        .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
    Ok(samples)
}

/// Asks once.
///
/// # Errors
/// [`Failure::NotNow`] if no process answers.
pub fn ask(path: &Path) -> Result<Snapshot, Failure> {
    let (at, sections) = stat::ask(path, &SECTIONS, ANSWER_TIMEOUT)?;
    Ok(Snapshot::new(at, &sections))
}

fn again(path: &Path, interval: Duration, to: &Sender<Sample>) {
    let mut before = Instant::now();
    loop {
        thread::sleep(interval.saturating_sub(before.elapsed()));
        before = Instant::now();
        let sample = match ask(path) {
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
