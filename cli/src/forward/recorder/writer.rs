//! The file that the recordings of a run are written to.

use super::Recordings;
use crate::args::{LOST_BETWEEN, RecorderPlan, When};
use crate::failure::Failure;
use crate::forward::outcomes::Outcomes;
use crate::forward::report::dropped;
use crate::forward::worker_setup::WorkerSetup;
use crate::log::Level;
use crate::recording_file;
use crate::stopwatch::Stopwatch;
use crate::threads;
use netmem::forward::{Meters, SteeringControl};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The interval at which rates are checked.
const LOOK: Duration = Duration::from_secs(1);
/// The minimum time between two files that are written because of a rate.
const PAUSE: Duration = Duration::from_secs(60);

/// The maximum time to wait at the end of the run for a file that is being written.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which it is checked meanwhile.
const SHORT: Duration = Duration::from_millis(5);

/// Writes the recordings of a run to a file.
pub struct RecordWriter {
    recordings: Arc<Recordings>,
    to: PathBuf,
    /// Set by SIGUSR1.
    asked: Arc<AtomicBool>,
    when: Vec<Rising>,
    meters: Vec<Arc<Meters>>,
    /// The drops between workers, if they share packets.
    steering: Option<SteeringControl>,
    outcomes: Arc<Outcomes>,
    looked: Instant,
    /// The time at which a rate last caused a file.
    last: Option<Instant>,
    /// The thread that writes a file now, and why.
    writing: Option<(JoinHandle<io::Result<usize>>, String)>,
}

/// A counter that is watched, with its value at the last check.
struct Rising {
    when: When,
    before: u64,
}

impl RecordWriter {
    /// Makes the writer of the planned file. It also writes when `asked` is set. Returns None if no file is
    /// planned.
    ///
    /// # Errors
    /// [`Failure::Input`] if there can be no such file, [`Failure::NotNow`] if no descriptor is left for it.
    pub(super) fn new(
        recordings: &Arc<Recordings>,
        plan: &RecorderPlan,
        asked: Arc<AtomicBool>,
        (setups, steering): (&[WorkerSetup], Option<&SteeringControl>),
        outcomes: &Arc<Outcomes>,
    ) -> Result<Option<RecordWriter>, Failure> {
        let Some(to) = plan.to.clone() else { return Ok(None) };
        let between = |when: &&When| when.reason.is_some_and(|reason| LOST_BETWEEN.contains(&reason));
        if let Some(when) = plan.when.iter().find(between).filter(|_| steering.is_none()) {
            return Err(Failure::Input(format!(
                "--record-when {when}: packets are dropped for this reason only between workers: give --steer as well"
            )));
        }
        recording_file::check(&to).map_err(|error| {
            let remedy = recording_file::remedy_of(&error);
            Failure::of_call(&error, format!("--record-to {}: {error}{remedy}", to.display()))
        })?;
        Ok(Some(RecordWriter {
            recordings: Arc::clone(recordings),
            to,
            asked,
            when: plan.when.iter().map(|&when| Rising { when, before: 0 }).collect(),
            meters: setups.iter().map(|setup| setup.forwarder.meters()).collect(),
            steering: steering.cloned(),
            outcomes: Arc::clone(outcomes),
            looked: Instant::now(),
            last: None,
            writing: None,
        }))
    }

    /// Begins to write the file if it is due, on a thread of its own. Returns a line about a file that is written, or
    /// that cannot be. Call it often.
    pub fn look(&mut self) -> Option<(Level, String)> {
        if self.writing.is_some() {
            // A request that comes while a file is written is carried out after it.
            return self.written();
        }
        let risen = self.risen();
        let why = match (self.asked.swap(false, Relaxed), risen) {
            (true, _) => "SIGUSR1".to_owned(),
            (false, risen) => risen?,
        };
        self.begin(why)
    }

    /// Begins to write the file. Returns a line if that is not possible.
    fn begin(&mut self, why: String) -> Option<(Level, String)> {
        let (recordings, to) = (Arc::clone(&self.recordings), self.to.clone());
        let write = move || recording_file::write(recordings.read(&[]), &to);
        match threads::spawn("recorder", write) {
            Ok(thread) => {
                self.writing = Some((thread, why));
                None
            }
            Err(error) => Some(self.line(&why, Err(error))),
        }
    }

    /// Waits for the file that is being written, then carries out a request that came meanwhile. Returns the lines about
    /// both. A disk that does not answer is not waited for any longer than [`END_TIMEOUT`] for each file.
    pub fn finish(&mut self) -> Vec<(Level, String)> {
        let mut lines: Vec<_> = self.wait().into_iter().collect();
        // If the first file hangs, a second one would hang too.
        if self.writing.is_none() && self.asked.swap(false, Relaxed) {
            lines.extend(self.begin("SIGUSR1".to_owned()));
            lines.extend(self.wait());
        }
        lines
    }

    /// Waits for the file that is being written. Returns the line about it; None if none is.
    fn wait(&mut self) -> Option<(Level, String)> {
        let mut waited = Stopwatch::start();
        while let Some((thread, why)) = &self.writing {
            if thread.is_finished() {
                return self.written();
            }
            if waited.look() >= END_TIMEOUT {
                let error = io::Error::other(format!("not within {END_TIMEOUT:?}: the disk does not answer"));
                return Some(self.line(why, Err(error)));
            }
            thread::sleep(SHORT);
        }
        None
    }

    /// Returns the line about a file that has been written; None if there is none yet.
    fn written(&mut self) -> Option<(Level, String)> {
        let (thread, why) = self.writing.take_if(|(thread, _)| thread.is_finished())?;
        let written = thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")));
        Some(self.line(&why, written))
    }

    /// Returns the line about a file, and counts one that could not be written.
    fn line(&self, why: &str, written: io::Result<usize>) -> (Level, String) {
        let at = self.to.display();
        match written {
            Ok(packets) => (Level::Info, format!("{packets} recorded packets written to {at} ({why})")),
            Err(error) => {
                self.outcomes.recording_failed();
                (Level::Warning, format!("recorded packets are not written to {at} ({why}): {error}"))
            }
        }
    }

    /// Returns the counter that rises too fast, if it is time for a check and the last file of this kind is old
    /// enough.
    fn risen(&mut self) -> Option<String> {
        let passed = self.looked.elapsed();
        if passed < LOOK || self.when.is_empty() {
            return None;
        }
        self.looked = Instant::now();
        let mut risen = None;
        let dropped = dropped(&self.meters, self.steering.as_ref());
        for Rising { when, before } in &mut self.when {
            let now = when.of(&dropped);
            let rate = now.saturating_sub(std::mem::replace(before, now)) as f64 / passed.as_secs_f64();
            if rate > when.rate as f64 && risen.is_none() {
                risen = Some(format!("{when}: {rate:.0}/s"));
            }
        }
        let is_due = self.last.is_none_or(|last| last.elapsed() >= PAUSE);
        risen.filter(|_| is_due).inspect(|_| self.last = Some(Instant::now()))
    }
}
