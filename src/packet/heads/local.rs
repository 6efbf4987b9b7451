//! HOT: a worker's array of free heads.

use super::shared::Shared;
use super::stats::HeadsLane;
use crate::packet::head::{Head, Origin};
use crate::packet::packet::Packet;
use crate::pool::Drain;
use crate::slab::Object;
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
    /// Heads taken on the hot path since the last cold stay. What it gave back is not counted: it is what the array holds
    /// more than when that stay ended, and this.
    took: u64,
    settled: usize,
    /// Heads of another worker, all of one origin, until there are enough to send.
    pub(super) away: Vec<Object<Head>>,
    /// Freed heads on their way to the cache, in [`Form::FlushOnly`](super::Form::FlushOnly).
    pub(super) freed: Vec<Object<Head>>,
    /// Empty, for the cold half to move heads with.
    pub(super) scratch: Vec<Object<Head>>,
}

impl Local {
    pub(super) fn new(origin: Origin, size: usize) -> Local {
        Local {
            ready: Vec::with_capacity(size),
            origin,
            took: 0,
            settled: 0,
            away: Vec::new(),
            freed: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Does what the hot path cannot do: first what that has done is counted, at last what is left is noted.
    pub(super) fn stay<R>(&mut self, lane: &HeadsLane, work: impl FnOnce(&mut Local) -> R) -> R {
        lane.taken.add(self.took);
        lane.kept.add((self.ready.len() as u64 + self.took).wrapping_sub(self.settled as u64));
        let done = work(self);
        (self.took, self.settled) = (0, self.ready.len());
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
        local.took += 1;
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
        local.took += n as u64;
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
