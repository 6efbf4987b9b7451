//! The requirements on a router, one by one, on the fast path and on the full path. `docs/router.md` names the test
//! of each requirement.

mod fragments;
mod ipv4;
mod ipv6;
mod options;
mod reverse_path;
mod tags;

use super::router::*;
use netmem::wire::{Ethernet, Ipv4, Ipv6, MacAddr, ethernet};
use netmem_router::icmp::Message;
use netmem_router::route::{Change, FibEntry, HopId, Neighbour, OwnAddress, OwnSources, Path, Target};
use netmem_router::{Allow, Interface};
use zerocopy::IntoBytes;

const HOST: [&str; 2] = ["10.0.0.1", "fd00:a::1"];
const OTHER: [&str; 2] = ["10.1.0.1", "fd00:b::1"];

/// Runs a test on each path, with a router of its own. At the end all frames of the router are back in the pool.
fn on_each_way(test: impl Fn(&mut RouterRig)) {
    on_each_way_of(RouterRig::new, test);
}

/// Runs a test on each path, with a router made by `router`. At the end all frames of the router are back in the
/// pool.
fn on_each_way_of(router: impl Fn(Way) -> RouterRig, test: impl Fn(&mut RouterRig)) {
    for way in WAYS {
        let mut router = router(way);
        test(&mut router);
        router.end();
    }
}

/// Pads a frame to 60 bytes, as a link does, with bytes that appear nowhere else.
fn padded(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(60), 0xee);
    frame
}

/// Asserts that padding does not leave with any of these frames: alone, among others, if an ICMP error is sent, and
/// if a packet waits for its neighbour. `to_silent` makes frames for the network whose neighbours do not answer.
#[track_caller]
fn assert_cut(
    router: &mut RouterRig,
    frames: &[Vec<u8>],
    (expired, waiting): (&[u8], &[u8]),
    answers: Change,
) {
    let leaves = |frame: &[u8], left: &[u8]| {
        assert_eq!(left.len(), frame.len(), "as long as its packet");
        assert_eq!(left[ethernet::HEADER_LEN + 20..], frame[ethernet::HEADER_LEN + 20..], "no other byte");
    };
    for frame in frames {
        leaves(frame, &router.forward(&padded(frame)));
    }
    // A full burst, in which the last frame and every third before it are padded.
    let usual: Vec<Vec<u8>> = frames.iter().cycle().take(64).cloned().collect();
    let odd = usual.iter().enumerate();
    let burst: Vec<_> =
        odd.map(|(i, frame)| if i % 3 == 0 { padded(frame) } else { frame.clone() }).collect();
    let left = router.pass_burst(0, &burst);
    assert_eq!(left.len(), 64);
    usual.iter().zip(&left).for_each(|(frame, (_, left))| leaves(frame, left));
    let said = router.pass(0, &padded(expired));
    assert_eq!(said.len(), 1);
    assert!(!said[0].1.contains(&0xee), "nothing of the padding is quoted: {said:x?}");
    assert_eq!(router.pass(0, &padded(waiting)), []);
    router.control.apply(vec![answers]);
    let left = router.settle();
    assert_eq!(left.len(), 1);
    leaves(waiting, &left[0].1);
}

/// Asserts that a frame is dropped under this name, and which message is sent about it.
#[track_caller]
fn dropped(router: &mut RouterRig, frame: &[u8], name: &str, says: Option<Message>) {
    let count =
        |router: &RouterRig| router.drops().into_iter().find(|(its, _)| *its == name).map_or(0, |(_, n)| n);
    let said = |router: &RouterRig| {
        router.said().into_iter().map(|(message, n)| n * (1 + message as u64)).sum::<u64>()
    };
    let before = (count(router), said(router));
    let left = router.pass(0, frame).len();
    assert_eq!(count(router), before.0 + 1, "{name}: {:?}", router.drops());
    assert_eq!(
        (left, said(router) - before.1),
        says.map_or((0, 0), |message| (1, 1 + message as u64)),
        "{name}"
    );
}
