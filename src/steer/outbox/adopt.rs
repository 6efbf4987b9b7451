//! COLD: a worker adopts a change of the policy.
//!
//! A flow whose worker changes must not overtake its own earlier frames. So a *barrier* is put into the lane that it
//! moves to. The frames behind the barrier wait until the lanes that the flow may come from are finished up to their
//! positions at the change. The change takes effect at once, no frame is held back here, and none is lost by it.
//!
//! A barrier waits only for frames sent before it was placed, so barriers cannot wait for each other in a circle. A
//! worker that makes no progress would hold up the workers that its flows move to. So a change that takes flows from it
//! waits until it makes progress.

use super::Outbox;
use crate::steer::label::Barrier;
use crate::steer::policy::Policy;
use crate::sync::Worker;
use std::sync::Arc;

/// A change that was seen and not yet adopted.
#[derive(Debug)]
pub(super) struct Change {
    generation: u32,
    policy: Arc<Policy>,
    /// The finished position of each lane when the change was first seen.
    seen: Vec<u32>,
}

/// One bit for each of these workers.
fn bits(workers: &[u8]) -> u64 {
    workers.iter().fold(0, |bits, &worker| bits | 1 << worker)
}

/// The workers whose bits are set.
fn each(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(first)
    })
}

impl Outbox {
    /// Adopts a change if it need not wait.
    #[cold]
    #[inline(never)]
    pub(super) fn change_policy(&mut self, w: &mut Worker) {
        self.flush_all(w);
        let latest = self.mesh.generation();
        if self.change.as_ref().is_none_or(|change| change.generation != latest) {
            let (policy, generation) = self.mesh.current();
            let seen = self.out.iter().map(|out| out.lane.progress().finished()).collect();
            self.change = Some(Change { generation, policy, seen });
        }
        let Some(change) = self.change.take() else { return };
        let gains = self.gains(&change.policy);
        if !self.may_place(&gains, &change.seen) {
            self.counts.postponed.add(1);
            self.change = Some(change);
            return;
        }
        let positions: Vec<u32> = self.out.iter().map(|out| out.lane.sent()).collect();
        for (to, from) in gains.iter().enumerate() {
            self.behind[to] |= from;
            if self.is_gone(to) {
                continue;
            }
            for worker in each(*from) {
                self.out[to].send_barrier(worker as u8, positions[worker]);
            }
        }
        self.flows.clear();
        (self.policy, self.generation) = (change.policy, change.generation);
        self.counts.adopted.add(1);
    }

    /// For each worker, the workers from which it may gain flows under `next` and that are not done with all frames
    /// sent to them.
    fn gains(&mut self, next: &Policy) -> Vec<u64> {
        let own = [self.own];
        let targets = |policy: &Policy, queue| match policy.targets(queue) {
            [] => bits(&own),
            list => bits(list),
        };
        let mut gains = vec![0; self.out.len()];
        // All queues above the last one that either policy names are alike.
        for queue in 0..=self.policy.queues().max(next.queues()) {
            let (before, after) = (targets(&self.policy, queue), targets(next, queue));
            each(after).for_each(|worker| gains[worker] |= before & !(1 << worker));
        }
        for worker in (0..gains.len()).filter(|&worker| self.is_gone(worker)).collect::<Vec<_>>() {
            // It forwards nothing any more. The workers for whose frames its own would have waited still do.
            let (gone, behind) = (1 << worker, self.behind[worker]);
            let inherit =
                |from: &mut u64| *from = if *from & gone == 0 { *from } else { *from & !gone | behind };
            gains.iter_mut().chain(&mut self.behind).for_each(inherit);
        }
        for worker in 0..gains.len() {
            if self.out[worker].lane.is_drained() {
                gains.iter_mut().for_each(|from| *from &= !(1 << worker));
                self.behind[worker] &= if self.is_gone(worker) { u64::MAX } else { 0 };
            }
        }
        gains
    }

    /// Returns whether all workers from which others gain flows have made progress since the change was seen, and the
    /// barriers have room.
    ///
    /// A worker without a reader gains nothing. But this worker itself still forwards its own frames, so if its lane
    /// has no reader, it must wait for all others.
    fn may_place(&mut self, gains: &[u64], seen: &[u32]) -> bool {
        let read = |to: usize| !self.is_gone(to);
        let from = (0..gains.len()).filter(|&to| read(to)).fold(0, |all, to| all | gains[to]);
        let own = usize::from(self.own);
        let all_move = each(from).all(|worker| self.out[worker].lane.progress().finished() != seen[worker]);
        all_move
            && (gains[own] == 0 || read(own))
            && gains.iter().enumerate().all(|(to, from)| {
                let barriers = from.count_ones() * Barrier::UNITS;
                *from == 0 || self.is_gone(to) || self.out[to].lane.room(barriers) == barriers
            })
    }

    /// Returns whether the frames that this worker keeps need no longer wait for other workers, of which some were not
    /// done when the policy changed.
    ///
    /// Its lane is empty, so its barriers are passed. But if no worker reads the lane, they never were. Until the
    /// others are done, frames that it would keep are dropped as frames of its lane.
    #[cold]
    #[inline(never)]
    pub(super) fn is_past_barriers(&mut self) -> bool {
        let own = usize::from(self.own);
        let past = !self.is_gone(own) || each(self.behind[own]).all(|worker| self.out[worker].is_drained());
        if past {
            self.behind[own] = 0;
        }
        past
    }

    /// Returns whether no worker reads the lane to `worker` any more.
    fn is_gone(&self, worker: usize) -> bool {
        !self.has_reader(worker)
    }
}
