//! The common parts of all groups of the run: a memory for each size of descriptor, and the counts of objects.

use std::cell::{Cell, RefCell};

use netmem::page::{DescriptorSize, Memory, MemoryConfig};
use netmem::sync::Worker;

use super::form::{ALL, Form};
use super::paths::Paths;
use super::usage::Use;
use crate::bench::{Bench, Effort, SetUpError};
use crate::experiments::slab_objects::{Account, check_pages};
use crate::experiments::slab_windows::short;
use crate::experiments::slab_working_set::{WorkingSet, working_set};
use crate::method::clock::Tsc;
use crate::method::memory::{HugePages, memory_available};
use crate::method::random::Random;

/// The sizes, in the order of [`memories`].
const DESCRIPTORS: [DescriptorSize; 3] =
    [DescriptorSize::Bytes56, DescriptorSize::Bytes64, DescriptorSize::Compact];

/// Room for slabs that are not full, in cold working sets.
const SPARE_SETS: usize = 2;

/// Minimum size of a memory, for the forwarding rows. It does not depend on the working sets.
const BYTES_MIN: usize = 128 << 20;

/// Maximum number of objects of a cold working set, whatever their size is.
const OBJECTS_MAX: usize = 1 << 20;

/// Objects of a working set that stays in the first-level cache and still covers many slabs.
const HOT_OBJECTS: usize = 128;

/// Objects that are all freed, and then all allocated.
const ALL_OBJECTS: usize = 4_096;

/// Workers of one memory: this thread's, and one for each word form that has a neighbour.
const WORKERS: usize = 6;

/// One memory for each size of descriptor, large enough for cold working sets of `mib`.
///
/// # Errors
/// If the machine, or the control group of this process, has no `room` for them: it would be killed while it fills them.
pub(super) fn memories(mib: usize, room: usize) -> Result<[Memory; 3], SetUpError> {
    let wanted: usize = DESCRIPTORS.iter().map(|&descriptor| bytes(descriptor, mib)).sum();
    if wanted > room {
        let cause = format!(
            "cold sets of {mib} MiB take memories of {} MiB, and {} MiB are available: --set cold=... takes less",
            wanted >> 20,
            room >> 20
        );
        return Err(SetUpError { step: "memory", cause });
    }
    let memory = |descriptor| {
        let bytes = bytes(descriptor, mib);
        Memory::new(&MemoryConfig { bytes, workers: WORKERS, descriptor, ..MemoryConfig::default() })
    };
    let [a, b, c] = DESCRIPTORS.map(memory);
    let at = SetUpError::at("memory");
    Ok([a.map_err(&at)?, b.map_err(&at)?, c.map_err(&at)?])
}

/// Returns the bytes of the memory with this size of descriptor.
fn bytes(descriptor: DescriptorSize, mib: usize) -> usize {
    // Cold working sets at the same time: one for each word form, and as many for the second core.
    let forms = ALL.iter().filter(|form| form.descriptor == descriptor).count();
    (((2 * forms + SPARE_SETS) * mib) << 20).max(BYTES_MIN)
}

/// Returns the bytes that memories can have: of available memory, and of free huge pages, which are not part of it.
pub(super) fn room() -> usize {
    let huge = HugePages::read();
    memory_available().map_or(usize::MAX, |bytes| bytes.saturating_add(huge.free.saturating_mul(huge.bytes)))
}

/// The memories, the workers, and the clock.
pub(super) struct Scene<'a> {
    pub(super) clock: Tsc,
    pub(super) effort: Effort,
    memories: &'a [Memory; 3],
    workers: [RefCell<Worker>; 3],
    cold_bytes: usize,
    account: Cell<Account>,
    paths: Cell<Paths>,
    /// The seed of the order in which cold objects are freed.
    seed: u64,
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
            paths: Cell::default(),
            seed: bench.setting("seed"),
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

    /// Makes a working set of objects of `bytes` in `form`, with the size that its use needs.
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
            Use::Cold | Use::ColdWrite | Use::InTurn => (self.cold_bytes / bytes).min(OBJECTS_MAX),
        };
        set.hold(&mut self.worker(form).borrow_mut(), count);
        self.order(&mut *set, usage);
        Ok(set)
    }

    /// Puts the held objects into the order in which they will be freed, the same for every form.
    pub(super) fn order(&self, set: &mut dyn WorkingSet, usage: Use) {
        if usage.order() == Some("random") {
            set.shuffle(&mut Random::new(self.seed));
        }
    }

    /// Counts the paths of the frees.
    pub(super) fn count(&self, add: impl FnOnce(&mut Paths)) {
        let mut paths = self.paths.get();
        add(&mut paths);
        self.paths.set(paths);
    }

    /// Ends a working set and adds its counts.
    pub(super) fn end(&self, form: Form, set: Box<dyn WorkingSet>) {
        self.add(set.settle(&mut self.worker(form).borrow_mut()));
    }

    /// Adds to the counts of the run.
    pub(super) fn add(&self, part: Account) {
        let mut account = self.account.get();
        account.add(part);
        self.account.set(account);
    }

    /// Checks that every object was allocated, stayed the same and was freed, that the frees took the paths that their
    /// name says, and that every page is where it was.
    pub(super) fn settle(&self, bench: &mut Bench<'_>) {
        self.paths.get().check(bench);
        self.account.get().check(bench);
        self.memories.iter().for_each(|memory| check_pages(bench, memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: where the cold sets did not fit, the process of the turn was killed.
    #[test]
    fn memories_for_which_there_is_no_room_are_refused_with_the_remedy() {
        let error = memories(16, 511 << 20).unwrap_err();
        assert_eq!(error.step, "memory");
        assert!(
            error.cause.contains("take memories of 512 MiB, and 511 MiB are available: --set cold="),
            "{error:?}"
        );
        assert!(memories(1, 3 * BYTES_MIN).is_ok());
    }
}
