//! The barn: full and empty sheaves that workers exchange as a whole.
//!
//! The number of full sheaves that the barn keeps follows demand. It grows by one for each sheaf that a worker asked
//! for in vain, when a worker later brings one: so a program that holds many objects at once gets them back from the
//! barn, and not from their slabs. It shrinks when full sheaves stay unused.

use super::reference::Sheaf;
use crate::page::Allowance;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of full sheaves in a barn without demand, and of empty ones (Linux: 10 and 10).
const SHEAVES: usize = 10;
/// Maximum number of objects in the full sheaves of a barn with demand.
const OBJECTS_MAX: usize = 1 << 16;
/// Exchanges between two reviews of the limit, for each sheaf of the limit.
const REVIEW: usize = 8;

/// A full sheaf, and the slot of the worker that filled it.
#[derive(Debug)]
struct Full {
    sheaf: Sheaf,
    filled_by: usize,
}

/// The result of an exchange for a full sheaf.
#[derive(Debug)]
pub(super) struct Exchanged {
    /// The slot of the worker that filled it: the lines of its objects are with that worker.
    pub(super) filled_by: usize,
    /// Whether the empty sheaf was dropped.
    pub(super) dropped: bool,
}

/// The sheaves of all workers, under the cache's barn lock.
#[derive(Debug)]
pub(super) struct Barn {
    /// The number of objects that each sheaf has room for.
    pub(super) capacity: usize,
    /// The oldest first; workers exchange the newest.
    full: VecDeque<Full>,
    empty: Vec<Sheaf>,
    /// Maximum number of full sheaves now. After a review there may be more, until [`Barn::take_excess`] has taken
    /// them.
    limit: usize,
    /// Bytes from one object of a slab to the next.
    stride: usize,
    /// The bytes that all caches of the memory may keep beyond [`SHEAVES`] each. Those of the sheaves between that
    /// number and the limit are taken.
    allowance: Arc<Allowance>,
    /// Full sheaves that workers asked for in vain, less those by which the limit has grown since.
    missed: usize,
    /// The smallest number of full sheaves since the last review.
    unused: usize,
    /// Exchanges since the last review.
    exchanges: usize,
}

impl Barn {
    /// Makes an empty barn for objects that take `stride` bytes each.
    pub(super) fn new(capacity: usize, stride: usize, allowance: Arc<Allowance>) -> Self {
        Barn {
            capacity,
            full: VecDeque::with_capacity(SHEAVES),
            empty: Vec::with_capacity(SHEAVES),
            limit: SHEAVES,
            stride,
            allowance,
            missed: 0,
            unused: 0,
            exchanges: 0,
        }
    }

    /// Exchanges an empty sheaf for a full one. Returns None if there is no full sheaf.
    pub(super) fn take_full(&mut self, empty: &mut Sheaf) -> Option<Exchanged> {
        let Some(Full { sheaf, filled_by }) = self.full.pop_back() else {
            (self.missed, self.unused) = ((self.missed + 1).min(self.most()), 0);
            return None;
        };
        self.unused = self.unused.min(self.full.len());
        self.exchanges += 1;
        let empty = std::mem::replace(empty, sheaf);
        let kept = self.empty.len() < self.limit && empty.room() == self.capacity;
        if kept {
            self.empty.push(empty);
        }
        Some(Exchanged { filled_by, dropped: !kept })
    }

    /// Exchanges a full sheaf for an empty one. The worker of slot `filled_by` filled it. Returns None if the barn is
    /// full, or if the sheaf has another size. Otherwise returns whether the empty sheaf had to be made.
    pub(super) fn put_full(&mut self, full: &mut Sheaf, filled_by: usize) -> Option<bool> {
        // A sheaf of another size is from before a change of the size.
        if full.len() != self.capacity || !self.has_room() {
            return None;
        }
        let kept = self.empty.pop();
        let made = kept.is_none();
        let empty = kept.unwrap_or_else(|| Sheaf::new(self.capacity));
        self.full.push_back(Full { sheaf: std::mem::replace(full, empty), filled_by });
        self.exchanges += 1;
        if self.exchanges > REVIEW * self.limit {
            self.review();
        }
        Some(made)
    }

    /// Whether one more full sheaf can be put in. The limit grows by one if a sheaf was missed before.
    fn has_room(&mut self) -> bool {
        if self.full.len() != self.limit {
            return true;
        }
        let bytes = self.capacity * self.stride;
        let grows = self.missed > 0 && self.limit < self.most() && self.allowance.take(bytes);
        if grows {
            self.missed -= 1;
            self.limit += 1;
        }
        grows
    }

    /// Shrinks the limit by an eighth of the sheaves that no worker took since the last review.
    #[cold]
    fn review(&mut self) {
        self.shrink_to(self.limit.saturating_sub(self.unused.div_ceil(8)));
        (self.missed, self.unused, self.exchanges) = (0, self.full.len(), 0);
    }

    /// Lowers the limit, at most to [`SHEAVES`].
    fn shrink_to(&mut self, limit: usize) {
        let limit = limit.max(SHEAVES);
        self.allowance.give((self.limit - limit) * self.capacity * self.stride);
        self.limit = limit;
    }

    /// Whether there is a full sheaf.
    pub(super) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Takes out the oldest full sheaves beyond the limit, whose objects go back into their slabs: at most two for each of
    /// the `put` sheaves that were just put. So a barn whose limit has shrunk empties.
    pub(super) fn take_excess(&mut self, put: usize) -> impl Iterator<Item = Sheaf> + '_ {
        self.full.drain(..self.full.len().saturating_sub(self.limit).min(2 * put)).map(|full| full.sheaf)
    }

    /// Maximum number of full sheaves with demand.
    fn most(&self) -> usize {
        (OBJECTS_MAX / self.capacity.max(1)).max(SHEAVES)
    }

    /// Takes all full sheaves out and drops the empty ones. From now on sheaves have room for `capacity` objects.
    pub(super) fn drain(&mut self, capacity: usize) -> impl Iterator<Item = Sheaf> + '_ {
        self.shrink_to(SHEAVES);
        self.capacity = capacity;
        self.empty.clear();
        (self.missed, self.unused, self.exchanges) = (0, 0, 0);
        self.full.drain(..).map(|full| full.sheaf)
    }

    /// The number of sheaves, full and empty.
    pub(super) fn sheaves(&self) -> usize {
        self.full.len() + self.empty.len()
    }

    /// The number of objects in the full sheaves.
    pub(super) fn objects(&self) -> usize {
        self.full.iter().map(|full| full.sheaf.len()).sum()
    }
}

impl Drop for Barn {
    fn drop(&mut self) {
        self.shrink_to(SHEAVES);
    }
}
