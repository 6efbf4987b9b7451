//! However the forwarder ends, its program leaves the interfaces and its sockets are closed.

use crate::forwarder::{Forwarder, netmem, summary_of};
use crate::testbed::{Testbed, Wiring};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;

#[test]
fn sigint_ends_it_with_a_summary_and_nothing_is_left() {
    ends_with_a_summary(Signal::INT);
}

#[test]
fn sigterm_ends_it_with_a_summary_and_nothing_is_left() {
    ends_with_a_summary(Signal::TERM);
}

fn ends_with_a_summary(signal: Signal) {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let forwarder = Forwarder::start(&bed, &[]);
    bed.wait_for_the_path();
    let summary = summary_of(&forwarder.end(signal));
    summary.assert_adds_up();
    assert!(summary.number("received") > 0);
    bed.assert_nothing_left();
}

#[test]
fn nothing_is_left_after_sigkill_in_native_mode() {
    leaves_nothing_when_killed("native");
}

#[test]
fn nothing_is_left_after_sigkill_in_generic_mode() {
    leaves_nothing_when_killed("generic");
}

fn leaves_nothing_when_killed(mode: &str) {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &["ping"]) else { return };
    let forwarder = Forwarder::start(&bed, &["--xdp-mode", mode]);
    bed.wait_for_the_path();
    let out = forwarder.end(Signal::KILL);
    assert_eq!(out.status.signal(), Some(Signal::KILL.as_raw()));
    bed.assert_nothing_left();
    // And the way is free for the next one.
    let next = Forwarder::start(&bed, &["--xdp-mode", mode]);
    bed.wait_for_the_path();
    next.interrupt().assert_adds_up();
}

#[test]
fn a_run_ends_when_its_seconds_are_over() {
    let Some(bed) = Testbed::lay(Wiring::Bridged, &[]) else { return };
    let ports = ["--port", "xdp:one", "--port", "xdp:two"];
    let forward = ["forward", "--mode", "cross-connect", "--seconds", "0.5", "--json"];
    let out = netmem(&bed).args(forward).args(ports).output().expect("netmem");
    summary_of(&out).assert_adds_up();
    bed.assert_nothing_left();
}
