//! COLD: what of a memory can be changed while it runs.

use super::config::{Lists, MemoryError, Watermarks};
use super::memory::Memory;
use super::nodes::Alarm;
use super::shared::Shared;
use super::stats::Moving;
use crate::sync::shim::{lock, yield_now};

impl Memory {
    /// Lets every worker's lists keep so many free pages from now on. What a list holds too many, its coldest, goes to the
    /// node at once, also from workers that sleep.
    ///
    /// Where what is freed is cleared ([`Hardening::clear`](super::Hardening::clear)) they keep none, whatever is asked for.
    ///
    /// # Cost
    /// A membarrier(2) for each worker there can be.
    #[cold]
    pub fn set_lists(&self, lists: Lists) {
        self.shared.set_lists(lists);
    }

    /// How many free pages a worker keeps, as it was asked for last.
    pub fn lists(&self) -> Lists {
        lock(&self.shared.tuning).0
    }

    /// Pages that a worker's list of single pages holds at most, and moves at once, as it is now: what was asked for,
    /// within the limits of [`Lists`].
    pub fn list_size(&self) -> (usize, usize) {
        let size = self.lists().size(0, self.shared.share());
        (size.most, size.batch)
    }

    /// Pages that a worker's list of single pages can be let hold.
    pub fn list_size_max(&self) -> usize {
        Lists::Fixed { high: usize::MAX, batch: 1 }.size(0, self.shared.share()).most
    }

    /// Changes when pages become scarce, and how many are kept back. Whoever asked for it is told of pressure that begins
    /// or ends by that ([`Memory::on_pressure`]), by this call and without a worker.
    ///
    /// # Errors
    /// [`MemoryError::Watermarks`] when they are not in order; nothing has changed then.
    #[cold]
    pub fn set_watermarks(&self, watermarks: Watermarks) -> Result<(), MemoryError> {
        watermarks.check(self.shared.table.len())?;
        self.shared.set_watermarks(watermarks);
        Ok(())
    }

    /// The watermarks of the whole memory.
    pub fn watermarks(&self) -> Watermarks {
        lock(&self.shared.tuning).1
    }
}

impl Shared {
    /// A worker's share: the lists of all workers together hold half of the memory at most.
    pub(super) fn share(&self) -> usize {
        self.table.len() / (2 * self.roster.workers())
    }

    fn set_lists(&self, lists: Lists) {
        let lists = lists.under(self.hardened.chosen);
        let mut known = lock(&self.tuning);
        known.0 = lists;
        let sizes = std::array::from_fn(|order| lists.size(order as u8, self.share()));
        let mut alarms = Vec::new();
        for slot in self.locals.slots() {
            let lane = slot.gauges();
            let moving = Moving::begin(lane);
            let mut back = Vec::new();
            // A worker's stays are short, so the wait ends.
            while slot.steal(|local| local.resize(sizes, lane, |number| back.push(number))).is_none() {
                yield_now();
            }
            self.put(&back, &mut alarms);
            moving.end_at_node(back.len());
        }
        drop(known);
        ring(alarms);
    }

    fn set_watermarks(&self, watermarks: Watermarks) {
        let mut known = lock(&self.tuning);
        known.1 = watermarks;
        let alarms = self.nodes.set_watermarks(watermarks, self.table.len());
        drop(known);
        ring(alarms);
    }
}

fn ring(alarms: Vec<Alarm>) {
    Alarm::ring_all(alarms, None);
}
