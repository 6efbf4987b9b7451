//! The forwarder's thread, and the cores.

use super::phases::Phases;
use netmem::forward::Forwarder;
use netmem::sync::Worker;
use netmem::sys::cpu;
use std::time::{Duration, Instant};

/// Rounds in which nothing moves before the forwarder counts as drained.
const QUIET_ROUNDS: u32 = 16;
/// How long ports are drained whose far side may send for ever, or takes nothing any more.
const DRAIN: Duration = Duration::from_millis(200);

/// Forwards until it is to stop, then drains: until nothing moves, or for a moment where nobody in this
/// process takes what is transmitted.
pub fn forward(forwarder: &mut Forwarder, w: &mut Worker, phases: &Phases) {
    loop {
        forwarder.run(w, phases.look_up_flag());
        if phases.looked_up(forwarder.ports().map(|port| port.state()).collect()) {
            break;
        }
    }
    let begun = Instant::now();
    forwarder.drain(w, QUIET_ROUNDS, || phases.is_alone() && begun.elapsed() > DRAIN);
}

/// Pins the calling thread to `core`; gives it back if that worked.
pub fn pin(core: Option<usize>) -> Option<usize> {
    core.filter(|&core| cpu::pin(core).is_ok())
}

/// A core for the forwarder and another for the network, where there are two.
pub fn cores() -> (Option<usize>, Option<usize>) {
    match cpu::allowed().unwrap_or_default()[..] {
        [first, .., last] => (Some(last), Some(first)),
        _ => (None, None),
    }
}
