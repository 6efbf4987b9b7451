//! HOT: a worker's two sheaves.
//!
//! A sheaf is an array of free objects. The worker works on the main one; the spare stands by so that a worker
//! that goes up and down around a full or an empty sheaf does not go to the barn each time. A cache of another layer,
//! or with debug, has sheaves of no room: everything of it falls through to the cold half.

use super::cpu_slab::CpuSlab;
use super::reference::{Ref, Sheaf};
use super::stats::SlabLane;
use crate::sync::Lifo;

/// What a worker keeps of one cache; what the hot path uses comes first, within one cache line.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Local {
    pub(super) main: Sheaf,
    /// Objects that the hot path took since the last cold stay. What it gave back is not counted: it is what the sheaves
    /// hold more than when that stay ended, and this.
    pub(super) took: u64,
    settled: usize,
    pub(super) spare: Sheaf,
    pub(super) cpu: CpuSlab,
}

impl Local {
    pub(super) fn new(capacity: usize) -> Self {
        Local {
            main: Lifo::new(capacity, capacity),
            spare: Lifo::new(capacity, capacity),
            cpu: CpuSlab::default(),
            took: 0,
            settled: 0,
        }
    }

    /// Does what the hot path cannot do: first what that has done is counted, at last what is left is noted.
    pub(super) fn stay<R>(&mut self, lane: &SlabLane, work: impl FnOnce(&mut Local) -> R) -> R {
        lane.alloc_fastpath.add(self.took);
        lane.free_fastpath.add((self.inside() as u64 + self.took).wrapping_sub(self.settled as u64));
        let done = work(self);
        (self.took, self.settled) = (0, self.inside());
        lane.main.set(self.main.len() as u64);
        lane.spare.set(self.spare.len() as u64);
        lane.cpu.set(self.cpu.free() as u64);
        done
    }

    fn inside(&self) -> usize {
        self.main.len() + self.spare.len()
    }

    /// Takes all objects out of the sheaves, and makes new ones for `capacity` objects if that is another one.
    pub(super) fn empty_sheaves(&mut self, capacity: usize, objects: &mut Vec<Ref>) {
        self.main.drain(|object| objects.push(object));
        self.spare.drain(|object| objects.push(object));
        if self.main.room() != capacity {
            (self.main, self.spare) = (Lifo::new(capacity, capacity), Lifo::new(capacity, capacity));
        }
    }
}
