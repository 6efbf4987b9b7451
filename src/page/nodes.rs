//! The nodes of a memory: the pages of each node behind its lock, and the callback on pressure.

use super::config::{MemoryConfig, Watermarks};
use super::table::Table;
use super::zone::Zone;
use crate::limits::ORDER_MAX;
use crate::stats::Count;
use crate::sync::shim::{AtomicU32, Mutex, MutexGuard, lock};
use crate::sync::{Steps, Worker};
use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;

/// Free pages of a node became scarce, or are no longer scarce; see
/// [`Memory::on_pressure`](super::Memory::on_pressure).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pressure {
    /// The node.
    pub node: usize,
    /// True when its free pages fell below the low watermark, false when they reached the high one again.
    pub begins: bool,
    /// The number of its free pages at that moment.
    pub free: usize,
    /// The number of this change among those of the node, from 1 on. Two threads may call at once, and the later change
    /// may be reported first: who keeps the state keeps that of the highest number.
    pub change: u64,
}

type OnPressure = Arc<dyn Fn(Option<&mut Worker>, Pressure) + Send + Sync>;

/// One node, on cache lines of its own.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Node {
    pub(super) zone: Mutex<Zone>,
    /// Blocks given to workers whose home is another node.
    pub(super) miss: Count,
    /// Blocks that workers of this node got from another node.
    pub(super) foreign: Count,
    /// Hits of workers whose home this node was before.
    pub(super) hit_before: Count,
}

/// All nodes of a memory.
pub(super) struct Nodes {
    each: Box<[Node]>,
    /// The number of pages of each node but the last. The last node has the rest.
    span: u32,
    /// Nodes that are not done yet; see [`Zone::is_done`].
    open: AtomicU32,
    on_pressure: Mutex<Option<OnPressure>>,
}

/// A crossing of a watermark whose callback has not been called yet. The callback is called when no lock is held.
pub(super) struct Alarm {
    call: OnPressure,
    pressure: Pressure,
}

impl Alarm {
    /// Calls the callback. The caller holds no lock and is in no worker's lists.
    #[cold]
    fn ring(self, w: Option<&mut Worker>) {
        (self.call)(w, self.pressure);
    }

    /// Calls all callbacks, even if some of them panic.
    #[inline]
    pub(super) fn ring_all(alarms: Vec<Alarm>, mut w: Option<&mut Worker>) {
        if alarms.is_empty() {
            return;
        }
        let mut steps = Steps::new();
        for alarm in alarms {
            steps.run(|| alarm.ring(w.as_deref_mut()));
        }
        steps.end();
    }
}

impl Nodes {
    /// Splits the pages of `table`, which are all free, into nodes. A node begins where a block of the largest order
    /// may begin.
    pub(super) fn new(table: &Table, config: &MemoryConfig) -> Self {
        let (total, nodes) = (table.len() as u32, config.nodes as u32);
        let span = if nodes == 1 { total } else { (total / nodes) >> ORDER_MAX << ORDER_MAX };
        let node = |n| {
            let pages = n * span..if n + 1 == nodes { total } else { (n + 1) * span };
            let watermarks: Watermarks = config.watermarks.share(pages.len(), table.len());
            Node {
                zone: Mutex::new(Zone::new(table, pages, watermarks)),
                miss: Count::default(),
                foreign: Count::default(),
                hit_before: Count::default(),
            }
        };
        Nodes {
            each: (0..nodes).map(node).collect(),
            span,
            open: AtomicU32::new(nodes),
            on_pressure: Mutex::new(None),
        }
    }

    /// The node of a page.
    pub(super) fn of(&self, index: u32) -> usize {
        ((index / self.span.max(1)) as usize).min(self.each.len() - 1)
    }

    /// The first page of a node, and the number of its pages.
    pub(super) fn range(&self, node: usize) -> (u32, u32) {
        (node as u32 * self.span, lock(&self.each[node].zone).pages() as u32)
    }

    pub(super) fn each(&self) -> &[Node] {
        &self.each
    }

    /// Gives each node its share of new watermarks. Returns an alarm for each node whose pressure begins or ends by
    /// this.
    pub(super) fn set_watermarks(&self, watermarks: Watermarks, total: usize) -> Vec<Alarm> {
        let set = |(number, node): (usize, &Node)| {
            let mut zone = lock(&node.zone);
            let share = watermarks.share(zone.pages(), total);
            zone.set_watermarks(share);
            self.alarm(number, &mut zone)
        };
        self.each.iter().enumerate().filter_map(set).collect()
    }

    pub(super) fn set_on_pressure(&self, call: OnPressure) {
        let before = lock(&self.on_pressure).replace(call);
        // Dropped without the lock: this drops everything that the old callback holds, and a Drop may call back.
        drop(before);
    }

    /// Takes blocks of one order from a node, as many as there are. Returns how many.
    pub(super) fn take(
        &self,
        table: &Table,
        node: usize,
        order: u8,
        with_reserve: bool,
        into: &mut [u32],
        alarms: &mut Vec<Alarm>,
    ) -> usize {
        let mut zone = lock(&self.each[node].zone);
        let got = zone.take(table, order, with_reserve, into);
        alarms.extend(self.alarm(node, &mut zone));
        got
    }

    /// Puts each block back into its node. Returns true if that was the last block of a closed memory; the caller then
    /// ends the memory.
    pub(super) fn put(
        &self,
        table: &Table,
        pages: impl Iterator<Item = u32>,
        alarms: &mut Vec<Alarm>,
    ) -> bool {
        let mut pages = pages.peekable();
        let mut ended = false;
        while let Some(&page) = pages.peek() {
            let node = self.of(page);
            let mut zone = lock(&self.each[node].zone);
            while let Some(page) = pages.next_if(|&page| self.of(page) == node) {
                zone.put(table, page);
            }
            alarms.extend(self.alarm(node, &mut zone));
            ended |= zone.is_done() && self.close_one();
        }
        ended
    }

    /// Does the same as [`Nodes::put`] for a batch of single pages of one node, which stays a batch.
    pub(super) fn put_batch(
        &self,
        table: &Table,
        node: usize,
        pages: &[u32],
        alarms: &mut Vec<Alarm>,
    ) -> bool {
        // Without a page a node may have been counted as done before.
        if pages.is_empty() {
            return false;
        }
        let mut zone = lock(&self.each[node].zone);
        zone.put_batch(table, pages);
        alarms.extend(self.alarm(node, &mut zone));
        zone.is_done() && self.close_one()
    }

    /// Closes the nodes: nothing is given out any more. Returns true if all pages are free; the caller then ends the
    /// memory.
    pub(super) fn close(&self) -> bool {
        let mut ended = false;
        for node in &self.each {
            let done = {
                let mut zone = lock(&node.zone);
                zone.close();
                zone.is_done()
            };
            ended |= done && self.close_one();
        }
        ended
    }

    /// Counts one node as done, which happens once to each. Returns true for the last node.
    fn close_one(&self) -> bool {
        // AcqRel: pairs with itself for the other nodes, so that the thread that ends the memory sees everything the
        // others did.
        self.open.fetch_sub(1, AcqRel) == 1
    }

    /// The alarm to raise, if a watermark was crossed.
    fn alarm(&self, node: usize, zone: &mut MutexGuard<'_, Zone>) -> Option<Alarm> {
        let (begins, change) = zone.crossed()?;
        let call = lock(&self.on_pressure).clone()?;
        Some(Alarm { call, pressure: Pressure { node, begins, free: zone.free_pages(), change } })
    }
}

impl std::fmt::Debug for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nodes").field("each", &self.each).field("span", &self.span).finish()
    }
}
