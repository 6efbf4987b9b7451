//! The flow table: a flow goes to another worker only when the one it had is done with all its frames.

use super::consumers::{FlowConsumers, NOBODY};
use super::outgoing::Outgoing;
use crate::limits::BATCH_MAX;

/// How much more its worker has to have listed, waiting and in work than the idlest before a flow goes there: less than
/// half a batch is no difference worth cold caches.
const WORTH_MOVING: u32 = BATCH_MAX as u32 / 2;

/// Where a flow's frames went so far.
#[derive(Debug, Clone, Copy)]
struct Entry {
    worker: u8,
    /// The position behind its last frame in the lane to `worker`; for frames that stayed here the number of the list they
    /// were in.
    tail: u32,
}

/// Flows by their hash; those that share an entry share a worker.
///
/// Invariant: an entry's worker changes only when all frames that were counted under it are finished.
#[derive(Debug)]
pub(super) struct FlowTable {
    entries: Box<[Entry]>,
    /// Flows that went to another worker.
    pub(super) moves: u64,
}

/// The worker that steers, as the table sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    pub(super) worker: u8,
    /// Frames for itself go round its lane and are finished with the list they are in; before it has read what is in its
    /// lane it is no choice.
    pub(super) direct: bool,
    /// The number of this list.
    pub(super) list: u32,
}

impl FlowTable {
    /// A table of `entries`, a power of two.
    pub(super) fn new(entries: usize) -> FlowTable {
        FlowTable { entries: vec![Entry { worker: NOBODY, tail: 0 }; entries].into(), moves: 0 }
    }

    /// Forgets all flows: whoever calls takes care of their order.
    #[cold]
    pub(super) fn clear(&mut self) {
        self.entries.fill(Entry { worker: NOBODY, tail: 0 });
    }

    /// The worker out of `targets` for the next frame of the flow with this hash: the one that consumes it, or else the idlest.
    /// `ahead[worker]` frames of the list go to each worker before it.
    #[inline]
    pub(super) fn choose(
        &mut self,
        hash: u32,
        targets: &[u8],
        out: &[Outgoing],
        own: Own,
        ahead: &mut [u32],
        consumers: &FlowConsumers,
    ) -> u8 {
        let place = hash as usize & (self.entries.len() - 1);
        let entry = &mut self.entries[place];
        if entry.worker == NOBODY || is_finished(*entry, out, own, ahead) {
            let may_go = |worker: u8| worker != own.worker || own.direct;
            let consumer = consumers.of(hash);
            let next = match targets.iter().copied().find(|&t| Some(usize::from(t)) == consumer) {
                Some(consumer) if may_go(consumer) => consumer,
                // Not yet: it is this worker, which has still to read what is in its lane.
                Some(_) if entry.worker != NOBODY => entry.worker,
                _ => {
                    let load = |worker: u8| load(worker, out, own, ahead);
                    let idlest = targets.iter().copied().filter(|&t| may_go(t)).min_by_key(|&t| load(t));
                    let idlest = idlest.unwrap_or(own.worker);
                    let stays = entry.worker != NOBODY && load(entry.worker) < load(idlest) + WORTH_MOVING;
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

/// Frames that its worker has still to do.
#[inline]
fn load(worker: u8, out: &[Outgoing], own: Own, ahead: &[u32]) -> u32 {
    let before = if worker == own.worker && own.direct { 0 } else { out[usize::from(worker)].load() };
    before + ahead[usize::from(worker)]
}

/// Whether the worker of an entry is done with all its frames, as last looked up.
#[inline]
fn is_finished(entry: Entry, out: &[Outgoing], own: Own, ahead: &[u32]) -> bool {
    if entry.worker == own.worker {
        own.direct && entry.tail != own.list
    } else {
        let worker = usize::from(entry.worker);
        out[worker].has_finished(entry.tail, ahead[worker])
    }
}
