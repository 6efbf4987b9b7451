//! ICMP errors, parsed by etherparse, through the forwarder, on the fast path and on the full path.

mod bytes;
mod limits;
mod paths;
mod suppression;

use super::router::*;
use netmem::wire::{Ethernet, Ipv4, icmp, ipv4};
use netmem_router::icmp::{IcmpError, IcmpLimit, Message, Suppression};
use netmem_router::route::{Change, Fib, FibEntry, HopId, Neighbour, Path, SourceHint};
use std::net::Ipv4Addr;
use zerocopy::IntoBytes;

const HOST: [&str; 2] = ["10.0.0.1", "fd00:a::1"];

/// Returns the router's answer to a frame that comes in on port 0: one error, which goes back there.
fn said(router: &mut RouterRig, sent: &[u8]) -> Said {
    let left = router.pass(0, sent);
    match &left[..] {
        [(0, error)] => read(error),
        _ => panic!("{} frames left", left.len()),
    }
}
