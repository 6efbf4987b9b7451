//! Waits for the peer of a memif port, if the peer exists. COLD.

use crate::log::{self, Level};
use crate::stop;
use netmem::port::memif::MemifPort;
use netmem::port::{Port, PortState};
use netmem::system::broker;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time that all memif ports of a run together wait for existing peers. Slow peers must not cost the packets of
/// the other ports.
const GREETING: Duration = Duration::from_secs(20);
/// The time at which the first of them began to wait.
static FIRST: OnceLock<Instant> = OnceLock::new();

/// The interval at which the wait checks whether the run is to end before it has begun.
const BRIEF: Duration = Duration::from_millis(50);

/// The time after which a line names the peer that is waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// Waits for the peer of a memif port, if the peer exists.
pub fn greet(port: &mut MemifPort) {
    let (first, begun, mut is_said) = (FIRST.get_or_init(Instant::now), Instant::now(), false);
    while first.elapsed() < GREETING && !stop::is_asked() && !broker::is_gone() {
        let waiting = Instant::now();
        // There is a peer, or none to wait for.
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
        log::say(Level::Warning, format_args!("netmem: waiting for {name}, up to {most} s: {why}"));
    }
}
