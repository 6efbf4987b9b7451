//! The `cpu_slab` layer: the layer of SLUB before sheaves, which [brouer15-bulk] tunes.
//!
//! A worker has one active slab, whose freelist belongs to the worker, and a list of frozen slabs with free objects. It
//! allocates from the active slab, then from objects that others freed into that slab. Next come its own partial slabs,
//! then the node's. The worker frees objects of the active slab without synchronisation. Any other free goes through
//! the slab's word. If that slab was full, it is frozen onto the list of the worker that frees. When the list has more
//! than `cpu_partial` free objects, all of it goes to the node.

use super::reference::Ref;
use super::slabs::{Chain, Ground, Pushed, Slabs};
use super::stats::SlabLane;

/// One worker's active slab and partial slabs.
#[derive(Debug, Default)]
pub(super) struct CpuSlab {
    active: Option<u32>,
    /// The active slab's own freelist: its first place and its length.
    head: u16,
    n: u16,
    /// Frozen slabs, and the number of free objects that each had when it came.
    partial: Vec<(u32, u16)>,
    /// The sum of these numbers.
    objects: usize,
}

impl CpuSlab {
    /// The free objects of the active and the partial slabs, as far as this worker knows.
    pub(super) fn free(&self) -> usize {
        usize::from(self.n) + self.objects
    }

    /// Takes an object of the active slab's own freelist, if there is one.
    pub(super) fn pop_own(&mut self, slabs: &Slabs, ground: Ground<'_>, tag: u64) -> Option<Ref> {
        let active = self.active.filter(|_| self.head != 0)?;
        Some(self.pop_active(slabs, ground, tag, active))
    }

    /// Frees an object to the active slab's own freelist, if it belongs to that slab.
    ///
    /// # Safety
    /// As [`Slabs::push`].
    pub(super) unsafe fn push_own(&mut self, slabs: &Slabs, ground: Ground<'_>, object: Ref) -> bool {
        let slab = slabs.slab(ground, object);
        if self.active != Some(slab) {
            return false;
        }
        // SAFETY: the object belongs to this worker alone, and so does the active slab's freelist.
        unsafe { slabs.set_link(ground, object, self.head) };
        (self.head, self.n) = (slabs.place(ground, slab, object), self.n + 1);
        true
    }

    /// Takes an object. Slabs that turn out empty on the way are put into `empty`, to be given back.
    pub(super) fn pop(
        &mut self,
        (slabs, ground, tag): (&Slabs, Ground<'_>, u64),
        lane: &SlabLane,
        cpu_partial: usize,
        empty: &mut Vec<u32>,
    ) -> Option<Ref> {
        loop {
            if let Some(active) = self.active {
                if self.head != 0 {
                    return Some(self.pop_active(slabs, ground, tag, active));
                }
                if self.refill(slabs, ground, active) {
                    lane.alloc_refill.add(1);
                    continue;
                }
                self.deactivate(slabs, ground, empty);
            }
            self.active = Some(self.next_slab(slabs, ground, lane, cpu_partial)?);
            self.refill(slabs, ground, self.active?);
        }
    }

    fn pop_active(&mut self, slabs: &Slabs, ground: Ground<'_>, tag: u64, active: u32) -> Ref {
        let object = slabs.at(ground, active, self.head, tag);
        // SAFETY: the active slab's own freelist holds free objects that only this worker reaches.
        self.head = unsafe { slabs.link(ground, active, object) };
        self.n -= 1;
        if (self.head == 0) != (self.n == 0) {
            slabs.report_corruption(ground, object);
        }
        object
    }

    /// Takes over the objects that others freed into the active slab. Returns whether there were any.
    fn refill(&mut self, slabs: &Slabs, ground: Ground<'_>, active: u32) -> bool {
        (self.head, self.n) = slabs.detach(ground, active, true);
        self.head != 0
    }

    /// Takes a frozen slab with free objects: one of the worker's own, otherwise the node's first. In the latter case
    /// more of the node's slabs go onto the worker's list.
    fn next_slab(
        &mut self,
        slabs: &Slabs,
        ground: Ground<'_>,
        lane: &SlabLane,
        cpu_partial: usize,
    ) -> Option<u32> {
        if let Some((slab, free)) = self.partial.pop() {
            self.objects -= usize::from(free);
            lane.cpu_partial_alloc.add(1);
            return Some(slab);
        }
        let slab = slabs.take_partial(ground)?;
        lane.alloc_from_partial.add(1);
        while self.objects < cpu_partial / 2 {
            let Some(more) = slabs.take_partial(ground) else { break };
            self.keep(more, slabs.freeze(ground, more));
            lane.cpu_partial_node.add(1);
        }
        Some(slab)
    }

    fn keep(&mut self, slab: u32, free: u16) {
        self.objects += usize::from(free);
        self.partial.push((slab, free));
    }

    /// Makes a new slab the active one. All its objects are linked in `chain`.
    pub(super) fn adopt(&mut self, slabs: &Slabs, ground: Ground<'_>, chain: &Chain, empty: &mut Vec<u32>) {
        self.deactivate(slabs, ground, empty);
        (self.active, self.head, self.n) = (Some(chain.slab), chain.head, chain.n);
    }

    /// Frees a chain. Slabs that turn out empty are put into `empty`.
    ///
    /// # Safety
    /// As [`Slabs::push`].
    pub(super) unsafe fn push(
        &mut self,
        (slabs, ground): (&Slabs, Ground<'_>),
        lane: &SlabLane,
        cpu_partial: usize,
        chain: &Chain,
        empty: &mut Vec<u32>,
    ) {
        if self.active == Some(chain.slab) {
            // SAFETY: the chain belongs to this worker alone, and so does the active slab's freelist.
            unsafe { slabs.set_link(ground, chain.last, self.head) };
            (self.head, self.n) = (chain.head, self.n + chain.n);
            lane.free_fastpath.add(u64::from(chain.n));
            return;
        }
        lane.free_slowpath.add(1);
        // SAFETY: the caller's promise.
        match unsafe { slabs.push(ground, chain, cpu_partial > 0) } {
            Pushed::Done => {}
            Pushed::IntoFrozen => lane.free_frozen.add(1),
            Pushed::Empty => empty.push(chain.slab),
            Pushed::Frozen => {
                lane.cpu_partial_free.add(1);
                self.keep(chain.slab, chain.n);
                if self.objects > cpu_partial {
                    lane.cpu_partial_drain.add(1);
                    self.drain_partial(slabs, ground, empty);
                }
            }
        }
    }

    /// Gives all slabs back to the node.
    pub(super) fn flush(&mut self, slabs: &Slabs, ground: Ground<'_>, lane: &SlabLane, empty: &mut Vec<u32>) {
        if self.active.is_some() || !self.partial.is_empty() {
            lane.cpuslab_flush.add(1);
        }
        self.deactivate(slabs, ground, empty);
        self.drain_partial(slabs, ground, empty);
    }

    fn drain_partial(&mut self, slabs: &Slabs, ground: Ground<'_>, empty: &mut Vec<u32>) {
        self.objects = 0;
        // SAFETY: this worker froze the slabs on the list.
        let given = self.partial.drain(..).filter(|&(slab, _)| unsafe { slabs.unfreeze(ground, slab, None) });
        empty.extend(given.map(|(slab, _)| slab));
    }

    /// Gives the active slab up, with the rest of its freelist.
    fn deactivate(&mut self, slabs: &Slabs, ground: Ground<'_>, empty: &mut Vec<u32>) {
        let Some(slab) = self.active.take() else { return };
        let (head, n) = (std::mem::take(&mut self.head), std::mem::take(&mut self.n));
        let mut last = 0;
        // SAFETY: as in `pop_active`.
        unsafe { slabs.walk(ground, (slab, head, n), 0, |object| last = object) }
        let chain = Chain { slab, head, last, n };
        // SAFETY: the freelist belongs to this worker, and so does the slab.
        if unsafe { slabs.unfreeze(ground, slab, (head != 0).then_some(&chain)) } {
            empty.push(slab);
        }
    }
}
