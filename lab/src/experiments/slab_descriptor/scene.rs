//! What all groups of the run share: a memory for each size of descriptor, and what became of the objects.

use std::cell::{Cell, RefCell};

use netmem::page::{DescriptorSize, Memory, MemoryConfig};
use netmem::sync::Worker;

use super::form::Form;
use crate::bench::{Bench, Effort, SetUpError};
use crate::experiments::slab_objects::{Account, check_pages};
use crate::experiments::slab_windows::short;
use crate::experiments::slab_working_set::{WorkingSet, working_set};
use crate::method::clock::Tsc;

/// The sizes, in the order of [`memories`].
const DESCRIPTORS: [DescriptorSize; 3] =
    [DescriptorSize::Bytes56, DescriptorSize::Bytes64, DescriptorSize::Compact];

/// Cold working sets that one memory holds at the same time: one for each word form, as many for the second core,
/// and room for slabs that are not full.
const WORKING_SETS: usize = 10;

/// A memory has this at least: the forwarding rows need it, whatever the working sets are.
const BYTES_MIN: usize = 128 << 20;

/// A cold working set has no more objects than this, however small they are.
const OBJECTS_MAX: usize = 1 << 20;

/// Objects of a working set that stays in the cache nearest to the core, and yet spans many slabs.
const HOT_OBJECTS: usize = 128;

/// Objects that are all freed, and then all allocated.
const ALL_OBJECTS: usize = 4_096;

/// Workers of one memory: this thread's, and one for each word form that has a neighbour.
const WORKERS: usize = 5;

/// One memory for each size of descriptor, large enough for cold working sets of `mib`.
pub(super) fn memories(mib: usize) -> Result<[Memory; 3], SetUpError> {
    let memory = |descriptor| {
        let bytes = ((WORKING_SETS * mib) << 20).max(BYTES_MIN);
        Memory::new(&MemoryConfig { bytes, workers: WORKERS, descriptor, ..MemoryConfig::default() })
    };
    let [a, b, c] = DESCRIPTORS.map(memory);
    let at = SetUpError::at("memory");
    Ok([a.map_err(&at)?, b.map_err(&at)?, c.map_err(&at)?])
}

/// How a working set is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The object just allocated goes back: no slab's word is reached.
    Warm,
    /// The oldest of a few goes back: the words are reached and hot.
    Hot,
    /// The oldest of many goes back; no object is written.
    Cold,
    /// The oldest of many goes back; every object is written when it is allocated.
    ColdWrite,
    /// All are freed, then all are allocated.
    All,
}

impl Use {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Warm => "warm",
            Self::Hot => "hot",
            Self::Cold => "cold",
            Self::ColdWrite => "cold+write",
            Self::All => "all-alloc/all-free",
        }
    }

    pub(super) fn writes(self) -> bool {
        self == Self::ColdWrite
    }
}

/// Memories, workers, clock.
pub(super) struct Scene<'a> {
    pub(super) clock: Tsc,
    pub(super) effort: Effort,
    memories: &'a [Memory; 3],
    workers: [RefCell<Worker>; 3],
    cold_bytes: usize,
    account: Cell<Account>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(bench: &Bench<'_>, memories: &'a [Memory; 3]) -> Result<Self, SetUpError> {
        let worker = |memory: &Memory| memory.worker().map(RefCell::new).map_err(SetUpError::at("worker"));
        let [a, b, c] = memories;
        Ok(Self {
            clock: bench.clock,
            effort: short(bench.effort(), 2),
            memories,
            workers: [worker(a)?, worker(b)?, worker(c)?],
            cold_bytes: (bench.setting("cold") as usize) << 20,
            account: Cell::default(),
        })
    }

    fn place(form: Form) -> usize {
        DESCRIPTORS.iter().position(|&one| one == form.descriptor).unwrap_or(0)
    }

    /// The memory with descriptors of the form's size.
    pub(super) fn memory(&self, form: Form) -> &'a Memory {
        &self.memories[Self::place(form)]
    }

    /// This thread's worker of that memory.
    pub(super) fn worker(&self, form: Form) -> &RefCell<Worker> {
        &self.workers[Self::place(form)]
    }

    /// A working set of objects of `bytes` in `form`, as large as its use wants it.
    pub(super) fn working_set(
        &self,
        form: Form,
        bytes: usize,
        usage: Use,
    ) -> Result<Box<dyn WorkingSet>, SetUpError> {
        let mut set = working_set(self.memory(form), &form.config(), bytes, usage.writes())?;
        let count = match usage {
            Use::Warm => 0,
            Use::Hot => HOT_OBJECTS,
            Use::All => ALL_OBJECTS,
            Use::Cold | Use::ColdWrite => (self.cold_bytes / bytes).min(OBJECTS_MAX),
        };
        set.hold(&mut self.worker(form).borrow_mut(), count);
        Ok(set)
    }

    /// Ends a working set and keeps its account.
    pub(super) fn end(&self, form: Form, set: Box<dyn WorkingSet>) {
        self.add(set.settle(&mut self.worker(form).borrow_mut()));
    }

    /// Adds to the account of the run.
    pub(super) fn add(&self, part: Account) {
        let mut account = self.account.get();
        account.add(part);
        self.account.set(account);
    }

    /// Checks that every object came, stayed whole and went, and every page is where it was.
    pub(super) fn settle(&self, bench: &mut Bench<'_>) {
        self.account.get().check(bench);
        self.memories.iter().for_each(|memory| check_pages(bench, memory));
    }
}
