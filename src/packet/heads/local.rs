//! HOT: a worker's array of free heads.

use super::shared::Shared;
use super::stats::HeadsLane;
use crate::packet::head::{Head, Origin};
use crate::packet::packet::Packet;
use crate::pool::Drain;
use crate::slab::Object;
use crate::stats::Tally;
use crate::sync::Worker;
use crate::sys::lifo::{Lifo, Owned};

/// A worker's state. The fields of the hot path come first, within one cache line.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Local {
    /// Free heads, each with this worker's origin. There is no room for any in modes that take no head from an array;
    /// then every call falls through to [`grow`](super::grow).
    pub(super) ready: Lifo<Object<Head>>,
    /// The origin of heads that this worker takes.
    pub(super) origin: Origin,
    /// Counts of what the hot path did with the array.
    tally: Tally,
    /// Heads of another worker, all of one origin, kept until there are enough to send.
    pub(super) away: Vec<Object<Head>>,
    /// Freed heads that will go to the cache, in `HeadCacheMode::FlushOnly`.
    pub(super) freed: Vec<Object<Head>>,
    /// An empty vector with which the slow path moves heads.
    pub(super) scratch: Vec<Object<Head>>,
}

impl Owned for Object<Head> {}

impl Local {
    pub(super) fn new(origin: Origin, size: usize) -> Local {
        Local {
            ready: Lifo::new(size),
            origin,
            tally: Tally::default(),
            away: Vec::new(),
            freed: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Enters the slow path: publishes the hot path's counts, runs `work`, then records what is left.
    pub(super) fn stay<R>(&mut self, lane: &HeadsLane, work: impl FnOnce(&mut Local) -> R) -> R {
        self.tally.publish(self.ready.len(), &lane.taken, &lane.kept);
        let done = work(self);
        self.tally.settle(self.ready.len());
        lane.ready.set(self.ready.len() as u64);
        lane.away.set(self.away.len() as u64);
        lane.freed.set(self.freed.len() as u64);
        done
    }
}

impl Shared {
    /// Returns the next head, if the array has one.
    #[inline(always)]
    pub(super) fn take_hot(&self, w: &mut Worker) -> Option<Object<Head>> {
        let mut local = self.locals.enter(w)?;
        let head = local.ready.pop()?;
        local.tally.take(1);
        Some(head)
    }

    /// Gives the next `n` of `frames` the heads freed last, as far as the array has heads, and appends the packets to
    /// `into`. `frames` holds at least `n` frames. Returns the number of packets.
    #[inline(always)]
    pub(super) fn take_hot_bulk(
        &self,
        w: &mut Worker,
        n: usize,
        frames: &mut Drain,
        into: &mut Vec<Packet>,
    ) -> usize {
        let Some(mut local) = self.locals.enter(w) else { return 0 };
        let n = local.ready.make_of_newest(n, into, |head| Packet::new(head, frames.next()));
        local.tally.take(n);
        n
    }

    /// Keeps a blank head if it belongs to this worker and the array has room.
    ///
    /// # Errors
    /// Returns the head otherwise.
    #[inline(always)]
    pub(super) fn keep_hot(&self, w: &mut Worker, head: Object<Head>) -> Result<(), Object<Head>> {
        let Some(mut local) = self.locals.enter(w) else { return Err(head) };
        if head.origin.differs(local.origin) != 0 {
            return Err(head);
        }
        local.ready.push(head)
    }

    /// Keeps the heads of the `n` oldest packets, which all have the given `origin` and whose frames were taken.
    /// Returns false and does nothing if `origin` is not this worker, or the array has no room for all heads.
    #[inline(always)]
    pub(super) fn keep_hot_bulk(
        &self,
        w: &mut Worker,
        origin: Origin,
        packets: &mut Vec<Packet>,
        n: usize,
    ) -> bool {
        let Some(mut local) = self.locals.enter(w) else { return false };
        origin.differs(local.origin) == 0 && local.ready.put_first(packets, n, Packet::into_head)
    }
}
