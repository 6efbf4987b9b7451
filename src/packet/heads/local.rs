//! HOT: a worker's array of free heads.

use super::shared::Shared;
use super::stats::HeadsLane;
use crate::packet::head::{Head, Origin};
use crate::packet::packet::Packet;
use crate::pool::Drain;
use crate::slab::Object;
use crate::stats::Tally;
use crate::sync::{Worker, make_of_first, make_of_last, put_newest, take_newest};

/// What a worker keeps; what the hot path uses comes first, within one cache line.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Local {
    /// Free heads, newest last, each with this worker's origin. Its room is the array's size: 0 in forms that take no
    /// head from an array, where everything falls through to [`grow`](super::grow).
    pub(super) ready: Vec<Object<Head>>,
    /// The origin of heads that this worker takes.
    pub(super) origin: Origin,
    /// What the hot path did with the array.
    tally: Tally,
    /// Heads of another worker, all of one origin, until there are enough to send.
    pub(super) away: Vec<Object<Head>>,
    /// Freed heads on their way to the cache, in `HeadCacheMode::FlushOnly`.
    pub(super) freed: Vec<Object<Head>>,
    /// Empty, for the cold half to move heads with.
    pub(super) scratch: Vec<Object<Head>>,
}

impl Local {
    pub(super) fn new(origin: Origin, size: usize) -> Local {
        Local {
            ready: Vec::with_capacity(size),
            origin,
            tally: Tally::default(),
            away: Vec::new(),
            freed: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Enters the slow path: publishes what the hot path did, runs `work`, then records what is left.
    pub(super) fn stay<R>(&mut self, lane: &HeadsLane, work: impl FnOnce(&mut Local) -> R) -> R {
        self.tally.publish(self.ready.len(), &lane.taken, &lane.kept);
        let done = work(self);
        self.tally.settle(self.ready.len());
        lane.ready.set(self.ready.len() as u64);
        lane.away.set(self.away.len() as u64);
        lane.freed.set(self.freed.len() as u64);
        done
    }

    /// Whether heads can be put into the array as they are: all of this worker's origin.
    #[inline(always)]
    fn fits(&self, n: usize, origin: Origin) -> bool {
        origin.differs(self.origin) == 0 && self.ready.capacity() - self.ready.len() >= n
    }
}

impl Shared {
    /// The head freed last, if the array has one.
    #[inline(always)]
    pub(super) fn take_hot(&self, w: &mut Worker) -> Option<Object<Head>> {
        let mut local = self.locals.enter(w)?;
        let head = take_newest(&mut local.ready)?;
        local.tally.take(1);
        Some(head)
    }

    /// Gives the next `n` of `frames`, of which there are as many, the heads freed last, as far as there are any, and appends
    /// the packets to `into`; returns how many.
    #[inline(always)]
    pub(super) fn take_hot_bulk(
        &self,
        w: &mut Worker,
        n: usize,
        frames: &mut Drain,
        into: &mut Vec<Packet>,
    ) -> usize {
        let Some(mut local) = self.locals.enter(w) else { return 0 };
        let n = make_of_last(&mut local.ready, n, into, |head| Packet::new(head, frames.next()));
        local.tally.take(n);
        n
    }

    /// Keeps a blank head if it is this worker's and the array has room.
    ///
    /// # Errors
    /// The head, if not.
    #[inline(always)]
    pub(super) fn keep_hot(&self, w: &mut Worker, head: Object<Head>) -> Result<(), Object<Head>> {
        let Some(mut local) = self.locals.enter(w) else { return Err(head) };
        if head.origin.differs(local.origin) != 0 {
            return Err(head);
        }
        put_newest(&mut local.ready, head)
    }

    /// Keeps the heads of the `n` oldest packets, all of `origin`, whose frames were taken; false, and nothing done, if that is
    /// not this worker or the array has no room for all.
    #[inline(always)]
    pub(super) fn keep_hot_bulk(
        &self,
        w: &mut Worker,
        origin: Origin,
        packets: &mut Vec<Packet>,
        n: usize,
    ) -> bool {
        let Some(mut local) = self.locals.enter(w) else { return false };
        let fits = local.fits(n, origin);
        if fits {
            make_of_first(packets, n, &mut local.ready, Packet::into_head);
        }
        fits
    }
}
