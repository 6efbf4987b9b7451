//! What is left to be done to a frame's data, against a model of it.

use super::*;
use crate::wire::offload::{Gso, GsoKind, Offload, PartialChecksum};
use std::num::NonZeroU16;

/// What is done to one frame.
#[derive(Debug, Clone)]
enum Step {
    Set(Offload),
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
        1 => bytes().prop_map(Step::Push),
        1 => bytes().prop_map(Step::Pull),
        2 => bytes().prop_map(Step::Put),
        1 => bytes().prop_map(Step::Trim),
        1 => (bytes(), bytes()).prop_map(|(pull, trim)| Step::Share(pull, trim)),
    ]
}

/// What a frame should be.
#[derive(Debug)]
struct Model {
    size: usize,
    off: usize,
    data: Vec<u8>,
    /// With the checksum's start from the frame's own.
    offload: Option<Offload>,
}

impl Model {
    /// As the frame says it: not where the data begins behind the checksum's start.
    fn seen(&self) -> Option<Offload> {
        let Offload { checksum, gso } = self.offload?;
        let checksum = match checksum {
            Some(PartialChecksum { start, offset }) => {
                let start = start.checked_sub(self.off as u16)?;
                Some(PartialChecksum { start, offset })
            }
            None => None,
        };
        Some(Offload { checksum, gso })
    }

    fn headroom(&self) -> usize {
        self.off - if self.offload.is_some() { 10 } else { 0 }
    }

    fn tailroom(&self) -> usize {
        let end = if self.offload.is_some() { self.size.min(32_767) } else { self.size };
        end - self.off - self.data.len()
    }

    fn cut(&mut self, pull: usize, len: usize) {
        self.off += pull;
        self.data.drain(..pull);
        self.data.truncate(len);
        if self.data.is_empty() {
            self.offload = None;
        }
    }

    fn set(&mut self, offload: Offload) -> bool {
        let had = self.offload.take();
        if offload.is_none() {
            return true;
        }
        let end = self.off + self.data.len();
        let fits = self.off >= 10 && !self.data.is_empty() && end < 32_768;
        self.offload = if fits { Some(offload.moved_by(self.off as u16)) } else { had };
        fits
    }
}

fn apply(frame: &mut Frame, model: &mut Model, step: &Step, filler: u8) {
    match *step {
        Step::Set(offload) => assert_eq!(frame.set_offload(offload).is_ok(), model.set(offload)),
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
    fn what_is_left_to_be_done_follows_the_data_and_changes_none_of_it(
        size in prop_oneof![Just(2048usize), Just(32_768)], headroom in prop_oneof![Just(0usize), Just(10), Just(256)],
        steps in prop::collection::vec(step(), 1..24),
    ) {
        let memory = memory(1);
        let mut w = memory.worker().unwrap();
        let (frames, data) = (2, size - headroom);
        let config =
            PoolConfig { frames, cache: 2, refill: 1, headroom, data, ..PoolConfig::of_frames(size) };
        let pool = Pool::new(&memory, &mut w, &config).unwrap();
        let mut frame = pool.alloc(&mut w).unwrap();
        let mut model = Model { size, off: headroom, data: Vec::new(), offload: None };
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
                other.free(&mut w);
                frame = shared.into_frame().unwrap();
            } else {
                apply(&mut frame, &mut model, step, i as u8 + 1);
            }
            prop_assert_eq!(frame.data(), &model.data[..]);
            prop_assert_eq!(frame.offload(), model.seen());
            prop_assert_eq!(frame.has_offload(), model.offload.is_some());
            prop_assert_eq!((frame.headroom(), frame.tailroom()), (model.headroom(), model.tailroom()));
        }
        frame.free(&mut w);
        let frame = pool.alloc(&mut w).unwrap();
        prop_assert!(!frame.has_offload(), "nothing is left to be done to a fresh frame");
        frame.free(&mut w);
        prop_assert!(pool.ledger().all_home());
    }
}

/// A peer of a shared memory may write to a frame that it was promised not to: nonsense there is nothing to be done.
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
