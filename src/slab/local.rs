//! HOT: a worker's two sheaves.
//!
//! A sheaf is an array of free objects. The worker works on the main one; the spare stands by so that a worker
//! that goes up and down around a full or an empty sheaf does not go to the barn each time. A cache of another layer,
//! or with debug, has sheaves of no room: everything of it falls through to [`grow`](super::grow).

use super::cpu_slab::CpuSlab;
use super::debug::Site;
use super::grow;
use super::shared::Shared;
use super::stats::SlabLane;
use crate::sync::{Lifo, Worker};

/// A free object: its address, with its cache's number in the upper 16 bits ([`TAG_SHIFT`]).
pub(super) type Ref = u64;
/// Where the cache's number begins.
pub(super) const TAG_SHIFT: u32 = 48;
/// The bits of the address.
pub(super) const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;

/// An array of free objects.
pub(super) type Sheaf = Lifo<Ref>;

/// What a worker keeps of one cache; what the hot path uses comes first, within one cache line.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Local {
    pub(super) main: Sheaf,
    /// Objects that the hot path took since the last cold stay. What it gave back is not counted: it is what the sheaves
    /// hold more than when that stay ended, and this.
    took: u64,
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
        lane.note(self);
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

impl Shared {
    /// The object freed last.
    #[inline(always)]
    #[track_caller]
    pub(super) fn take(&self, w: &mut Worker) -> Option<Ref> {
        // No closure: it would be the caller.
        match self.take_hot(w) {
            None => grow::alloc(self, w, Site::caller()),
            hit => hit,
        }
    }

    /// The object freed last, if the main sheaf has it.
    #[inline(always)]
    pub(super) fn take_hot(&self, w: &mut Worker) -> Option<Ref> {
        let mut local = self.locals.enter(w)?;
        let object = local.main.pop()?;
        local.took += 1;
        Some(object)
    }

    /// Keeps a free object.
    #[inline(always)]
    #[track_caller]
    pub(super) fn give(&self, w: &mut Worker, object: Ref) {
        if !self.keep_hot(w, object) {
            grow::free(self, w, object, Site::caller());
        }
    }

    /// Keeps a free object, if the main sheaf has room.
    #[inline(always)]
    pub(super) fn keep_hot(&self, w: &mut Worker, object: Ref) -> bool {
        self.locals.enter(w).is_some_and(|mut local| local.main.push(object))
    }

    /// Keeps free objects, which `object` makes of `from`, as far as the sheaves have room; returns how many.
    #[inline(always)]
    pub(super) fn keep_hot_bulk<S>(&self, w: &mut Worker, from: &[S], object: impl Fn(&S) -> Ref) -> usize {
        let Some(mut local) = self.locals.enter(w) else { return 0 };
        let kept = local.main.extend(from, &object);
        if kept == from.len() { kept } else { kept + local.spare.extend(&from[kept..], object) }
    }

    /// Takes `n` objects, or fewer if there are no more, and gives them to `take` a slice at a time.
    #[inline]
    #[track_caller]
    pub(super) fn take_bulk(&self, w: &mut Worker, n: usize, mut take: impl FnMut(&[Ref])) -> usize {
        let mut got = 0;
        loop {
            if let Some(mut local) = self.locals.enter(w) {
                let (local, before) = (&mut *local, got as u64);
                got += pop_slice(&mut local.main, n - got, &mut take);
                // A burst as large as both sheaves finds its way in one visit.
                if got < n {
                    got += pop_slice(&mut local.spare, n - got, &mut take);
                }
                local.took += got as u64 - before;
            }
            if got == n {
                return n;
            }
            let Some(object) = grow::alloc(self, w, Site::caller()) else { return got };
            take(&[object]);
            got += 1;
        }
    }

    /// Keeps free objects.
    #[inline]
    #[track_caller]
    pub(super) fn give_bulk(&self, w: &mut Worker, objects: &mut [Ref]) {
        let kept = self.keep_hot_bulk(w, objects, |&object| object);
        if kept < objects.len() {
            grow::free_bulk(self, w, &mut objects[kept..], Site::caller());
        }
    }
}

/// Takes up to `n` objects out of a sheaf and gives them to `take`; returns how many.
#[inline(always)]
fn pop_slice(sheaf: &mut Sheaf, n: usize, take: &mut impl FnMut(&[Ref])) -> usize {
    let objects = sheaf.pop_slice(n);
    let got = objects.len();
    take(objects);
    got
}
