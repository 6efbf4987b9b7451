//! The conservation law: every frame is in exactly one state, and the states can be counted at every quiescent point.

use super::frame_state::FrameState;
use super::shared::{PoolLane, Shared};
use crate::stats::Count;
use crate::sync::shim::lock;
use std::fmt;
use std::num::NonZeroU32;
use std::panic::Location;
use std::time::Duration;

/// The number of a pool's frames in each state.
///
/// `free + cached + ready + owned + posted + queued + returning == total` at every quiescent point. That is a moment at
/// which no worker is inside a call that moves frames of the pool, and the calling thread has seen what these calls
/// did. At other times each number is that of some moment, and not all of the same moment.
///
/// Each term is counted on its own, and none is derived from the others, so the sum can fail. A move to a state and
/// back is counted twice: by the code of the device or queue, and by the code that hands the frame over. `miscounted` is the
/// difference of the two.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// The pool's name.
    pub name: String,
    /// Frames of the pool: those that were made of pages so far, as they were needed, and have not left with them.
    pub total: u64,
    /// Frames in the pool's depot.
    pub free: u64,
    /// Frames in the owner's cache.
    pub cached: u64,
    /// Frames in ready packets, as their pools report ([`Shrinker::ready`](super::Shrinker::ready)).
    pub ready: u64,
    /// Frames with the program: taken from the pool, and neither given back nor handed over to one of the states here.
    /// A frame with several holders, or cut into fragments, counts as one.
    pub owned: u64,
    /// Frames with devices: in fill, rx, tx and completion rings.
    pub posted: u64,
    /// Frames in hand-off queues between workers.
    pub queued: u64,
    /// Frames on the remote free queue.
    pub returning: u64,
    /// The difference between the two counts of `posted`, `queued` and `ready`, in frames, plus the frames of other
    /// pools among the free frames of this pool. The correct value is 0.
    pub miscounted: u64,
}

/// One line: the states that have frames, and errors if there are any.
impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} frames", self.name, self.total)?;
        for (name, frames) in self.iter().filter(|(_, frames)| *frames > 0) {
            write!(f, ", {frames} {name}")?;
        }
        if self.balanced() { Ok(()) } else { f.write_str(", NOT BALANCED") }
    }
}

impl Ledger {
    /// Returns the number of frames in each state by its name, in the order of the fields, and `miscounted` as the last.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("free", self.free),
            ("cached", self.cached),
            ("ready", self.ready),
            ("owned", self.owned),
            ("posted", self.posted),
            ("queued", self.queued),
            ("returning", self.returning),
            ("miscounted", self.miscounted),
        ]
        .into_iter()
    }

    /// Whether the states add up to the total, no state is above it, and nothing is miscounted.
    pub fn balanced(&self) -> bool {
        let states =
            [self.free, self.cached, self.ready, self.owned, self.posted, self.queued, self.returning];
        // Wider than any sum of seven: a count below 0, which wraps, makes the sum too large.
        states.into_iter().map(u128::from).sum::<u128>() == u128::from(self.total) && self.miscounted == 0
    }

    /// Frames that are neither free nor on the remote free queue: with the program, devices, queues and ready pools.
    pub fn out(&self) -> u64 {
        [self.ready, self.posted, self.queued].into_iter().fold(self.owned, u64::saturating_add)
    }

    /// Whether every frame is in the depot, in the cache or on the remote free queue.
    pub fn all_freed(&self) -> bool {
        self.balanced() && self.free + self.cached + self.returning == self.total
    }
}

/// A holder of frames of a pool, and where the frames are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The call site of the allocation. None if the allocation was before tracing began
    /// ([`Pool::trace`](super::Pool::trace)).
    pub site: Option<&'static Location<'static>>,
    /// The number of frames.
    pub frames: u64,
    /// How long it has had the oldest frame, to the millisecond. For a frame from before tracing, the time since
    /// tracing began. 0 without tracing.
    pub oldest: Duration,
    /// The state of the frames. None for the program, or if the state is not known.
    pub state: Option<FrameState>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} allocated ", self.frames)?;
        match self.site {
            Some(site) => write!(f, "at {site}")?,
            None => f.write_str("before tracing began")?,
        }
        write!(f, ", {}", self.state.map_or("with the program", FrameState::name))?;
        write!(f, ", the oldest for {:.1} s", self.oldest.as_secs_f64())
    }
}

/// A closed pool has frames that were not freed by the deadline.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "pool {:?}: {} of {} frames are still out ({} with the program, {} with devices, {} in queues, {} in ready pools){}",
    .0.name, .0.out(), .0.total, .0.owned, .0.posted, .0.queued, .0.ready, by(.1)
)]
pub struct StillOut(
    /// The state of each frame.
    pub Ledger,
    /// The holders, as far as they were traced.
    pub Vec<Holder>,
);

/// The holders with a known call site, one after the other.
fn by(holders: &[Holder]) -> String {
    holders.iter().filter(|holder| holder.site.is_some()).map(|holder| format!("; {holder}")).collect()
}

impl Shared {
    /// Brings the owner's gauges up to date. It does so as a thief, so that the owner does not have to publish each
    /// frame. If the owner stays inside for too long, the gauges keep their last values.
    pub(super) fn refresh_gauges(&self) {
        let slot = self.local.slot();
        slot.steal(|local| local.stay(slot.gauges(), |_| {}));
    }

    /// Does the same as [`Shared::refresh_gauges`]. Returns how many frames of other pools lie in the owner's cache and
    /// on the remote free queue. Does not look at the queue of a closed pool.
    fn refresh_and_count_foreign(&self) -> u64 {
        let slot = self.local.slot();
        let foreign = slot.steal(|local| {
            let mut foreign = 0;
            let mut visit = |id| foreign += u64::from(!self.is_own(id));
            local.stay(slot.gauges(), |stack| stack.items().iter().for_each(|&id| visit(id)));
            // A pool that closes shuts its slot, and takes the frames off the queue when no thief is inside any more. A
            // thief that comes later must not follow their links. One that finds the pool open is waited for.
            let closed = lock(&self.depot).closed;
            if !closed {
                self.remote_free.each(self.frame_table.links(), visit);
            }
            foreign
        });
        foreign.unwrap_or(0)
    }

    /// Whether the frame with this number belongs to the pool, if the pool is [listed](Shared::is_listed).
    pub(super) fn is_own(&self, id: u32) -> bool {
        NonZeroU32::new(id).is_some_and(|id| self.pool_numbers.of(id) == self.number)
    }

    /// Counts the frames in each state.
    pub(super) fn ledger(&self) -> Ledger {
        let sum = |pick: fn(&PoolLane) -> &Count| self.lanes.sum(pick);
        let said = FrameState::ALL.map(|state| self.lanes.sum(|lane| &lane.said[state as usize]));
        let handed = FrameState::ALL.map(|state| self.lanes.sum(|lane| &lane.handed[state as usize]));
        let is_listed = self.is_listed();
        let kept = self.shrinkers.kept(|id| is_listed && self.is_own(id));
        let foreign = self.refresh_and_count_foreign();
        let owner = self.local.slot().gauges();
        let taken = sum(|lane| &lane.taken).wrapping_add(owner.taken.get());
        let given = sum(|lane| &lane.given).wrapping_add(owner.given.get());
        let depot = lock(&self.depot);
        let total = self.total();
        // Frames that came after closing are counted by the latch alone.
        let late = self.latch.known().map_or(0, |out| total.saturating_sub(depot.free() + out));
        let gone = handed.into_iter().fold(given.wrapping_add(kept.named), u64::wrapping_add);
        let [ready, posted, queued] = said;
        Ledger {
            name: self.name.clone(),
            total,
            free: depot.free() + late,
            cached: owner.cached.get(),
            ready: ready.saturating_add(kept.said),
            owned: taken.wrapping_sub(gone),
            posted,
            queued,
            returning: self.remote_free.len(),
            miscounted: miscounted(said, handed)
                .saturating_add(kept.miscounted())
                .saturating_add(foreign + depot.foreign),
        }
    }
}

/// The difference between two counts of the states, in frames. The counts wrap, and so does the difference.
fn miscounted(said: [u64; FrameState::ALL.len()], handed: [u64; FrameState::ALL.len()]) -> u64 {
    let apart = |(said, handed): (u64, u64)| said.wrapping_sub(handed).cast_signed().unsigned_abs();
    said.into_iter().zip(handed).map(apart).fold(0, u64::saturating_add)
}
