//! The holder's thread: reads what the forwarder passes, keeps what it is told to, and frees on a worker of its own.

use super::phases::Phases;
use netmem::forward::holder::Keeper;
use netmem::sync::Worker;
use std::thread;
use std::time::Duration;

/// How long the holder rests when nothing came.
const REST: Duration = Duration::from_micros(100);

/// A keeper and its worker.
pub struct Holding {
    pub keeper: Keeper,
    pub worker: Worker,
}

/// What became of passed frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HolderReport {
    /// Frames that the holder took from the forwarder.
    pub taken: u64,
    /// Frames that it freed while the run lasted.
    pub freed: u64,
    /// Frames that it kept to the end.
    pub kept: u64,
}

impl Holding {
    /// Holds until the forwarder is drained, then lets go of all.
    pub fn run(mut self, phases: &Phases) -> HolderReport {
        loop {
            // Asked before the turn: what was passed until then is read by it.
            let last = phases.is_drained();
            let moved = self.keeper.turn(&mut self.worker);
            match (last, moved) {
                (true, 0) => break,
                (_, 0) => thread::sleep(REST),
                _ => {}
            }
        }
        let counters = self.keeper.counters();
        let report = HolderReport {
            taken: counters.taken.get(),
            freed: counters.given.get(),
            kept: self.keeper.kept() as u64,
        };
        self.keeper.release(&mut self.worker);
        report
    }
}
