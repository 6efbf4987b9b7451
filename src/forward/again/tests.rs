//! Frames that a decision gets a second time, and counts that the forwarder does not take from others.

use crate::forward::{Decide, Forwarder, Pieces, Reason, Reflect, Replies, Verdict, Verdicts};
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Frame, Pool};
use crate::port::Fill;
use crate::port::conformance::Fixture;
use crate::port::mem::{MemConfig, MemDevice, MemPort};
use crate::port::tests::moody::{Mood, Moody};
use crate::stats::Count;
use crate::steer::Source;
use crate::sync::Worker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A forwarder of one port with this decision, which has received `n` frames in its last round.
fn forwarded(decision: impl Decide + 'static, n: usize) -> (Forwarder, Fixture, MemDevice) {
    let mut fixture = Fixture::new(256);
    let (port, mut device) = MemPort::pair("0", &MemConfig::default()).unwrap();
    let mut forwarder =
        Forwarder::new(vec![Box::new(port)], fixture.pool.clone(), Box::new(decision)).unwrap();
    forwarder.poll(&mut fixture.w);
    assert_eq!(device.deliver(n, |_| 60), n);
    assert_eq!(forwarder.poll(&mut fixture.w), n);
    (forwarder, fixture, device)
}

/// Drops all, and answers each drop by a reply with this verdict. Pieces are dropped.
struct Answers(Verdict);

const OWN: Verdict = Verdict::Drop(Reason::Own(0));

impl Decide for Answers {
    fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
        OWN
    }

    fn answers(&self, _: Reason) -> bool {
        true
    }

    fn answer(&mut self, _: Source, _: Reason, dropped: &mut Batch, replies: &mut Replies) {
        dropped.drain().for_each(|frame| drop(replies.push(frame, self.0)));
    }

    fn fragment(&mut self, _: Source, frame: Frame, pieces: &mut Pieces<'_>) -> Result<(), Frame> {
        pieces.push(frame, OWN)
    }
}

/// Seen: a decision answered each drop by a reply that was to be dropped. The stack overflowed.
#[test]
fn a_reply_that_is_dropped_is_not_answered() {
    for (verdict, fragments) in [(OWN, 0), (Verdict::Fragment, 3)] {
        let (forwarder, Fixture { pool, .. }, _device) = forwarded(Answers(verdict), 3);
        let meters = forwarder.meters();
        assert_eq!((meters.originated.get(), meters.fragments.get()), (3, fragments), "{verdict:?}");
        assert_eq!((meters.drops.get(Reason::Own(0)), pool.ledger().owned), (6, 0), "{verdict:?}");
    }
}

/// Lets all frames wait until `known`, and is asked about all of them again in each round.
#[derive(Default)]
struct Waits {
    queue: VecDeque<Frame>,
    known: Arc<AtomicBool>,
    /// It does not say how many frames wait.
    silent: bool,
}

impl Decide for Waits {
    fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
        if self.known.load(Relaxed) { Verdict::Tx } else { Verdict::Wait }
    }

    fn refresh(&mut self) -> bool {
        true
    }

    fn wait(&mut self, _: Source, frames: &mut Batch) {
        self.queue.extend(frames.drain());
    }

    fn waiting(&self) -> usize {
        if self.silent { 0 } else { self.queue.len() }
    }

    fn resume(&mut self) -> Option<(Source, Batch)> {
        let mut frames = Batch::new();
        let n = self.queue.len().min(BATCH_MAX);
        self.queue.drain(..n).for_each(|frame| drop(frames.push(frame)));
        (n > 0).then_some((Source::default(), frames))
    }
}

/// Seen: a decision kept waiting frames in one queue, and let them wait again when it was asked. One round never ended.
#[test]
fn a_round_ends_although_frames_that_are_asked_about_again_wait_again() {
    for silent in [false, true] {
        let known = Arc::new(AtomicBool::new(false));
        let decision = Waits { known: Arc::clone(&known), silent, ..Waits::default() };
        let (mut forwarder, Fixture { mut w, .. }, mut device) = forwarded(decision, BATCH_MAX);
        for _ in 0..2 {
            assert_eq!(device.deliver(50, |_| 60), 50);
            forwarder.poll(&mut w);
        }
        let meters = forwarder.meters();
        assert_eq!((meters.transmitted.get(), meters.drops.total()), (0, 0));
        known.store(true, Relaxed);
        // A batch of them in each round, at least.
        (0..4).for_each(|_| _ = forwarder.poll(&mut w));
        assert_eq!((meters.transmitted.get(), meters.held.get()), (BATCH_MAX as u64 + 100, 0));
    }
}

/// Says that as many frames wait as a number can say.
struct Boasts;

impl Decide for Boasts {
    fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
        Verdict::Tx
    }

    fn refresh(&mut self) -> bool {
        true
    }

    fn waiting(&self) -> usize {
        usize::MAX
    }
}

/// Seen: the sum with the frames that the port did not take overflowed, which ended a debug build.
#[test]
fn a_decision_that_says_that_more_frames_wait_than_there_are_ends_no_round() {
    let mut fixture = Fixture::new(256);
    let (port, mut device) = MemPort::pair("0", &MemConfig { ring: 16, coalesce: 1 }).unwrap();
    let mut forwarder = Forwarder::new(vec![Box::new(port)], fixture.pool.clone(), Box::new(Boasts)).unwrap();
    for _ in 0..4 {
        forwarder.poll(&mut fixture.w);
        device.deliver(16, |_| 60);
    }
    assert_eq!(forwarder.meters().held.get(), u64::MAX);
}

/// Takes the first frame of each burst, or adds one to it.
struct Changes(Option<(Pool, Worker)>);

impl Decide for Changes {
    fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
        Verdict::Tx
    }

    fn decide_burst(&mut self, _: Source, burst: &mut Batch, verdicts: &mut Verdicts) {
        if let Some((pool, w)) = &mut self.0 {
            let mut frame = pool.alloc(w).unwrap();
            frame.put_zeroed(60).unwrap();
            burst.push(frame).unwrap();
        } else {
            drop(burst.pop_front());
        }
        verdicts.fill(Verdict::Tx);
    }
}

/// Seen: a decision took frames out of its bursts, and another added some. The counters did not add up.
#[test]
fn frames_that_a_decision_takes_out_of_a_burst_or_adds_are_counted() {
    let counts = |decision| {
        let (forwarder, ..) = forwarded(decision, 10);
        let meters = forwarder.meters();
        [&meters.transmitted, &meters.passed, &meters.originated].map(Count::get)
    };
    assert_eq!(counts(Changes(None)), [9, 1, 0]);
    let Fixture { w, pool, .. } = Fixture::new(8);
    assert_eq!(counts(Changes(Some((pool, w)))), [11, 0, 1]);
}

/// Seen: a port reported more completed frames than it gave back. The forwarder asked it for more without end.
#[test]
fn a_port_that_reports_more_completed_frames_than_it_gives_back_ends_no_round() {
    let Fixture { mut w, pool, .. } = Fixture::new(64);
    let (port, mut device) = MemPort::pair("0", &MemConfig { coalesce: 1, ..MemConfig::default() }).unwrap();
    let port = Moody::new(port, Mood::Boastful);
    let mut forwarder = Forwarder::new(vec![Box::new(port)], pool, Box::new(Reflect)).unwrap();
    forwarder.poll(&mut w);
    assert_eq!(device.deliver(3, |_| 60), 3);
    forwarder.poll(&mut w);
    assert_eq!(device.collect(BATCH_MAX, |_| ()), 3);
    forwarder.poll(&mut w);
    assert_eq!([&forwarder.meters().transmitted, &forwarder.meters().completed].map(Count::get), [3, 3]);
}

/// Seen: the port's own numbers were added up. `transmitted` was wrong, and a build with checks for overflow panicked, also in
/// the measurement of latency and in `refill`.
#[test]
fn a_port_that_returns_absurd_numbers_has_only_what_it_moved_counted() {
    let Fixture { mut w, pool, .. } = Fixture::new(64);
    let config = MemConfig { coalesce: 1, ring: 32 };
    let (port, mut device) = MemPort::pair("0", &config).unwrap();
    let mut port = Moody::new(port, Mood::Absurd);
    assert_eq!(port.refill_to(&mut w, &pool, 8), 8);
    let mut forwarder = Forwarder::new(vec![Box::new(port)], pool, Box::new(Reflect)).unwrap();
    forwarder.measure_latency();
    for _ in 0..3 {
        forwarder.poll(&mut w);
        assert_eq!(device.deliver(3, |_| 60), 3);
        assert_eq!(forwarder.poll(&mut w), 3);
        assert_eq!(device.collect(BATCH_MAX, |_| ()), 3);
    }
    forwarder.poll(&mut w);
    let meters = forwarder.meters();
    assert_eq!([&meters.received, &meters.transmitted, &meters.completed].map(Count::get), [9, 9, 9]);
}
