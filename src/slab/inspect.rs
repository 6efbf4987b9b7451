//! COLD: inspects and ends a cache: shrink, validate, tunables, attributes, and the objects that are still out.

use super::check::Checker;
use super::config::{self, CacheError, TUNABLES};
use super::debug::{Misuse, Track};
use super::registry;
use super::shared::Shared;
use super::slabs::Chain;
use super::stats::Attributes;
use crate::sync::shim::{lock, yield_again};
use crate::sync::{Handle, Steps};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum number of objects that a [`Live`] lists.
const LISTED: usize = 32;

/// A fault that [`Cache::validate`](super::Cache::validate) found.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A freelist is broken; the slab is not used any more.
    #[error("the freelist of the slab at {slab:#x} was overwritten after {found} of {of} free objects")]
    Freelist {
        /// The address of the slab.
        slab: usize,
        /// The number of free objects that were found.
        found: usize,
        /// The number of free objects that the slab has.
        of: usize,
    },
    /// Debug found a damaged object.
    #[error("{0}")]
    Object(Misuse),
}

/// Why a cache was not destroyed: objects are out, or the cache is shared. Holds the cache.
#[derive(Debug)]
#[non_exhaustive]
pub struct Live<C> {
    /// The cache, unchanged.
    pub cache: C,
    name: String,
    /// The number of objects that are out.
    count: u64,
    /// The number of handles besides the cache's own.
    shared_by: usize,
    listed: Vec<LiveObject>,
}

/// An object that is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveObject {
    /// Its address.
    pub address: usize,
    /// Its allocation, if the cache has debug that keeps call sites.
    pub allocated: Option<Track>,
}

impl<C> Live<C> {
    /// Ends the cache by dropping its last handle, unless an object is out.
    pub(super) fn or_end(cache: C, shared: impl Fn(&C) -> &Handle<Shared>) -> Result<(), Live<C>> {
        let handle = shared(&cache);
        let mut steps = Steps::new();
        let (others, (count, listed)) = loop {
            // The last other handle may go, with objects in its worker's sheaf, after a flush.
            let was_shared = handle.others() > 0;
            handle.flush_patiently(&mut steps);
            let found = registry::without_new_sharers(handle, || {
                let others = handle.others();
                (others, handle.live(if others == 0 { LISTED } else { 0 }))
            });
            if found.0 > 0 || !was_shared {
                break found;
            }
        };
        let name = handle.name();
        if count == 0 && others == 0 {
            steps.run(|| drop(cache));
            steps.end();
            return Ok(());
        }
        steps.end();
        Err(Live { name, count, shared_by: others, listed, cache })
    }

    /// The number of objects that are out.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether no object is out, so that only other handles prevent the end.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first 32 objects that are out.
    pub fn objects(&self) -> &[LiveObject] {
        &self.listed
    }
}

impl<C> fmt::Display for Live<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cache {}: {} objects are out", self.name, self.count)?;
        if self.shared_by > 0 {
            write!(f, ", and {} other handles share it", self.shared_by)?;
        }
        for object in &self.listed {
            write!(f, "\n  {:#x}", object.address)?;
            if let Some(track) = object.allocated {
                write!(f, " allocated at {track}")?;
            }
        }
        Ok(())
    }
}

impl<C: fmt::Debug> std::error::Error for Live<C> {}

impl Shared {
    /// Gives all kept objects back to the slabs, and empty slabs to the memory.
    pub(super) fn shrink(&self) {
        let mut steps = Steps::new();
        self.flush_patiently(&mut steps);
        self.give_back_all(self.slabs.shrink(self.ground()), &mut steps);
        steps.end();
    }

    /// Does the same as [`Shared::flush_all`], and repeats it until the objects of every worker were taken.
    fn flush_patiently(&self, steps: &mut Steps) {
        let mut waits = 0;
        while !self.flush_all(steps) {
            yield_again(&mut waits);
        }
    }

    /// The first pages of all slabs.
    fn each_slab(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.memory.table().len() as u32).filter(|&page| self.is_ours(page))
    }

    /// Whether a slab belongs to the cache. While the node's lock is held, the answer stays true.
    fn is_ours(&self, slab: u32) -> bool {
        let desc = self.memory.table().desc(slab);
        desc.is_out() && desc.owner.load(Relaxed) == self.number
    }

    /// The number of objects that are out, and the first `most` of them. To list any it needs the last handle, since others
    /// might take them at the same time. The objects that workers keep were flushed before.
    fn live(&self, most: usize) -> (u64, Vec<LiveObject>) {
        let (mut count, mut listed) = (0, Vec::new());
        for slab in self.each_slab() {
            // A slab becomes empty only under this lock.
            self.with_node(|_| {
                if self.is_ours(slab) {
                    count += u64::from(self.slabs.form.load(self.memory.table(), slab).inuse);
                    self.list_live(slab, most, &mut listed);
                }
            });
        }
        (count, listed)
    }

    fn list_live(&self, slab: u32, most: usize, listed: &mut Vec<LiveObject>) {
        if listed.len() >= most {
            return;
        }
        // Other threads may free objects of the slab meanwhile.
        let (ground, word) = (self.ground(), self.slabs.snapshot(self.ground(), slab));
        let capacity = self.slabs.capacity(ground, slab);
        let mut free = vec![false; usize::from(capacity) + 1];
        let mut place = word.head;
        for _ in word.inuse..capacity {
            if place == 0 {
                break;
            }
            free[usize::from(place)] = true;
            let object = self.slabs.at(ground, slab, place, 0);
            // SAFETY: with no other handle nothing is detached any more; what is pushed comes before the snapshot's head.
            place = unsafe { self.slabs.peek_link(ground, slab, object) }.unwrap_or(0);
        }
        let out = (1..=capacity).filter(|&place| !free[usize::from(place)]);
        let out = out.map(|place| self.slabs.at(ground, slab, place, 0));
        listed.extend(out.take(most - listed.len()).map(|object| LiveObject {
            address: object as usize,
            allocated: self.checker.as_ref().and_then(|checker| {
                // SAFETY: an object of the cache, whose slab stays while the lock is held.
                unsafe { checker.allocated(self.pointer(object)) }
            }),
        }));
    }

    /// Walks the freelists of all slabs that have one, and detaches each during its walk. Also checks the objects of a
    /// cache with debug.
    pub(super) fn validate(&self) -> Vec<Finding> {
        let (mut findings, mut steps) = (Vec::new(), Steps::new());
        self.flush_patiently(&mut steps);
        // One slab at a time, each put at the list's end. The others stay on the list for threads that allocate.
        for _ in 0..self.with_node(|node| node.partial.len()) {
            let Some(slab) = self.slabs.take_partial(self.ground()) else { break };
            findings.extend(self.validate_freelist(slab, &mut steps).err());
        }
        if let Some(checker) = &self.checker {
            for slab in self.each_slab() {
                // A slab becomes empty only under this lock.
                self.with_node(|_| {
                    let places =
                        if self.is_ours(slab) { self.slabs.capacity(self.ground(), slab) } else { 0 };
                    for place in 1..=places {
                        let object = self.pointer(self.slabs.at(self.ground(), slab, place, 0));
                        // SAFETY: an object of the cache, prepared when its slab was made, which stays.
                        findings.extend(unsafe { checker.check(object) }.err().map(Finding::Object));
                    }
                });
            }
        }
        steps.end();
        findings
    }

    /// Walks one slab's freelist. An intact freelist goes back. A slab with a broken one stays frozen, and is not used
    /// any more.
    fn validate_freelist(&self, slab: u32, steps: &mut Steps) -> Result<(), Finding> {
        let ground = self.ground();
        let (head, of) = self.slabs.detach(ground, slab, true);
        let (mut place, mut last, mut found) = (head, 0, 0);
        let mut next = Some(head);
        while place != 0 && found < of {
            (last, found) = (self.slabs.at(ground, slab, place, 0), found + 1);
            // SAFETY: the freelist was detached just now.
            next = unsafe { self.slabs.peek_link(ground, slab, last) };
            place = next.unwrap_or(0);
        }
        if next.is_none() || place != 0 || found != of {
            let slab = self.slabs.at(ground, slab, 1, 0) as usize - self.slabs.layout.offset;
            return Err(Finding::Freelist { slab, found: found.into(), of: of.into() });
        }
        let chain = Chain { slab, head, last, n: of };
        // SAFETY: the chain was detached just now, and the slab frozen with it.
        if unsafe { self.slabs.unfreeze(ground, slab, (of > 0).then_some(&chain)) } {
            self.give_back_all([slab], steps);
        }
        Ok(())
    }

    pub(super) fn set(&self, name: &str, value: usize) -> Result<(), CacheError> {
        let tunable = TUNABLES.iter().find(|tunable| tunable.name == name);
        let tunable = tunable.ok_or_else(|| CacheError::Unknown { name: name.into() })?;
        let value = tunable.check(value)?;
        let arrays = self.sheaf.load(Relaxed) > 0;
        let mut steps = Steps::new();
        match tunable.name {
            "order" => {
                let order = config::order(self.slabs.layout, (self.size, self.align), Some(value as u8))?;
                self.slabs.set_order(order);
            }
            "min_partial" => {
                self.slabs.min_partial.store(value as u32, Relaxed);
                if self.with_node(|node| node.partial.len() > value) {
                    self.give_back_all(self.slabs.shrink(self.ground()), &mut steps);
                }
            }
            #[cfg(feature = "comparisons")]
            "cpu_partial" if self.layer == config::Layer::CpuSlab => {
                self.cpu_partial.store(value as u32, Relaxed);
                self.flush_patiently(&mut steps);
            }
            "sheaf_capacity" if arrays => {
                self.sheaf.store(value as u32, Relaxed);
                self.flush_patiently(&mut steps);
            }
            _ => return Err(CacheError::Layer { what: tunable.name }),
        }
        steps.end();
        Ok(())
    }

    pub(super) fn get(&self, name: &str) -> Result<usize, CacheError> {
        match name {
            "order" => Ok(self.slabs.order().into()),
            "min_partial" => Ok(self.slabs.min_partial.load(Relaxed) as usize),
            "cpu_partial" => Ok(self.cpu_partial.load(Relaxed) as usize),
            "sheaf_capacity" => Ok(self.sheaf.load(Relaxed) as usize),
            _ => Err(CacheError::Unknown { name: name.into() }),
        }
    }

    pub(super) fn attributes(&self) -> Attributes {
        let (stats, names) = (self.stats(), lock(&self.names).clone());
        let free = stats.cached + stats.cpu_slabs + stats.barn;
        let mut all = vec![
            ("name", names.first().cloned().unwrap_or_default()),
            ("aliases", names.len().saturating_sub(1).to_string()),
            ("alias_names", names.get(1..).unwrap_or_default().join(" ")),
            ("object_size", stats.object_size.to_string()),
            ("slab_size", stats.slab_size.to_string()),
            ("align", self.align.to_string()),
            ("order", self.slabs.order().to_string()),
            ("objs_per_slab", stats.objs_per_slab.to_string()),
            ("layer", format!("{:?}", self.layer)),
            ("word", format!("{:?}", self.slabs.form)),
            ("sheaf_capacity", self.sheaf.load(Relaxed).to_string()),
            ("cpu_partial", self.cpu_partial.load(Relaxed).to_string()),
            ("min_partial", self.slabs.min_partial.load(Relaxed).to_string()),
            ("slabs", stats.slabs.to_string()),
            ("partial", stats.partial.to_string()),
            ("total_objects", stats.total_objects.to_string()),
            ("cached_objects", free.to_string()),
            (
                "debug",
                self.checker
                    .as_ref()
                    .and_then(Checker::debug_options)
                    .map_or("none".into(), |debug| debug.to_string()),
            ),
            ("hardening", self.memory.hardening().to_string()),
        ];
        all.extend(stats.counters().into_iter().map(|(name, count)| (name, count.to_string())));
        Attributes(all)
    }
}
