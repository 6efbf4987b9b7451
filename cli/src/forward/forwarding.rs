//! The forwarder's thread.

use super::run::Phases;
use netmem::forward::Forwarder;
use netmem::port::PortState;
use netmem::sync::Worker;
use netmem::sys::cpu;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::{Duration, Instant};

/// Rounds in which nothing moves before the forwarder counts as drained.
const QUIET_ROUNDS: u32 = 16;
/// How long interfaces, whose peers may send for ever, are drained.
const DRAIN: Duration = Duration::from_millis(200);

/// Forwards until `phases` says to stop, then drains: ports whose network has stopped sending until they are empty,
/// or until `gone` says that it takes no more, others for a moment.
pub fn forward(forwarder: &mut Forwarder, w: &mut Worker, phases: &Phases, gone: Option<&dyn Fn() -> bool>) {
    loop {
        forwarder.run(w, &phases.look_up);
        // AcqRel: pairs with the Release in `Phases::look_up`. Whoever raised the flag last has stored its reason
        // before, and it is read below.
        phases.look_up.swap(false, AcqRel);
        let states = forwarder.ports().map(|port| port.state()).collect::<Vec<PortState>>();
        *phases.states.lock().unwrap_or_else(PoisonError::into_inner) = states;
        // Acquire: pairs with the Release in `Phases::stop`, which follows the generator's last packet.
        if phases.stop_forwarding.load(Acquire) {
            break;
        }
    }
    let begun = Instant::now();
    forwarder.drain(w, QUIET_ROUNDS, || gone.map_or_else(|| begun.elapsed() > DRAIN, |gone| gone()));
}

/// Pins the calling thread to `core`; gives it back if that worked.
pub fn pin(core: Option<usize>) -> Option<usize> {
    core.filter(|&core| cpu::pin(core).is_ok())
}

/// A core for the forwarder and one for the network, where there are two.
pub fn cores() -> (Option<usize>, Option<usize>) {
    match cpu::allowed().unwrap_or_default()[..] {
        [first, .., last] => (Some(last), Some(first)),
        _ => (None, None),
    }
}
