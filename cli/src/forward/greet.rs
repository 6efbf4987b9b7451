//! Waiting for the peer of a memif port, if it is there. COLD.

use crate::stop;
use netmem::port::memif::MemifPort;
use std::time::{Duration, Instant};

/// How long a memif port waits for a peer that is there; a slow one shall not cost the packets of the other ports.
const GREETING: Duration = Duration::from_secs(20);

/// How often it is looked meanwhile whether the run is to end before it has begun.
const BRIEF: Duration = Duration::from_millis(50);

/// Waits for the peer of a memif port, if it is there.
pub fn greet(port: &mut MemifPort) {
    let begun = Instant::now();
    while begun.elapsed() < GREETING && !stop::is_asked() {
        let waiting = Instant::now();
        // There is a peer, or nobody to be waited for.
        if port.wait(BRIEF) || waiting.elapsed() < BRIEF {
            break;
        }
    }
}
