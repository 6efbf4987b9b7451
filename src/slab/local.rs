//! HOT: a worker's two sheaves.
//!
//! A sheaf is an array of free objects. The worker works on the main sheaf. The spare sheaf keeps a worker that goes
//! back and forth around a full or an empty sheaf away from the barn. A cache of another layer, or with debug, has
//! sheaves without room: all its calls take the cold path.

use super::cpu_slab::CpuSlab;
use super::reference::{Ref, Sheaf};
use super::stats::SlabLane;
use crate::stats::Tally;
use crate::sys::lifo::Lifo;

/// The state that a worker keeps of one cache. The fields of the hot path come first, within one cache line.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Local {
    pub(super) main: Sheaf,
    /// The operations of the hot path on the sheaves.
    pub(super) tally: Tally,
    pub(super) spare: Sheaf,
    /// The direction of the worker's last exchange with the barn; before the first one, `Put`.
    pub(super) last: Direction,
    pub(super) cpu: CpuSlab,
}

/// The direction of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Full sheaves from the barn.
    Take,
    /// Full sheaves to the barn.
    Put,
}

impl Local {
    pub(super) fn new(capacity: usize) -> Self {
        Local {
            main: Lifo::new(capacity),
            spare: Lifo::new(capacity),
            last: Direction::Put,
            cpu: CpuSlab::default(),
            tally: Tally::default(),
        }
    }

    /// Enters the slow path: publishes the operations of the hot path, runs `work`, then records the remaining objects.
    pub(super) fn stay<R>(&mut self, lane: &SlabLane, work: impl FnOnce(&mut Local) -> R) -> R {
        self.tally.publish(self.inside(), &lane.alloc_fastpath, &lane.free_fastpath);
        let done = work(self);
        self.tally.settle(self.inside());
        lane.main.set(self.main.len() as u64);
        lane.spare.set(self.spare.len() as u64);
        lane.cpu.set(self.cpu.free() as u64);
        done
    }

    fn inside(&self) -> usize {
        self.main.len() + self.spare.len()
    }

    /// Takes all objects out of the sheaves, and makes new sheaves if `capacity` is another number of objects.
    pub(super) fn empty_sheaves(&mut self, capacity: usize, objects: &mut Vec<Ref>) {
        self.main.drain(|object| objects.push(object));
        self.spare.drain(|object| objects.push(object));
        if self.main.room() != capacity {
            (self.main, self.spare) = (Lifo::new(capacity), Lifo::new(capacity));
        }
    }
}
