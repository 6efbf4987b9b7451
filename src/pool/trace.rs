//! COLD: the holders of frames: the call site and time of each allocation, while tracing is on.
//!
//! The records are in a side array of the frame table, which is made when a pool first traces. Tracing puts no branch
//! on the hot path of allocations: a traced pool's depot is watched, so the owner's cache is empty and every allocation
//! takes the cold path. A free does not erase a record. A listing of the holders first finds out which frames are free.

use super::frame_state::FrameState;
use super::frame_table::FrameTable;
use super::ledger::Holder;
use super::pool::Pool;
use super::shared::Shared;
use super::traces::{Entry, HOME, Traces};
use crate::sync::shim::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Tolerance in milliseconds. An allocation that is recorded up to this much after the clock was read, while holders
/// are being listed, has age 0. Ages wrap after 49 days.
const AHEAD: u32 = 60_000;

impl FrameTable {
    /// The entry of frame `id`, if any pool of this frame table has traced.
    fn trace(&self, id: NonZeroU32) -> Option<&Entry> {
        self.traces()?.entry(self.index(id))
    }
}

impl Pool {
    /// Switches tracing on or off. While it is on, each allocation records its call site and time, for
    /// [`Pool::holders`] and [`Pool::close_and_wait`]. Ready packets are not kept meanwhile, since one that is taken again is not
    /// allocated: frames that were ready when it was switched on have no call site until they are freed.
    ///
    /// # Cost
    /// While it is on, every frame passes the depot under its lock, and each allocation writes 16 bytes of a side
    /// array. The array has 16 bytes for each 2 KiB of the memory, and is made when tracing is first switched on. Off:
    /// nothing.
    #[cold]
    pub fn trace(&self, on: bool) {
        let shared = &*self.shared;
        if on && !shared.is_traced() {
            let traces = shared.frame_table.make_traces();
            let now = traces.now();
            let ids: Vec<_> =
                lock(&shared.depot).pages.iter().flat_map(|page| shared.frames_of(page)).collect();
            for id in ids {
                shared.remember(id, None, now);
            }
        }
        shared.traced.store(on, Relaxed);
        shared.change(|depot| depot.traced = on);
    }

    /// Whether allocations record their call sites.
    pub fn is_traced(&self) -> bool {
        self.shared.is_traced()
    }

    /// The holders of the frames that are out, those with most frames first. With tracing they are listed by call site,
    /// otherwise without one. Frames that move during the call may be counted in their old state. While another thread
    /// closes the pool, its free frames may be counted too.
    #[cold]
    pub fn holders(&self) -> Vec<Holder> {
        self.shared.holders()
    }
}

impl Shared {
    pub(super) fn is_traced(&self) -> bool {
        self.traced.load(Relaxed)
    }

    /// Records who just allocated these frames.
    #[cold]
    pub(super) fn note(&self, ids: &[u32], site: &'static Location<'static>) {
        let now = self.frame_table.traces().map_or(0, Traces::now);
        ids.iter().filter_map(|&id| NonZeroU32::new(id)).for_each(|id| self.remember(id, Some(site), now));
    }

    fn remember(&self, id: NonZeroU32, site: Option<&'static Location<'static>>, now: u32) {
        let Some(entry) = self.frame_table.trace(id) else { return };
        entry.site.store(site.map_or(ptr::null_mut(), |site| ptr::from_ref(site).cast_mut()), Relaxed);
        entry.at.store(now, Relaxed);
        entry.state.store(0, Relaxed);
    }

    /// Records the state of frames, or that they are with the program.
    #[cold]
    pub(super) fn note_state(&self, ids: impl Iterator<Item = NonZeroU32>, state: Option<FrameState>) {
        let state = state.map_or(0, |state| state as u8 + 1);
        ids.filter_map(|id| self.frame_table.trace(id)).for_each(|entry| entry.state.store(state, Relaxed));
    }

    /// Records that frames were freed after the pool was closed. Called just before they are counted down.
    pub(super) fn note_late(&self, ids: impl Iterator<Item = NonZeroU32>) {
        ids.filter_map(|id| self.frame_table.trace(id)).for_each(|entry| entry.state.store(HOME, Relaxed));
    }

    /// The pool's frames that are neither free nor on the remote free queue.
    fn out(&self) -> Vec<NonZeroU32> {
        // As a thief: all free frames go to the depot, so that a frame that is not there is out.
        let slot = self.local.slot();
        slot.steal(|local| {
            let mut depot = lock(&self.depot);
            if !depot.closed {
                local.stay(slot.gauges(), |stack| stack.drain(|id| self.put(&mut depot, id)));
                self.gather(&mut depot);
            }
        });
        let depot = lock(&self.depot);
        let free: BTreeSet<u32> = depot.spare.iter().copied().collect();
        let all = depot.pages.iter().flat_map(|page| self.frames_of(page));
        all.filter(|id| !free.contains(&id.get())).collect()
    }

    pub(super) fn holders(&self) -> Vec<Holder> {
        let Some(traces) = self.frame_table.traces().filter(|_| self.is_traced()) else {
            return self.unknown_holder();
        };
        let (now, ready) = (traces.now(), self.shrinkers.frames());
        let mut holders: BTreeMap<_, Holder> = BTreeMap::new();
        for (id, entry) in self.out().into_iter().filter_map(|id| Some((id, self.frame_table.trace(id)?))) {
            let (site, at, mut state) = entry.read();
            if state == HOME {
                continue;
            }
            if ready.contains(&id) {
                state = FrameState::Ready as u8 + 1;
            }
            let key = (site.map(|site| (site.file(), site.line(), site.column())), state);
            let state = FrameState::ALL.into_iter().find(|known| *known as u8 + 1 == state);
            let holder =
                holders.entry(key).or_insert(Holder { site, frames: 0, oldest: Duration::ZERO, state });
            holder.frames += 1;
            holder.oldest = holder.oldest.max(age(now, at));
        }
        let mut holders: Vec<Holder> = holders.into_values().collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.frames));
        holders
    }

    /// All frames that are out, if their holders are not known.
    fn unknown_holder(&self) -> Vec<Holder> {
        let closed = lock(&self.depot).closed;
        let frames = if closed { self.still_out() } else { self.out().len() as u64 };
        let holder = Holder { site: None, frames, oldest: Duration::ZERO, state: None };
        if frames > 0 { vec![holder] } else { Vec::new() }
    }

    /// The frames that are out of a closed pool. As long as another thread closes it, they are all that are not in the
    /// depot: also free frames that this thread moves there.
    fn still_out(&self) -> u64 {
        self.latch.known().unwrap_or_else(|| self.total().saturating_sub(lock(&self.depot).free()))
    }
}

/// The time since `at`, in the clock of [`Traces`].
fn age(now: u32, at: u32) -> Duration {
    let age = now.wrapping_sub(at);
    Duration::from_millis(if age > u32::MAX - AHEAD { 0 } else { age.into() })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_noted_while_holders_are_listed_is_new_and_the_clock_may_wrap() {
        for (now, at, milliseconds) in [(7, 7, 0), (7, 8, 0), (9, 7, 2), (5, u32::MAX, 6), (u32::MAX, 3, 0)] {
            assert_eq!(age(now, at), Duration::from_millis(milliseconds), "{at} at {now}");
        }
        assert_eq!(age(4_000_000_000, 0), Duration::from_millis(4_000_000_000));
    }
}
