//! A worker's thread.

use super::phases::Phases;
use netmem::forward::Forwarder;
use netmem::sync::Worker;
use std::time::{Duration, Instant};

/// Rounds in which nothing moves before a forwarder counts as drained.
const QUIET_ROUNDS: u32 = 16;
/// How long ports are drained whose far side may send for ever, or takes nothing any more.
const DRAIN: Duration = Duration::from_millis(200);

/// Forwards as worker `number` until it is to stop, then drains: until nothing moves, or for a moment where nobody in this
/// process takes what is transmitted.
pub fn forward(forwarder: &mut Forwarder, w: &mut Worker, number: usize, phases: &Phases) {
    loop {
        forwarder.run(w, phases.look_up_flag(number));
        if phases.looked_up(number, forwarder.ports().map(|port| port.state()).collect()) {
            break;
        }
    }
    let begun = Instant::now();
    forwarder.drain(w, QUIET_ROUNDS, || phases.is_alone() && begun.elapsed() > DRAIN);
}
