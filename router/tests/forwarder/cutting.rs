//! Results of a decision's `fragment` for frames that are to be fragmented.

use super::*;
use netmem::forward::{Pieces, Verdict};
use netmem::pool::Frame;
use netmem::steer::Source;

/// Decides that every frame is to be fragmented, by this function.
struct Cutting(fn(Frame, &mut Pieces<'_>) -> Result<(), Frame>);

impl Decide for Cutting {
    fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
        Verdict::Fragment
    }

    fn fragment(&mut self, _: Source, frame: Frame, pieces: &mut Pieces<'_>) -> Result<(), Frame> {
        (self.0)(frame, pieces)
    }
}

/// Drops a frame, and sends a packet to either end of its connection.
fn drop_and_tell_both(frame: Frame, pieces: &mut Pieces<'_>) -> Result<(), Frame> {
    let Some(resets) = pieces.alloc(2) else { return Err(frame) };
    for (mut reset, verdict) in resets.into_iter().zip([Verdict::Tx, Verdict::Redirect(1)]) {
        reset.put_zeroed(60).unwrap();
        pieces.push(reset, verdict)?;
    }
    pieces.push(frame, Verdict::Drop(Reason::Blackhole))
}

#[test]
fn a_frame_is_dropped_under_its_reason_and_both_ends_get_a_packet() {
    let (left, counts, drops) = cut(Box::new(Cutting(drop_and_tell_both)));
    assert_eq!((left, counts, drops), ([10, 10], (10, 30), vec![("blackhole", 10)]));
}

/// Decides the same without such a function.
struct Blunt;

impl Decide for Blunt {
    fn decide(&mut self, _: Source, _: &mut [u8]) -> Verdict {
        Verdict::Fragment
    }
}

/// Frames that leave by each port, packets that were fragmented and their fragments, and drops.
type Outcome = ([usize; 2], (u64, u64), Vec<(&'static str, u64)>);

/// Returns the outcome of a burst of ten.
fn cut(mode: Box<dyn Decide>) -> Outcome {
    let mut rig = rig(2048, mode);
    let mut traffic = Traffic::new(1, 64).unwrap();
    rig.forwarder.poll(&mut rig.w);
    assert_eq!(rig.devices[0].deliver(10, |room| traffic.write(room)), 10);
    let mut left = [0; 2];
    for _ in 0..16 {
        rig.forwarder.poll(&mut rig.w);
        for (device, left) in rig.devices.iter_mut().zip(&mut left) {
            device.collect(64, |_| *left += 1);
        }
    }
    rig.check();
    let meters = rig.forwarder.meters();
    let drops = meters.drops.iter().map(|(reason, frames)| (reason.name(), frames));
    let drops = drops.filter(|(_, frames)| *frames > 0).collect();
    let counts = (meters.fragmented.get(), meters.fragments.get());
    rig.end();
    (left, counts, drops)
}

/// Adds two frames of 60 bytes each behind the frame itself.
fn three(frame: Frame, pieces: &mut Pieces<'_>, last: Verdict) -> Result<(), Frame> {
    let Some(more) = pieces.alloc(2) else { return Err(frame) };
    pieces.push(frame, Verdict::Redirect(1))?;
    for (mut piece, verdict) in more.into_iter().zip([Verdict::Tx, last]) {
        piece.put_zeroed(60).unwrap();
        pieces.push(piece, verdict)?;
    }
    Ok(())
}

#[test]
fn each_fragment_leaves_by_the_port_of_its_decision_and_every_frame_is_accounted_for() {
    let to = |last: fn(Frame, &mut Pieces<'_>) -> Result<(), Frame>| cut(Box::new(Cutting(last)));
    let all = to(|frame, pieces| three(frame, pieces, Verdict::Redirect(1)));
    assert_eq!(all, ([10, 20], (10, 30), vec![]));
    let some = to(|frame, pieces| three(frame, pieces, Verdict::Drop(Reason::NoRoute)));
    assert_eq!(some, ([10, 10], (10, 30), vec![("no_route", 10)]));
    let again = to(|frame, pieces| three(frame, pieces, Verdict::Fragment));
    assert_eq!(again, ([10, 10], (10, 30), vec![("frag_failed", 10)]), "cut once, and no more");
    let none = to(|_, _| Ok(()));
    assert_eq!(none, ([0, 0], (10, 0), vec![]));
}

#[test]
fn no_part_of_a_frame_that_cannot_be_fragmented_leaves() {
    let half = cut(Box::new(Cutting(|frame, pieces| {
        let mut more = pieces.alloc(1).unwrap();
        pieces.push(more.pop().unwrap(), Verdict::Redirect(1))?;
        Err(frame)
    })));
    assert_eq!(half, ([0, 0], (0, 0), vec![("frag_failed", 10)]));
    let too_many = cut(Box::new(Cutting(|frame, pieces| match pieces.alloc(65) {
        Some(_) => Ok(()),
        None => Err(frame),
    })));
    assert_eq!(too_many, half);
    assert_eq!(cut(Box::new(Blunt)), half);
}
