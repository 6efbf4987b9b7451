//! A flight recorder: the last packets of each port, with their verdicts.
//!
//! A [`Recorder`] is a decision that wraps another one. It keeps the beginning of each packet as it came, and then its
//! verdict. It also keeps later events: the packet waited, its drop was answered, or it was lost after its verdict (a
//! full transmit ring). Another thread reads the records at any time through the [`Recording`], even if the worker is
//! stuck. A packet without a verdict is the one in work.
//!
//! If packets go from one thread to another, [`QueueTimes`] records how long they were on the way: in lanes between
//! workers, there and back, and in the local queue. It also records events reported by a worker that did not decide
//! about them.
//!
//! A forwarder without a recorder runs none of this. Packets dropped on the way between workers, before there is a
//! verdict, are counted and not recorded.

mod queue_times;
mod recording;
mod ring;
#[cfg(test)]
mod tests;

pub use queue_times::QueueTimes;
pub use recording::{RecordedPacket, Recording};

use self::ring::{Became, Ring};
use super::decide::{Decide, Pieces, Replies, Verdicts};
use super::verdict::{Code, Reason, Verdict};
use crate::limits::BATCH_MAX;
use crate::packet::Packet;
use crate::pool::{Batch, Frame};
use crate::steer::Source;
use crate::sys::clock;
use std::error::Error;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Number of frames by which headers are prefetched ahead of the current frame.
const AHEAD: usize = 24;
/// Maximum number of packets kept for each port: fewer than the numbers in the index have bits for.
const PACKETS_MAX: usize = 1 << 20;

/// The settings of a recorder: the number of packets that it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecorderConfig {
    /// Minimum number of packets of each port, rounded up to a power of two: 64 to 2^20. Default 1,024, of 192 bytes.
    pub packets: usize,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        RecorderConfig { packets: 1024 }
    }
}

/// A decision whose packets are recorded; see [the module](self).
///
/// # Cost
/// Before the verdict, each packet's first 144 bytes are copied, and three cache lines are written: about 10 ns. With
/// [`QueueTimes`], one more line if the packet goes to another thread or comes from one.
pub struct Recorder {
    decision: Box<dyn Decide>,
    rings: Arc<[Ring]>,
    latest: Index,
    queues: Option<QueueTimes>,
    /// The number of this worker among those that share packets; None if it does not share.
    worker: Option<u16>,
}

/// Records the packets of this many ports, about which `decision` decides. Returns the decision for the forwarder, and
/// the reading end.
///
/// # Example
/// ```
/// use netmem::forward::recorder::{RecorderConfig, recorder};
/// use netmem::forward::{CrossConnect, Decide, Reason, Verdict};
/// use netmem::steer::Source;
///
/// let (mut decision, recording) = recorder(Box::new(CrossConnect), 2, RecorderConfig::default());
/// // As a forwarder does with a frame of port 0:
/// decision.decide(Source { port: 0, queue: 0 }, &mut [7; 60]);
/// let packets = recording.read(0, 0);
/// assert_eq!((packets[0].len, packets[0].verdict), (60, Some(Verdict::Redirect(1))));
/// assert_eq!(packets[0].dropped(), None);
/// ```
#[cold]
pub fn recorder(decision: Box<dyn Decide>, ports: usize, config: RecorderConfig) -> (Recorder, Recording) {
    let packets = config.packets.clamp(BATCH_MAX, PACKETS_MAX);
    let rings: Arc<[Ring]> = (0..ports).map(|_| Ring::new(packets)).collect();
    let recording = Recording::new(Arc::clone(&rings), decision.reasons());
    let latest = Index::new(2 * packets * ports);
    (Recorder { decision, rings, latest, queues: None, worker: None }, recording)
}

/// A frame's index among `entries`.
#[inline]
fn spread(id: NonZeroU32, entries: usize) -> usize {
    // Fibonacci hashing: ids of one pool are often multiples of a power of two.
    let hash = id.get().wrapping_mul(0x9e37_79b1);
    ((u64::from(hash) * entries as u64) >> 32) as usize
}

/// The record in which a frame's packet was noted last, unless another frame took its entry.
struct Index(Box<[u64]>);

impl Index {
    fn new(entries: usize) -> Index {
        Index(vec![0; entries.next_power_of_two()].into())
    }

    #[inline]
    fn entry(&mut self, id: NonZeroU32) -> &mut u64 {
        let at = spread(id, self.0.len());
        &mut self.0[at]
    }

    #[inline]
    fn put(&mut self, id: NonZeroU32, port: u8, number: u64) {
        *self.entry(id) = u64::from(id.get()) << 32 | u64::from(port) << 24 | number & 0xff_ffff;
    }

    fn forget(&mut self, id: NonZeroU32) {
        *self.entry(id) = 0;
    }

    /// The port, and the last 24 bits of the number.
    fn get(&mut self, id: NonZeroU32) -> Option<(usize, u64)> {
        let entry = *self.entry(id);
        (entry >> 32 == u64::from(id.get())).then_some(((entry >> 24) as u8 as usize, entry & 0xff_ffff))
    }
}

impl Recorder {
    /// Records from now on how long packets were in queues between threads, through `times`. All workers of the run and
    /// the readers of their local queues ([`Reader::record`](super::local_queue::Reader::record)) share `times`.
    /// `worker` is this worker's number if workers share packets ([`Steering::worker`](super::Steering::worker)).
    /// `recording` is the reading end of this recorder.
    pub fn follow(&mut self, times: &QueueTimes, worker: Option<u16>, recording: &mut Recording) {
        (self.queues, self.worker) = (Some(times.clone()), worker);
        recording.follow(times);
    }

    /// The time when a packet from `from` was put into the lane from its worker to this one; 0 if it was in none.
    #[inline]
    fn handed_at(&self, from: Source, id: Option<NonZeroU32>) -> u64 {
        let (Some(times), Some(worker), Some(id)) = (&self.queues, self.worker, id) else { return 0 };
        if from.queue == worker { 0 } else { times.put_at(id).unwrap_or(0) }
    }

    /// Records a packet from `from`. Returns its number.
    #[inline]
    fn note(&mut self, from: Source, ticks: u64, id: Option<NonZeroU32>, data: &[u8]) -> Option<u64> {
        let handed = self.handed_at(from, id);
        let number = self.rings.get(usize::from(from.port))?.note((ticks, handed), from.queue, id, data);
        if let Some(id) = id {
            self.latest.put(id, from.port, number);
        }
        Some(number)
    }

    /// Records the verdict of a packet.
    #[inline]
    fn decided(&self, from: Source, number: Option<u64>, id: Option<NonZeroU32>, code: Code) {
        if let (Some(number), Some(ring)) = (number, self.rings.get(usize::from(from.port))) {
            ring.change(number, id, |became| became.decided(code));
            if let (Some(times), Some(id), Verdict::Pass) = (&self.queues, id, code.verdict()) {
                times.put(id, ring.noted_at(number));
            }
        }
    }

    /// Returns the ring and the number of the packet that this frame had when it was received, if they are still known.
    fn find(&mut self, id: NonZeroU32) -> Option<(&Ring, u64)> {
        let (port, low) = self.latest.get(id)?;
        let ring = self.rings.get(port)?;
        let last = ring.next().checked_sub(1)?;
        // The number with these bits that equals or precedes the last one.
        let number = last.checked_sub(last.wrapping_sub(low) & 0xff_ffff)?;
        ring.holds(number).then_some((ring, number))
    }

    /// Changes the record of the packet that this frame had when it was received, if that is still known.
    fn change(&mut self, id: NonZeroU32, change: impl FnOnce(Became) -> Became) {
        if let Some((ring, number)) = self.find(id) {
            ring.change(number, Some(id), change);
        }
    }

    /// Records that a packet was dropped after its verdict: in this ring, or in the shared times, which the deciding
    /// worker reads.
    fn lost_behind(&mut self, id: NonZeroU32, reason: Reason) {
        if self.find(id).is_some() {
            self.change(id, |became| became.lost(reason));
        } else if let Some(times) = &self.queues {
            times.lost(id, reason);
        }
    }

    /// Records a packet about which the decision is not asked. `frame` has all of its bytes, if one frame does.
    fn note_decided(&mut self, from: Source, frame: Option<&Frame>, data: &[u8], verdict: Verdict) {
        let id = frame.map(Frame::id);
        let number = self.note(from, clock::ticks(), id, data);
        self.decided(from, number, id, verdict.into());
    }
}

impl Decide for Recorder {
    fn check(&self, ports: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.decision.check(ports)
    }

    fn takes_offloads(&self) -> bool {
        self.decision.takes_offloads()
    }

    fn decide(&mut self, from: Source, frame: &mut [u8]) -> Verdict {
        let number = self.note(from, clock::ticks(), None, frame);
        let verdict = self.decision.decide(from, frame);
        self.decided(from, number, None, verdict.into());
        verdict
    }

    fn decide_burst(&mut self, from: Source, burst: &mut Batch, verdicts: &mut Verdicts) {
        let (ticks, mut first) = (clock::ticks(), None);
        burst.iter().take(AHEAD).for_each(Frame::prefetch);
        for (i, frame) in burst.iter().enumerate() {
            if let Some(next) = burst.get(i + AHEAD) {
                next.prefetch();
            }
            let number = self.note(from, ticks, Some(frame.id()), frame.data());
            first = first.or(number);
        }
        let ids: [_; BATCH_MAX] = std::array::from_fn(|i| burst.get(i).map(Frame::id));
        self.decision.decide_burst(from, burst, verdicts);
        let Some(first) = first else { return };
        for ((number, id), code) in
            (first..).zip(ids).zip(verdicts.codes()).take_while(|((_, id), _)| id.is_some())
        {
            self.decided(from, Some(number), id, code);
        }
    }

    fn decide_packet(&mut self, from: Source, packet: &mut Packet) -> Verdict {
        let id = packet.whole_frame().map(Frame::id);
        let number = self.note(from, clock::ticks(), id, packet.data());
        let verdict = self.decision.decide_packet(from, packet);
        self.decided(from, number, id, verdict.into());
        verdict
    }

    fn sees_overruled(&self) -> bool {
        true
    }

    fn overruled(&mut self, from: Source, packet: &Packet, verdict: Verdict) {
        self.note_decided(from, packet.whole_frame(), packet.data(), verdict);
        self.decision.overruled(from, packet, verdict);
    }

    fn lost(&mut self, from: Option<Source>, reason: Reason, frames: &[Frame]) {
        for frame in frames {
            if let Some(from) = from {
                self.note_decided(from, Some(frame), frame.data(), Verdict::Drop(reason));
            } else {
                self.lost_behind(frame.id(), reason);
            }
        }
        self.decision.lost(from, reason, frames);
    }

    fn made(&mut self, frames: &[Frame]) {
        for frame in frames {
            self.latest.forget(frame.id());
            self.queues.iter().for_each(|times| times.forget(frame.id()));
        }
        self.decision.made(frames);
    }

    fn handed(&mut self, from: Source, frames: &[Frame]) {
        frames.iter().for_each(|frame| self.latest.forget(frame.id()));
        if let Some(times) = &self.queues {
            let ticks = clock::ticks();
            frames.iter().for_each(|frame| times.put(frame.id(), ticks));
        }
        self.decision.handed(from, frames);
    }

    fn returned(&mut self, frames: &[Frame]) {
        if let Some(times) = &self.queues {
            let ticks = clock::ticks();
            frames.iter().for_each(|frame| times.taken(frame.id(), ticks));
        }
        self.decision.returned(frames);
    }

    fn refresh(&mut self) -> bool {
        self.decision.refresh()
    }

    fn reasons(&self) -> &'static [&'static str] {
        self.decision.reasons()
    }

    fn answers(&self, reason: Reason) -> bool {
        self.decision.answers(reason)
    }

    fn answer(&mut self, from: Source, reason: Reason, dropped: &mut Batch, replies: &mut Replies) {
        self.decision.answer(from, reason, dropped, replies);
        for frame in replies.frames.iter() {
            self.change(frame.id(), Became::answered);
        }
    }

    fn fragment(&mut self, from: Source, frame: Frame, pieces: &mut Pieces<'_>) -> Result<(), Frame> {
        self.decision.fragment(from, frame, pieces)
    }

    fn wait(&mut self, from: Source, frames: &mut Batch) {
        self.decision.wait(from, frames);
    }

    fn waiting(&self) -> usize {
        self.decision.waiting()
    }

    fn resume(&mut self) -> Option<(Source, Batch)> {
        self.decision.resume()
    }

    fn decide_again(&mut self, from: Source, frames: &mut Batch, verdicts: &mut Verdicts) {
        let ticks = clock::ticks();
        // A packet that is no longer here is recorded as it is now.
        for frame in frames.iter() {
            if self.find(frame.id()).is_none() {
                self.note(from, ticks, Some(frame.id()), frame.data());
            }
        }
        self.decision.decide_again(from, frames, verdicts);
        for (frame, code) in frames.iter().zip(verdicts.codes()) {
            let Some((ring, number)) = self.find(frame.id()) else { continue };
            ring.decided_again(number, ticks);
            ring.change(number, Some(frame.id()), |became| became.decided(code));
            let noted = ring.noted_at(number);
            if let (Some(times), Verdict::Pass) = (&self.queues, code.verdict()) {
                times.put(frame.id(), noted);
            }
        }
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("ports", &self.rings.len()).finish_non_exhaustive()
    }
}
