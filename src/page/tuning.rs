//! COLD: the settings of a memory that can be changed at run time.

use super::config::{Lists, MemoryError, Watermarks};
use super::memory::Memory;
use super::nodes::Alarm;
use super::shared::Shared;
use super::stats::Moving;
use crate::sync::shim::{lock, yield_now};

impl Memory {
    /// Changes how many free pages every worker's lists keep. The excess pages of a list, its coldest, go to the node
    /// at once, also from workers that sleep.
    ///
    /// If freed memory is cleared ([`Hardening::clear`](super::Hardening::clear)), the lists keep no pages with any
    /// setting.
    ///
    /// # Cost
    /// A membarrier(2) for each possible worker.
    #[cold]
    pub fn set_lists(&self, lists: Lists) {
        self.shared.set_lists(lists);
    }

    /// The number of free pages that a worker keeps, as it was requested last.
    pub fn lists(&self) -> Lists {
        lock(&self.shared.tuning).0
    }

    /// The pages that a worker's list of single pages holds at most now, and the pages that it moves at once: the
    /// requested numbers, within the limits of [`Lists`].
    pub fn list_size(&self) -> (usize, usize) {
        let size = self.lists().size(0, self.shared.share());
        (size.most, size.batch)
    }

    /// The largest possible size of a worker's list of single pages.
    pub fn list_size_max(&self) -> usize {
        Lists::Fixed { high: usize::MAX, batch: 1 }.size(0, self.shared.share()).most
    }

    /// Changes when pages become scarce, and how many are kept in reserve. If pressure begins or ends because of this,
    /// this call runs the callback ([`Memory::on_pressure`]), without a worker.
    ///
    /// # Errors
    /// [`MemoryError::Watermarks`] if they are not in order; nothing has changed then.
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
        let mut alarms = Vec::new();
        for slot in self.locals.slots() {
            let lane = slot.gauges();
            let moving = Moving::begin(lane);
            let mut back = Vec::new();
            // A worker leaves its lists soon, so the wait ends.
            while slot
                .steal(|local| local.resize(lists, self.share(), lane, |number| back.push(number)))
                .is_none()
            {
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
