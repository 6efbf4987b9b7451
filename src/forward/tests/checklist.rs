//! What a router owes, line by line, on the fast path and on the full one: `docs/router.md` names the test of each line.

mod ipv4;
mod ipv6;
mod options;

use super::router::*;
use crate::forward::icmp::Message;
use crate::forward::ip::Allow;
use crate::forward::route::{Change, HopId, NextHop, OwnAddress, OwnSources, Path, Target};
use crate::wire::{Ethernet, Ipv4, Ipv6, MacAddr, ethernet};
use zerocopy::IntoBytes;

const HOST: [&str; 2] = ["10.0.0.1", "fd00:a::1"];
const OTHER: [&str; 2] = ["10.1.0.1", "fd00:b::1"];

/// Each way with a router of its own, whose frames are all home in the end.
fn on_each_way(test: impl Fn(&mut Router)) {
    for way in WAYS {
        let mut router = Router::new(way);
        test(&mut router);
        router.end();
    }
}

/// Asserts that a frame is dropped under this name, and whether something is said about it.
#[track_caller]
fn dropped(router: &mut Router, frame: &[u8], name: &str, says: Option<Message>) {
    let count =
        |router: &Router| router.drops().into_iter().find(|(its, _)| *its == name).map_or(0, |(_, n)| n);
    let said =
        |router: &Router| router.said().into_iter().map(|(message, n)| n * (1 + message as u64)).sum::<u64>();
    let before = (count(router), said(router));
    let left = router.pass(0, frame).len();
    assert_eq!(count(router), before.0 + 1, "{name}: {:?}", router.drops());
    assert_eq!(
        (left, said(router) - before.1),
        says.map_or((0, 0), |message| (1, 1 + message as u64)),
        "{name}"
    );
}
