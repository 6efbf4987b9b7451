//! Memories, workers, and values that were forgotten.

use super::value::{Register, fault, no_faults};
use super::{Done, Op};
use netmem::page::{BackingPreference, Memory, MemoryConfig, Watermarks};
use netmem::sync::Worker;
use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Workers that each memory may have.
const SLOTS: usize = 4;
/// Programs of this process that may lose memory for good: each keeps a part of the number space of chunks.
const LOST_MAX: u32 = 200;

static LOST: AtomicU32 = AtomicU32::new(0);

pub struct Ground {
    /// Forgotten values. They are unreachable until the end. All other values are checked without them.
    forgotten: Vec<Box<dyn Any + Send>>,
    /// Of either memory, one at least.
    pub workers: Vec<Worker>,
    pub memories: [Memory; 2],
    pub register: &'static Register,
    /// Frames that were lost for good, which keep their pool.
    pub lost: u64,
    pub threads: u64,
}

impl Ground {
    pub fn new([first, _]: [u8; 2]) -> Ground {
        let register = Register::fresh();
        let marks = if first & 1 == 0 { [0; 3] } else { [8, 40, 80] };
        let config = MemoryConfig {
            bytes: 2 << 20,
            workers: SLOTS,
            backing: BackingPreference::Small,
            watermarks: Watermarks { min: marks[0], low: marks[1], high: marks[2] },
            ..MemoryConfig::default()
        };
        let memories = [(); 2].map(|()| Memory::new(&config).unwrap());
        for memory in &memories {
            memory.on_pressure(move |_, _| register.tick());
        }
        let workers = [0, 0, 1].map(|i: usize| memories[i].worker().unwrap()).into();
        Ground { forgotten: Vec::new(), workers, memories, register, lost: 0, threads: 0 }
    }

    /// The worker that an operation names: of any memory.
    pub fn worker(&mut self, op: Op) -> &mut Worker {
        let n = self.workers.len();
        &mut self.workers[usize::from(op.b) % n]
    }

    /// The worker and the register.
    pub fn both(&mut self, op: Op) -> (&mut Worker, &'static Register) {
        let register = self.register;
        (self.worker(op), register)
    }

    /// Forgets a value, as far as the library can see.
    pub fn forget(&mut self, what: impl Any + Send) {
        self.forgotten.push(Box::new(what));
    }

    /// Whether frames may be lost for good.
    pub fn may_lose(&mut self) -> bool {
        self.lost > 0 || LOST.fetch_update(Relaxed, Relaxed, |n| (n < LOST_MAX).then_some(n + 1)).is_ok()
    }

    /// Workers come, go, move to the end of the list, and are forgotten.
    pub fn step(&mut self, op: Op) {
        let register = self.register;
        let at = usize::from(op.b) % self.workers.len();
        match op.act {
            0 | 1 => {
                let worker = self.workers.swap_remove(at);
                register.firing(op.n() / 32, || drop(worker));
            }
            2 if self.workers.len() > 1 => {
                let worker = self.workers.swap_remove(at);
                self.forget(worker);
            }
            3 => self.memories[op.pick(2)].decay(&mut self.workers[at]),
            4 => {
                let memory = self.memories[op.pick(2)].clone();
                self.forget(memory);
            }
            _ => self.workers.extend(self.memories[op.pick(2)].worker()),
        }
        if self.workers.is_empty() {
            // Those that are gone left their slots, and one was not forgotten.
            self.workers.extend(self.memories.iter().find_map(|memory| memory.worker().ok()));
        }
    }

    pub fn look(&self) {
        no_faults();
        for memory in &self.memories {
            let stats = memory.stats();
            if stats.free + stats.cached > stats.total {
                fault(format!("{stats:?}"));
            }
        }
    }

    /// Drops the forgotten values after all.
    pub fn forget_no_more(&mut self) {
        // The newest first.
        while self.forgotten.pop().is_some() {}
    }

    /// Asserts that every page is where it was, and that every value is dropped.
    pub fn end(self) -> Done {
        let Ground { workers, memories, register, lost, threads, .. } = self;
        drop(workers);
        register.all_gone();
        for memory in memories.iter().filter(|_| lost == 0) {
            let stats = memory.stats();
            assert_eq!(stats.free, stats.total, "every page is free: {stats:?}");
        }
        let panics = register.panics.load(Relaxed);
        Done { panics, values: u64::from(register.made()), threads, lost, operations: 0 }
    }
}
