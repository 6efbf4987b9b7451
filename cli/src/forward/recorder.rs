//! The flight recorder of a run: its recordings, and the file that they are written to.

use super::plan::Plan;
use super::worker_setup::WorkerSetup;
use crate::args::{RecorderPlan, When};
use crate::control::registry::Registry;
use crate::failure::Failure;
use crate::log::Level;
use crate::recorded::{Capture, Recorded, digits};
use netmem::forward::recorder::{QueueTimes, RecordedPacket, RecorderConfig, Recording, recorder};
use netmem::forward::{Decide, Meters, Verdict};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

#[cfg(test)]
mod reasons;

/// The interval at which rates are checked.
const LOOK: Duration = Duration::from_secs(1);
/// The minimum time between two files that are written because of a rate.
const PAUSE: Duration = Duration::from_secs(60);

/// The recordings of all workers. Any thread may read them.
pub struct Recordings {
    ports: Vec<String>,
    workers: Vec<Recording>,
}

/// Returns the times of queues between threads, for all workers of a run with this many ports each. Returns None if
/// there are no such queues, or no recorder.
pub fn queue_times(plan: &Plan, ports: usize) -> Option<QueueTimes> {
    let recorder = plan.recorder.as_ref().filter(|_| plan.steer.is_some() || plan.hold.is_some())?;
    Some(QueueTimes::new(recorder.packets * ports * plan.workers))
}

/// Puts a recorder around the decision of worker `number`, if there is to be one. Also returns the handle that
/// reads the recording.
pub fn around(
    decision: Box<dyn Decide>,
    (number, ports): (usize, usize),
    plan: &Plan,
    times: Option<&QueueTimes>,
) -> (Box<dyn Decide>, Option<Recording>) {
    let Some(recorder_plan) = &plan.recorder else { return (decision, None) };
    let config = RecorderConfig { packets: recorder_plan.packets };
    let (mut recorder, mut recording) = recorder(decision, ports, config);
    if let Some(times) = times {
        recorder.follow(times, plan.steer.as_ref().map(|_| number as u16), &mut recording);
    }
    (Box::new(recorder), Some(recording))
}

/// Returns the reader of a run's recorder and the writer of its file, as far as there are any.
///
/// # Errors
/// Those of [`RecordWriter::new`].
pub fn of_run(
    plan: Option<&RecorderPlan>,
    asked: Option<Arc<AtomicBool>>,
    setups: &[WorkerSetup],
) -> Result<(Option<Arc<Recordings>>, Option<RecordWriter>), Failure> {
    let recordings = Recordings::new(setups).map(Arc::new);
    let writer = recordings.as_ref().zip(plan).zip(asked);
    let writer = writer.map(|((recordings, plan), asked)| RecordWriter::new(recordings, plan, asked, setups));
    Ok((recordings, writer.transpose()?.flatten()))
}

impl Recordings {
    /// Makes the recordings readable at the control socket.
    pub fn show(self: &Arc<Self>, registry: &mut Registry) {
        let recordings = Arc::clone(self);
        registry.set_recorded(move |since| recordings.read(since).iter().map(Recorded::record).collect());
    }

    /// Returns the recordings of a run, or None if nothing is recorded.
    fn new(setups: &[WorkerSetup]) -> Option<Recordings> {
        let workers = setups.iter().map(|setup| setup.recording.clone()).collect::<Option<Vec<_>>>()?;
        let ports = setups.first()?.forwarder.ports().map(|port| port.name().to_owned()).collect();
        Some(Recordings { ports, workers })
    }

    /// Returns the recorded packets by time, of each ring from its number in `since` on. Rings are in the order of
    /// workers and then of ports.
    pub fn read(&self, since: &[u64]) -> Vec<Recorded> {
        let mut all = Vec::new();
        for (worker, recording) in self.workers.iter().enumerate() {
            for (port, name) in self.ports.iter().enumerate() {
                let ring = worker * self.ports.len() + port;
                let from = since.get(ring).copied().unwrap_or_default();
                let packets = recording.read(port, from);
                all.extend(
                    packets.iter().map(|packet| self.recorded((ring, worker, name), recording, packet)),
                );
            }
        }
        all.sort_by_key(|packet| packet.time_ns);
        all
    }

    /// Returns a packet of this ring, which belongs to the worker's port with this name.
    fn recorded(
        &self,
        (ring, worker, port): (usize, usize, &str),
        recording: &Recording,
        packet: &RecordedPacket,
    ) -> Recorded {
        let (verdict, to) = match packet.verdict {
            Some(Verdict::Redirect(to)) => (Some("redirect"), self.ports.get(usize::from(to)).cloned()),
            Some(Verdict::Tx) => (Some("tx"), None),
            Some(Verdict::Pass) => (Some("pass"), None),
            Some(Verdict::Wait) => (Some("wait"), None),
            Some(Verdict::Fragment) => (Some("fragment"), None),
            Some(Verdict::Drop(_)) => (Some("drop"), None),
            None => (None, None),
        };
        let ns = |time: Duration| time.as_nanos() as u64;
        Recorded {
            ring,
            worker,
            port: port.to_owned(),
            queue: packet.queue,
            number: packet.number,
            time_ns: packet.time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, ns),
            len: packet.len as u32,
            bytes: digits(&packet.bytes),
            verdict: verdict.map(str::to_owned),
            to,
            dropped: packet.dropped().map(|reason| recording.name(reason).to_owned()),
            waited_ns: packet.waited.map(ns),
            lane_ns: packet.lane.map(ns),
            lane_back_ns: packet.lane_back.map(ns),
            local_queue_ns: packet.local_queue.map(ns),
            answered: packet.is_answered,
        }
    }
}

/// Writes the recordings of a run to a file.
pub struct RecordWriter {
    recordings: Arc<Recordings>,
    to: PathBuf,
    /// Set by SIGUSR1.
    asked: Arc<AtomicBool>,
    when: Vec<Rising>,
    meters: Vec<Arc<Meters>>,
    looked: Instant,
    /// The time at which a rate last caused a file.
    last: Option<Instant>,
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
    /// [`Failure::Input`] if there can be no such file.
    fn new(
        recordings: &Arc<Recordings>,
        plan: &RecorderPlan,
        asked: Arc<AtomicBool>,
        setups: &[WorkerSetup],
    ) -> Result<Option<RecordWriter>, Failure> {
        let Some(to) = plan.to.clone() else { return Ok(None) };
        let part = part_of(&to);
        File::create(&part)
            .and_then(|_| fs::remove_file(&part))
            .map_err(|error| Failure::Input(format!("--record-to {}: {error}", to.display())))?;
        Ok(Some(RecordWriter {
            recordings: Arc::clone(recordings),
            to,
            asked,
            when: plan.when.iter().map(|&when| Rising { when, before: 0 }).collect(),
            meters: setups.iter().map(|setup| setup.forwarder.meters()).collect(),
            looked: Instant::now(),
            last: None,
        }))
    }

    /// Writes the file if it is due, and returns the line about it. Call it often.
    pub fn look(&mut self) -> Option<(Level, String)> {
        let risen = self.risen();
        let why = match (self.asked.swap(false, Relaxed), risen) {
            (true, _) => "SIGUSR1".to_owned(),
            (false, Some(why)) => why,
            (false, None) => return None,
        };
        let at = self.to.display();
        Some(match write(&self.recordings.read(&[]), &self.to) {
            Ok(packets) => (Level::Info, format!("{packets} recorded packets written to {at} ({why})")),
            Err(error) => {
                (Level::Warning, format!("recorded packets are not written to {at} ({why}): {error}"))
            }
        })
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
        for Rising { when, before } in &mut self.when {
            let dropped = |meters: &Arc<Meters>| match when.reason {
                Some(reason) => meters.drops.get(reason),
                None => meters.drops.total(),
            };
            let now: u64 = self.meters.iter().map(dropped).sum();
            let rate = now.saturating_sub(std::mem::replace(before, now)) as f64 / passed.as_secs_f64();
            if rate > when.rate as f64 && risen.is_none() {
                risen = Some(format!("{when}: {rate:.0}/s"));
            }
        }
        let is_due = self.last.is_none_or(|last| last.elapsed() >= PAUSE);
        risen.filter(|_| is_due).inspect(|_| self.last = Some(Instant::now()))
    }
}

/// Returns the path of a file that is being written, before it gets its name.
fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    part.into()
}

/// Writes packets to a file that replaces the one of that name. Returns their number.
fn write(packets: &[Recorded], path: &Path) -> io::Result<usize> {
    let part = part_of(path);
    let written = write_all(packets, File::create(&part)?).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // The error to report is that of the write.
        let _ = fs::remove_file(&part);
    }
    written.map(|()| packets.len())
}

fn write_all(packets: &[Recorded], file: File) -> io::Result<()> {
    let mut capture = Capture::new(BufWriter::new(file))?;
    packets.iter().try_for_each(|packet| capture.write(packet))?;
    capture.to().flush()?;
    capture.to().get_ref().sync_all()
}
