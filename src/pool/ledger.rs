//! The conservation law: every frame is in exactly one place, and the places can be counted at any time.

use super::place::Place;
use super::shared::{PoolLane, Shared};
use crate::stats::Count;
use crate::sync::shim::lock;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

/// Where a pool's frames are.
///
/// `free + cached + ready + owned + posted + queued + returning == total` at every quiescent point. `owned` and
/// each place are counted on their own by every worker, never as what is missing, so the sum can fail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// The pool's name.
    pub name: String,
    /// Frames of the pool.
    pub total: u64,
    /// In the pool's stock.
    pub free: u64,
    /// In the owner's cache.
    pub cached: u64,
    /// In ready pools of head and data.
    pub ready: u64,
    /// With the program: taken from the pool and neither given back nor put
    /// at one of the places here. A frame with several holders, or cut into fragments, is one.
    pub owned: u64,
    /// With devices: fill, rx, tx and completion rings.
    pub posted: u64,
    /// In hand-off queues between workers.
    pub queued: u64,
    /// On the way home.
    pub returning: u64,
}

impl Ledger {
    /// Whether the places add up to the total.
    pub fn balanced(&self) -> bool {
        let places =
            [self.free, self.cached, self.ready, self.owned, self.posted, self.queued, self.returning];
        places.into_iter().fold(0, u64::wrapping_add) == self.total
    }

    /// Frames that are neither free nor on their way: with the program, devices, queues and ready pools.
    pub fn out(&self) -> u64 {
        [self.ready, self.posted, self.queued].into_iter().fold(self.owned, u64::wrapping_add)
    }

    /// Whether every frame is free, in the stock, in the cache or on its way there.
    pub fn all_home(&self) -> bool {
        self.balanced() && self.free + self.cached + self.returning == self.total
    }
}

/// Who holds frames of a pool, and where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Where they were allocated; None where that was before tracing began ([`Pool::trace`](super::Pool::trace)).
    pub site: Option<&'static Location<'static>>,
    /// How many.
    pub frames: u64,
    /// Since when it has the oldest of them, to the millisecond; since tracing began where that was before it, and 0
    /// without tracing.
    pub oldest: Duration,
    /// Where they are; None with the program, or where that is not known.
    pub place: Option<Place>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} allocated ", self.frames)?;
        match self.site {
            Some(site) => write!(f, "at {site}")?,
            None => f.write_str("before tracing began")?,
        }
        write!(f, ", {}", self.place.map_or("with the program", Place::name))?;
        write!(f, ", the oldest for {:.1} s", self.oldest.as_secs_f64())
    }
}

/// A closed pool has frames that did not come home by the deadline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "pool {}: {} of {} frames are still out ({} with the program, {} with devices, {} in queues, {} in ready pools){}",
    .0.name, .0.out(), .0.total, .0.owned, .0.posted, .0.queued, .0.ready, by(.1)
)]
pub struct StillOut(
    /// Where they are.
    pub Ledger,
    /// By whom and since when, as far as that was traced.
    pub Vec<Holder>,
);

/// Holders with a known call site, behind each other.
fn by(holders: &[Holder]) -> String {
    holders.iter().filter(|holder| holder.site.is_some()).map(|holder| format!("; {holder}")).collect()
}

impl Shared {
    /// Brings the owner's gauges up to date: as a thief, so that the owner need not say at each frame what it does. Where
    /// it stays inside for too long they are as they were when it was last asked.
    pub(super) fn reckon(&self) {
        let slot = self.local.slot();
        slot.steal(|local| local.stay(slot.gauges(), |_| {}));
    }

    /// Counts the places.
    pub(super) fn ledger(&self) -> Ledger {
        let sum = |pick: fn(&PoolLane) -> &Count| self.lanes.sum(pick);
        let at = |place: Place| self.lanes.sum(|lane| &lane.places[place as usize]);
        let ready = at(Place::Ready).wrapping_add(self.keepers.ready());
        let (posted, queued) = (at(Place::Posted), at(Place::Queued));
        self.reckon();
        let owner = self.local.slot().gauges();
        let taken = sum(|lane| &lane.taken).wrapping_add(owner.taken.get());
        let given = sum(|lane| &lane.given).wrapping_add(owner.given.get());
        let stock = lock(&self.stock);
        let total = self.total();
        // Frames that came after closing are counted by the latch alone.
        let late = if stock.closed { total.saturating_sub(stock.free() + self.latch.out()) } else { 0 };
        Ledger {
            name: self.name.clone(),
            total,
            free: stock.free() + late,
            cached: owner.cached.get(),
            ready,
            owned: [given, ready, posted, queued].into_iter().fold(taken, u64::wrapping_sub),
            posted,
            queued,
            returning: self.home.len(),
        }
    }
}
