//! Waiting for the peer of a memif port, if it is there. COLD.

use crate::log::{self, Level};
use crate::stop;
use netmem::port::memif::MemifPort;
use netmem::port::{Port, PortState};
use netmem::system::broker;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long the memif ports of a run wait for peers that are there, all of them together; slow ones shall not cost the packets of the other ports.
const GREETING: Duration = Duration::from_secs(20);
/// When the first of them began to wait.
static FIRST: OnceLock<Instant> = OnceLock::new();

/// How often it is looked meanwhile whether the run is to end before it has begun.
const BRIEF: Duration = Duration::from_millis(50);

/// After which it is said what is waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// Waits for the peer of a memif port, if it is there.
pub fn greet(port: &mut MemifPort) {
    let (first, begun, mut is_said) = (FIRST.get_or_init(Instant::now), Instant::now(), false);
    while first.elapsed() < GREETING && !stop::is_asked() && !broker::is_gone() {
        let waiting = Instant::now();
        // There is a peer, or nobody to be waited for.
        if port.wait(BRIEF) || waiting.elapsed() < BRIEF {
            break;
        }
        if !is_said && begun.elapsed() >= SILENCE {
            is_said = true;
            say_waiting(port);
        }
    }
}

#[cold]
fn say_waiting(port: &MemifPort) {
    if let PortState::Down(why) = port.state() {
        let (name, most) = (port.name(), GREETING.as_secs());
        log::say(Level::Warning, format_args!("netmem: {name} is waited for, up to {most} s: {why}"));
    }
}
