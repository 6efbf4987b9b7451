//! The thread of holder and tap: takes what the forwarder passes and what it sent, keeps what it is told to, and frees on
//! a worker of its own.

use super::phases::Phases;
use netmem::forward::holder::Keeper;
use netmem::forward::tap::TapReader;
use netmem::pool::SharedFrame;
use netmem::sync::Worker;
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

/// How long it rests when nothing came.
const REST: Duration = Duration::from_micros(100);

/// Who holds frames, and the worker that frees them.
pub struct Holding {
    /// What was passed; None where nothing is.
    pub keeper: Option<Keeper>,
    /// Clones of what was sent; None without a tap.
    pub tapped: Option<Tapped>,
    pub worker: Worker,
}

/// The newest clones of sent frames.
pub struct Tapped {
    reader: TapReader,
    keep: usize,
    clones: VecDeque<SharedFrame>,
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

/// What the tap saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TapReport {
    /// Frames that it got a clone of.
    pub taken: u64,
    /// Frames for which it had no room.
    pub missed: u64,
    /// Clones that it kept to the end.
    pub kept: u64,
}

impl Holding {
    /// Holds until the forwarder is drained, then lets go of all.
    pub fn run(mut self, phases: &Phases) -> (Option<HolderReport>, Option<TapReport>) {
        loop {
            // Asked before the turn: what was passed and sent until then is taken by it.
            let last = phases.is_drained();
            let moved = self.turn();
            match (last, moved) {
                (true, 0) => break,
                (_, 0) => thread::sleep(REST),
                _ => {}
            }
        }
        let reports = (self.keeper.as_ref().map(HolderReport::new), self.tapped.as_ref().map(TapReport::new));
        let Holding { keeper, tapped, mut worker } = self;
        if let Some(mut keeper) = keeper {
            keeper.release(&mut worker);
        }
        tapped.into_iter().flat_map(|tapped| tapped.clones).for_each(|clone| clone.free(&mut worker));
        reports
    }

    /// Takes what came and frees what is too old; returns how many frames it moved.
    fn turn(&mut self) -> usize {
        let Holding { keeper, tapped, worker } = self;
        let kept = keeper.as_mut().map_or(0, |keeper| keeper.turn(worker));
        kept + tapped.as_mut().map_or(0, |tapped| tapped.turn(worker))
    }
}

impl Tapped {
    /// Keeps at most `keep` clones of what `reader` gets.
    pub fn new(reader: TapReader, keep: usize) -> Tapped {
        Tapped { reader, keep, clones: VecDeque::new() }
    }

    fn turn(&mut self, worker: &mut Worker) -> usize {
        let Tapped { reader, keep, clones } = self;
        let moved = reader.read(usize::MAX, |clone| clones.push_back(clone));
        let surplus = clones.len().saturating_sub(*keep);
        clones.drain(..surplus).for_each(|clone| clone.free(worker));
        moved
    }
}

impl HolderReport {
    fn new(keeper: &Keeper) -> HolderReport {
        let counters = keeper.counters();
        let (taken, freed) = (counters.taken.get(), counters.given.get());
        HolderReport { taken, freed, kept: keeper.kept() as u64 }
    }
}

impl TapReport {
    fn new(tapped: &Tapped) -> TapReport {
        let counters = tapped.reader.counters();
        let (taken, missed) = (counters.taken.get(), counters.missed.get());
        TapReport { taken, missed, kept: tapped.clones.len() as u64 }
    }
}
