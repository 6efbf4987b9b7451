//! The flow table: a flow goes to another worker only when its old worker is done with all its frames.

use super::consumers::{FlowConsumers, NOBODY};
use super::outgoing::Outgoing;
use crate::limits::BATCH_MAX;

/// Number of frames that its worker must have listed, waiting and in work beyond those of the idlest worker before a
/// flow moves there. A difference of less than half a batch is not worth cold caches.
const WORTH_MOVING: u32 = BATCH_MAX as u32 / 2;

/// The destination of a flow's frames so far.
#[derive(Debug, Clone, Copy)]
struct Entry {
    worker: u8,
    /// The position behind its last frame in the lane to `worker`. For frames that stayed here, the number of their
    /// list.
    tail: u32,
}

/// Flows by their hash; flows that share an entry share a worker.
///
/// Invariant: an entry's worker changes only when all frames that were counted under it are finished.
#[derive(Debug)]
pub(super) struct FlowTable {
    entries: Box<[Entry]>,
    /// Number of flows that went to another worker.
    pub(super) moves: u64,
}

/// The worker that steers, as the table sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    pub(super) worker: u8,
    /// Frames for this worker itself bypass its lane and are finished with their list. Before the worker has read all
    /// frames in its lane, it is not a choice.
    pub(super) direct: bool,
    /// The number of this list.
    pub(super) list: u32,
}

impl FlowTable {
    /// Makes a table of `entries`, a power of two.
    pub(super) fn new(entries: usize) -> FlowTable {
        FlowTable { entries: vec![Entry { worker: NOBODY, tail: 0 }; entries].into(), moves: 0 }
    }

    /// Forgets all flows: the caller preserves their order.
    #[cold]
    pub(super) fn clear(&mut self) {
        self.entries.fill(Entry { worker: NOBODY, tail: 0 });
    }

    /// Chooses the worker out of `targets` for the next frame of the flow with this hash: the worker that consumes it,
    /// or otherwise the idlest. `closed` has one bit for each worker that is not a choice now: this worker if frames
    /// for it are not direct, and others whose inboxes no worker reads. `ahead[worker]` frames of the list go to each
    /// worker before it.
    ///
    /// A flow whose worker is gone moves on with the next batch. Order holds: frames that were sent there are never
    /// forwarded, and frames that stayed with the caller come first in that batch.
    #[inline]
    pub(super) fn choose(
        &mut self,
        hash: u32,
        (targets, closed): (&[u8], u64),
        out: &[Outgoing],
        own: Own,
        ahead: &mut [u32],
        consumers: &FlowConsumers,
    ) -> u8 {
        let place = hash as usize & (self.entries.len() - 1);
        let entry = &mut self.entries[place];
        if entry.worker == NOBODY || is_finished(*entry, out, own, ahead) {
            let may_go = |worker: u8| closed >> worker & 1 == 0;
            let may_stay = entry.worker != NOBODY && may_go(entry.worker);
            let consumer = consumers.get(hash);
            let next = match targets.iter().copied().find(|&t| Some(usize::from(t)) == consumer) {
                Some(consumer) if may_go(consumer) => consumer,
                // Not yet: this worker still has to read the frames in its lane. Another consumer that is closed has no
                // inbox any more, and counts as none.
                Some(consumer) if consumer == own.worker && may_stay => entry.worker,
                _ => {
                    let load = |worker: u8| load(worker, out, own, ahead);
                    let idlest = targets.iter().copied().filter(|&t| may_go(t)).min_by_key(|&t| load(t));
                    let idlest = idlest.unwrap_or_else(|| of_closed(targets, own));
                    let stays = may_stay && load(entry.worker) < load(idlest) + WORTH_MOVING;
                    if stays { entry.worker } else { idlest }
                }
            };
            self.moves += u64::from(entry.worker != NOBODY && entry.worker != next);
            entry.worker = next;
        }
        let to = usize::from(entry.worker);
        ahead[to] += 1;
        let direct = entry.worker == own.worker && own.direct;
        entry.tail = if direct { own.list } else { out[to].position().wrapping_add(ahead[to]) };
        entry.worker
    }
}

/// Chooses one of `targets` if all of them are closed: this worker, whose lane may have a reader, or the first, whose
/// frames stay with the caller or are dropped.
#[cold]
fn of_closed(targets: &[u8], own: Own) -> u8 {
    match targets {
        [first, ..] if !targets.contains(&own.worker) => *first,
        _ => own.worker,
    }
}

/// Number of frames that its worker still has to process.
#[inline]
fn load(worker: u8, out: &[Outgoing], own: Own, ahead: &[u32]) -> u32 {
    let before = if worker == own.worker && own.direct { 0 } else { out[usize::from(worker)].load() };
    before + ahead[usize::from(worker)]
}

/// Returns whether the worker of an entry is done with all its frames, as last looked up.
#[inline]
fn is_finished(entry: Entry, out: &[Outgoing], own: Own, ahead: &[u32]) -> bool {
    if entry.worker == own.worker {
        own.direct && entry.tail != own.list
    } else {
        let worker = usize::from(entry.worker);
        out[worker].has_finished(entry.tail, ahead[worker])
    }
}

#[cfg(test)]
mod tests;
