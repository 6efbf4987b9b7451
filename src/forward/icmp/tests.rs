//! Errors as etherparse reads them, through the forwarder, on the fast path and the full one.

mod bytes;
mod limits;
mod silence;

use super::*;
use crate::forward::route::{Change, HopId, Neighbour, NextHop, Path};
use crate::forward::tests::router::*;
use crate::wire::{Ethernet, Ipv4, icmp, ipv4};
use std::net::Ipv4Addr;
use zerocopy::IntoBytes;

const HOST: [&str; 2] = ["10.0.0.1", "fd00:a::1"];

/// What the router says to a frame that comes in by port 0: one error, which goes back there.
fn said(router: &mut Router, sent: &[u8]) -> Said {
    let left = router.pass(0, sent);
    match &left[..] {
        [(0, error)] => read(error),
        _ => panic!("{} frames left", left.len()),
    }
}
