//! The table as workers read it while it changes.
//!
//! There are two copies. Readers hold one; changes go into the other, and then the two change places and a number says
//! so. A reader looks at the number once a round, and takes the new copy when it has changed; what is applied to
//! the copies in turn is the same, so that a change costs what it changes, not what the table holds.

use super::sources::OwnSources;
use super::table::{Change, Table};
use crate::interface::{Allow, Interface, ReversePath};
use ipnet::IpNet;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// All that a worker needs to know to send a packet on.
#[derive(Debug, Clone, Default)]
pub struct Fib {
    /// The routes.
    pub table: Table,
    /// The router's end of each port's link, in the order of the ports.
    pub interfaces: Vec<Interface>,
    /// The router's own addresses on each port's link, with the link's network, in the order of the ports; as far as they are
    /// known.
    pub addresses: Vec<Box<[IpNet]>>,
    /// What no packet that comes in may have as its source, where its routes lead to the router. Empty while
    /// [`Allow::martians`] lets such packets pass.
    pub own: OwnSources,
    /// What is forwarded that usually is not.
    pub allow: Allow,
    /// What each port asks of sources, in the order of the ports; those without an entry ask nothing. Empty where none does:
    /// then no packet alone pays for a look at it.
    pub reverse_path: Vec<ReversePath>,
}

impl Fib {
    /// The router's own addresses on a port's link; none where none is known.
    pub fn addresses_of(&self, port: u8) -> &[IpNet] {
        self.addresses.get(usize::from(port)).map_or(&[], |addresses| addresses)
    }

    /// What a port asks of the sources of packets that come in by it.
    #[inline]
    pub fn reverse_path_of(&self, port: u8) -> ReversePath {
        self.reverse_path.get(usize::from(port)).copied().unwrap_or_default()
    }

    /// Makes changes, one after the other.
    ///
    /// # Cost
    /// Allocates; not for the hot path.
    pub fn apply<'a>(&mut self, changes: impl IntoIterator<Item = &'a Change>) {
        for change in changes {
            match change {
                Change::Interface(port, interface) => {
                    if let Some(place) = self.interfaces.get_mut(usize::from(*port)) {
                        *place = *interface;
                    }
                }
                Change::Addresses(port, addresses) => {
                    let at = usize::from(*port);
                    if at >= self.addresses.len() {
                        self.addresses.resize(at + 1, Box::default());
                    }
                    self.addresses[at] = addresses.clone();
                }
                Change::Own(_) if self.allow.martians => self.own = OwnSources::default(),
                Change::Own(nets) => self.own = OwnSources::of(nets),
                route => self.table.change(route),
            }
        }
        self.table.compile();
    }
}

#[derive(Debug)]
struct Shared {
    /// Changes of `current` so far.
    changes: AtomicU64,
    current: Mutex<Arc<Fib>>,
}

/// A worker's end: reads.
#[derive(Debug, Clone)]
pub struct FibReader {
    shared: Arc<Shared>,
    fib: Arc<Fib>,
    /// The value of `changes` that `fib` is as new as.
    seen: u64,
}

/// The other end: changes what all readers read.
#[derive(Debug)]
pub struct FibControl {
    shared: Arc<Shared>,
    /// The copy that changes are made in: as the current one was before `behind`.
    standby: Arc<Fib>,
    behind: Vec<Change>,
    /// Copies that a reader still held when they were needed; let go here, so that no reader takes a full table apart.
    retired: Vec<Arc<Fib>>,
}

/// A table for readers, and what changes it. Each worker gets a clone of the reader.
#[cold]
pub fn fib(first: Fib) -> (FibControl, FibReader) {
    let (first, standby) = (Arc::new(first.clone()), Arc::new(first));
    let shared = Arc::new(Shared { changes: AtomicU64::new(0), current: Mutex::new(Arc::clone(&first)) });
    let reader = FibReader { shared: Arc::clone(&shared), fib: first, seen: 0 };
    (FibControl { shared, standby, behind: Vec::new(), retired: Vec::new() }, reader)
}

impl From<Fib> for FibReader {
    /// The reader of a table that never changes.
    fn from(fib: Fib) -> FibReader {
        self::fib(fib).1
    }
}

impl FibReader {
    /// The table, as new as the last [`refresh`](Self::refresh).
    #[inline]
    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Takes the newest table, unless somebody is at it this moment; true if it is another one than before.
    ///
    /// # Cost
    /// One load while nothing changed.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        // Relaxed: the lock orders the table itself.
        self.shared.changes.load(Relaxed) != self.seen && self.renew()
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self) -> bool {
        let Ok(current) = self.shared.current.try_lock() else { return false };
        self.fib = Arc::clone(&current);
        self.seen = self.shared.changes.load(Relaxed);
        true
    }
}

impl FibControl {
    /// Makes `changes` seen by all readers together, at their next [`refresh`](FibReader::refresh).
    ///
    /// # Cost
    /// The changes twice. A reader that did not refresh since the last call costs a copy of the whole table.
    pub fn apply(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let behind = mem::take(&mut self.behind);
        self.alter(|fib| fib.apply(behind.iter().chain(&changes)));
        self.behind = changes;
    }

    /// Copies that readers held when they were needed, and still hold.
    pub fn held_back(&self) -> usize {
        self.retired.len()
    }

    /// Changes the standby copy and puts it in place of the current one.
    fn alter(&mut self, change: impl FnOnce(&mut Fib)) {
        self.retired.retain(|old| Arc::strong_count(old) > 1);
        if Arc::get_mut(&mut self.standby).is_none() {
            let copy = Arc::new(Fib::clone(&self.standby));
            self.retired.push(mem::replace(&mut self.standby, copy));
        }
        if let Some(fib) = Arc::get_mut(&mut self.standby) {
            change(fib);
        }
        let mut current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut *current, &mut self.standby);
        self.shared.changes.fetch_add(1, Relaxed);
    }
}
