//! Tests that need no interface of their own. The other tests run in namespaces (`tests/links.rs`).

use super::{TapConfig, TapError, TapLink, TapPort};
use crate::pool::Batch;
use crate::port::conformance::Fixture;
use crate::port::link::Link;
use crate::port::uncut::Uncut;
use crate::port::{Fill, Port, PortState, Rx};
use crate::sys::netdev::Netdev;
use std::fs::File;
use std::os::fd::OwnedFd;

#[test]
fn names_that_no_interface_can_have_are_refused_before_anything_is_made() {
    for name in ["", "a-name-of-more-than-fifteen-bytes", "a/b", "tap%d", "a b", "nul\0"] {
        let error = TapPort::open(name, &TapConfig::default()).unwrap_err();
        assert_eq!(error, TapError::Name(name.into()));
        assert!(error.to_string().contains("1 to 15 bytes"));
    }
}

/// An interface that is up, with the file at `path` in place of its queue.
fn with_queue(path: &str) -> TapPort {
    let queue = OwnedFd::from(File::open(path).unwrap()).into();
    let link = Link::new(Netdev::open("lo").unwrap());
    assert!(link.is_up(), "the loopback interface is down: ip link set lo up");
    let uncut = Uncut::new(1);
    let device = TapLink { queue, several: false, link, uncut, keeps_offloads: false, host_drops: None };
    TapPort::new(format!("tap:{path}"), device, 16)
}

/// A frame that the kernel cannot describe took the port down for good, where a packet port counts it.
#[test]
fn a_frame_that_the_kernel_cannot_return_is_counted_and_the_port_stays_up() {
    let mut fixture = Fixture::new(64);
    // Each read of such a file is an invalid one.
    let mut port = with_queue("/proc/self/ns/net");
    port.refill(&mut fixture.w, &fixture.pool);
    let mut frames = Batch::new();
    for round in 1..=3 {
        assert_eq!(port.rx(&mut fixture.w, &mut frames), 0);
        assert_eq!((port.counters().rx_dropped.get(), port.state()), (round, PortState::Up));
    }
}

/// Seen: a burst did not end while packets came that were dropped, and the worker served no other port.
#[test]
fn a_flood_of_frames_that_are_too_long_ends_the_burst() {
    let mut fixture = Fixture::new(64);
    // Each read gets as many bytes as it has room for, and one more: a frame that is too long.
    let mut port = with_queue("/dev/zero");
    port.refill(&mut fixture.w, &fixture.pool);
    let mut frames = Batch::new();
    for round in 1..=3 {
        assert_eq!(port.rx(&mut fixture.w, &mut frames), 0);
        assert_eq!(port.counters().rx_too_long.get(), 16 * round);
    }
}
