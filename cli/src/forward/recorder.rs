//! The flight recorder of a run: its recordings, and the file that they are written to.

mod by_time;
#[cfg(test)]
mod names;
#[cfg(test)]
mod reasons;
mod writer;

use super::outcomes::Outcomes;
use super::plan::Plan;
use super::worker_setup::WorkerSetup;
use crate::control::Record;
use crate::control::registry::Registry;
use crate::failure::Failure;
use crate::log::Level;
use crate::recorded::{ANSWER_PACKETS, Recorded, digits};
use by_time::ByTime;
use netmem::forward::recorder::{QueueTimes, RecordedPacket, RecorderConfig, Recording, recorder};
use netmem::forward::{Decide, SteeringControl, Verdict};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};
use writer::RecordWriter;

/// The recordings of all workers. Any thread may read them.
pub struct Recordings {
    /// The ports' names, each of which is another one.
    ports: Vec<String>,
    workers: Vec<Recording>,
}

/// Returns the times of queues between threads, for all workers of a run with this many ports each. Returns None if
/// there are no such queues, or no recorder.
pub fn queue_times(plan: &Plan, ports: usize) -> Option<QueueTimes> {
    let recorder = plan.recorder.as_ref().filter(|_| plan.steer.is_some() || plan.local_queue.is_some())?;
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

/// The file that a recording is written to.
pub enum RecordFile {
    /// It is written when that is asked for.
    Written(RecordWriter),
    /// There is none. SIGUSR1 sets the flag.
    Missing(Arc<AtomicBool>),
}

/// The line about SIGUSR1 to a run that has no such file.
const NO_FILE: &str =
    "SIGUSR1: there is no file for a recording: start netmem with --record 1024 --record-to FILE";

impl RecordFile {
    /// Begins to write the file if it is due. Returns a line about a file that is written, or that cannot be. Call it often.
    pub fn look(&mut self) -> Option<(Level, String)> {
        match self {
            RecordFile::Written(writer) => writer.look(),
            RecordFile::Missing(asked) => {
                asked.swap(false, Relaxed).then(|| (Level::Warning, NO_FILE.to_owned()))
            }
        }
    }

    /// Carries out what was asked for so far, at the end of the run. Returns the lines about it.
    pub fn finish(&mut self) -> Vec<(Level, String)> {
        match self {
            RecordFile::Written(writer) => writer.finish(),
            RecordFile::Missing(_) => self.look().into_iter().collect(),
        }
    }
}

/// Returns the reader of a run's recorder, if there is one, and its file.
///
/// # Errors
/// Those of [`RecordWriter::new`].
pub fn of_run(
    plan: &Plan,
    asked: Arc<AtomicBool>,
    setups: &[WorkerSetup],
    steering: Option<&SteeringControl>,
    outcomes: &Arc<Outcomes>,
) -> Result<(Option<Arc<Recordings>>, RecordFile), Failure> {
    let recordings = Recordings::new(setups).map(Arc::new);
    let writer = recordings.as_ref().zip(plan.recorder.as_ref()).map(|(recordings, plan)| {
        RecordWriter::new(recordings, plan, Arc::clone(&asked), (setups, steering), outcomes)
    });
    let file = writer.transpose()?.flatten().map_or(RecordFile::Missing(asked), RecordFile::Written);
    Ok((recordings, file))
}

/// Returns the names of ports in their order, with the port's number where ports share a name, as memif ports of one
/// socket do. A viewer would take them for one interface otherwise.
fn unique_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let record = |(number, name): (usize, &str)| Record::default().with("name", name).with("number", number);
    let ports: Vec<Record> = names.enumerate().map(record).collect();
    ports.iter().map(|port| port.unique_name(&ports)).collect()
}

impl Recordings {
    /// Makes the recordings readable at the control socket.
    pub fn show(self: &Arc<Self>, registry: &mut Registry) {
        let recordings = Arc::clone(self);
        registry.set_recorded(move |since| {
            recordings.read(since).take(ANSWER_PACKETS).map(|packet| packet.record()).collect()
        });
    }

    /// Returns the recordings of a run, or None if nothing is recorded.
    fn new(setups: &[WorkerSetup]) -> Option<Recordings> {
        let workers = setups.iter().map(|setup| setup.recording.clone()).collect::<Option<Vec<_>>>()?;
        let ports = setups.first()?.forwarder.ports().map(|port| port.name());
        Some(Recordings { ports: unique_names(ports), workers })
    }

    /// Returns the packets that are recorded so far, by time, of each ring from its number in `since` on. Rings are in
    /// the order of workers and then of ports. Packets are read some at a time, so that it takes little memory.
    pub fn read<'a>(&'a self, since: &[u64]) -> impl Iterator<Item = Recorded> + use<'a> {
        ByTime::new(self, since)
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
