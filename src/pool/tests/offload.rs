//! The metadata at a frame's start against a model of it: the offload, and the time of recording.

use super::*;
use crate::pool::NoRoom;
use crate::wire::offload::{Gso, GsoKind, Offload, PartialChecksum};
use std::num::NonZeroU16;
use std::time::Duration;

/// The operations on one frame.
#[derive(Debug, Clone)]
enum Step {
    Set(Offload),
    Recorded(Option<Duration>),
    Push(usize),
    Pull(usize),
    Put(usize),
    Trim(usize),
    Share(usize, usize),
}

fn offload() -> impl Strategy<Value = Offload> {
    let checksum = (0..200u16, 0..200u16).prop_map(|(start, offset)| PartialChecksum { start, offset });
    let gso =
        (1..u16::MAX).prop_map(|size| Gso { kind: GsoKind::TcpV6, size: NonZeroU16::new(size).unwrap() });
    (prop::option::of(checksum), prop::option::of(gso)).prop_map(|(checksum, gso)| Offload { checksum, gso })
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop_oneof![0..20usize, 0..300usize, 0..33_000usize, Just(2048), Just(32_768 - 256)];
    prop_oneof![
        3 => offload().prop_map(Step::Set),
        2 => prop::option::of(0..u64::MAX).prop_map(|ns| Step::Recorded(ns.map(Duration::from_nanos))),
        1 => bytes().prop_map(Step::Push),
        1 => bytes().prop_map(Step::Pull),
        2 => bytes().prop_map(Step::Put),
        1 => bytes().prop_map(Step::Trim),
        1 => (bytes(), bytes()).prop_map(|(pull, trim)| Step::Share(pull, trim)),
    ]
}

/// The expected state of a frame.
#[derive(Debug)]
struct Model {
    size: usize,
    off: usize,
    data: Vec<u8>,
    /// With the checksum's start counted from the frame's start.
    offload: Option<Offload>,
    timestamp: Option<Duration>,
}

impl Model {
    fn has_metadata(&self) -> bool {
        self.offload.is_some() || self.timestamp.is_some()
    }

    /// The offload that the frame reports.
    fn seen(&self) -> Option<Offload> {
        let Offload { checksum, gso } = self.offload?;
        let checksum = checksum.map(|PartialChecksum { start, offset }| {
            let start = start - self.off as u16;
            PartialChecksum { start, offset }
        });
        Some(Offload { checksum, gso })
    }

    fn headroom(&self) -> usize {
        self.off - if self.has_metadata() { 18 } else { 0 }
    }

    fn tailroom(&self) -> usize {
        let end = if self.has_metadata() { self.size.min(32_767) } else { self.size };
        end - self.off - self.data.len()
    }

    fn cut(&mut self, pull: usize, len: usize) {
        self.off += pull;
        self.data.drain(..pull);
        self.data.truncate(len);
        if self.data.is_empty() {
            (self.offload, self.timestamp) = (None, None);
        }
        let checksum = self.offload.and_then(|offload| offload.checksum);
        if checksum.is_some_and(|checksum| usize::from(checksum.start) < self.off) {
            self.offload = None;
        }
    }

    /// Sets both if there is room for them. Returns whether there was.
    fn set(&mut self, offload: Option<Offload>, timestamp: Option<Duration>) -> bool {
        let end = self.off + self.data.len();
        let fits = self.off >= 18 && !self.data.is_empty() && end < 32_768;
        let is_done = fits || (offload, timestamp) == (None, None);
        if is_done {
            (self.offload, self.timestamp) = (offload, timestamp);
        }
        is_done
    }
}

fn apply(frame: &mut Frame, model: &mut Model, step: &Step, filler: u8) {
    match *step {
        Step::Set(offload) => {
            let said = (!offload.is_none()).then(|| offload.moved_by(model.off as u16));
            assert_eq!(frame.set_offload(offload).is_ok(), model.set(said, model.timestamp));
        }
        Step::Recorded(at) => assert_eq!(frame.set_timestamp(at).is_ok(), model.set(model.offload, at)),
        Step::Push(n) => {
            let fits = n <= model.headroom();
            assert_eq!(frame.push(n).is_ok(), fits);
            if fits {
                frame.data_mut()[..n].fill(filler);
                model.data.splice(..0, vec![filler; n]);
                model.off -= n;
            }
        }
        Step::Pull(n) => {
            let fits = n <= model.data.len();
            assert_eq!(frame.pull(n).is_ok(), fits);
            if fits {
                model.cut(n, usize::MAX);
            }
        }
        Step::Put(n) => {
            let put = frame.put(n).map(|room| room.fill(filler)).is_ok();
            assert_eq!(put, n <= model.tailroom());
            model.data.resize(model.data.len() + if put { n } else { 0 }, filler);
        }
        Step::Trim(n) => {
            let fits = n <= model.data.len();
            assert_eq!(frame.trim(n).is_ok(), fits);
            if fits {
                model.cut(0, n);
            }
        }
        Step::Share(..) => {}
    }
}

proptest! {
    #[test]
    fn what_stands_at_a_frames_start_follows_the_data_and_changes_none_of_it(
        size in prop_oneof![Just(2048usize), Just(32_768)], headroom in prop_oneof![Just(0usize), Just(18), Just(256)],
        steps in prop::collection::vec(step(), 1..24),
    ) {
        let memory = memory(1);
        let mut w = memory.worker().unwrap();
        let (frames, data) = (2, size - headroom);
        let config =
            PoolConfig { frames, cache: 2, refill: 1, headroom, data, ..PoolConfig::of_frames(size) };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        let mut frame = pool.alloc(&mut w).unwrap();
        let mut model = Model { size, off: headroom, data: Vec::new(), offload: None, timestamp: None };
        for (i, step) in steps.iter().enumerate() {
            if let Step::Share(pull, trim) = *step {
                let mut shared = frame.share();
                let other = shared.clone();
                if shared.pull(pull).is_ok() {
                    model.cut(pull, usize::MAX);
                }
                if shared.trim(trim).is_ok() {
                    model.cut(0, trim);
                }
                prop_assert_eq!((shared.data(), shared.offload()), (&model.data[..], model.seen()));
                prop_assert_eq!(shared.timestamp(), model.timestamp);
                other.free(&mut w);
                frame = shared.into_frame().unwrap();
            } else {
                apply(&mut frame, &mut model, step, i as u8 + 1);
            }
            prop_assert_eq!(frame.data(), &model.data[..]);
            prop_assert_eq!(frame.offload(), model.seen());
            prop_assert_eq!(frame.has_offload(), model.offload.is_some());
            prop_assert_eq!(frame.timestamp(), model.timestamp);
            prop_assert_eq!((frame.headroom(), frame.tailroom()), (model.headroom(), model.tailroom()));
        }
        frame.free(&mut w);
        let frame = pool.alloc(&mut w).unwrap();
        prop_assert!(!frame.has_offload(), "nothing is left to be done to a fresh frame");
        prop_assert_eq!(frame.timestamp(), None);
        frame.free(&mut w);
        prop_assert!(pool.ledger().all_freed());
    }
}

/// A peer of a shared memory may break its promise and write to a frame. Invalid values there mean that there is no
/// offload.
#[test]
fn nonsense_at_a_frames_start_is_no_offload() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 1);
    let mut frame = pool.alloc(&mut w).unwrap();
    frame.put_zeroed(60).unwrap();
    let checksum = PartialChecksum { start: 34, offset: 6 };
    frame.set_offload(Offload { checksum: Some(checksum), gso: None }).unwrap();
    let mut other = frame.share();
    other.trim(30).unwrap();
    assert!(other.offload().is_some(), "what was cut off is the holder's to know");
    let mut frame = other.into_frame().unwrap();
    frame.trim(0).unwrap();
    let headroom = frame.headroom();
    frame.push(headroom).unwrap();
    frame.data_mut()[..10].copy_from_slice(&[1, 3, 0, 0, 1, 0, 34, 0, 6, 0]);
    frame.pull(headroom).unwrap();
    assert_eq!(frame.offload(), None);
    frame.free(&mut w);
}

/// Found: such a start was stored as another one.
#[test]
fn a_checksum_that_starts_behind_all_frames_is_refused_and_the_offload_stays() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 1);
    let mut frame = pool.alloc(&mut w).unwrap();
    frame.put_zeroed(60).unwrap();
    let starting = |start| Offload { checksum: Some(PartialChecksum { start, offset: 6 }), gso: None };
    let last = u16::MAX - frame.headroom() as u16;
    frame.set_offload(starting(last)).unwrap();
    let wanted = NoRoom { wanted: u32::from(last) + 1, room: last.into() };
    assert_eq!(frame.set_offload(starting(last + 1)), Err(wanted));
    assert_eq!(frame.offload(), Some(starting(last)));
    frame.free(&mut w);
}

/// Found: the offload of a tunnel's outer checksum came back with the next push, and the frame counted as one with an
/// offload in between.
#[test]
fn an_offload_whose_start_was_pulled_off_is_gone_and_does_not_come_back() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 1);
    let mut frame = pool.alloc(&mut w).unwrap();
    let offload = Offload { checksum: Some(PartialChecksum { start: 34, offset: 6 }), gso: None };
    for timestamp in [None, Some(Duration::from_secs(9))] {
        frame.trim(0).unwrap();
        frame.put_zeroed(100).unwrap();
        frame.set_timestamp(timestamp).unwrap();
        frame.set_offload(offload).unwrap();
        frame.pull(34).unwrap();
        assert_eq!(
            frame.offload().and_then(|offload| offload.checksum).map(|checksum| checksum.start),
            Some(0)
        );
        frame.pull(8).unwrap();
        assert_eq!((frame.offload(), frame.has_offload()), (None, false));
        let headroom = frame.headroom();
        frame.push(42).unwrap();
        assert_eq!((frame.offload(), frame.has_offload()), (None, false));
        assert_eq!((frame.headroom(), frame.timestamp()), (headroom - 42, timestamp));
    }
    frame.free(&mut w);
}
